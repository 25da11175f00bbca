"""Those who wait for the writer: threads, futures and the tasks of event loops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from modelpact.ledger.prepared import EventRef, PreparedEvent
from modelpact.ledger.stores.base import LedgerError
from modelpact.ledger.write.batch import AppendResult
from modelpact.ledger.write.transaction import Transaction

T = TypeVar("T")
Work = Callable[[Transaction], T]


class ThreadWaiter:
    """What a thread waits on: as a future, but for one who neither cancels nor asks again."""

    __slots__ = ("_done", "_error", "_result")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        """Say that it is wanted."""
        return True

    def set_result(self, result: Any) -> None:
        """Wake the thread."""
        self._result = result
        self._done.release()

    def set_exception(self, error: BaseException) -> None:
        """Wake the thread with an error."""
        self._error = error
        self._done.release()

    def result(self) -> Any:
        """Wait."""
        self._done.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._result


class WorkItem(msgspec.Struct):
    """Work, and who waits for it: a future, or a future of a loop."""

    work: Work[Any]
    future: Any
    loop: asyncio.AbstractEventLoop | None = None

    def claim(self) -> bool:
        """Tell whether anybody still waits; from now on it is too late to cancel."""
        if self.loop is not None:
            return not self.future.cancelled()
        running: bool = self.future.set_running_or_notify_cancel()
        return running


OnAbandoned = Callable[[EventRef | None, BaseException | None], None]
"""Hears, in the loop, what became of an entry if who waited for it was cancelled."""


class EventBatch(msgspec.Struct):
    """Entries that are to be appended; it keeps what became of each."""

    entries: list[PreparedEvent]
    told: list[AppendResult] = []
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def future(self) -> "EventBatch":
        """Whoever is told what became of them."""
        return self

    def claim(self) -> bool:
        """Tell whether they are still wanted: always."""
        return True

    def set_result(self, told: list[AppendResult]) -> None:
        """Take what became of them."""
        self.told = told

    def set_exception(self, error: BaseException) -> None:
        """Take why none has become an event."""
        self.told = [error] * len(self.entries)


class EventItem(msgspec.Struct):
    """An entry, and the future of a loop that waits for its place."""

    entry: PreparedEvent
    future: asyncio.Future[EventRef]
    loop: asyncio.AbstractEventLoop
    on_abandoned: OnAbandoned | None = None

    def claim(self) -> bool:
        """Tell whether it is still wanted: always."""
        return True


PendingWork = WorkItem | EventItem | EventBatch
"""What a committer is handed."""


class LoopGatherer:
    """Hands in together what one turn of an event loop brings: the writer is woken once for it."""

    def __init__(self, put: Callable[..., bool]) -> None:
        self._put = put
        self._waiting: dict[asyncio.AbstractEventLoop, list[PendingWork]] = {}

    def add(self, item: PendingWork, loop: asyncio.AbstractEventLoop) -> None:
        """Take work in, to be handed in when this turn of its loop is over."""
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = [item]
            loop.call_soon(self._hand_in, loop)
        else:
            waiting.append(item)

    def _hand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        items = self._waiting.pop(loop)
        if not self._put(*items):
            settle((item, None, LedgerError("the ledger is closed")) for item in items)


Done = tuple[PendingWork, Any, BaseException | None]


def settle(done: Iterable[Done]) -> None:
    """Tell those who wait: each loop is woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[Done]] = {}
    for one in done:
        item, result, error = one
        if item.loop is not None:
            loops.setdefault(item.loop, []).append(one)
        elif error is None:
            item.future.set_result(result)
        else:
            item.future.set_exception(error)
    for loop, many in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_tell, many)


def _tell(done: list[Done]) -> None:
    for item, result, error in done:
        assert not isinstance(item, EventBatch)  # it has no loop
        if item.future.done():
            if type(item) is EventItem and item.on_abandoned is not None:
                item.on_abandoned(result, error)
            continue
        if error is None:
            item.future.set_result(result)
        elif isinstance(error, StopIteration):
            item.future.set_exception(RuntimeError("the work raised StopIteration"))
        else:
            item.future.set_exception(error)
