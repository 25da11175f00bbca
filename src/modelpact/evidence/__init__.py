"""Evidence: what probes and use showed of models, kept in the ledger; layer 5 of the catalog.

May import what lies beneath it, and nothing that calls models.
"""

from modelpact.evidence.observation import Observation, Origin
from modelpact.evidence.rejection import Rejection, learn_from_rejection
from modelpact.evidence.responses import Refutation, find_refuted, learn_from_response
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
    "find_refuted",
    "forget",
    "learn_from_rejection",
    "learn_from_response",
    "read_evidence",
    "record",
    "record_async",
    "replace_async",
    "standing",
]
