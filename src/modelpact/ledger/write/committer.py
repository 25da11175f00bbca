"""The committer: runs pending items in one transaction and settles them once it is durable.

`CommitThread` runs a committer for the library, the command line and PostgreSQL. A server on SQLite
also runs one in a process of its own (`worker`).
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from modelpact.ledger.errors import LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Bus, EventRef
from modelpact.ledger.stores.base import Store, StoreConnection
from modelpact.ledger.write.batch import Batch, StaleBatch, WriterCache
from modelpact.ledger.write.pending import EventBatch, EventItem, Outcome, PendingItem, WorkItem, settle
from modelpact.ledger.write.transaction import Transaction

if TYPE_CHECKING:
    from modelpact.identity import Signer

Clock = Callable[[], int]
_MAX_UNSIGNED: Final = 1_024
"""Envelopes with unsigned events. Beyond that the oldest are signed early."""
_MAX_ITEMS: Final = 512
"""Items in one commit."""
_MANY: Final = 8
_LINGER_SECONDS: Final = 0.0001


class Committer:
    """Commits items over one connection, which is replaced when it breaks."""

    def __init__(
        self,
        store: Store,
        cache: WriterCache,
        clock: Clock,
        bus: Bus,
        latest: int,
        connection: StoreConnection | None = None,
        *,
        signer: "Signer | None" = None,
        checkpoint_every: int = 0,
        wait: bool = True,
        may_commit: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create a committer whose events are later than `latest`.

        With a `signer`, a checkpoint is signed every `checkpoint_every` events of an envelope.
        Without `wait`, items fail if another writer is active. `may_commit` is asked once no other
        writer can commit; if it returns False, the items fail.
        """
        self._store = store
        self._cache = cache
        self._clock = clock
        self._bus = bus
        self._latest = latest
        self._connection = connection
        self._signer = signer
        self._checkpoint_every = checkpoint_every
        self._wait = wait
        self._may_commit = may_commit
        self._unsigned: dict[str, int] = {}
        """Events since the last checkpoint, by envelope."""

    def close(self) -> None:
        """Sign the envelopes that have unsigned events, and close the connection."""
        if self._unsigned:
            self.commit([WorkItem(self._sign_rest, Future())])
        if self._connection is not None:
            self._connection.close()

    def commit(self, items: Sequence[PendingItem], *, exclusive: bool = False) -> None:
        """Run items in one transaction, and settle them after the commit.

        `exclusive`: no other process may write events until the commit.
        """
        if not items:
            return
        outcomes: list[Outcome] = []
        batch: Batch | None = None
        try:
            batch = Batch(self._connect(), self._cache, recheck=exclusive)
            self._cache.trim()
            if batch.connection.begin(exclusive=exclusive):
                self._cache.clear()
            elif not batch.connection.detects_other_writers:
                self._cache.values.clear()
            if not self._may_commit():
                raise LedgerUnavailable("the process that asked for this commit has ended")
            for item in items:
                outcomes.append((item, *self._run(batch, item)))
            signed = self._sign_due(batch)
            batch.flush()
        except StaleBatch as error:
            self._retry(items, error, exclusive)
            return
        except BaseException as error:
            self._fail(items, error)
            return
        try:
            batch.connection.commit()
        except BaseException as error:
            if not self._was_committed(batch, items, error):
                return
        self._count(batch, signed)
        self._bus.publish(batch.events)
        settle(outcomes)

    def _run(self, batch: Batch, item: PendingItem) -> tuple[Any, BaseException | None]:
        """Run one item, all of it or nothing. Return its result, or its error."""
        self._latest = max(self._latest + 1, self._clock())
        if type(item) is EventBatch:
            now, self._latest = self._latest, self._latest + len(item.events)
            return batch.append_prepared(item.events, now, self._bus.has_listener), None
        if type(item) is EventItem:
            event = item.event
            (result,) = batch.append_prepared((event,), self._latest, self._bus.has_listener)
            if isinstance(result, BaseException):
                return None, result
            return EventRef.at(event.envelope, result), None
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
            tx.undo()
            return None, error
        return result, None

    def _retry(self, items: Sequence[PendingItem], error: StaleBatch, exclusive: bool) -> None:
        """Run items again with no other writer; then one by one, so that only the cause fails."""
        self._cache.clear()
        try:
            self._connect().rollback()
        except LedgerError as rollback_error:
            self._fail(items, rollback_error)
            return
        if not exclusive:
            self.commit(items, exclusive=True)
        elif len(items) > 1:
            for item in items:
                self.commit([item], exclusive=True)
        elif isinstance(items[0], EventBatch) and len(items[0].events) > 1:
            singles = [EventBatch([event]) for event in items[0].events]
            for single in singles:
                self.commit([single], exclusive=True)
            settle([(items[0], [single.results[0] for single in singles], None)])
        else:
            settle([(items[0], None, LedgerError(str(error)))])

    def _fail(self, items: Sequence[PendingItem], error: BaseException) -> None:
        """Settle items of which nothing was kept, and drop the connection."""
        self._disconnect()
        kind = type(error) if isinstance(error, LedgerError) else LedgerUnavailable
        message = str(error)
        if kind is LedgerUnavailable:
            message = f"the write was not kept: {error}"
        settle((item, None, kind(message)) for item in items)

    def _was_committed(self, batch: Batch, items: Sequence[PendingItem], error: BaseException) -> bool:
        """Find out whether a commit that failed took effect. Settle the items if it did not."""
        self._disconnect()
        envelope, sequence, digest = batch.last
        uncertain = LedgerUncertain(f"it is not known whether the write was kept: {error}")
        if not sequence:
            self._fail(items, uncertain)
            return False
        try:
            connection = self._connect()
            connection.begin(exclusive=True)  # waits for a commit that is still in progress
            rows = connection.execute(
                "SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (envelope, sequence)
            )
            connection.rollback()
        except LedgerError:
            self._fail(items, uncertain)
            return False
        if rows == [(digest,)]:
            return True
        self._fail(items, error)
        return False

    def _connect(self) -> StoreConnection:
        if self._connection is None:
            self._connection = self._store.connect(writer=True, wait=self._wait)
        return self._connection

    def _disconnect(self) -> None:
        self._cache.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(LedgerError):
                connection.rollback()
            connection.close()

    def _sign_due(self, batch: Batch) -> list[str]:
        """Sign the envelopes that are due for a checkpoint, and return their names."""
        if self._signer is None or not batch.counts:
            return []
        counts = batch.counts
        due = [
            name
            for name, count in counts.items()
            if self._unsigned.get(name, 0) + count >= self._checkpoint_every or batch.head(name).archived
        ]
        surplus = len(self._unsigned) + len(counts) - _MAX_UNSIGNED
        if surplus > 0:
            due += [name for name in list(self._unsigned)[:surplus] if name not in counts]
        self._sign(batch, due)
        return due

    def _sign(self, batch: Batch, names: Iterable[str]) -> None:
        assert self._signer is not None
        tx = Transaction(batch, self._latest)
        for name in names:
            tx.sign(name, self._signer)
        tx.keep()

    def _sign_rest(self, tx: Transaction) -> None:
        self._sign(tx.batch, self._unsigned)

    def _count(self, batch: Batch, signed: Iterable[str]) -> None:
        """Count the unsigned events of a batch that was committed."""
        if self._signer is None:
            return
        for envelope, count in batch.counts.items():
            self._unsigned[envelope] = self._unsigned.get(envelope, 0) + count
        for name in signed:
            self._unsigned.pop(name, None)


