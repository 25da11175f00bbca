"""Evidence: what probes and use showed of models, kept in the ledger; layer 5 of the catalog.

May import what lies beneath it, and nothing that calls models.
"""

from modelpact.evidence.observation import Observation, Origin
from modelpact.evidence.rejection import Rejection, what_it_teaches
from modelpact.evidence.responses import Refutation, what_it_refutes, what_use_shows
from modelpact.evidence.store import (
    forget,
    read_evidence,
    record,
    record_async,
    replace_async,
    standing,
)

__all__ = [
    "Observation",
    "Origin",
    "Refutation",
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
