"""The ledger: an append-only, hash-chained record of events and costs, in SQLite or PostgreSQL.

No write is acknowledged before it is durable. The ledger calls no models and imports nothing that
does.
"""

from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.errors import EnvelopeClosed, LedgerError, LedgerUnavailable, LedgerUncertain, NewerSchema
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.archive import NotVerified, archive, import_export
from modelpact.ledger.verify.export import export_lines
from modelpact.ledger.verify.verifier import ExpectedHead, VerifyReport, verify_export

__all__ = [
    "Attribution",
    "CostLine",
    "CostRecord",
    "Draft",
    "EnvelopeClosed",
    "Event",
    "ExpectedHead",
    "Ledger",
    "LedgerError",
    "LedgerReader",
    "LedgerUnavailable",
    "LedgerUncertain",
    "NewerSchema",
    "NotVerified",
    "Transaction",
    "VerifyReport",
    "archive",
    "export_lines",
    "import_export",
    "verify_export",
]
