"""Connections to a store are closed on every path."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.ledger import Ledger, LedgerError, LedgerReader, LedgerUnavailable, NewerSchema
from modelpact.ledger.errors import NameTaken
from modelpact.ledger.stores.base import open_store
from modelpact.ledger.stores.postgres import PostgresConnection, PostgresStore
from tests.ledger.support import draft, fill
from tests.stores import Counted


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator["Gate"]:
    """A gate in front of every new connection. It is open at first."""
    new_gate = Gate()
    connect = PostgresStore.connect

    def gated(self: PostgresStore, *, writer: bool) -> PostgresConnection:
        new_gate.reached.set()
        assert new_gate.open.wait(60)
        return connect(self, writer=writer)

    monkeypatch.setattr(PostgresStore, "connect", gated)
    yield new_gate
    new_gate.open.set()


class Gate:
    """Blocks new connections until it is opened."""

    def __init__(self) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        self.open.set()

    def meanwhile(self, connect: Callable[[], object], then: Callable[[], object]) -> None:
        """Run `then` in another thread while `connect` waits at the gate."""
        self.open.clear()
        self.reached.clear()
        threads = [threading.Thread(target=action) for action in (connect, then)]
        threads[0].start()
        assert self.reached.wait(60)
        threads[1].start()
        self.open.set()
        for thread in threads:
            thread.join(60)


def test_a_closed_ledger_cannot_be_read(url: str) -> None:
    """A late thread would open a connection that is never closed."""
    with Ledger.open(url) as ledger:
        fill(ledger)
        assert ledger.event("run-1:1") is not None
    with LedgerReader.open(url) as reader:
        assert reader.event("run-1:1") is not None
    for closed in (ledger, reader):
        with pytest.raises(LedgerError, match="the ledger is closed"):
            closed.event("run-1:1")
        closed.close()


def test_a_reader_that_outlives_its_caller_leaves_nothing_open(counted: Counted) -> None:
    """A cancelled task leaves a thread behind, which reads after the ledger is closed."""
    free = threading.Event()

    def late(ledger: Ledger) -> None:
        assert free.wait(60)
        ledger.envelopes()

    async def main() -> None:
        with Ledger.open(counted.url) as ledger:
            fill(ledger)
            reading = asyncio.create_task(asyncio.to_thread(late, ledger))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        free.set()

    asyncio.run(main())  # returns when its threads have ended
    counted.assert_none()


def test_closing_while_a_reader_connects_leaves_nothing_open(counted: Counted, gate: Gate) -> None:
    ledger = Ledger.open(counted.url)
    gate.meanwhile(lambda: _quietly(ledger.envelopes), ledger.close)
    counted.assert_none()


def test_stores_that_are_refused_leave_nothing_open(counted: Counted) -> None:
    for opening in (LedgerReader.open, Ledger.open):
        with contextlib.suppress(LedgerError):  # there are no tables yet
            opening(counted.url).close()
    with Ledger.open(counted.url) as ledger:
        ledger.write(lambda tx: tx.execute("UPDATE meta SET value = '99'"))
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(NewerSchema):
            opening(counted.url)
    counted.assert_none()


def test_files_that_are_refused_leave_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for SQLite files and leases."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def counted_connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", counted_connect)
    (tmp_path / "text.db").write_text("this is not a database\n" * 20)
    (tmp_path / "empty.db").touch()
    for name in ("text.db", "empty.db"):
        with pytest.raises(LedgerError):
            LedgerReader.open(f"sqlite:{tmp_path / name}")
    with pytest.raises(LedgerError):
        Ledger.open(f"sqlite:{tmp_path / 'text.db'}")
    lease = open_store(f"sqlite:{tmp_path / 'ledger.db'}").lease("host/a")
    with pytest.raises(NameTaken):
        open_store(f"sqlite:{tmp_path / 'ledger.db'}").lease("host/a")
    lease.release()
    assert len(opened) == 8
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_a_ledger_that_cannot_start_its_thread_leaves_nothing_open(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            Ledger.open(counted.url)
    counted.assert_none()


def test_connections_that_break_leave_nothing_open(counted: Counted) -> None:
    with Ledger.open(counted.url) as ledger:
        for _ in range(3):
            fill(ledger)
            ledger.envelopes()
            _break_all(counted)
            with pytest.raises(LedgerUnavailable):
                ledger.envelopes()
            with pytest.raises(LedgerUnavailable):
                ledger.append(draft())
    counted.assert_none()


def test_leases_that_are_refused_leave_nothing_open(counted: Counted) -> None:
    store = open_store(counted.url)
    lease = store.lease("host/a")
    for _ in range(3):
        with pytest.raises(NameTaken):
            store.lease("host/a")
    lease.release()
    lease.release()
    counted.assert_none()


def test_a_lease_that_is_released_is_not_taken_again(counted: Counted, gate: Gate) -> None:
    """Another thread may be checking it at that moment."""
    lease: Any = open_store(counted.url).lease("host/a")
    lease._connection._raw.close()
    assert lease.is_held(), "the store was unreachable"
    gate.meanwhile(lease.is_held, lease.release)
    assert not lease.is_held()
    counted.assert_none()


def _quietly(read: Any) -> None:
    with contextlib.suppress(LedgerError):
        read()


def _break_all(counted: Counted) -> None:
    """Close every connection on the server."""
    with contextlib.closing(open_store(counted.url).connect(writer=False)) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
            "pg_backend_pid() AND application_name = current_setting('application_name')"
        )
