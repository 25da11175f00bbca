"""Sessions: a model in use, its required set, and every change of either negotiated first.

May import everything beneath it; `cli` is built on it.
"""

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
)
from modelpact.sessions.machines import find_machine, list_machines
from modelpact.sessions.offers import Offer, at_hand, first_model, offers
from modelpact.sessions.required import required_set
from modelpact.sessions.session import Session, Switched
from modelpact.sessions.state import Listed, Said, list_sessions
from modelpact.sessions.turn import Turn
from modelpact.sessions.versions import CONTRACT_VERSION, ContractVersion, VersionRange

__all__ = [
    "CONTRACT_VERSION",
    "CapabilityMissing",
    "ContextProvider",
    "ContractVersion",
    "Hook",
    "KeyMissing",
    "Listed",
    "LoadError",
    "NoLongerFits",
    "Offer",
    "ParamsRefused",
    "Said",
    "SecurityMode",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionError",
    "SessionMoved",
    "SpawnRejected",
    "Stage",
    "StateMachine",
    "SwitchRejected",
    "Switched",
    "TargetUnreachable",
    "Turn",
    "UnknownSession",
    "UnreadableSession",
    "VersionRange",
    "at_hand",
    "find_machine",
    "first_model",
    "list_machines",
    "list_sessions",
    "offers",
    "required_set",
]
