"""The ledger: many callers, one writer, shared commits.

A caller hands in work: a function on a transaction. All work that waits is done in one transaction;
only when the commit is durable do the callers hear of it.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from modelpact.ledger.bus import Bus
from modelpact.ledger.checkpoint import Checkpoint, sign_checkpoint, signer_keys
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.prepared import EventRef, PreparedEvent
from modelpact.ledger.reader import LedgerReader, read_event
from modelpact.ledger.stores.base import LedgerError, Store, migrate, open_store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Clock, Committer
from modelpact.ledger.write.pending import (
    EventItem,
    LoopGatherer,
    OnAbandoned,
    ThreadWaiter,
    Work,
    WorkItem,
)
from modelpact.ledger.write.transaction import Transaction
from modelpact.ledger.write.worker_client import WorkerClient
from modelpact.ledger.write.writer import WriterThread

if TYPE_CHECKING:
    from modelpact.identity import Signer

__all__ = ["CHECKPOINT_INTERVAL", "Ledger", "Transaction", "Work", "read_event"]

T = TypeVar("T")
CHECKPOINT_INTERVAL: Final = 1_000
"""How many events of an envelope are appended before a checkpoint is signed."""


class Ledger(LedgerReader):
    """A ledger, open for writing and reading. Safe to use from many threads and tasks.

    With a `signer`, a checkpoint is signed for every so many events, and for the rest on closing.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = time.time_ns,
        bus: Bus | None = None,
        signer: "Signer | None" = None,
        checkpoint_every: int = CHECKPOINT_INTERVAL,
    ) -> None:
        super().__init__(store)
        self.clock = clock
        self.bus = bus or Bus()
        self.signer = signer
        connection = store.connect(writer=True)
        try:
            migrate(connection)
            latest = connection.execute("SELECT MAX(time) FROM events")[0][0] or 0
            known = WriterCache(uuid.uuid4().hex[:16])
            committer = Committer(
                store,
                known,
                clock,
                self.bus,
                latest,
                connection,
                signer=signer,
                every=checkpoint_every,
            )
            self._writer = WriterThread(committer)
        except BaseException:
            connection.close()
            raise
        self._gathering = LoopGatherer(self._writer.put)
        self._every = checkpoint_every
        self._latest = latest
        self._scribe: WorkerClient | None = None
        self._unsigned: dict[str, int] = {}
        """Events of the scribe's that no checkpoint signs, by envelope."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock = time.time_ns,
        bus: Bus | None = None,
        signer: "Signer | None" = None,
        checkpoint_every: int = CHECKPOINT_INTERVAL,
    ) -> "Ledger":
        """Open the ledger that a URL names: `sqlite:FILE` or `postgresql://…`."""
        return cls(
            open_store(url), clock=clock, bus=bus, signer=signer, checkpoint_every=checkpoint_every
        )

    def __enter__(self) -> "Ledger":
        return self

    def start_commit_worker(self, is_sole_request: Callable[[], bool]) -> None:
        """Have the entries that this loop notes committed by a process of its own, where it can.

        From then on `append_async` is for this loop only. `is_sole_request` tells whether the loop
        serves one request only: the loop itself may then commit, as nothing else waits for it.
        """
        if self.store.reopenable and sys.platform != "win32":
            self._scribe = WorkerClient(
                self.store,
                self.clock,
                self.bus,
                self._latest,
                self._count_noted,
                self._note_here,
                is_sole_request,
            )

    def _count_noted(self, envelope: str) -> None:
        """Have the envelopes of the scribe signed from time to time."""
        if self.signer is None:
            return
        unsigned = self._unsigned[envelope] = self._unsigned.get(envelope, 0) + 1
        if unsigned >= self._every:
            self._unsigned[envelope] = 0
            self.submit(partial(_sign, self.signer, envelope))

    def close(self) -> None:
        """Finish what waits, sign what is not signed, and close."""
        if self._scribe is not None:
            self._scribe.close()
            for envelope, count in self._unsigned.items():
                if count and self.signer is not None:
                    self.submit(partial(_sign, self.signer, envelope))
        super().close()  # before the writer: the last to close works SQLite's log into the file
        self._writer.close()

    def ensure_can_wait(self) -> None:
        """Raise where to wait for a write would be to wait for ever: in a listener of the bus."""
        if self._writer.is_here():
            raise LedgerError(
                "a listener cannot wait for the ledger, whose thread calls it: hand the work in "
                "with Ledger.submit, or do it in another thread"
            )

    def submit(self, work: Work[T]) -> "Future[T]":
        """Hand work in; the future is done when the work is durable, or has failed."""
        future: Future[T] = Future()
        if not self._writer.put(WorkItem(work, future)):
            future.set_exception(LedgerError("the ledger is closed"))
        return future

    def write(self, work: Work[T]) -> T:
        """Do work and wait until it is durable."""
        self.ensure_can_wait()
        waiter = ThreadWaiter()
        if not self._writer.put(WorkItem(work, waiter)):
            raise LedgerError("the ledger is closed")
        result: T = waiter.result()
        return result

    async def write_async(self, work: Work[T]) -> T:
        """Do work and wait until it is durable, without blocking the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._gathering.add(WorkItem(work, future, loop), loop)
        return await future

    def append_async(
        self, entry: PreparedEvent, on_abandoned: OnAbandoned | None = None
    ) -> asyncio.Future[EventRef]:
        """Append an entry; it is durable when the future is done: the short way, for many of them.

        It is not taken back: where the future is cancelled, `on_abandoned` hears of it.
        """
        if self._scribe is not None:
            return self._scribe.append_async(entry, on_abandoned)
        future: asyncio.Future[EventRef] = asyncio.get_running_loop().create_future()
        self._note_here(entry, future, on_abandoned)
        return future

    def _note_here(
        self,
        entry: PreparedEvent,
        future: asyncio.Future[EventRef],
        on_abandoned: OnAbandoned | None,
    ) -> None:
        loop = future.get_loop()
        self._gathering.add(EventItem(entry, future, loop, on_abandoned), loop)

    def append(self, *drafts: Draft) -> list[Event]:
        """Append events, all or none, and wait until they are durable."""
        return self.write(lambda tx: [tx.append(draft) for draft in drafts])

    def checkpoint(self, envelope: str, signer: "Signer | None" = None) -> Checkpoint:
        """Sign where an envelope stands now."""
        signing = signer or self.signer
        if signing is None:
            raise LedgerError(
                "there is no key to sign with: make one with `modelpact identity init`"
            )

        return self.write(partial(_sign, signing, envelope))


def _sign(signer: "Signer", envelope: str, tx: Transaction) -> Checkpoint:
    head = tx.head(envelope)
    if not head.sequence:
        raise LedgerError(f"{envelope} has no events: there is nothing to sign")
    made = sign_checkpoint(signer, envelope, head.sequence, head.hash, tx.now)
    tx.add_checkpoint(made, signer_keys(signer))
    return made
