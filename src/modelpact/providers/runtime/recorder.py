"""The recorder of invocations: opened before they are sent, settled once, recovered after a crash.

Providers behind the contract and requests through the gateway are recorded by the same code. What
differs is the storage: `RowStorage` keeps rows with content, deadlines and idempotency keys,
`EventStorage` keeps two events for an invocation and nothing else.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from modelpact.ledger.costs import CostLine, CostRecord
from modelpact.ledger.errors import LedgerError, LedgerUnavailable, SettlementNotRecorded, WriteConflict
from modelpact.ledger.event import Event, EventRef
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.records import InvocationOutcome, InvocationRequest, cancelled, settled_invocation
from modelpact.providers.runtime.registry import Registered
from modelpact.vocabulary.errors import ModelpactError

T = TypeVar("T")
RecordedT = TypeVar("RecordedT", covariant=True)

_LOG: Final = logging.getLogger("modelpact.providers")
_RECOVERY_DELAY_S: Final = 1.0
_SHUTDOWN_PATIENCE_S: Final = 5.0


class OpenedInvocation(msgspec.Struct, frozen=True):
    """An invocation that is on the record."""

    invocation: Invocation
    fresh: bool = True
    """False if it was found by its idempotency key, and is under way or settled already."""


class Settlement(msgspec.Struct, frozen=True):
    """What a settlement changed."""

    recorded: Invocation
    """The invocation as the storage returned it, before the `outcome` if that is set."""
    changed: bool = True
    """False if the invocation was settled before."""
    cancelled: tuple[Invocation, ...] = ()
    """Invocations that were cancelled because a violation deregistered their provider."""
    deregistrations: tuple[Event, ...] = ()
    """The events of providers that were deregistered by it."""
    outcome: InvocationOutcome | None = None
    event: EventRef | None = None

    @property
    def invocation(self) -> Invocation:
        """The settled invocation, made on demand: the gateway does not need it."""
        if self.outcome is None or self.event is None:
            return self.recorded
        return settled_invocation(self.recorded, self.outcome, self.event.id, self.event.time)


class UnfinishedInvocation(NamedTuple):
    """An invocation that an earlier process left open."""

    invocation: Invocation
    lines: tuple[CostLine, ...] = ()
    """What it may have cost; without any, the elapsed time counts."""


class PendingWrite(Protocol, Generic[RecordedT]):
    """A write that was handed to the ledger.

    The recorder awaits `future` and then calls `finish` or `fail`. A caller that was cancelled
    meanwhile does not stop the write: `resolve` waits for it.
    """

    future: Awaitable[Any]

    def finish(self, result: Any) -> RecordedT:
        """Return what is recorded, given the result of the future."""

    def fail(self, error: BaseException) -> None:
        """Take note that the write failed, or that nobody knows whether it did."""

    async def resolve(self) -> RecordedT | None:
        """Wait for a write whose caller was cancelled; None where it may not be kept."""


class PendingSettlement(PendingWrite[Settlement], Protocol):
    """A settlement that was handed to the ledger."""

    cost: CostRecord | None
    """The cost that it records, where that is known before the write."""

    def retry(self, error: BaseException | None = None) -> "PendingSettlement":
        """Write the same again after a failure; what was kept after all is not written twice."""


class InvocationStorage(Protocol):
    """Where invocations are stored."""

    def open(self, request: InvocationRequest, registered: Registered) -> PendingWrite[OpenedInvocation]:
        """Record an invocation, provided that its provider is still registered like this."""

    def claim(self, invocation: Invocation) -> bool:
        """Tell whether an invocation may be settled by the caller, as far as this process knows."""

    def settle(
        self, invocation: Invocation, outcome: InvocationOutcome, *, may_already_be_settled: bool = False
    ) -> PendingSettlement:
        """Record how an invocation ended.

        With `may_already_be_settled` the store is read first.
        """

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return what an earlier process of this name left open; this blocks while it reads."""


