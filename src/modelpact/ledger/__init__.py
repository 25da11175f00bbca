"""The ledger: an append-only, hash-chained record of events and costs, in SQLite or PostgreSQL.

No write is acknowledged before it is durable. The ledger calls no models and imports nothing that
does.
"""

from modelpact.ledger.bus import Bus
from modelpact.ledger.canonical import NotCanonical, canonical
from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, price_cost
from modelpact.ledger.errors import (
    EnvelopeClosed,
    LedgerError,
    LedgerUnavailable,
    LedgerUncertain,
    NewerSchema,
)
from modelpact.ledger.event import Draft, Event, check_type, event_hash
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import Envelope, LedgerReader
from modelpact.ledger.verify.archive import archive
from modelpact.ledger.verify.export import export_lines
from modelpact.ledger.verify.importer import NotVerified, import_export
from modelpact.ledger.verify.report import BrokenLink, ExpectedHead, VerifyReport
from modelpact.ledger.verify.verifier import verify_export

__all__ = [
    "Attribution",
    "BrokenLink",
    "Bus",
    "Checkpoint",
    "CostLine",
    "CostRecord",
    "Draft",
    "Envelope",
    "EnvelopeClosed",
    "Event",
    "ExpectedHead",
    "Ledger",
    "LedgerError",
    "LedgerReader",
    "LedgerUnavailable",
    "LedgerUncertain",
    "NewerSchema",
    "NotCanonical",
    "NotVerified",
    "Transaction",
    "VerifyReport",
    "archive",
    "canonical",
    "check_type",
    "event_hash",
    "export_lines",
    "import_export",
    "price_cost",
    "verify_export",
]
