"""Invocations as events alone: two events each, and no rows.

The id of an invocation is the id of the event that opens it, and the event that settles it names
that one as its cause. Many invocations share an envelope; when nothing more is written to it and
nothing in it is open, a last event says so, and later processes need not look into it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from modelpact.ledger.canonical import canonical_unchecked
from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.errors import LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.prepared import EventRef, Precondition, PreparedEvent
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.importer import last_imported
from modelpact.providers.contract import ContentDigest, ContractError, Invocation
from modelpact.providers.runtime.recorder import (
    BackgroundTasks,
    OpenedInvocation,
    Settlement,
    UnfinishedInvocation,
)
from modelpact.providers.runtime.records import (
    INVOKED,
    NO_TIME,
    SETTLED_TYPES,
    InvocationOutcome,
    InvokedPayload,
    SettledPayload,
    cancelled,
    cost_record,
    digest,
    settled_payload,
)
from modelpact.providers.runtime.registry import Registered, as_registered
from modelpact.providers.runtime.request import InvocationRequest
from modelpact.vocabulary.errors import brief
from modelpact.vocabulary.memo import BoundedMemo

T = TypeVar("T")

KIND: Final = "gateway"
"""The kind of the envelopes that hold such invocations."""
STOPPED: Final = "gateway.stopped"
"""The type of the last event of an envelope in which nothing is open."""
MAX_LISTED_EVENTS: Final = 100_000
"""How many events a listing reads at most, the latest first: a busy store has many more."""

_LOG: Final = logging.getLogger("modelpact.gateway")
_PAGE: Final = 2_000
_SETTLED_SQL: Final = ", ".join(f"'{name}'" for name in SETTLED_TYPES)
_ALL_SQL: Final = f"{_SETTLED_SQL}, '{INVOKED}'"
_NOT_SENT: Final = "nothing was sent: whether this was recorded was not known"


class EventStorage:
    """Keeps invocations in the events of envelopes that one process at a time writes to."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        now: Callable[[], int],
        tasks: BackgroundTasks,
        is_current: Callable[[str], bool],
    ) -> None:
        """Write as the process of this name; `is_current` tells if an envelope is still used."""
        self._ledger = ledger
        self._name = name
        self._now = now
        self._tasks = tasks
        self._is_current = is_current
        self._preconditions: BoundedMemo[str, Precondition] = BoundedMemo()
        self._unsettled: set[str] = set()
        """The ids of open invocations that nobody has begun to settle."""
        self._open_in: dict[str, int] = {}
        """How many invocations are open in each envelope that is not finished."""
        self.open_count = 0
        """How many invocations are open in all of them."""
        self._uncertain: dict[str, int] = {}
        """Envelopes that may hold openings that nobody knows of, and until when those came."""

    def open(self, request: InvocationRequest, registered: Registered) -> "_OpeningEvent":
        """Append the event that opens an invocation."""
        return _OpeningEvent(self, request, registered)

    def claim(self, invocation: Invocation) -> bool:
        """Tell whether nobody has begun to settle this; from now on the caller has."""
        try:
            self._unsettled.remove(invocation.id)
        except KeyError:
            return False
        return True

    def settle(
        self, invocation: Invocation, outcome: InvocationOutcome, *, again: bool = False
    ) -> "_SettlingEvent":
        """Append the event that settles an invocation."""
        cost = cost_record(invocation, outcome, self._now())
        event = PreparedEvent(
            invocation.envelope,
            f"capability.{outcome.state}",
            canonical_unchecked(settled_payload(invocation, outcome, cost)),
            invocation.id,
            cost,
        )
        return _SettlingEvent(self, invocation, outcome, event, again=again)

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return what earlier processes of this name left open; this blocks while it reads."""
        found = []
        for envelope in unfinished_envelopes(self._ledger, self._name):
            invocations = open_in_envelope(self._ledger, envelope)
            self._open_in[envelope] = len(invocations)
            self.open_count += len(invocations)
            found += invocations
        return found

    def use(self, envelope: str) -> None:
        """Take note of an envelope that is written to, whether or not something is open in it."""
        self._open_in.setdefault(envelope, 0)

    async def finish_unused(self) -> None:
        """Finish the envelopes that are not current and in which nothing is open."""
        for envelope in list(self._open_in):
            if not self._is_current(envelope):
                await self._finish(envelope)

    def spawn_finish_unused(self) -> None:
        """Finish them in the background."""
        for envelope, count in self._open_in.items():
            if not count and not self._is_current(envelope):
                self._tasks.spawn(self._finish(envelope))

    async def aclose(self) -> None:
        """Finish all envelopes in which nothing is open."""
        for envelope in list(self._open_in):
            await self._finish(envelope)

    def _append(
        self, event: PreparedEvent, on_abandoned: Callable[[Any, Any], None]
    ) -> "asyncio.Future[EventRef]":
        return self._ledger.append_async(event, on_abandoned)

    def _precondition(self, provider: str, event: str) -> Precondition:
        found = self._preconditions.get(event)
        if found is None:
            found = self._preconditions[event] = as_registered(provider, event)
        return found

    def _count_opening(self, envelope: str) -> None:
        self.open_count += 1
        self._open_in[envelope] = self._open_in.get(envelope, 0) + 1

    def _count_settled(self, envelope: str) -> None:
        self.open_count -= 1
        remaining = self._open_in[envelope] = self._open_in[envelope] - 1
        if not remaining and not self._is_current(envelope):
            self._tasks.spawn(self._finish(envelope))

    def _count_not_opened(self, envelope: str, error: BaseException | None) -> None:
        if isinstance(error, LedgerUncertain):
            self._uncertain[envelope] = self._now()
        self._count_settled(envelope)

    async def _finish(self, envelope: str) -> None:
        """Record that nothing is open in an envelope."""
        if self._open_in.get(envelope) != 0:
            return  # it is finished already, or something was opened in it
        del self._open_in[envelope]
        try:
            if envelope in self._uncertain:
                await self._cancel_uncertain(envelope, self._uncertain.pop(envelope))
            await self._ledger.write_async(lambda tx: tx.append(Draft(envelope, STOPPED, {})))
        except LedgerError as error:
            _LOG.warning("%s is not finished: %s", envelope, error)

    async def _cancel_uncertain(self, envelope: str, until: int) -> None:
        """Cancel what was opened although the caller heard of a failure: it was never sent."""
        try:
            found = await asyncio.to_thread(open_in_envelope, self._ledger, envelope)
        except LedgerUnavailable:
            # The store was away, and the connection broke with it: the next one is new.
            found = await asyncio.to_thread(open_in_envelope, self._ledger, envelope)
        for invocation, _ in found:
            if invocation.created <= until:
                settling = self.settle(invocation, cancelled(_NOT_SENT, NO_TIME), again=True)
                await settling.future


class _EventWrite:
    """An event that was handed to the ledger, which appends it even if nobody waits for it."""

    __slots__ = ("_late_result", "_resolved", "_storage", "cost", "future")

    def __init__(self, storage: EventStorage) -> None:
        self._storage = storage
        self._late_result: tuple[EventRef | None, BaseException | None] | None = None
        """What became of the event, if its future was cancelled."""
        self._resolved: asyncio.Future[None] | None = None
        self.cost: CostRecord | None = None
        self.future: Awaitable[EventRef | None]

    def _on_abandoned(self, ref: EventRef | None, error: BaseException | None) -> None:
        self._late_result = (ref, error)
        if self._resolved is not None and not self._resolved.done():
            self._resolved.set_result(None)

    async def _wait(self) -> EventRef | None:
        """Wait for what becomes of an event whose future was cancelled, or is done."""
        future = self.future
        if isinstance(future, asyncio.Future) and not future.cancelled():
            done: EventRef = await future
            return done
        if self._late_result is None:
            self._resolved = asyncio.get_running_loop().create_future()
            await self._resolved
        assert self._late_result is not None
        ref, error = self._late_result
        if error is not None:
            raise error
        return ref


class _OpeningEvent(_EventWrite):
    """The event that opens an invocation."""

    __slots__ = ("_registered", "_request")

    def __init__(
        self, storage: EventStorage, request: InvocationRequest, registered: Registered
    ) -> None:
        _EventWrite.__init__(self, storage)
        self._request = request
        self._registered = registered
        provider = registered.registration.id
        payload = InvokedPayload(
            request.attribution,
            request.capability,
            request.estimate or (),
            digest(request.data),
            provider,
            registered.event,
            request.semantics,
            request.data.decode() if request.keep_content else None,
        )
        event = PreparedEvent(
            request.envelope,
            INVOKED,
            canonical_unchecked(payload),
            request.cause,
            precondition=storage._precondition(provider, registered.event),
        )
        storage._count_opening(request.envelope)
        self.future = storage._append(event, self._on_abandoned)

    def finish(self, result: Any) -> OpenedInvocation:
        opened = self._opened(result)
        self._storage._unsettled.add(opened.invocation.id)
        return opened

    def _opened(self, ref: EventRef) -> OpenedInvocation:
        request = self._request
        return OpenedInvocation(
            Invocation(
                ref.id,
                self._registered.registration.id,
                request.capability,
                request.semantics,
                "open",
                request.value,
                request.envelope,
                ref.id,
                ref.time,
                attribution=request.attribution,
                kept=request.keep_content,
                registered=self._registered.event,
            )
        )

    def fail(self, error: BaseException) -> None:
        self._storage._count_not_opened(self._request.envelope, error)

    async def resolve(self) -> OpenedInvocation | None:
        try:
            ref = await self._wait()
        except Exception as error:
            self.fail(error)
            raise
        assert ref is not None
        return self._opened(ref)

    def retry(self, error: BaseException | None = None) -> "_OpeningEvent":  # noqa: ARG002
        return _OpeningEvent(self._storage, self._request, self._registered)


class _SettlingEvent(_EventWrite):
    """The event that settles an invocation. A retry reads first whether one is there."""

    __slots__ = ("_event", "_invocation", "_outcome")

    def __init__(
        self,
        storage: EventStorage,
        invocation: Invocation,
        outcome: InvocationOutcome,
        event: PreparedEvent,
        *,
        again: bool,
    ) -> None:
        _EventWrite.__init__(self, storage)
        self._invocation = invocation
        self._outcome = outcome
        self._event = event
        self.cost = event.cost
        if again:
            self.future = storage._ledger.write_async(self._append_once)
        else:
            self.future = storage._append(event, self._on_abandoned)

    def _append_once(self, tx: Transaction) -> EventRef | None:
        """Append the event unless the invocation is settled.

        A write whose fate was unknown may have been kept, or another process may have settled it,
        which took this one for dead while the store was away.
        """
        event = self._event
        assert event.cost is not None
        settled = tx.execute(
            "SELECT 1 FROM events WHERE envelope = ? AND sequence > ? AND cause = ? "
            f"AND type IN ({_SETTLED_SQL})",
            (event.envelope, int(self._invocation.id.rpartition(":")[2]), event.cause),
        )
        if settled:
            return None
        payload = msgspec.json.decode(event.payload)
        appended = tx.append(Draft(event.envelope, event.type, payload, event.cause))
        tx.record_cost(appended, event.cost)
        return EventRef(appended.id, appended.time)

    def finish(self, result: Any) -> Settlement:
        self._storage._count_settled(self._event.envelope)
        if result is None:
            return Settlement(self._invocation, changed=False)
        return Settlement(_settled(self._invocation, self._outcome, result))

    def fail(self, error: BaseException) -> None:  # noqa: ARG002
        """Take note that the store refuses the event for good."""
        self._storage._count_settled(self._event.envelope)

    async def resolve(self) -> Settlement | None:
        if not isinstance(self.future, asyncio.Future):
            return None
        return self.finish(await self._wait())

    def retry(self, error: BaseException | None = None) -> "_SettlingEvent":  # noqa: ARG002
        return _SettlingEvent(
            self._storage, self._invocation, self._outcome, self._event, again=True
        )


def _settled(invocation: Invocation, outcome: InvocationOutcome, ref: EventRef) -> Invocation:
    return msgspec.structs.replace(
        invocation,
        state=outcome.state,
        output=outcome.output,
        error=outcome.error or None,
        settled_by=ref.id,
        answered=ref.time if outcome.state == "completed" else None,
    )


def find_in_events(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return the invocation that an event opens, or raise `unknown_invocation`."""
    event = reader.event(invocation_id) if invocation_id.isprintable() else None
    if event is None or event.type != INVOKED or "invocation" in event.payload:
        raise ContractError("unknown_invocation", f"no invocation {brief(invocation_id)}")
    rows = reader.read(
        "SELECT sequence, time, type, payload FROM events WHERE envelope = ? AND sequence > ? "
        f"AND cause = ? AND type IN ({_SETTLED_SQL}) ORDER BY sequence LIMIT 1",
        (event.envelope, event.sequence, event.id),
    )
    settled = None
    if rows:
        sequence, *rest = rows[0]
        settled = (f"{event.envelope}:{sequence}", *rest)
    opening = _convert(event.payload, InvokedPayload)
    return _read_invocation(event.id, event.envelope, event.time, opening, settled)


