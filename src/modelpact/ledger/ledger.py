"""The ledger: one writer thread, many callers, shared commits.

A caller hands in work: a function on a transaction. All work that waits is done in one transaction,
each piece in a savepoint of its own; only when the commit is durable do the callers hear of it.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import msgspec

from modelpact.ledger.bus import Bus
from modelpact.ledger.canonical import canonical
from modelpact.ledger.costs import CostRecord, cost_rows
from modelpact.ledger.event import GENESIS, Draft, Event, check_type, event_hash
from modelpact.ledger.store import (
    Conflict,
    Connection,
    LedgerError,
    LedgerUnavailable,
    Params,
    Row,
    Store,
    migrate,
    open_store,
)

T = TypeVar("T")
Work = Callable[["Transaction"], T]
Clock = Callable[[], int]

_MOST_TOGETHER: Final = 512
_TRIES: Final = 3


class Transaction:
    """What work may do: append events, read and write tables. It is kept whole or not at all.

    Events wait until the batch is written together; a savepoint is set only for work that touches
    tables of its own.
    """

    def __init__(self, batch: "Batch", now: int) -> None:
        self._batch = batch
        self._saved = False
        self.now = now
        """The time of everything in this transaction, in nanoseconds."""
        self.events: list[Event] = []
        self._rows: list[Row] = []
        self._cost_rows: list[Row] = []
        self._moved: dict[str, tuple[int, str]] = {}

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows; it sees everything before it."""
        self._touch()
        return self._batch.connection.execute(sql, params)

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        self._touch()
        return self._batch.connection.changed(sql, params)

    def open_envelope(self, envelope: str, kind: str, subject: str) -> None:
        """Open an envelope, unless it is open already."""
        if envelope in self._batch.heads:
            return
        self.changed(
            "INSERT INTO envelopes VALUES (?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING",
            (envelope, kind, subject, self.now),
        )

    def append(self, draft: Draft) -> Event:
        """Append an event to its envelope."""
        kind = check_type(draft.type)
        payload = canonical(draft.payload)
        head = self._moved.get(draft.envelope) or self._batch.head(draft.envelope)
        sequence, previous = head[0] + 1, head[1]
        digest = event_hash(
            draft.envelope, sequence, kind, self.now, draft.cause, payload, previous
        )
        where = (draft.envelope, sequence, kind, self.now, draft.cause)
        self._rows.append((*where, payload.decode(), previous, digest))
        self._moved[draft.envelope] = (sequence, digest)
        event = Event(*where, draft.payload, previous, digest)
        self.events.append(event)
        return event

    def record_cost(self, event: Event, record: CostRecord) -> None:
        """Put a cost record that an event embeds among those that totals are made of."""
        self._cost_rows.extend(cost_rows(event, record))

    def _touch(self) -> None:
        if not self._saved:
            self._batch.flush()
            self._batch.connection.execute("SAVEPOINT piece")
            self._saved = True
        self._write_out()

    def _write_out(self) -> None:
        _write_rows(self._batch.connection, self._rows, self._cost_rows)
        self._rows, self._cost_rows = [], []

    def keep(self) -> None:
        """Keep what was done, as far as the batch is kept."""
        if self._saved:
            self._write_out()
            self._batch.connection.execute("RELEASE SAVEPOINT piece")
        else:
            self._batch.rows.extend(self._rows)
            self._batch.cost_rows.extend(self._cost_rows)
        self._batch.heads.update(self._moved)
        self._batch.events.extend(self.events)

    def drop(self) -> None:
        """Undo what was done."""
        if self._saved:
            self._batch.connection.execute("ROLLBACK TO SAVEPOINT piece")
            self._batch.connection.execute("RELEASE SAVEPOINT piece")


class Batch:
    """Work that shares a commit: its connection, and the rows that are yet to be written."""

    def __init__(self, connection: Connection, heads: dict[str, tuple[int, str]]) -> None:
        self.connection = connection
        self.heads = heads
        self.rows: list[Row] = []
        self.cost_rows: list[Row] = []
        self.events: list[Event] = []

    def flush(self) -> None:
        """Write the rows that wait."""
        _write_rows(self.connection, self.rows, self.cost_rows)
        self.rows, self.cost_rows = [], []

    def head(self, envelope: str) -> tuple[int, str]:
        """Return the number and hash of an envelope's last event."""
        head = self.heads.get(envelope)
        if head is None:
            rows = self.connection.execute(
                "SELECT sequence, hash FROM events WHERE envelope = ? "
                "ORDER BY sequence DESC LIMIT 1",
                (envelope,),
            )
            head = (rows[0][0], rows[0][1]) if rows else (0, GENESIS)
        return head