class CommitThread:
    """The queue of a ledger, and the thread that commits all the items in it together."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._queue: queue.SimpleQueue[list[PendingItem] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="modelpact-ledger", daemon=True)
        self._thread.start()

    def put(self, *items: PendingItem) -> bool:
        """Queue items. Return False if the thread is closed."""
        with self._lock:
            if self._closed:
                return False
            self._queue.put(list(items))
            return True

    def is_current(self) -> bool:
        """Tell whether the caller runs in this thread: waiting for a commit would never end."""
        return threading.get_ident() == self._thread.ident

    def close(self) -> None:
        """Commit the items that wait, sign checkpoints that are due, and end the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        settled = 0
        while True:
            items: list[PendingItem] = []
            # Callers of the last commit tend to return at once with more. If some have, linger for
            # the others: items that share a commit cost less.
            expected = settled if self._take_waiting(items) and settled >= _MANY else 0
            expected += len(items)
            if not items:
                first = self._queue.get()
                if first is None:
                    break
                items += first
                self._take_waiting(items)
            while len(items) < expected:
                # `sleep`, because the queue's own timeout may never end if it is this short.
                time.sleep(_LINGER_SECONDS)
                if not self._take_waiting(items):
                    break
            settled = len(items)
            self._committer.commit([item for item in items if item.claim()])
        self._committer.close()

    def _take_waiting(self, items: list[PendingItem]) -> bool:
        """Move waiting items from the queue to `items`. Return whether there were any."""
        before = len(items)
        while len(items) < _MAX_ITEMS:
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                break
            if waiting is None:  # the end, which comes after these
                self._queue.put(None)
                break
            items += waiting
        return len(items) > before
