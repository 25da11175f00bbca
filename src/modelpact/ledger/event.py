"""Events: records of what happened, chained by hashes so that every change is detected.

The bus delivers them to listeners once they are durable.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import LedgerError
from modelpact.vocabulary.errors import InputError, brief

GENESIS: Final = "0" * 64
"""The previous hash of the first event of an envelope."""

NEGOTIATION_DECIDED: Final = "negotiation.decided"
"""A negotiation. Sessions record its trigger, target and verdict; the gateway records its plan."""

STANDARD_TYPES: Final = frozenset(
    (
        *("provider.registered", "provider.flagged", "provider.deregistered", "provider.usage"),
        *("capability.invoked", "capability.completed", "capability.failed"),
        *("capability.cancelled", "capability.partial", "capability.reminded", "capability.capped"),
        "capability.undescribed",
        "cost.corrected",
        "signal.received",
        NEGOTIATION_DECIDED,
        *("session.opened", "session.resumed", "session.switched", "session.downgraded"),
        *("session.rejected", "session.attached", "session.detached", "session.reloaded"),
        *("session.params", "session.spawned", "session.turn", "session.answered"),
        *("session.failed", "session.closed"),
        "gateway.stopped",
        *("run.started", "run.completed", "run.failed"),
        *("node.started", "node.completed", "node.failed", "node.retried"),
        *("envelope.emitted", "envelope.archived"),
        *("model.capability.substituted", "model.capability.insufficient"),
        "upstream.allowed",
        *("evidence.recorded", "evidence.forgotten"),
        *("key.rotated", "key.created", "key.revoked"),
    )
)
"""The event types that modelpact defines. Their meaning is the same in every ledger."""

_RESERVED: Final = frozenset(name.partition(".")[0] for name in STANDARD_TYPES)
_CUSTOM: Final = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+")
COST_EVENT_PREFIXES: Final = ("capability.", "cost.", "signal.")
"""The first parts of the types of events that may embed a cost record."""
_MAX_TIME: Final = 10**19
_LOG: Final = logging.getLogger("modelpact.bus")
_text: Final = msgspec.json.Encoder().encode

Listener = Callable[["Event"], None]
Position = tuple[int, int]
"""The sequence number of an event in its envelope, and its time in nanoseconds."""


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


class PreconditionFailed(LedgerError):
    """The precondition of a prepared event does not hold, so the event was not appended."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        super().__init__(f"precondition failed: {' '.join(key)}; the event was not appended")


class Precondition(msgspec.Struct, frozen=True, array_like=True):
    """A query that must return one known value when the event is appended.

    The writer caches the value under `key` for as long as no other process writes to the store.
    """

    key: tuple[str, ...]
    sql: str
    params: tuple[str, ...]
    expected: str
    """The statement must return exactly one row, with this as its only column."""


class PreparedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that is ready to append.

    The caller vouches that the type is valid and that the payload is a JSON object in canonical
    form.
    """

    envelope: str
    type: str
    payload: bytes
    cause: str | None = None
    cost: CostRecord | None = None
    """The cost record that the payload embeds. It has been checked and is not a correction."""
    precondition: Precondition | None = None
    opens: tuple[str, str] | None = None
    """The kind and subject of the envelope, if this event may be its first."""


class EventRef(msgspec.Struct, frozen=True, gc=False):
    """The id and time of an event that was appended."""

    id: str
    time: int

    @classmethod
    def at(cls, envelope: str, position: Position) -> "EventRef":
        """Return the reference to the event at a position in an envelope."""
        return cls(f"{envelope}:{position[0]}", position[1])


class Bus:
    """Delivers events to listeners. A listener that fails stops neither delivery nor writing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[tuple[str | None, Listener], ...] = ()
        self._has_listener: dict[str, bool] = {}
        """The answers of `has_listener` so far, by event type."""
        self.failures = 0
        """How many times a listener raised an exception."""

    def subscribe(self, listener: Listener, type_prefix: str | None = None) -> Callable[[], None]:
        """Call `listener` for every event whose type starts with `type_prefix`.

        Returns a function that ends the subscription.
        """
        subscription = (type_prefix, listener)
        with self._lock:
            self._listeners = (*self._listeners, subscription)
            self._has_listener = {}

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not subscription)
                self._has_listener = {}

        return unsubscribe

    def has_listener(self, event_type: str) -> bool:
        """Tell whether any listener is subscribed to events of a type."""
        answers = self._has_listener
        answer = answers.get(event_type)
        if answer is None:
            answer = answers[event_type] = any(
                prefix is None or event_type.startswith(prefix) for prefix, _ in self._listeners
            )
        return answer

    def publish(self, events: Iterable[Event]) -> None:
        """Deliver events to their listeners, in order."""
        listeners = self._listeners
        if not listeners:
            return
        for event in events:
            for prefix, listener in listeners:
                if prefix is not None and not event.type.startswith(prefix):
                    continue
                try:
                    listener(event)
                except BaseException:  # even SystemExit must not end the thread that writes
                    self.failures += 1
                    _LOG.exception("a listener failed on %s", event.id)


