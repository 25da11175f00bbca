"""Calls: the gateway's invocations. They are in the events alone, so that each costs two of them.

The event that opens a call is its name, by which the one that settles it names it as its cause.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.importer import last_imported
from modelpact.providers.contract import (
    ContractError,
    Invocation,
    InvocationState,
    NotKept,
    Semantics,
)
from modelpact.vocabulary.errors import brief

T = TypeVar("T")
KIND: Final = "gateway"
"""What the envelopes of gateways are."""
STOPPED: Final = "gateway.stopped"
"""The event after which an envelope has no open call."""
INVOKED: Final = "capability.invoked"
ENDS: Final[dict[str, InvocationState]] = {
    "capability.completed": "completed",
    "capability.failed": "failed",
    "capability.cancelled": "cancelled",
}
_PAGE: Final = 2_000
MOST_LISTED: Final = 100_000
"""Events that a listing looks back over: a busy store has many more."""


class GatewayCall(msgspec.Struct):
    """A request on the record, from the event that opened it to the one that settles it."""

    id: str
    envelope: str
    provider: str
    attribution: Attribution
    created: int
    estimate: tuple[CostLine, ...] = ()
    """What it is expected to cost."""
    cost: tuple[CostLine, ...] = ()
    """What it did cost, once it has ended."""
    ended: bool = False
    """Whether how it ended is on the record, or on its way there."""


class CallOpened(msgspec.Struct, omit_defaults=True):
    """What the event says that opens a call."""

    attribution: Any
    capability: str
    estimate: tuple[CostLine, ...]
    input: str
    provider: str
    registered: str
    semantics: Semantics
    content: str | None = None
    """The request itself, where it is to be kept."""


class CallSettled(msgspec.Struct, omit_defaults=True):
    """What the event says that settles one."""

    capability: str
    cost: CostRecord
    provider: str
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    content: str | None = None
    """The answer itself, where it is to be kept."""


_INVOKED: Final = msgspec.json.Decoder(CallOpened)


class OpenCall(msgspec.Struct, frozen=True):
    """A call that an event opens, as the store has it."""

    event: str
    envelope: str
    time: int
    told: CallOpened

    @property
    def attribution(self) -> Attribution:
        """Who and what it is for."""
        return _read(self.told.attribution, Attribution)

    def invocation(self, settled: tuple[str, int, str, str] | None = None) -> Invocation:
        """Return it as an invocation; `settled` is the event of its end: name, time, type, text."""
        told = self.told
        found = Invocation(
            self.event,
            told.provider,
            told.capability,
            told.semantics,
            "open",
            _content(told.content, told.input),
            self.envelope,
            self.event,
            self.time,
            attribution=self.attribution,
            kept=told.content is not None,
            registered=told.registered,
        )
        if settled is None:
            return found
        name, time, kind, payload = settled
        end = _read(msgspec.json.decode(payload), CallSettled)
        return msgspec.structs.replace(
            found,
            state=ENDS[kind],
            output=None if end.output is None else _content(end.content, end.output),
            error=end.error or end.reason,
            settled_by=name,
            answered=time if end.output is not None else None,
        )


def _read(said: Any, kind: type[T]) -> T:
    """Read what an event of a call says; one that was imported may say anything."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise ContractError("unknown_invocation", f"an event of no call: {error}") from None


def _content(kept: str | None, digest: str) -> Any:
    if kept is None:
        return NotKept(digest)
    try:
        return msgspec.json.decode(kept)
    except msgspec.DecodeError:
        return kept  # a stream


def find_call(reader: LedgerReader, name: str) -> Invocation:
    """Return the call that an event opens, or raise `unknown_invocation`."""
    event = reader.event(name) if name.isprintable() else None
    if event is None or event.type != INVOKED or "invocation" in event.payload:
        raise ContractError("unknown_invocation", f"no invocation {brief(name)}")
    opened = OpenCall(event.id, event.envelope, event.time, _read(event.payload, CallOpened))
    rows = reader.read(
        "SELECT sequence, time, type, payload FROM events WHERE envelope = ? AND sequence > ? "
        f"AND cause = ? AND type IN ({listed()}) ORDER BY sequence LIMIT 1",
        (event.envelope, event.sequence, event.id),
    )
    if not rows:
        return opened.invocation()
    sequence, *rest = rows[0]
    return opened.invocation((f"{event.envelope}:{sequence}", *rest))


