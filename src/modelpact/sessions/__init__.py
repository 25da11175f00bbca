"""Sessions: a model in use, its required set, and every change of either negotiated first.

`Session` is the entry point. `session.py` is its interface, `transitions.py` how its state changes,
`negotiator.py` how a model is judged, `turns.py` how messages are sent.
"""

from modelpact.sessions.candidates import Candidate, configured_candidates, find_candidates, first_model
from modelpact.sessions.errors import (
    CapabilityMissing,
    KeyMissing,
    LoadError,
    NoLongerFits,
    ParamsRefused,
    SessionBusy,
    SessionClosed,
    SessionError,
    SessionMoved,
    SpawnRejected,
    SwitchRejected,
    TargetUnreachable,
    UnknownSession,
    UnreadableSession,
)
from modelpact.sessions.extensions import (
    ContextProvider,
    Hook,
    SecurityMode,
    Stage,
    StateMachine,
    find_machine,
    list_machines,
    required_set,
)
from modelpact.sessions.session import Session
from modelpact.sessions.store import SessionSummary, list_sessions
from modelpact.sessions.transitions import Switched
from modelpact.sessions.turns import Turn

__all__ = [
    "Candidate",
    "CapabilityMissing",
    "ContextProvider",
    "Hook",
    "KeyMissing",
    "LoadError",
    "NoLongerFits",
    "ParamsRefused",
    "SecurityMode",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionError",
    "SessionMoved",
    "SessionSummary",
    "SpawnRejected",
    "Stage",
    "StateMachine",
    "SwitchRejected",
    "Switched",
    "TargetUnreachable",
    "Turn",
    "UnknownSession",
    "UnreadableSession",
    "configured_candidates",
    "find_candidates",
    "find_machine",
    "first_model",
    "list_machines",
    "list_sessions",
    "required_set",
]
