"""Invocations as events alone: two events each, and no rows.

The id of an invocation is the id of the event that opens it, and the event that settles it names
that one as its cause. Many invocations share an envelope; when nothing more is written to it and
nothing in it is open, a last event says so, and later processes need not look into it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from modelpact.ledger.canonical import canonical_unchecked
from modelpact.ledger.errors import LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Draft, EventRef, PreparedEvent
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.lookup import SETTLED_SQL, STOPPED, open_in_envelope, unfinished_envelopes
from modelpact.providers.runtime.recorder import BackgroundTasks, OpenedInvocation, Settlement, UnfinishedInvocation
from modelpact.providers.runtime.records import (
    INVOKED,
    NO_TIME,
    TYPE_OF_STATE,
    InvocationOutcome,
    InvocationRequest,
    cancelled,
    cost_record,
    invoked_payload,
    opened_invocation,
    settled_payload,
)
from modelpact.providers.runtime.registry import Registered

_LOG: Final = logging.getLogger("modelpact.gateway")
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
        self, invocation: Invocation, outcome: InvocationOutcome, *, may_already_be_settled: bool = False
    ) -> "_SettlingEvent":
        """Append the event that settles an invocation."""
        now = 0 if outcome.lines else self._now()  # it is only needed for the elapsed time
        cost = cost_record(invocation, outcome, now)
        event = PreparedEvent(
            invocation.envelope,
            TYPE_OF_STATE[outcome.state],
            canonical_unchecked(settled_payload(invocation, outcome, cost)),
            invocation.id,
            cost,
        )
        return _SettlingEvent(self, invocation, outcome, event, may_already_be_settled=may_already_be_settled)

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return what earlier processes of this name left open; this blocks while it reads."""
        unfinished = []
        for envelope in unfinished_envelopes(self._ledger, self._name):
            invocations = open_in_envelope(self._ledger, envelope)
            self._open_in[envelope] = len(invocations)
            self.open_count += len(invocations)
            unfinished += invocations
        return unfinished

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
            unfinished = await asyncio.to_thread(open_in_envelope, self._ledger, envelope)
        except LedgerUnavailable:
            # The store was away, and the connection broke with it: the next one is new.
            unfinished = await asyncio.to_thread(open_in_envelope, self._ledger, envelope)
        for invocation, _ in unfinished:
            if invocation.created <= until:
                settling = self.settle(invocation, cancelled(_NOT_SENT, NO_TIME), may_already_be_settled=True)
                await settling.future


class _EventWrite:
    """An event that was handed to the ledger, which appends it even if nobody waits for it."""

    future: Awaitable[EventRef | None]
    _late_outcome: asyncio.Future[EventRef | None] | None = None

    def _late(self) -> asyncio.Future[EventRef | None]:
        """Return the future of an event whose own future was cancelled."""
        if self._late_outcome is None:
            self._late_outcome = asyncio.get_running_loop().create_future()
        return self._late_outcome

    def _on_abandoned(self, ref: EventRef | None, error: BaseException | None) -> None:
        late = self._late()
        if late.cancelled():
            return  # the process is stopping, and nobody waits any more
        if error is None:
            late.set_result(ref)
        else:
            late.set_exception(error)

    async def _wait(self) -> EventRef | None:
        """Wait for what becomes of an event whose future was cancelled, or is done."""
        future = self.future
        if isinstance(future, asyncio.Future) and future.cancelled():
            future = self._late()
        return await future


class _OpeningEvent(_EventWrite):
    """The event that opens an invocation."""

    def __init__(self, storage: EventStorage, request: InvocationRequest, registered: Registered) -> None:
        self._storage = storage
        self._request = request
        self._registered = registered
        payload = invoked_payload(request, registered)
        if request.keep_content:
            payload.content = request.data.decode()
        event = PreparedEvent(
            request.envelope, INVOKED, canonical_unchecked(payload), request.cause, precondition=registered.precondition
        )
        storage._count_opening(request.envelope)
        self.future = storage._ledger.append_async(event, self._on_abandoned)

    def finish(self, result: Any) -> OpenedInvocation:
        event_id = result.id
        self._storage._unsettled.add(event_id)
        return OpenedInvocation(opened_invocation(self._request, self._registered, event_id, event_id, result.time))

    def fail(self, error: BaseException) -> None:
        self._storage._count_not_opened(self._request.envelope, error)

    async def resolve(self) -> OpenedInvocation | None:
        try:
            ref = await self._wait()
        except Exception as error:
            self.fail(error)
            raise
        opened = self.finish(ref)
        self._storage.claim(opened.invocation)  # the recorder cancels it
        return opened


class _SettlingEvent(_EventWrite):
    """The event that settles an invocation. A retry reads first whether one is there."""

    def __init__(
        self,
        storage: EventStorage,
        invocation: Invocation,
        outcome: InvocationOutcome,
        event: PreparedEvent,
        *,
        may_already_be_settled: bool,
    ) -> None:
        self._storage = storage
        self._invocation = invocation
        self._outcome = outcome
        self._event = event
        self.cost = event.cost
        if may_already_be_settled:
            self.future = storage._ledger.write_async(self._append_once)
        else:
            self.future = storage._ledger.append_async(event, self._on_abandoned)

    def _append_once(self, tx: Transaction) -> EventRef | None:
        """Append the event unless the invocation is settled.

        A write whose outcome was unknown may have been committed. Or another process considered
        this one dead while the store was unavailable, and settled the invocation.
        """
        event = self._event
        assert event.cost is not None
        settled = tx.execute(
            f"SELECT 1 FROM events WHERE envelope = ? AND sequence > ? AND cause = ? AND type IN ({SETTLED_SQL})",
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
        return Settlement(self._invocation, outcome=self._outcome, event=result)

    def fail(self, error: BaseException) -> None:  # noqa: ARG002
        """Take note that the store refuses the event for good."""
        self._storage._count_settled(self._event.envelope)

    async def resolve(self) -> Settlement | None:
        if not isinstance(self.future, asyncio.Future):
            return None
        return self.finish(await self._wait())

    def retry(self, error: BaseException | None = None) -> "_SettlingEvent":  # noqa: ARG002
        return _SettlingEvent(self._storage, self._invocation, self._outcome, self._event, may_already_be_settled=True)
