"""Negotiation: compare needs with claims; verdicts, diagnostics and suggestions.

Pure: nothing here reads files or the network.
"""

from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.formats import markdown, one_line, verdict_data
from modelpact.negotiation.negotiate import NO_STRATEGIES, Strategies, decide, negotiate
from modelpact.negotiation.parameters import (
    ParamFinding,
    effective_params,
    negotiate_parameters,
    params_affected,
)
from modelpact.negotiation.search import find_models, suggest
from modelpact.negotiation.verdict import (
    Diagnostic,
    Finding,
    Missing,
    ParamAffected,
    Policy,
    Verdict,
)

__all__ = [
    "NO_STRATEGIES",
    "Diagnostic",
    "Finding",
    "Missing",
    "ParamAffected",
    "ParamFinding",
    "Policy",
    "Strategies",
    "Verdict",
    "decide",
    "diagnose",
    "effective_params",
    "find_models",
    "markdown",
    "negotiate",
    "negotiate_parameters",
    "one_line",
    "params_affected",
    "suggest",
    "verdict_data",
]
