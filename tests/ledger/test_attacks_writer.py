"""The writer and its file: listeners that want to exit, a file that is whole when it is closed."""

import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from modelpact.ledger import Event, Ledger, LedgerError, LedgerReader, LedgerUnavailable
from modelpact.ledger.stores.base import open_store
from modelpact.vocabulary.errors import InputError
from tests.ledger.support import fill


def test_a_listener_that_wants_to_exit_stops_nothing(ledger: Ledger) -> None:
    def leave(event: Event) -> NoReturn:
        raise SystemExit

    ledger.bus.subscribe(leave)
    for number in range(2):
        assert fill(ledger, count=1)[0].sequence == number + 1
    assert ledger.bus.failures == 2


def test_a_closed_ledger_is_whole_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:{file}") as ledger:
        fill(ledger)
        assert len(ledger.events("run-1")) == 5
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.db"]
    shutil.copy(file, tmp_path / "copy.db")
    with LedgerReader.open(f"sqlite:{tmp_path / 'copy.db'}") as reader:
        assert len(reader.events("run-1")) == 5


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{0}@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?password={0}&user=me",
        "postgresql://127.0.0.1:1/none?user=me&sslpassword={0}",
        "postgresql://me:{0}@[/none",
        "postgresql://me:{0}/@127.0.0.1:1/none",
        "postgresql://me:x@{0}@127.0.0.1:1/none",
        "postgresql://me:{0}@127.0.0.1:99999/none",
        "postgresq://me:{0}@127.0.0.1:1/none",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    word = "hunter" + "two"
    with pytest.raises((LedgerUnavailable, InputError)) as caught:
        Ledger.open(url.format(word))
    assert word not in str(caught.value)


def test_a_shown_url_still_says_where() -> None:
    shown = open_store("postgresql://me:x@db.example:5/work?host=/run&password=x&sslmode=off").url
    assert shown == "postgresql://me@db.example:5/work?host=/run&sslmode=off"


@pytest.mark.parametrize("version", ["abc", "-1", "²", "9" * 30])
def test_a_schema_that_is_no_number_is_told(url: str, version: str) -> None:
    with Ledger.open(url) as ledger:
        ledger.write(lambda tx: tx.execute("UPDATE meta SET value = ?", (version,)))
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerError, match="no number"):
            opening(url)
