"""Events: what happened, chained by hashes so that nothing can be changed unseen."""

import hashlib
import re
from typing import Any, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.vocabulary.errors import InputError, brief

GENESIS: Final = "0" * 64
"""What the first event of an envelope has for the hash of the one before it."""

STANDARD: Final = frozenset(
    {
        "provider.registered",
        "provider.flagged",
        "provider.deregistered",
        "capability.invoked",
        "capability.completed",
        "capability.failed",
        "capability.cancelled",
        "capability.partial",
        "capability.reminded",
        "cost.corrected",
        "signal.received",
        "negotiation.decided",
        "session.opened",
        "session.switched",
        "session.rejected",
        "run.started",
        "run.completed",
        "run.failed",
        "node.started",
        "node.completed",
        "node.failed",
        "model.capability.substituted",
        "model.capability.insufficient",
        "provider.usage",
        "upstream.allowed",
        "key.rotated",
        "envelope.archived",
    }
)
"""The types that have one meaning everywhere."""

_RESERVED: Final = frozenset(name.partition(".")[0] for name in STANDARD)
_CUSTOM: Final = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+")


class Draft(msgspec.Struct, frozen=True):
    """An event that is yet to be appended."""

    envelope: str
    type: str
    payload: dict[str, Any]
    cause: str | None = None


class Event(msgspec.Struct, frozen=True):
    """An event in its envelope: `time` is in nanoseconds since 1970, UTC."""

    envelope: str
    sequence: int
    type: str
    time: int
    cause: str | None
    payload: dict[str, Any]
    previous: str
    hash: str

    @property
    def id(self) -> str:
        """The event's name, by which others refer to it."""
        return f"{self.envelope}:{self.sequence}"


def check_type(name: str) -> str:
    """Return the type, or raise: standard types are closed, others need their own namespace."""
    if name in STANDARD:
        return name
    if not isinstance(name, str) or len(name) > 128 or not _CUSTOM.fullmatch(name):
        raise InputError(f"{brief(name)} is not an event type: write namespace.name")
    if name.partition(".")[0] in _RESERVED:
        raise InputError(f"{name}: {name.partition('.')[0]}.… is reserved for standard types")
    return name


def event_hash(
    envelope: str,
    sequence: int,
    kind: str,
    time: int,
    cause: str | None,
    payload: bytes,
    previous: str,
) -> str:
    """Return the hash of an event: SHA-256 of its canonical JSON, given its canonical payload."""
    parts = b"".join(
        (
            b'{"cause":',
            canonical(cause),
            b',"envelope":',
            canonical(envelope),
            b',"payload":',
            payload,
            b',"previous":"',
            previous.encode(),
            f'","sequence":{sequence},"time":{time},"type":'.encode(),
            canonical(kind),
            b"}",
        )
    )
    return hashlib.sha256(parts).hexdigest()