class BackgroundTasks:
    """Tasks that nobody awaits, and that must be done before the process ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start work in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.warning("%s: %s", type(error).__name__, error)

    async def aclose(self) -> None:
        """Wait a few seconds for the tasks, then cancel them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SHUTDOWN_PATIENCE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class InvocationRecorder:
    """Opens, settles, cancels and recovers invocations."""

    def __init__(
        self,
        storage: InvocationStorage,
        tasks: BackgroundTasks,
        *,
        process_name: str,
        disconnect_reason: str,
        retry_delays: tuple[float, ...] | None = None,
    ) -> None:
        """Record in a storage.

        `tasks` run the writes that outlast their caller. `process_name` is the name of this process
        in the errors of interrupted invocations. `disconnect_reason` is recorded for an invocation
        whose caller is cancelled before it is sent.

        If the store fails, a settlement is retried after each of the `retry_delays`, and the caller
        waits. If `retry_delays` is None, a background task retries it without end, and the caller
        gets `SettlementNotRecorded`.
        """
        self._storage = storage
        self._interrupted = f"interrupted: the {process_name} stopped before the answer came"
        self._disconnect_reason = disconnect_reason
        self._retry_delays = retry_delays
        self.tasks = tasks

    async def open(self, request: InvocationRequest, registered: Registered) -> OpenedInvocation:
        """Record an invocation before it is sent.

        If the caller is cancelled meanwhile, what was recorded is cancelled as well.
        """
        pending = self._storage.open(request, registered)
        try:
            result = await pending.future
        except asyncio.CancelledError:
            await self._finish_after_cancel(self._cancel_opened(pending))
            raise
        except BaseException as error:
            pending.fail(error)
            raise
        return pending.finish(result)

    async def _finish_after_cancel(self, work: Coroutine[Any, Any, object]) -> None:
        """Run work in the background for a caller that was cancelled.

        Where settlements are retried while the caller waits, it waits for this work, too.
        """
        task = self.tasks.spawn(work)
        if self._retry_delays is not None:
            await asyncio.wait([task])

    async def _cancel_opened(self, pending: PendingWrite[OpenedInvocation]) -> None:
        with contextlib.suppress(ModelpactError):
            opened = await pending.resolve()
            if opened is not None and opened.fresh:
                invocation = opened.invocation
                outcome = cancelled(self._disconnect_reason)
                await self._complete(invocation, self._storage.settle(invocation, outcome))

    async def settle(self, invocation: Invocation, outcome: InvocationOutcome) -> Settlement:
        """Record how an invocation ended and what it cost, once.

        A caller that is cancelled meanwhile does not stop the settlement.
        """
        if not self._storage.claim(invocation):
            return Settlement(invocation, changed=False)
        pending = self._storage.settle(invocation, outcome)
        self._ended(invocation, outcome, pending.cost)
        try:
            result = await pending.future
        except asyncio.CancelledError:
            await self._finish_after_cancel(self._complete_cancelled(invocation, pending))
            raise
        except LedgerError as error:
            return await self._settle_again(invocation, pending, error)
        settlement = pending.finish(result)
        self._settled(invocation, pending.cost)
        return settlement

    def cancel(
        self, invocation: Invocation, reason: str, lines: tuple[CostLine, ...] = ()
    ) -> Coroutine[Any, Any, Settlement]:
        """Record that nobody waits for an answer any more, and what it may cost nevertheless."""
        return self.settle(invocation, cancelled(reason, lines))

    async def _settle_again(self, invocation: Invocation, pending: PendingSettlement, error: LedgerError) -> Settlement:
        """Settle what the store did not take at first, in a task that the caller waits for."""
        if self._retry_delays is None:
            self.tasks.spawn(self._complete_observed(invocation, pending.retry(error)))
            raise SettlementNotRecorded(str(error)) from error
        task = self.tasks.spawn(self._complete_observed(invocation, pending, error))
        try:
            settlement = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise
        assert settlement is not None
        return settlement

    async def _complete_cancelled(self, invocation: Invocation, pending: PendingSettlement) -> None:
        """Complete a settlement whose caller was cancelled."""
        settlement = None
        with contextlib.suppress(LedgerError):
            settlement = await pending.resolve()
        if settlement is None:
            await self._complete_observed(invocation, pending.retry())
        else:
            self._settled(invocation, pending.cost)

    async def _complete_observed(
        self, invocation: Invocation, pending: PendingSettlement, error: LedgerError | None = None
    ) -> Settlement | None:
        settlement = await self._complete(invocation, pending, error)
        self._settled(invocation, pending.cost)
        return settlement

    async def _complete(
        self, invocation: Invocation, pending: PendingSettlement, error: LedgerError | None = None
    ) -> Settlement | None:
        """Write a settlement until the store takes it; None where the store refuses it for good.

        `error` is how the pending write failed, if its future was awaited.
        """
        forever = self._retry_delays is None
        delays = itertools.repeat(_RECOVERY_DELAY_S) if forever else iter(self._retry_delays or ())
        while True:
            try:
                if error is not None:
                    raise error
                return pending.finish(await pending.future)
            except (WriteConflict, LedgerUnavailable) as failure:
                delay = next(delays, None)
                if delay is None:
                    raise
                _LOG.warning("%s waits for the store: %s", invocation.id, failure)
                await asyncio.sleep(delay)
                pending, error = pending.retry(failure), None
            except LedgerError as failure:
                if not forever:
                    raise
                _LOG.warning("%s cannot be settled: %s", invocation.id, failure)
                pending.fail(failure)
                return None

    async def recover(
        self,
        unfinished: list[UnfinishedInvocation],
        resume: Callable[[Invocation], Awaitable[Invocation | None]] | None = None,
    ) -> list[Invocation]:
        """Settle what an earlier process left open.

        `resume` may take up an invocation instead; it returns None for one that is to fail as
        interrupted. What cannot be recovered is logged and left.
        """
        recovered = []
        for invocation, lines in unfinished:
            while True:
                try:
                    current = None if resume is None else await resume(invocation)
                    recovered.append(current or await self._interrupt(invocation, lines))
                    break
                except LedgerUnavailable as error:
                    _LOG.warning("%s waits for the store: %s", invocation.id, error)
                    await asyncio.sleep(_RECOVERY_DELAY_S)
                except ModelpactError as error:
                    _LOG.warning("%s cannot be recovered: %s", invocation.id, error)
                    break
        return recovered

    async def _interrupt(self, invocation: Invocation, lines: tuple[CostLine, ...]) -> Invocation:
        outcome = InvocationOutcome("failed", self._interrupted, lines, estimate=True)
        pending = self._storage.settle(invocation, outcome, may_already_be_settled=True)
        settlement = await self._complete(invocation, pending)
        return invocation if settlement is None else settlement.invocation

    def _ended(self, invocation: Invocation, outcome: InvocationOutcome, cost: CostRecord | None) -> None:
        """Hook: the end of an invocation is about to be recorded."""

    def _settled(self, invocation: Invocation, cost: CostRecord | None) -> None:
        """Hook: the end of an invocation is on the record."""
