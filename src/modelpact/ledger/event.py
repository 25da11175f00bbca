"""Events: records of what happened, chained by hashes so that every change is detected."""

import hashlib
import re
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError, brief

GENESIS: Final = "0" * 64
"""The previous hash of the first event of an envelope."""

STANDARD_TYPES: Final = frozenset(
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
        "capability.capped",
        "capability.undescribed",
        "session.opened",
        "session.resumed",
        "session.switched",
        "session.downgraded",
        "session.rejected",
        "session.attached",
        "session.detached",
        "session.reloaded",
        "session.params",
        "session.spawned",
        "session.turn",
        "session.answered",
        "session.failed",
        "session.closed",
        "gateway.stopped",
        "run.started",
        "run.completed",
        "run.failed",
        "node.started",
        "node.completed",
        "node.failed",
        "node.retried",
        "envelope.emitted",
        "model.capability.substituted",
        "model.capability.insufficient",
        "provider.usage",
        "upstream.allowed",
        "evidence.recorded",
        "evidence.forgotten",
        "key.rotated",
        "key.created",
        "key.revoked",
        "envelope.archived",
    }
)
"""The event types that modelpact defines. Their meaning is the same in every ledger."""

_RESERVED: Final = frozenset(name.partition(".")[0] for name in STANDARD_TYPES)
_CUSTOM: Final = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+")


class Draft(msgspec.Struct, frozen=True):
    """An event to append."""

    envelope: str
    type: str
    payload: dict[str, Any]
    cause: str | None = None
    unchecked: bool = False
    """Whether to encode the payload without checking it, as `canonical_unchecked` describes."""


class Event(msgspec.Struct, frozen=True):
    """An event in its envelope. `time` is in nanoseconds since 1970, UTC."""

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
        """The id by which others refer to the event: `ENVELOPE:NUMBER`."""
        return f"{self.envelope}:{self.sequence}"


class EventJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event in JSON, where the time is text."""

    cause: str | None
    envelope: str
    payload: dict[str, Any]
    previous: str
    sequence: int
    time: str
    type: str
    hash: str

    def event(self) -> Event:
        """Return the event."""
        return Event(
            self.envelope,
            self.sequence,
            self.type,
            parse_time(self.time),
            self.cause,
            self.payload,
            self.previous,
            self.hash,
        )


def parse_time(text: str) -> int:
    """Parse a time in nanoseconds, which is text in JSON."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise InputError(f"{brief(text)} is not a time in nanoseconds")
    return int(text)


def check_type(name: str) -> str:
    """Return an event type, or raise.

    It must be a standard type, or have a namespace that no standard type has.
    """
    if name in STANDARD_TYPES:
        return name
    if not isinstance(name, str) or len(name) > 128 or not _CUSTOM.fullmatch(name):
        raise InputError(f"{brief(name)} is not an event type: expected namespace.name")
    if name.partition(".")[0] in _RESERVED:
        raise InputError(
            f"{name}: the namespace {name.partition('.')[0]} is reserved for standard types"
        )
    return name


def check_name(name: object, field: str = "envelope") -> str:
    """Return the name of an envelope or the id of an event, or raise.

    It has 1 to 256 printable characters and no spaces.
    """
    if not isinstance(name, str) or not 0 < len(name) <= 256:
        raise InputError(f"{field}: expected a name of 1 to 256 characters, not {brief(name)}")
    if not name.isprintable() or " " in name:
        raise InputError(
            f"{field}: {brief(name)} has a space or an unprintable character, which a name cannot "
            "have"
        )
    return name


def event_body(
    envelope: str,
    sequence: int,
    kind: str,
    time: int,
    cause: str | None,
    payload: bytes,
    previous: str,
) -> bytes:
    """Return the canonical JSON of an event, given its canonical payload.

    The time is text there: nanoseconds exceed the integers that every JSON reader reads exactly.
    """
    return (
        b'{"cause":%b,"envelope":%b,"payload":%b,"previous":"%b","sequence":%d,"time":"%d","type":%b}'
        % (
            _text(cause),
            _text(envelope),
            payload,
            previous.encode(),
            sequence,
            time,
            _text(kind),
        )
    )


def event_hash(
    envelope: str,
    sequence: int,
    kind: str,
    time: int,
    cause: str | None,
    payload: bytes,
    previous: str,
) -> str:
    """Return the SHA-256 of the canonical JSON of an event, given its canonical payload."""
    body = event_body(envelope, sequence, kind, time, cause, payload, previous)
    return hashlib.sha256(body).hexdigest()


_text: Final = msgspec.json.Encoder().encode