def list_in_events(
    reader: LedgerReader, state: str, provider: str, limit: int
) -> tuple[list[Invocation], bool]:
    """Return invocations, the newest first, and whether older ones may have been left out."""
    settlements: dict[str, tuple[str, int, str, str]] = {}
    found: list[Invocation] = []
    count = 0
    for event_id, envelope, time, kind, cause, payload in _newest_first(reader):
        count += 1
        if kind != INVOKED:
            settlements[cause] = (event_id, time, kind, payload)
            continue
        settled = settlements.pop(event_id, None)
        if state and state != ("open" if settled is None else SETTLED_TYPES[settled[2]]):
            continue
        try:
            opening = _convert(msgspec.json.decode(payload), InvokedPayload)
            if not provider or opening.provider == provider:
                found.append(_read_invocation(event_id, envelope, time, opening, settled))
        except ContractError:
            continue
        if len(found) >= limit:
            return found, False
    return found, count >= MAX_LISTED_EVENTS


def unfinished_envelopes(reader: LedgerReader, name: str) -> list[str]:
    """Return the envelopes of a process that were not finished: the process may have died.

    An imported envelope belongs to the store that it came from, even if the names are the same.
    """
    rows = reader.read(
        "SELECT v.id, e.sequence FROM envelopes v JOIN events e ON e.envelope = v.id "
        "AND e.sequence = (SELECT MAX(sequence) FROM events WHERE envelope = v.id) "
        "WHERE v.kind = ? AND v.subject = ? AND v.archived IS NULL AND e.type <> ? "
        "ORDER BY v.opened",
        (KIND, name, STOPPED),
    )
    return [envelope for envelope, last in rows if last > last_imported(reader.read, envelope)]


