"""The scribe: has the entries of an event loop committed by a process of its own.

So the loop shares its interpreter with nobody. Who is alone does not wait for another process to
wake: the loop itself commits then.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from modelpact.ledger.bus import Bus
from modelpact.ledger.event import Event
from modelpact.ledger.prepared import EventRef, PreparedEvent
from modelpact.ledger.stores.base import LedgerError, LedgerUnavailable, LedgerUncertain, Store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Committer
from modelpact.ledger.write.pending import EventBatch, OnAbandoned
from modelpact.ledger.write.worker_link import WorkerLink
from modelpact.ledger.write.worker_protocol import CommitReply, CommitRequest, framed

_QUICK_SECONDS: Final = 0.001
"""What a commit may take for the loop to make it itself."""
_SLOW_SECONDS: Final = 0.004
_FORGOTTEN: Final = 0.99
_IN_A_ROW: Final = 200
"""Commits in the loop before one by the process, which also works SQLite's log into the file."""
_FEW: Final = 8
"""Entries that wait for the answer to others, as what shares a commit costs less."""
_CLOSE_SECONDS: Final = 30.0

Counted = Callable[[str], None]
Otherwise = Callable[[PreparedEvent, asyncio.Future[EventRef], OnAbandoned | None], None]
_Waiting = tuple[PreparedEvent, asyncio.Future[EventRef], OnAbandoned | None]


