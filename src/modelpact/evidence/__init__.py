"""Evidence: what probes and calls showed about models. It is layer 5 of the catalog.

The ledger holds it. The package reads calls that others make; it calls no model itself.
"""

from modelpact.evidence.learning import EvidenceLearner, find_refuted, learn_from_response
from modelpact.evidence.observation import (
    Observation,
    current_observations,
    forget,
    read_evidence,
    record,
    record_async,
)
from modelpact.evidence.rejection import Rejection, learn_from_rejection

__all__ = [
    "EvidenceLearner",
    "Observation",
    "Rejection",
    "current_observations",
    "find_refuted",
    "forget",
    "learn_from_rejection",
    "learn_from_response",
    "read_evidence",
    "record",
    "record_async",
]