def _write_rows(connection: Connection, rows: list[Row], cost_rows: list[Row]) -> None:
    if rows:
        connection.many("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    if cost_rows:
        marks = ", ".join("?" * len(cost_rows[0]))
        connection.many(f"INSERT INTO costs VALUES ({marks})", cost_rows)


class _Item(msgspec.Struct):
    work: Work[Any]
    future: "Future[Any]"
    tries: int = 0


class Ledger:
    """A ledger, open for writing and reading. Safe to use from many threads and tasks."""

    def __init__(
        self, store: Store, *, clock: Clock = time.time_ns, bus: Bus | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.bus = bus or Bus()
        self._heads: dict[str, tuple[int, str]] = {}
        self._latest = 0
        writer = store.connect(writer=True)
        migrate(writer)
        self._writer: Connection | None = writer
        self._reader: Connection | None = None
        self._reading = threading.Lock()
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="modelpact-ledger", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, url: str, *, clock: Clock = time.time_ns, bus: Bus | None = None) -> "Ledger":
        """Open the ledger that a URL names: `sqlite:FILE` or `postgresql://…`."""
        return cls(open_store(url), clock=clock, bus=bus)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what waits, and close."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()

    def submit(self, work: Work[T]) -> "Future[T]":
        """Hand work in; the future is done when the work is durable, or has failed."""
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(LedgerError("the ledger is closed"))
            return future
        self._queue.put(_Item(work, future))
        return future

    def write(self, work: Work[T]) -> T:
        """Do work and wait until it is durable."""
        return self.submit(work).result()

    async def write_async(self, work: Work[T]) -> T:
        """Do work and wait until it is durable, without blocking the loop."""
        return await asyncio.wrap_future(self.submit(work))

    def append(self, *drafts: Draft) -> list[Event]:
        """Append events, all or none, and wait until they are durable."""
        return self.write(lambda tx: [tx.append(draft) for draft in drafts])

    def read(self, sql: str, params: Params = ()) -> list[Row]:
        """Read from the store; what was acknowledged is seen."""
        with self._reading:
            if self._reader is None:
                self._reader = self.store.connect(writer=False)
            try:
                return self._reader.execute(sql, params)
            except LedgerUnavailable:
                self._reader.close()
                self._reader = None
                raise

    def event(self, name: str) -> Event | None:
        """Return the event of that name, or None."""
        envelope, _, number = name.rpartition(":")
        if not number.isdecimal() or len(number) > 18:
            return None
        rows = self.read(
            f"SELECT {_COLUMNS} FROM events WHERE envelope = ? AND sequence = ?",
            (envelope, int(number)),
        )
        return read_event(rows[0]) if rows else None

    def events(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """Return events of an envelope in order."""
        rows = self.read(
            f"SELECT {_COLUMNS} FROM events WHERE envelope = ? AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (envelope, after, limit),
        )
        return [read_event(row) for row in rows]

    def why(self, name: str) -> list[Event]:
        """Walk back from an event through what caused it, to the origin."""
        found: list[Event] = []
        seen: set[str] = set()
        wanted: str | None = name
        while wanted is not None and wanted not in seen:
            seen.add(wanted)
            event = self.event(wanted)
            if event is None:
                break
            found.append(event)
            wanted = event.cause
        return found

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch, ending = [first], False
            while len(batch) < _MOST_TOGETHER:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    ending = True
                    break
                batch.append(more)
            self._commit([item for item in batch if item.future.set_running_or_notify_cancel()])
            if ending:
                return

    def _commit(self, items: list[_Item]) -> None:
        """Do work in one transaction; whoever handed it in hears of it after the commit."""
        done: list[tuple[_Item, Any, BaseException | None]] = []
        try:
            batch = Batch(self._connected(), self._heads)
            batch.connection.begin()
            for item in items:
                done.append((item, *self._one(batch, item)))
            batch.flush()
            batch.connection.commit()
        except Conflict as error:
            self._again(items, error)
            return
        except BaseException as error:
            self._give_up(items, error)
            return
        self.bus.publish(batch.events)
        for item, result, failed in done:
            if failed is None:
                item.future.set_result(result)
            else:
                item.future.set_exception(failed)

    def _one(self, batch: Batch, item: _Item) -> tuple[Any, BaseException | None]:
        """Do one piece of work: kept whole, or not at all."""
        self._latest = max(self._latest + 1, self.clock())
        tx = Transaction(batch, self._latest)
        try:
            result = item.work(tx)
        except LedgerUnavailable:
            raise
        except BaseException as error:
            tx.drop()
            return None, error
        tx.keep()
        return result, None

    def _again(self, items: list[_Item], error: Conflict) -> None:
        """Try again one by one: another writer of an envelope was first."""
        self._heads.clear()
        self._connected().rollback()
        for item in items:
            item.tries += 1
            if item.tries <= _TRIES:
                self._commit([item])
            else:
                item.future.set_exception(error)

    def _connected(self) -> Connection:
        if self._writer is None:
            self._writer = self.store.connect(writer=True)
        return self._writer

    def _give_up(self, batch: list[_Item], error: BaseException) -> None:
        """Tell everyone of a batch that nothing of it was kept, and start afresh."""
        self._heads.clear()
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(LedgerError):
                writer.rollback()
            writer.close()
        told = error
        if not isinstance(error, LedgerError):
            told = LedgerUnavailable(f"the write was not kept: {error}")
        for item in batch:
            item.future.set_exception(told)


_COLUMNS: Final = "envelope, sequence, type, time, cause, payload, previous, hash"
_PAYLOAD: Final = msgspec.json.Decoder(dict[str, Any])


def read_event(row: Row) -> Event:
    """Make an event of its row."""
    envelope, sequence, kind, when, cause, payload, previous, digest = row
    return Event(
        envelope,
        sequence,
        kind,
        when,
        cause,
        _PAYLOAD.decode(payload),
        previous,
        digest,
    )
