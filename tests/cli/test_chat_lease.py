"""One process at a time may use a session; a killed process holds nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelpact.cli.chat.sessions import OpenElsewhere, OpenSession, lease_session
from modelpact.ledger import Ledger, LedgerUnavailable
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.postgres import PostgresConnection
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal
from tests.cli.test_chat import configure
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Reply, hang
from tests.stores import Counted


def test_a_session_is_held_until_its_lease_is_released(url: str) -> None:
    with Ledger.open(url) as ledger:
        first = lease_session(ledger, "a")
        lease_session(ledger, "b").release()
        with pytest.raises(OpenElsewhere, match=r"session a is open in another process"):
            lease_session(ledger, "a")
        assert first.is_held()
        first.release()
        first.release()
        lease_session(ledger, "a").release()


def test_a_failed_lease_leaves_no_connection_open(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: PostgresConnection, sql: str, params: object = ()) -> None:
        raise LedgerUnavailable("the server is shutting down")

    with Ledger.open(counted.url) as ledger:
        first = lease_session(ledger, "a")
        with pytest.raises(OpenElsewhere):
            lease_session(ledger, "a")
        with monkeypatch.context() as patched:
            patched.setattr(PostgresConnection, "execute", refuse)
            with pytest.raises(LedgerUnavailable):
                lease_session(ledger, "b")
        first.release()
    counted.assert_none()


def test_a_lease_on_postgres_is_a_lock_of_a_transaction(counted: Counted) -> None:
    """A connection pooler shares database sessions, so a lock of a session would not hold."""
    with Ledger.open(counted.url) as ledger:
        lease = lease_session(ledger, "a")
        states = ledger.read(
            "SELECT a.state FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'advisory' AND l.granted"
        )
        lease.release()
    assert ("idle in transaction",) in states


def test_a_session_that_another_process_has_taken_sends_nothing() -> None:
    """The lease can be lost with the connection to the database."""
    session: Any = SimpleNamespace(id="a")
    lost: Any = SimpleNamespace(is_held=lambda: False)
    models: Any = None
    with pytest.raises(OpenElsewhere, match="session a is open in another process"):
        OpenSession(session, models, lost).check_lease()


def test_a_lease_leaves_no_file_behind(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:{tmp_path / 'a.db'}") as ledger:
        lease = lease_session(ledger, "a")
        (file,) = tmp_path.glob("*.lease")
        assert file.stat().st_mode & 0o777 == 0o600
        lease.release()
        assert list(tmp_path.glob("*.lease")) == []


def test_resuming_leaves_the_calls_of_a_live_process_alone(tmp_path: Path, run: Run) -> None:
    with FakeOpenAI([Reply(text="A long story that", fault=hang(3))]).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("One")
            terminal.expect("A long")
            resumed = run("chat", "--resume", stdin="Two\n")
            assert resumed.returncode == 2
            assert "is open in another process" in resumed.stderr
            with LedgerReader.open(f"sqlite:{tmp_path / 'data' / 'modelpact.db'}") as reader:
                types = {event.type for event in reader.latest_events(1_000)}
            assert not types & {"capability.failed", "session.resumed"}
            terminal.kill()
        assert run("chat", "--resume", stdin="/history\n").returncode == 0
