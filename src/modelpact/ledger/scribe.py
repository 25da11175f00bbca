"""The scribe: has the entries of an event loop committed by a process of its own.

So the loop shares its interpreter with nobody. Who is alone does not wait for another process to
wake: the loop itself commits then.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from modelpact.ledger.bus import Bus
from modelpact.ledger.committer import Committer
from modelpact.ledger.entry import Entry, Placed
from modelpact.ledger.event import Event
from modelpact.ledger.rows import Known
from modelpact.ledger.scribe_link import Link
from modelpact.ledger.store import LedgerError, LedgerUnavailable, LedgerUncertain, Store
from modelpact.ledger.waiting import Noting, Unheard
from modelpact.ledger.wired import Answer, Sent

_LOG: Final = logging.getLogger("modelpact.ledger")
_QUICK_SECONDS: Final = 0.001
"""What a commit may take for the loop to make it itself."""
_SLOW_SECONDS: Final = 0.004
_FORGOTTEN: Final = 0.99
_IN_A_ROW: Final = 200
"""Commits in the loop before one by the process, which also works SQLite's log into the file."""
_FEW: Final = 8
"""Entries that wait for the answer to others, as what shares a commit costs less."""
_DEATHS: Final = 3

Counted = Callable[[str], None]
_Waiting = tuple[Entry, asyncio.Future[Placed], Unheard | None]


class Scribe:
    """Appends entries. It is used on one event loop."""

    def __init__(
        self, store: Store, clock: Callable[[], int], bus: Bus, latest: int, counted: Counted
    ) -> None:
        """`counted` hears of every envelope that has got an event."""
        self._bus = bus
        self._counted = counted
        self._loop = asyncio.get_running_loop()
        known = Known(uuid4().hex[:16])
        self._here = Committer(store, known, clock, bus, latest, patient=False)
        self._took = 0.0
        self._in_a_row = 0
        self._next: list[_Waiting] = []
        self._sent: deque[_Waiting] = deque()
        self._closed = False
        self._link = Link(store.url, self._loop, self._heard, self._gone)

    def note(
        self, entry: Entry, unheard: Unheard | None = None, *, alone: bool = False
    ) -> asyncio.Future[Placed]:
        """Append an entry; it is durable when the future is done.

        `alone` says that nobody else has anything to do meanwhile. It is not taken back: where the
        future is cancelled, `unheard` hears of it.
        """
        if self._closed:
            raise LedgerError("the ledger is closed")
        future: asyncio.Future[Placed] = self._loop.create_future()
        if not (alone and self._may_commit_here() and self._commit_here(entry, future)):
            self._next.append((entry, future, unheard))
            if len(self._next) in (1, _FEW):
                self._loop.call_soon(self._hand_in)
        return future

    @property
    def works(self) -> bool:
        """Whether there is a process that commits, as far as is known."""
        return self._link.deaths < _DEATHS

    def _may_commit_here(self) -> bool:
        """Tell whether nothing is under way, the disk is quick and the process has had its turn."""
        if self._next or self._sent or self._took >= _QUICK_SECONDS:
            return False
        return self._in_a_row < _IN_A_ROW

    def _commit_here(self, entry: Entry, future: asyncio.Future[Placed]) -> bool:
        """Commit in the loop itself: only who waits for this is kept waiting."""
        item = Noting(entry)
        began = time.perf_counter()
        self._here.commit((item,))
        took = min(time.perf_counter() - began, _SLOW_SECONDS)
        self._took += (took - self._took) / 8
        self._in_a_row += 1
        error = item.error
        if isinstance(error, LedgerUnavailable) and not isinstance(error, LedgerUncertain):
            return False  # nothing is kept: another writes just now, for whom the process waits
        if error is not None:
            future.set_exception(error)
        else:
            assert item.place is not None
            self._counted(entry.envelope)
            future.set_result(item.place)
        return True

    def _hand_in(self) -> None:
        """Send what waits, unless it is little and other entries are under way."""
        if not self._next or (len(self._next) < _FEW and self._sent):
            return
        waiting, self._next = self._next, []
        hears = self._bus.hears
        entries = [entry for entry, _, _ in waiting]
        heard = [place for place, entry in enumerate(entries) if hears(entry.type)]
        self._took *= _FORGOTTEN
        self._in_a_row = 0
        while not self._closed and self.works:
            if self._link.send(Sent(entries, heard)):
                self._sent += waiting
                return
        for _, future, unheard in waiting:
            told = "nothing was kept: no process writes the ledger"
            _tell(future, unheard, None, LedgerUnavailable(told))

    def _heard(self, answer: Answer) -> None:
        """Tell those who wait what became of their entries."""
        failures, heard = answer.failures, answer.heard
        answered = [self._sent.popleft() for _ in answer.places]
        self._hand_in()
        for place, (sequence, when) in enumerate(answer.places):
            entry, future, unheard = answered[place]
            if place in failures:
                _tell(future, unheard, None, failures[place].error())
                continue
            envelope = entry.envelope
            self._counted(envelope)
            if place in heard:
                self._bus.publish((_event(entry, sequence, when, *heard[place]),))
            _tell(future, unheard, Placed(f"{envelope}:{sequence}", when), None)

    def _gone(self) -> None:
        """Tell those whose entries the process had that it is gone."""
        lost, self._sent = self._sent, deque()
        if not self.works:
            _LOG.warning("the process that writes the ledger does not start: this one writes")
        for _, future, unheard in lost:
            told = "the process that writes the ledger ended: whether this was kept is not known"
            _tell(future, unheard, None, LedgerUncertain(told))
        if self._next:
            self._loop.call_soon(self._hand_in)

    def close(self) -> None:
        """End; who still waits is told that it is not known what became of their entries."""
        self._closed = True
        self._link.close()
        if not self._loop.is_closed():
            self._gone()
            self._hand_in()
        self._here.close()


def _tell(
    future: asyncio.Future[Placed],
    unheard: Unheard | None,
    place: Placed | None,
    error: BaseException | None,
) -> None:
    if future.done():
        if unheard is not None:
            unheard(place, error)
    elif error is not None:
        future.set_exception(error)
    else:
        assert place is not None
        future.set_result(place)


def _event(entry: Entry, sequence: int, when: int, previous: str, digest: str) -> Event:
    told = msgspec.json.decode(entry.payload)
    return Event(entry.envelope, sequence, entry.type, when, entry.cause, told, previous, digest)
