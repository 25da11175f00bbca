"""The ledger: events and their bus, envelopes, costs; kept in SQLite or PostgreSQL.

Append-only and hash-chained. No write is acknowledged before it is durable. May import what lies
beneath it, and nothing that calls models.
"""

from modelpact.ledger.bus import Bus
from modelpact.ledger.canonical import NotCanonical, canonical
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, price_cost
from modelpact.ledger.event import Draft, Event, check_type, event_hash
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.store import LedgerError, LedgerUnavailable, NewerSchema

__all__ = [
    "Attribution",
    "Bus",
    "CostLine",
    "CostRecord",
    "Draft",
    "Event",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "NewerSchema",
    "NotCanonical",
    "Transaction",
    "canonical",
    "check_type",
    "event_hash",
    "price_cost",
]
