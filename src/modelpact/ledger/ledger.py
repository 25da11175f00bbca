"""The ledger, open for writing: many callers, one queue, shared commits.

Everything that is written is an item in the queue of a committer: a function that runs in a
transaction, or an event that is ready to append. All items that wait share one commit. Callers
learn the outcome only once that commit is durable.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Bus, Draft, Event, EventRef, PreparedEvent
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Store, migrate, open_store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Clock, Committer, CommitThread
from modelpact.ledger.write.pending import EventItem, LoopGatherer, OnAbandoned, ThreadWaiter, Work, WorkItem
from modelpact.ledger.write.transaction import Transaction
from modelpact.ledger.write.worker_client import WorkerClient

if TYPE_CHECKING:
    from modelpact.identity import Signer

__all__ = ["Ledger", "Transaction", "Work"]

T = TypeVar("T")


class Ledger(LedgerReader):
    """A ledger, open for writing and reading. Safe to use from many threads and tasks."""

    def __init__(self, store: Store, clock: Clock, signer: "Signer | None", checkpoint_every: int) -> None:
        super().__init__(store)
        self.clock = clock
        self.bus = Bus()
        self.signer = signer
        connection = store.connect(writer=True)
        try:
            migrate(connection)
            latest = connection.execute("SELECT MAX(time) FROM events")[0][0] or 0
            committer = Committer(
                store,
                WriterCache(uuid.uuid4().hex[:16]),
                clock,
                self.bus,
                latest,
                connection,
                signer=signer,
                checkpoint_every=checkpoint_every,
            )
            self._thread = CommitThread(committer)
        except BaseException:
            connection.close()
            raise
        self._gatherer = LoopGatherer(self._thread.put)
        self._checkpoint_every = checkpoint_every
        self._latest = latest
        self._worker: WorkerClient | None = None
        self._unsigned: dict[str, int] = {}
        """Events that the worker appended since the last checkpoint, by envelope."""

    @classmethod
    def open(
        cls, url: str, *, clock: Clock = time.time_ns, signer: "Signer | None" = None, checkpoint_every: int = 1_000
    ) -> "Ledger":
        """Open the ledger at a URL: `sqlite:FILE` or `postgresql://…`.

        With a `signer`, a checkpoint of an envelope is signed every `checkpoint_every` events, and
        for the rest when the ledger is closed.
        """
        return cls(open_store(url), clock, signer, checkpoint_every)

    def start_commit_worker(self, is_sole_request: Callable[[], bool]) -> None:
        """Have `append_async` commit in a process of its own, if the store allows that.

        Call it on the event loop of a server; `append_async` then belongs to that loop.
        `is_sole_request` tells whether the loop serves only one request: the loop may then commit
        itself, because no other request has to wait.
        """
        if self.store.reopenable and sys.platform != "win32":
            self._worker = WorkerClient(
                self.store,
                self.clock,
                self.bus,
                self._latest,
                is_sole_request=is_sole_request,
                on_appended=self._count_unsigned,
                fallback=lambda item: self._gatherer.add(item, item.loop),
            )

    def close(self) -> None:
        """Commit what waits, sign what is not signed, and close."""
        if self._worker is not None:
            self._worker.close()
            if self.signer is not None:
                for envelope in self._unsigned:
                    self.submit(partial(Transaction.sign, envelope=envelope, signer=self.signer))
        super().close()  # before the writer: the last connection merges SQLite's log into the file
        self._thread.close()

    def ensure_can_wait(self) -> None:
        """Raise if this is a listener of the bus, where waiting for a write would never end."""
        if self._thread.is_current():
            raise LedgerError(
                "a listener cannot wait for a write, because it runs in the thread that writes: "
                "use Ledger.submit, or write from another thread"
            )

    def monotonic_clock(self) -> Clock:
        """Return a clock that follows the ledger's but keeps advancing if that one is set back."""
        clock = self.clock
        offset = clock() - time.monotonic_ns()

        def now() -> int:
            reading, floor = clock(), time.monotonic_ns() + offset
            return reading if reading > floor else floor

        return now

    def submit(self, work: Work[T]) -> "Future[T]":
        """Run work in a transaction. The future is done when it is durable or has failed."""
        future: Future[T] = Future()
        if not self._thread.put(WorkItem(work, future)):
            future.set_exception(LedgerError("the ledger is closed"))
        return future

    def write(self, work: Work[T]) -> T:
        """Run work in a transaction and wait until it is durable."""
        self.ensure_can_wait()
        waiter = ThreadWaiter()
        if not self._thread.put(WorkItem(work, waiter)):
            raise LedgerError("the ledger is closed")
        result: T = waiter.result()
        return result

    async def write_async(self, work: Work[T]) -> T:
        """Run work in a transaction and wait until it is durable, without blocking the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._gatherer.add(WorkItem(work, future, loop), loop)
        return await future

    def append(self, *drafts: Draft) -> list[Event]:
        """Append events, all or none, and wait until they are durable."""
        return self.write(lambda tx: [tx.append(draft) for draft in drafts])

    def append_async(self, event: PreparedEvent, on_abandoned: OnAbandoned | None = None) -> asyncio.Future[EventRef]:
        """Append a prepared event. The future is done when it is durable or has failed.

        Cancelling the future does not undo the append: `on_abandoned` is then called with its
        outcome.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[EventRef] = loop.create_future()
        item = EventItem(event, future, loop, on_abandoned)
        if self._worker is None:
            self._gatherer.add(item, loop)
        else:
            self._worker.add(item)
        return future

    def checkpoint(self, envelope: str, signer: "Signer | None" = None) -> Checkpoint:
        """Sign the last event of an envelope, and with it all events before."""
        signer = signer or self.signer
        if signer is None:
            raise LedgerError("there is no key to sign with: create one with `modelpact identity init`")
        return self.write(partial(Transaction.sign, envelope=envelope, signer=signer))

    def _count_unsigned(self, envelope: str) -> None:
        """Count an event that the worker appended, and sign its envelope when that is due."""
        if self.signer is None:
            return
        count = self._unsigned.get(envelope, 0) + 1
        if count < self._checkpoint_every:
            self._unsigned[envelope] = count
        else:
            self._unsigned.pop(envelope, None)
            self.submit(partial(Transaction.sign, envelope=envelope, signer=self.signer))