def check_type(name: str) -> str:
    """Return an event type, or raise.

    It must be a standard type, or have a namespace that no standard type has.
    """
    if name in STANDARD_TYPES:
        return name
    if not isinstance(name, str) or len(name) > 128 or not _CUSTOM.fullmatch(name):
        raise InputError(f"{brief(name)} is not an event type: expected namespace.name")
    if name.partition(".")[0] in _RESERVED:
        raise InputError(f"{name}: the namespace {name.partition('.')[0]} is reserved for standard types")
    return name


def check_name(name: object, field: str = "envelope") -> str:
    """Return the name of an envelope or the id of an event, or raise.

    It has 1 to 256 printable characters and no spaces.
    """
    if not isinstance(name, str) or not 0 < len(name) <= 256:
        raise InputError(f"{field}: expected a name of 1 to 256 characters, not {brief(name)}")
    if not name.isprintable() or " " in name:
        raise InputError(f"{field}: {brief(name)} has a space or an unprintable character, which a name cannot have")
    return name


def check_time(time: int) -> None:
    """Raise if a number is not a time in nanoseconds since 1970."""
    if not 0 <= time < _MAX_TIME:
        raise InputError(f"{brief(time)} is not a time in nanoseconds")


def parse_event_id(event: str) -> tuple[str, int]:
    """Return the envelope and the sequence number of an event."""
    envelope, _, number = event.rpartition(":")
    if not (number.isascii() and number.isdecimal()) or len(number) > 18:
        raise InputError(f"{brief(event)} is not the id of an event: expected ENVELOPE:NUMBER")
    return envelope, int(number)


def event_body(
    envelope: str, sequence: int, kind: str, time: int, cause: str | None, payload: bytes, previous: str
) -> bytes:
    """Return the canonical JSON of an event, given its canonical payload.

    The time is text there: nanoseconds exceed the integers that every JSON reader reads exactly.
    """
    return b'{"cause":%b,"envelope":%b,"payload":%b,"previous":"%b","sequence":%d,"time":"%d","type":%b}' % (
        _text(cause),
        _text(envelope),
        payload,
        previous.encode(),
        sequence,
        time,
        _text(kind),
    )


def event_hash(
    envelope: str, sequence: int, kind: str, time: int, cause: str | None, payload: bytes, previous: str
) -> str:
    """Return the SHA-256 of the canonical JSON of an event, given its canonical payload."""
    body = event_body(envelope, sequence, kind, time, cause, payload, previous)
    return hashlib.sha256(body).hexdigest()


def embedded_cost(event: Event) -> CostRecord | None:
    """Return the cost record that an event embeds, or None."""
    if not event.type.startswith(COST_EVENT_PREFIXES):
        return None
    try:
        return msgspec.convert(event.payload.get("cost"), CostRecord)
    except msgspec.ValidationError:
        return None