def list_calls(
    reader: LedgerReader, state: str, provider: str, limit: int
) -> tuple[list[Invocation], bool]:
    """Return calls, the newest first, and whether there may be more than it looked back for."""
    ends: dict[str, tuple[str, int, str, str]] = {}
    found: list[Invocation] = []
    seen = 0
    for name, envelope, time, kind, cause, payload in _backwards(reader):
        seen += 1
        if kind != INVOKED:
            ends[cause] = (name, time, kind, payload)
            continue
        settled = ends.pop(name, None)
        now = "open" if settled is None else ENDS[settled[2]]
        if state and now != state:
            continue
        try:
            told = _read(msgspec.json.decode(payload), CallOpened)
            if not provider or told.provider == provider:
                found.append(OpenCall(name, envelope, time, told).invocation(settled))
        except ContractError:
            continue
        if len(found) >= limit:
            return found, False
    return found, seen >= MOST_LISTED


def _backwards(reader: LedgerReader) -> Iterator[tuple[str, str, int, str, str, str]]:
    """Yield the events of calls, the latest first, as far back as one listing looks."""
    at = (2**63 - 1, "", 0)
    for _ in range(0, MOST_LISTED, _PAGE):
        rows = reader.read(
            "SELECT e.envelope, e.sequence, e.time, e.type, e.cause, e.payload FROM events e "
            "JOIN envelopes v ON v.id = e.envelope AND v.kind = ? WHERE e.time <= ? "
            f"AND (e.time, e.envelope, e.sequence) < (?, ?, ?) AND e.type IN ({listed(INVOKED)}) "
            "ORDER BY e.time DESC, e.envelope DESC, e.sequence DESC LIMIT ?",
            (KIND, at[0], *at, _PAGE),
        )
        for envelope, sequence, time, kind, cause, payload in rows:
            yield f"{envelope}:{sequence}", envelope, time, kind, cause, payload
        if len(rows) < _PAGE:
            return
        at = (rows[-1][2], rows[-1][0], rows[-1][1])


def listed(*more: str) -> str:
    """Return the types of the events that end calls, and more, as SQL lists them."""
    return ", ".join(f"'{one}'" for one in (*ENDS, *more))


def unfinished(reader: LedgerReader, name: str) -> list[str]:
    """Return the envelopes of a gateway that were not finished in order: it may have died.

    One that came by an import is another store's to finish, whatever the gateway there is called.
    """
    rows = reader.read(
        "SELECT v.id, e.sequence FROM envelopes v JOIN events e ON e.envelope = v.id "
        "AND e.sequence = (SELECT MAX(sequence) FROM events WHERE envelope = v.id) "
        "WHERE v.kind = ? AND v.subject = ? AND v.archived IS NULL AND e.type <> ? "
        "ORDER BY v.opened",
        (KIND, name, STOPPED),
    )
    return [envelope for envelope, last in rows if last > last_imported(reader.read, envelope)]


def left_open(reader: LedgerReader, envelope: str) -> list[OpenCall]:
    """Return the calls of an envelope that nothing settles."""
    found: dict[str, tuple[int, str]] = {}
    after = 0
    while True:
        rows = reader.read(
            "SELECT sequence, type, time, cause, CASE WHEN type = ? THEN payload END FROM events "
            f"WHERE envelope = ? AND sequence > ? AND type IN ({listed(INVOKED)}) "
            "ORDER BY sequence LIMIT ?",
            (INVOKED, envelope, after, _PAGE),
        )
        for sequence, kind, time, cause, payload in rows:
            if kind == INVOKED:
                found[f"{envelope}:{sequence}"] = (time, payload)
            else:
                found.pop(cause, None)
        if len(rows) < _PAGE:
            break
        after = rows[-1][0]
    return [
        OpenCall(name, envelope, time, _INVOKED.decode(payload))
        for name, (time, payload) in found.items()
    ]
