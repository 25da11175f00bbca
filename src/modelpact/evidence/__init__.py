"""Evidence: what probes and use showed of models, kept in the ledger; layer 5 of the catalog.

May import what lies beneath it, and nothing that calls models.
"""

from modelpact.evidence.acceptance import what_use_shows
from modelpact.evidence.keeping import (
    forget,
    read_evidence,
    record,
    record_async,
    replace_async,
    standing,
)
from modelpact.evidence.learned import Learned, Origin
from modelpact.evidence.refuting import Refuted, what_it_refutes
from modelpact.evidence.rejection import Rejection, what_it_teaches

__all__ = [
    "Learned",
    "Origin",
    "Refuted",
    "Rejection",
    "forget",
    "read_evidence",
    "record",
    "record_async",
    "replace_async",
    "standing",
    "what_it_refutes",
    "what_it_teaches",
    "what_use_shows",
]