class WorkerClient:
    """Appends entries. It is used on one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        bus: Bus,
        latest: int,
        counted: Counted,
        otherwise: Otherwise,
        is_sole_request: Callable[[], bool],
    ) -> None:
        """`counted` hears of every envelope that has got an event.

        `otherwise` takes what is to be appended where there is no process that could.
        """
        self._otherwise = otherwise
        self._is_sole_request = is_sole_request
        self._bus = bus
        self._counted = counted
        self._loop = asyncio.get_running_loop()
        known = WriterCache(uuid4().hex[:16])
        self._here = Committer(store, known, clock, bus, latest, wait=False)
        self._took = 0.0
        self._in_a_row = 0
        self._next: list[_Waiting] = []
        self._sent: deque[_Waiting] = deque()
        self._closed = False
        self._link = WorkerLink(store.url, self._loop, self._heard, self._gone)

    def append_async(
        self, entry: PreparedEvent, on_abandoned: OnAbandoned | None = None
    ) -> asyncio.Future[EventRef]:
        """Append an entry; it is durable when the future is done.

        It is not taken back: where the future is cancelled, `on_abandoned` hears of it.
        """
        if self._closed:
            raise LedgerError("the ledger is closed")
        future: asyncio.Future[EventRef] = self._loop.create_future()
        if not (self._may_commit_here() and self._commit_here(entry, future)):
            self._next.append((entry, future, on_abandoned))
            if len(self._next) in (1, _FEW):
                self._loop.call_soon(self._hand_in)
        return future

    def _may_commit_here(self) -> bool:
        """Tell whether nothing is under way, the disk is quick and the process has had its turn."""
        if self._next or self._sent or self._took >= _QUICK_SECONDS:
            return False
        return self._in_a_row < _IN_A_ROW and self._is_sole_request()

    def _commit_here(self, entry: PreparedEvent, future: asyncio.Future[EventRef]) -> bool:
        """Commit in the loop itself: only who waits for this is kept waiting."""
        item = EventBatch([entry])
        began = time.perf_counter()
        self._here.commit((item,))
        took = min(time.perf_counter() - began, _SLOW_SECONDS)
        self._took += (took - self._took) / 8
        self._in_a_row += 1
        (told,) = item.told
        if isinstance(told, LedgerUnavailable) and not isinstance(told, LedgerUncertain):
            return False  # nothing is kept: another writes just now, for whom the process waits
        if isinstance(told, BaseException):
            future.set_exception(told)
        else:
            self._counted(entry.envelope)
            future.set_result(EventRef.at(entry.envelope, told))
        return True

    def _hand_in(self) -> None:
        """Send what waits, unless it is little and other entries are under way."""
        if not self._next or (len(self._next) < _FEW and self._sent):
            return
        waiting, self._next = self._next, []
        self._took *= _FORGOTTEN
        self._in_a_row = 0
        data = self._message(waiting)
        while waiting and self._link.ready:
            if self._link.send(data):
                self._sent += waiting
                return
        for entry, future, on_abandoned in waiting:
            self._otherwise(entry, future, on_abandoned)

    def _message(self, waiting: list[_Waiting]) -> bytes:
        """Return the message for what waits; who cannot be sent is told, and waits no longer."""
        hears = self._bus.hears
        entries = [entry for entry, _, _ in waiting]
        heard = [place for place, entry in enumerate(entries) if hears(entry.type)]
        try:
            return framed(CommitRequest(entries, heard))
        except (ValueError, OverflowError, TypeError):
            fit = [one for one in waiting if _fits(one)]
            if len(fit) == len(waiting):
                raise
            waiting[:] = fit
            return self._message(waiting)

    def _heard(self, answers: list[CommitReply]) -> bool:
        """Tell those who wait what became of their entries; False if nobody asked for so many."""
        if sum(len(answer.places) for answer in answers) > len(self._sent):
            return False
        told = [(one, [self._sent.popleft() for _ in one.places]) for one in answers]
        self._hand_in()  # now, so that the process need not wait; it may turn out to be gone
        for answer, answered in told:
            self._tell(answer, answered)
        return True

    def _tell(self, answer: CommitReply, answered: list[_Waiting]) -> None:
        failures, heard, counted = answer.failures, answer.heard, self._counted
        for place, (entry, future, on_abandoned) in enumerate(answered):
            if place in failures:
                _tell(future, on_abandoned, None, failures[place].error())
                continue
            at = answer.places[place]
            counted(entry.envelope)
            if place in heard:
                self._bus.publish((_event(entry, *at, *heard[place]),))
            _tell(future, on_abandoned, EventRef.at(entry.envelope, at), None)

    def _gone(self) -> None:
        """Tell those whose entries the process had that it is gone."""
        lost, self._sent = self._sent, deque()
        for _, future, on_abandoned in lost:
            told = "the process that writes the ledger ended: whether this was kept is not known"
            _tell(future, on_abandoned, None, LedgerUncertain(told))
        if self._next:
            self._loop.call_soon(self._hand_in)

    def close(self) -> None:
        """Have what waits committed, and end. It may be called from any thread."""
        if self._closed:
            return
        self._closed = True
        if self._loop.is_running() and _running_loop() is not self._loop:
            ended = threading.Event()
            self._loop.call_soon_threadsafe(self._end, ended)
            ended.wait(_CLOSE_SECONDS)
        else:
            self._end()

    def _end(self, ended: threading.Event | None = None) -> None:
        waiting, self._next = self._next, []
        data = self._message(waiting)
        if waiting and self._link.send(data):
            self._sent += waiting
            waiting = []
        self._link.close()
        self._here.close()
        if not self._loop.is_closed():  # else nobody waits
            for _, future, on_abandoned in waiting:
                _tell(future, on_abandoned, None, LedgerUnavailable("the ledger is closed"))
            self._gone()
        if ended is not None:
            ended.set()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _fits(waiting: _Waiting) -> bool:
    """Tell whether an entry can be sent; if not, who waits for it is told."""
    entry, future, on_abandoned = waiting
    try:
        framed(CommitRequest([entry]))
    except (ValueError, OverflowError, TypeError) as error:
        _tell(
            future, on_abandoned, None, LedgerError(f"{entry.type}: it cannot be written: {error}")
        )
        return False
    return True


def _tell(
    future: asyncio.Future[EventRef],
    on_abandoned: OnAbandoned | None,
    place: EventRef | None,
    error: BaseException | None,
) -> None:
    if future.done():
        if on_abandoned is not None:
            on_abandoned(place, error)
    elif error is not None:
        future.set_exception(error)
    else:
        assert place is not None
        future.set_result(place)


def _event(entry: PreparedEvent, sequence: int, when: int, previous: str, digest: str) -> Event:
    told = msgspec.json.decode(entry.payload)
    return Event(entry.envelope, sequence, entry.type, when, entry.cause, told, previous, digest)