def open_in_envelope(reader: LedgerReader, envelope: str) -> list[UnfinishedInvocation]:
    """Return the open invocations of an envelope, each with its estimate."""
    found: dict[str, tuple[int, str]] = {}
    after = 0
    while True:
        rows = reader.read(
            "SELECT sequence, type, time, cause, CASE WHEN type = ? THEN payload END FROM events "
            f"WHERE envelope = ? AND sequence > ? AND type IN ({_ALL_SQL}) "
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
    unfinished = []
    for event_id, (time, payload) in found.items():
        opening = _convert(msgspec.json.decode(payload), InvokedPayload)
        invocation = _read_invocation(event_id, envelope, time, opening)
        unfinished.append(UnfinishedInvocation(invocation, opening.estimate or NO_TIME))
    return unfinished


def _newest_first(reader: LedgerReader) -> Iterator[tuple[str, str, int, str, str, str]]:
    """Yield the events of invocations, the latest first, as far back as a listing reads."""
    at = (2**63 - 1, "", 0)
    for _ in range(0, MAX_LISTED_EVENTS, _PAGE):
        rows = reader.read(
            "SELECT e.envelope, e.sequence, e.time, e.type, e.cause, e.payload FROM events e "
            "JOIN envelopes v ON v.id = e.envelope AND v.kind = ? WHERE e.time <= ? "
            f"AND (e.time, e.envelope, e.sequence) < (?, ?, ?) AND e.type IN ({_ALL_SQL}) "
            "ORDER BY e.time DESC, e.envelope DESC, e.sequence DESC LIMIT ?",
            (KIND, at[0], *at, _PAGE),
        )
        for envelope, sequence, time, kind, cause, payload in rows:
            yield f"{envelope}:{sequence}", envelope, time, kind, cause, payload
        if len(rows) < _PAGE:
            return
        at = (rows[-1][2], rows[-1][0], rows[-1][1])


def _read_invocation(
    event_id: str,
    envelope: str,
    time: int,
    opening: InvokedPayload,
    settled: tuple[str, int, str, str] | None = None,
) -> Invocation:
    """Return the invocation that an event opens.

    `settled` is the event that settles it: id, time, type and payload.
    """
    opened = Invocation(
        event_id,
        opening.provider,
        opening.capability,
        opening.semantics,
        "open",
        _content(opening.content, opening.input),
        envelope,
        event_id,
        time,
        attribution=_convert(opening.attribution, Attribution),
        kept=opening.content is not None,
        registered=opening.registered,
    )
    if settled is None:
        return opened
    settled_by, settled_at, kind, text = settled
    end = _convert(msgspec.json.decode(text), SettledPayload)
    return msgspec.structs.replace(
        opened,
        state=SETTLED_TYPES[kind],
        output=None if end.output is None else _content(end.content, end.output),
        error=end.error or end.reason,
        settled_by=settled_by,
        answered=settled_at if end.output is not None else None,
    )


def _convert(data: Any, kind: type[T]) -> T:
    """Read part of a payload, or raise `unknown_invocation`: imported events may say anything."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ContractError("unknown_invocation", f"an event of no call: {error}") from None


def _content(kept: str | None, content_digest: str) -> Any:
    if kept is None:
        return ContentDigest(content_digest)
    try:
        return msgspec.json.decode(kept)
    except msgspec.DecodeError:
        return kept  # a stream
