"""Pending items: what waits to be committed, and how its caller learns the outcome.

There are three kinds of callers. A thread blocks on a `ThreadWaiter`. `Ledger.submit` returns a
`concurrent.futures.Future`. A task awaits a future of its event loop.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import EventRef, PreparedEvent
from modelpact.ledger.write.batch import AppendResult
from modelpact.ledger.write.transaction import Transaction

T = TypeVar("T")
Work = Callable[[Transaction], T]
OnAbandoned = Callable[[EventRef | None, BaseException | None], None]
"""Called on the loop with the outcome of an append whose future was cancelled before that."""


class WorkItem(msgspec.Struct):
    """A function to run in a transaction, and the future of its caller."""

    work: Work[Any]
    future: Any
    """A future of `loop`, or else a `concurrent.futures.Future` or a `ThreadWaiter`."""
    loop: asyncio.AbstractEventLoop | None = None

    def claim(self) -> bool:
        """Tell whether the caller still waits. It is too late to cancel from then on."""
        if self.loop is not None:
            return not self.future.cancelled()
        running: bool = self.future.set_running_or_notify_cancel()
        return running


class EventItem(msgspec.Struct):
    """A prepared event, and the future of the task that appends it."""

    event: PreparedEvent
    future: asyncio.Future[EventRef]
    loop: asyncio.AbstractEventLoop
    on_abandoned: OnAbandoned | None = None

    def claim(self) -> bool:
        """Return True: an append cannot be cancelled."""
        return True

    def settle(self, ref: EventRef | None, error: BaseException | None) -> None:
        """Give the outcome to the task or, if that was cancelled, to `on_abandoned`."""
        if self.future.done():
            if self.on_abandoned is not None:
                self.on_abandoned(ref, error)
        elif error is not None:
            self.future.set_exception(error)
        else:
            assert ref is not None
            self.future.set_result(ref)


class EventBatch(msgspec.Struct):
    """Prepared events whose outcomes the caller of the committer reads from `results` itself."""

    events: list[PreparedEvent]
    results: list[AppendResult] = []
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def future(self) -> "EventBatch":
        """The batch itself, which takes its own outcome."""
        return self

    def claim(self) -> bool:
        """Return True: the caller waits for the commit."""
        return True

    def set_result(self, results: list[AppendResult]) -> None:
        """Take the outcome of each event."""
        self.results = results

    def set_exception(self, error: BaseException) -> None:
        """Take one error for all events."""
        self.results = [error] * len(self.events)


PendingItem = WorkItem | EventItem | EventBatch
Outcome = tuple[PendingItem, Any, BaseException | None]
"""An item with its result or its error."""


class ThreadWaiter:
    """A future for one thread that neither cancels nor asks twice. It costs a single lock."""

    __slots__ = ("_done", "_error", "_result")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        """Return True: the thread waits."""
        return True

    def set_result(self, result: Any) -> None:
        """Wake the thread with a result."""
        self._result = result
        self._done.release()

    def set_exception(self, error: BaseException) -> None:
        """Wake the thread with an error."""
        self._error = error
        self._done.release()

    def result(self) -> Any:
        """Wait for the outcome. Return the result or raise the error."""
        self._done.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._result


class LoopGatherer:
    """Hands in the items of one turn of an event loop together, so that they wake a thread once."""

    def __init__(self, put: Callable[..., bool]) -> None:
        self._put = put
        self._gathered: dict[asyncio.AbstractEventLoop, list[PendingItem]] = {}

    def add(self, item: PendingItem, loop: asyncio.AbstractEventLoop) -> None:
        """Take an item, to be handed in at the end of this turn of its loop."""
        gathered = self._gathered.get(loop)
        if gathered is None:
            self._gathered[loop] = [item]
            loop.call_soon(self._hand_in, loop)
        else:
            gathered.append(item)

    def _hand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        items = self._gathered.pop(loop)
        if not self._put(*items):
            settle((item, None, LedgerError("the ledger is closed")) for item in items)


def settle(outcomes: Iterable[Outcome]) -> None:
    """Give callers their outcomes. Each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        item, result, error = outcome
        if item.loop is not None:
            by_loop.setdefault(item.loop, []).append(outcome)
        elif error is None:
            item.future.set_result(result)
        else:
            item.future.set_exception(error)
    for loop, on_loop in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits any more
            loop.call_soon_threadsafe(_settle_on_loop, on_loop)


def _settle_on_loop(outcomes: list[Outcome]) -> None:
    for item, result, error in outcomes:
        if type(item) is EventItem:
            item.settle(result, error)
            continue
        assert isinstance(item, WorkItem)  # an `EventBatch` has no loop
        if item.future.done():
            continue
        if error is None:
            item.future.set_result(result)
        elif isinstance(error, StopIteration):  # a future of a loop does not take it
            item.future.set_exception(RuntimeError("the work raised StopIteration"))
        else:
            item.future.set_exception(error)
