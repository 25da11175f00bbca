"""A session is talked in by one process at a time; who was killed holds nothing."""

from pathlib import Path

import pytest

from modelpact.cli.chat.holding import OpenElsewhere, SessionHold
from modelpact.ledger import Ledger, LedgerUnavailable
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.postgres import PostgresConnection
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal
from tests.cli.test_chat import configure
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Reply, hang
from tests.stores import Counted


def test_one_holds_a_session_until_it_is_released(url: str) -> None:
    with Ledger.open(url) as ledger:
        first = SessionHold(ledger, "a")
        SessionHold(ledger, "b").release()
        with pytest.raises(OpenElsewhere, match=r"session a is open in another process"):
            SessionHold(ledger, "a")
        first.release()
        first.release()
        SessionHold(ledger, "a").release()


def test_a_lock_that_cannot_be_had_leaves_no_connection_open(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: PostgresConnection, sql: str, params: object = ()) -> None:
        raise LedgerUnavailable("the server is shutting down")

    with Ledger.open(counted.url) as ledger:
        first = SessionHold(ledger, "a")
        with pytest.raises(OpenElsewhere):
            SessionHold(ledger, "a")
        with monkeypatch.context() as patched:
            patched.setattr(PostgresConnection, "execute", refuse)
            with pytest.raises(LedgerUnavailable):
                SessionHold(ledger, "b")
        first.release()
    counted.assert_none()


def test_a_lock_leaves_no_file_behind(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:{tmp_path / 'a.db'}") as ledger:
        hold = SessionHold(ledger, "a")
        assert (tmp_path / "a.db.session-a.lock").stat().st_mode & 0o777 == 0o600
        hold.release()
    assert list(tmp_path.glob("*.lock")) == []


def test_resuming_kills_no_call_of_a_process_that_lives(tmp_path: Path, run: Run) -> None:
    with FakeOpenAI([Reply(text="A long story that", fault=hang(3))]).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("One")
            terminal.expect("A long")
            done = run("chat", "--resume", stdin="Two\n")
            assert done.returncode == 2
            assert "is open in another process" in done.stderr
            with LedgerReader.open(f"sqlite:{tmp_path / 'data' / 'modelpact.db'}") as reader:
                types = {one.type for one in reader.latest_events(1_000)}
            assert not types & {"capability.failed", "session.resumed"}
            terminal.kill()
        assert run("chat", "--resume", stdin="/history\n").returncode == 0
