"""The committer: work in one transaction, told to whoever waits only once it is durable.

Work that fails is undone exclusive. Who else writes to the store is noticed.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from modelpact.ledger.bus import Bus
from modelpact.ledger.checkpoint import sign_checkpoint, signer_keys
from modelpact.ledger.prepared import EventRef, PreparedEvent
from modelpact.ledger.stores.base import (
    LedgerError,
    LedgerUnavailable,
    LedgerUncertain,
    Store,
    StoreConnection,
)
from modelpact.ledger.write.batch import Batch, StaleBatch, WriterCache
from modelpact.ledger.write.pending import (
    Done,
    EventBatch,
    EventItem,
    PendingWork,
    WorkItem,
    settle,
)
from modelpact.ledger.write.transaction import Transaction

if TYPE_CHECKING:
    from modelpact.identity import Signer

Clock = Callable[[], int]
_MOST_UNSIGNED: Final = 1_024


class Committer:
    """Commits work over one connection, which is opened anew when it breaks."""

    def __init__(
        self,
        store: Store,
        known: WriterCache,
        clock: Clock,
        bus: Bus,
        latest: int,
        connection: StoreConnection | None = None,
        *,
        signer: "Signer | None" = None,
        every: int = 0,
        wait: bool = True,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """With a `signer`, a checkpoint is signed for `every` so many events of an envelope.

        One that is not `wait`ing gives work up if another writes just now. `wanted` is asked once
        nobody else can write: if work is no longer wanted, none is done.
        """
        self._wait = wait
        self._wanted = wanted
        self._store = store
        self._connection = connection
        self._known = known
        self._clock = clock
        self._bus = bus
        self._signer = signer
        self._every = every
        self._latest = latest
        self._unsigned: dict[str, int] = {}

    def close(self) -> None:
        """Sign what is not signed, and close the connection."""
        if self._unsigned:
            self.commit([WorkItem(self._sign_rest, Future())])
        if self._connection is not None:
            self._connection.close()

    def commit(self, items: Sequence[PendingWork], *, exclusive: bool = False) -> None:
        """Do work in one transaction; whoever handed it in hears of it after the commit."""
        if not items:
            return
        done: list[Done] = []
        batch: Batch | None = None
        try:
            batch = Batch(self._connected(), self._known, recheck=exclusive)
            self._known.trim()
            if batch.connection.begin(exclusive=exclusive):
                self._known.forget()
            elif not batch.connection.detects_other_writers:
                self._known.facts.clear()
            if not self._wanted():
                raise LedgerUnavailable("whoever wanted it is gone")
            for item in items:
                done.append((item, *self._one(batch, item)))
            signed = self._sign_due(batch)
            batch.flush()
        except StaleBatch as error:
            self._again(items, error, exclusive)
            return
        except BaseException as error:
            self._give_up(items, error)
            return
        try:
            batch.connection.commit()
        except BaseException as error:
            if not self._was_kept(batch, items, error):
                return
        self._count(batch, signed)
        self._bus.publish(batch.events)
        settle(done)

    def _one(self, batch: Batch, item: PendingWork) -> tuple[Any, BaseException | None]:
        """Do one piece of work: kept whole, or not at all."""
        self._latest = max(self._latest + 1, self._clock())
        if type(item) is EventBatch:
            now, self._latest = self._latest, self._latest + len(item.entries)
            return batch.note(item.entries, now, self._bus.hears), None
        if type(item) is EventItem:
            return self._note(batch, item.entry)
        assert isinstance(item, WorkItem)
        tx = Transaction(batch, self._latest)
        try:
            result = item.work(tx)
            tx.keep()
        except LedgerUnavailable:
            raise
        except BaseException as error:
            if batch.stale is not None:
                raise StaleBatch(str(batch.stale)) from None
            tx.drop()
            return None, error
        return result, None

    def _note(
        self, batch: Batch, entry: PreparedEvent
    ) -> tuple[EventRef | None, BaseException | None]:
        """Append an entry, and return its place, or why it has none."""
        (told,) = batch.note((entry,), self._latest, self._bus.hears)
        if isinstance(told, BaseException):
            return None, told
        return EventRef.at(entry.envelope, told), None

    def _again(self, items: Sequence[PendingWork], error: StaleBatch, exclusive: bool) -> None:
        """Try again with nobody else writing; then one by one, so that only the guilty fail."""
        self._known.forget()
        try:
            self._connected().rollback()
        except LedgerError as worse:
            self._give_up(items, worse)
            return
        if not exclusive:
            self.commit(items, exclusive=True)
        elif len(items) > 1:
            for item in items:
                self.commit([item], exclusive=True)
        elif isinstance(items[0], EventBatch) and len(items[0].entries) > 1:
            apart = [EventBatch([entry]) for entry in items[0].entries]
            for one in apart:
                self.commit([one], exclusive=True)
            settle([(items[0], [told for one in apart for told in one.told], None)])
        else:
            settle([(items[0], None, LedgerError(str(error)))])

    def _connected(self) -> StoreConnection:
        if self._connection is None:
            self._connection = self._store.connect(writer=True, wait=self._wait)
        return self._connection

    def _give_up(self, items: Sequence[PendingWork], error: BaseException) -> None:
        """Tell everyone that nothing was kept, and start afresh."""
        self._disconnect()
        kind = type(error) if isinstance(error, LedgerError) else LedgerUnavailable
        said = str(error) if kind is not LedgerUnavailable else f"the write was not kept: {error}"
        settle((item, None, kind(said)) for item in items)

    def _disconnect(self) -> None:
        self._known.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(LedgerError):
                connection.rollback()
            connection.close()

    def _was_kept(self, batch: Batch, items: Sequence[PendingWork], error: BaseException) -> bool:
        """Look whether a commit that failed was kept after all; tell the callers if it was not."""
        self._disconnect()
        envelope, sequence, digest = batch.last
        if not sequence:
            self._give_up(items, LedgerUncertain(f"it is not known whether it was kept: {error}"))
            return False
        try:
            connection = self._connected()
            connection.begin(exclusive=True)  # waits until a commit that is under way has ended
            rows = connection.execute(
                "SELECT hash FROM events WHERE envelope = ? AND sequence = ?",
                (envelope, sequence),
            )
            connection.rollback()
        except LedgerError:
            self._give_up(items, LedgerUncertain(f"it is not known whether it was kept: {error}"))
            return False
        if rows == [(digest,)]:
            return True
        self._give_up(items, error)
        return False

    def _sign_due(self, batch: Batch) -> list[str]:
        """Sign the envelopes of a batch that are due; return their names."""
        if self._signer is None or not batch.counts:
            return []
        counts = batch.counts
        due = [
            name
            for name, count in counts.items()
            if self._unsigned.get(name, 0) + count >= self._every or batch.head(name).archived
        ]
        surplus = len(self._unsigned) + len(counts) - _MOST_UNSIGNED
        if surplus > 0:
            due += [name for name in list(self._unsigned)[:surplus] if name not in counts]
        self._sign(batch, due)
        return due

    def _sign(self, batch: Batch, names: Iterable[str]) -> None:
        assert self._signer is not None
        tx = Transaction(batch, self._latest)
        for name in names:
            head = batch.head(name)
            made = sign_checkpoint(self._signer, name, head.sequence, head.hash, self._latest)
            tx.add_checkpoint(made, signer_keys(self._signer))
        tx.keep()

    def _sign_rest(self, tx: Transaction) -> None:
        self._sign(tx.batch, self._unsigned)

    def _count(self, batch: Batch, signed: Iterable[str]) -> None:
        if self._signer is None:
            return
        for envelope, count in batch.counts.items():
            self._unsigned[envelope] = self._unsigned.get(envelope, 0) + count
        for name in signed:
            self._unsigned.pop(name, None)
