"""The scribe: an event loop's way to append entries, of which a process of its own makes commits.

An entry has its place in its envelope at once; it is told when it is durable. Who is alone does not
wait for another process to wake: the loop itself commits then.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

import msgspec

from modelpact.ledger.bus import Bus
from modelpact.ledger.event import Event, event_body
from modelpact.ledger.placing import Line, Placing
from modelpact.ledger.rows import Head
from modelpact.ledger.scribe_link import Link
from modelpact.ledger.store import Conflict, LedgerError, LedgerUnavailable, LedgerUncertain, Store
from modelpact.ledger.transaction import Entry, Given, NotSo, Placed
from modelpact.ledger.waiting import Unheard
from modelpact.ledger.wired import Kept, Lost, Stand, Write

_QUICK_SECONDS: Final = 0.001
"""What a commit may take for the loop to make it itself."""
_SLOW_SECONDS: Final = 0.004
_FORGOTTEN: Final = 0.99
_UNDER_WAY: Final = 2
"""Batches that are sent before the first is answered: the next is there when one is done."""
_TRIES: Final = 3
_NONE: Final = Head()


class _Item(msgspec.Struct):
    """An entry, and who waits for it."""

    entry: Entry
    future: asyncio.Future[Placed]
    unheard: Unheard | None
    placed: Placed | None = None
    place: tuple[str, int, str] | None = None
    """Envelope, number and hash of its event."""
    tries: int = 0

    def needs(self, fact: tuple[str, ...]) -> bool:
        """Tell whether a fact must be so for it."""
        return self.entry.given is not None and self.entry.given.fact == fact

    def tell(self, error: BaseException | None) -> None:
        """Say that it is durable, or why it is not."""
        if self.future.done():
            if self.unheard is not None:
                self.unheard(None if error else self.placed, error)
        elif error is not None:
            self.future.set_exception(error)
        else:
            assert self.placed is not None
            self.future.set_result(self.placed)


class _Batch:
    """What is sent together, and where it leads."""

    __slots__ = ("events", "givens", "items", "lines", "moved")

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.lines: list[Line] = []
        self.givens: dict[tuple[str, ...], Given] = {}
        self.moved: dict[str, Head] = {}
        self.events: list[Event] = []
        """Those that somebody may want to hear of."""


class Scribe:
    """Appends entries. It is used on one event loop, and other writers keep off its envelopes."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        bus: Bus,
        latest: int,
        counted: Callable[[str, int], None],
    ) -> None:
        """`counted` hears how many events an envelope has got, once they are durable."""
        self._clock = clock
        self._bus = bus
        self._latest = latest
        self._counted = counted
        self._loop = asyncio.get_running_loop()
        self._here = Placing(store, patient=False)
        self._took = 0.0
        self._heads: dict[str, Head] = {}
        self._durable: dict[str, Head] = {}
        self._next = _Batch()
        self._sent: deque[_Batch] = deque()
        self._unplaced: list[_Item] = []
        """What waits until it is known where the envelopes stand."""
        self._asking = False
        self._astray = False
        """Whether it is not known where the envelopes stand."""
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
        item = _Item(entry, self._loop.create_future(), unheard)
        if self._asking or self._astray:
            self._unplaced.append(item)
            if not self._asking:
                self._ask()
            return item.future
        first = not self._next.items
        self._place(item)
        if first:
            if alone and not self._sent and self._took < _QUICK_SECONDS:
                self._commit_here()
            else:
                self._loop.call_soon(self._hand_in)
        return item.future

    def _place(self, item: _Item) -> None:
        """Give an entry its place behind what is there."""
        entry, batch = item.entry, self._next
        envelope, kind, cause = entry.envelope, entry.type, entry.cause
        when = self._latest = max(self._latest + 1, self._clock())
        head = self._heads.get(envelope, _NONE)
        sequence, previous = head.sequence + 1, head.hash
        body = event_body(envelope, sequence, kind, when, cause, entry.payload, previous)
        digest = sha256(body).hexdigest()
        opens = entry.opens if sequence == 1 else None
        payload = entry.payload.decode()
        batch.lines.append(
            Line(
                envelope, sequence, kind, when, cause, payload, previous, digest, entry.cost, opens
            )
        )
        if entry.given is not None:
            batch.givens[entry.given.fact] = entry.given
        self._heads[envelope] = batch.moved[envelope] = Head(sequence, digest, when)
        if self._bus.hears(kind):
            told = msgspec.json.decode(entry.payload)
            event = Event(envelope, sequence, kind, when, cause, told, previous, digest)
            batch.events.append(event)
        item.placed = Placed(f"{envelope}:{sequence}", when)
        item.place = (envelope, sequence, digest)
        batch.items.append(item)

    def _hand_in(self) -> None:
        """Send what waits, unless enough is under way."""
        batch = self._next
        if batch.items and len(self._sent) < _UNDER_WAY and not self._asking:
            self._next = _Batch()
            self._sent.append(batch)
            self._took *= _FORGOTTEN
            self._link.send(Write(batch.lines, list(batch.givens.values())))

    def _commit_here(self) -> None:
        """Commit in the loop itself: only who waits for this is kept waiting."""
        batch, self._next = self._next, _Batch()
        began = time.perf_counter()
        try:
            done = self._here.put(batch.lines, list(batch.givens.values()))
        except LedgerError as error:
            self._sent.append(batch)
            self._lost(error)
            return
        if not done:
            self._next = batch
            self._hand_in()
            return
        took = min(time.perf_counter() - began, _SLOW_SECONDS)
        self._took += (took - self._took) / 8
        self._keep(batch)

    # What the other process says.

    def _heard(self, said: Kept | Lost | Stand) -> None:
        if isinstance(said, Kept):
            done = [self._sent.popleft() for _ in range(said.count)]
            self._hand_in()
            for batch in done:
                self._keep(batch)
        elif isinstance(said, Lost):
            if self._asking:
                self._unknown(LedgerUnavailable(said.told))
            else:
                self._lost(_ERRORS[said.why](said))
        else:
            self._known(said)

    def _keep(self, batch: _Batch) -> None:
        """Tell that a batch is durable."""
        for envelope, head in batch.moved.items():
            before = self._durable.get(envelope, _NONE)
            self._durable[envelope] = head
            self._counted(envelope, head.sequence - before.sequence)
        if batch.events:
            self._bus.publish(batch.events)
        for item in batch.items:
            item.tell(None)

    def _lost(self, error: LedgerError) -> None:
        """Take note that the oldest batch was not kept; what came after it has no place then."""
        first = self._sent[0].items
        later = [item for batch in (*self._sent, self._next) for item in batch.items][len(first) :]
        if isinstance(error, Conflict):
            self._again((*first, *later))
        elif isinstance(error, NotSo):
            items = (*first, *later)
            self._again([item for item in items if not item.needs(error.fact)])
            for item in items:
                if item.needs(error.fact):
                    item.tell(NotSo(error.fact))
        elif isinstance(error, LedgerUncertain):
            self._again(later)
            _fail(first, error)
        else:
            self._again(())
            _fail((*first, *later), error)

    def _gone(self, deaths: int) -> None:
        """Take note that the other process is gone; it is asked anew whether what was sent is kept.

        `deaths` is how often in a row it went without a word.
        """
        if self._closed:
            return
        items = [item for batch in (*self._sent, self._next) for item in batch.items]
        items += self._unplaced
        if not items:
            self._astray = True
        elif deaths < _TRIES:
            self._again(items)
        else:
            self._unplaced = items
            self._unknown(LedgerUncertain("the process that writes the ledger ends at once"))

    def _again(self, items: Iterable[_Item]) -> None:
        """Ask where the envelopes stand, and place these anew then."""
        self._sent.clear()
        self._next = _Batch()
        self._unplaced = list(items)
        self._ask()

    def _ask(self) -> None:
        names = {item.entry.envelope for item in self._unplaced} | self._heads.keys()
        places = [item.place for item in self._unplaced if item.place is not None]
        self._asking, self._astray = True, False
        self._link.send(Stand([(name, 0, "", 0) for name in sorted(names)], places))

    def _known(self, stand: Stand) -> None:
        """Go on from where the envelopes stand."""
        self._asking = False
        self._heads = {
            name: Head(sequence, digest, when)
            for name, sequence, digest, when in stand.heads
            if sequence
        }
        self._durable = dict(self._heads)
        there = {(name, sequence, digest) for name, sequence, digest in stand.events}
        waiting, self._unplaced = self._unplaced, []
        kept, tired = [], []
        for item in waiting:
            item.tries += 1
            if item.place in there:
                kept.append(item)
            elif item.tries > _TRIES:
                tired.append(item)
            else:
                self._place(item)
        self._hand_in()
        for item in kept:
            item.tell(None)
        _fail(tired, LedgerUnavailable("another keeps writing to the same envelope"))

    def _unknown(self, error: LedgerError) -> None:
        """Tell those who wait that the store cannot be asked; who comes next has it asked again."""
        self._asking, self._astray = False, True
        self._sent.clear()
        self._next = _Batch()
        waiting, self._unplaced = self._unplaced, []
        _fail(waiting, error)

    def close(self) -> None:
        """End; what was not told is not known to be durable."""
        self._closed = True
        self._link.close()
        self._here.close()


def _fail(items: Iterable[_Item], error: LedgerError) -> None:
    for item in items:
        item.tell(type(error)(str(error)))


_ERRORS: Final[dict[str, Callable[[Lost], LedgerError]]] = {
    "not so": lambda said: NotSo(said.fact),
    "conflict": lambda said: Conflict(said.told),
    "unavailable": lambda said: LedgerUnavailable(said.told),
    "uncertain": lambda said: LedgerUncertain(said.told),
}
