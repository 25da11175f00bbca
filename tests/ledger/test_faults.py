"""Real faults: nothing acknowledged is lost, chains verify, and the ledger works again."""

import contextlib
import random
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from modelpact.ledger import Ledger, LedgerError, LedgerReader, LedgerUnavailable, NewerSchema
from modelpact.ledger.stores.base import open_store, read_migrations
from tests.ledger.support import KILLED, fill, finished, process, verified

STEPS = ("begin", "insert", "flushed", "committed")

DYING = """
class Dying:
    '''A connection that kills its process at a step of the third transaction.'''

    def __init__(self, inner, step):
        self.inner, self.step, self.turn = inner, step, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def at(self, step):
        if step == self.step and self.turn == 3:
            die()

    def begin(self, **how):
        self.turn += 1
        changed = self.inner.begin(**how)
        self.at("begin")
        return changed

    def execute_many(self, sql, rows):
        self.inner.execute_many(sql, rows)
        self.at("insert")

    def commit(self):
        self.at("flushed")
        self.inner.commit()
        self.at("committed")

url, step = sys.argv[1:]
ledger = Ledger.open(url)
writer = ledger._thread._committer
writer._connection = Dying(writer._connection, step)
for number in range(10):
    say(ledger.append(Draft("run-1", "run.started", {"number": number}))[0].id)
"""


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_nothing_acknowledged_is_lost(url: str, step: str) -> None:
    with process(DYING, url, step) as started:
        acknowledged = finished(started, KILLED)
    assert acknowledged == ["run-1:1", "run-1:2"]
    with Ledger.open(url) as ledger:
        events = verified(ledger).events
        assert events == (3 if step == "committed" else 2)
        assert fill(ledger, count=1)[0].sequence == events + 1


WRITING = """
ledger = Ledger.open(sys.argv[1])

def work(number):
    while True:
        say(ledger.append(*(Draft(f"run-{number}", "run.started", {}) for _ in range(2)))[-1].id)

for number in range(4):
    threading.Thread(target=work, args=(number,)).start()
"""


def write_until_killed(url: str, lines: int) -> dict[str, int]:
    """Kill a writer after some lines. Return the last event it had acknowledged, by envelope."""
    acknowledged: dict[str, int] = {}
    with process(WRITING, url) as started:
        assert started.stdout is not None
        for count, line in enumerate(started.stdout):
            if count == lines:
                started.kill()
            envelope, _, number = line.strip().rpartition(":")
            if number:
                acknowledged[envelope] = int(number)
    return acknowledged


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_nothing_acknowledged_is_lost(url: str, seed: int) -> None:
    acknowledged = write_until_killed(url, random.Random(seed).randrange(5, 200))
    with Ledger.open(url) as ledger:
        for envelope, last in acknowledged.items():
            events = verified(ledger, envelope).events
            assert events >= last
            assert events % 2 == 0  # events of one transaction are kept together


MANY = """
url, name, count = sys.argv[1:]
ledger = Ledger.open(url)

def work(thread):
    for number in range(int(count)):
        own = Draft(f"own-{name}", "run.started", {"thread": thread})
        shared = Draft("shared", "run.started", {"name": name, "thread": thread, "n": number})
        ledger.append(shared, own)

threads = [threading.Thread(target=work, args=(thread,)) for thread in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ledger.close()
say("done")
"""


def test_three_processes_on_one_database(url: str) -> None:
    """Three runtimes on one database, on the same and on different envelopes."""
    count = 25
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(process(MANY, url, str(n), str(count))) for n in range(3)]
        for child in started:
            assert finished(child) == ["done"]
    with Ledger.open(url) as ledger:
        assert verified(ledger, "shared").events == 3 * 3 * count
        assert all(verified(ledger, f"own-{n}").events == 3 * count for n in range(3))
        payloads = [event.payload for event in ledger.events("shared")]
        written = [(payload["name"], payload["thread"], payload["n"]) for payload in payloads]
        assert len(set(written)) == len(written)
        for name in "012":
            for thread in range(3):
                assert [n for *writer, n in written if writer == [name, thread]] == list(range(count))


def test_postgresql_restarted_under_load(postgres: Any, postgres_url: str) -> None:
    """Writes fail while the server is down, and nothing acknowledged is lost."""
    acknowledged: list[list[int]] = [[] for _ in range(4)]
    refused = threading.Event()
    stop = threading.Event()
    with Ledger.open(postgres_url) as ledger:

        def write(number: int) -> int:
            failures = 0
            while not stop.is_set():
                try:
                    event = fill(ledger, f"run-{number}", 1)[0]
                except LedgerUnavailable:
                    failures += 1
                    refused.set()
                else:
                    acknowledged[number].append(event.sequence)
            return failures

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(write, number) for number in range(4)]
            try:
                while not all(acknowledged):
                    assert not any(future.done() for future in futures)
                postgres.stop()
                assert refused.wait(30)
                with pytest.raises(LedgerUnavailable):
                    ledger.read("SELECT 1")
            finally:
                postgres.start()
                before = [len(sequences) for sequences in acknowledged]
                while any(len(sequences) <= n for sequences, n in zip(acknowledged, before, strict=True)):
                    assert not any(future.done() for future in futures)
                stop.set()
            assert sum(future.result(30) for future in futures) > 0
        assert ledger.read("SELECT 1") == [(1,)]
        for number, sequences in enumerate(acknowledged):
            assert sequences == sorted(set(sequences))
            assert verified(ledger, f"run-{number}").events >= sequences[-1]


class BreakingAtCommit:
    """A connection that breaks at the commit, before or after it took effect."""

    def __init__(self, inner: Any, *, after: bool) -> None:
        self.inner = inner
        self.after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def commit(self) -> None:
        if self.after:
            self.inner.commit()
        raise LedgerUnavailable("the connection is broken")


@pytest.mark.parametrize("after", [True, False])
def test_the_ledger_finds_out_whether_a_broken_commit_took_effect(ledger: Ledger, after: bool) -> None:
    fill(ledger, count=1)
    writer: Any = ledger._thread._committer
    writer._connection = BreakingAtCommit(writer._connection, after=after)
    if after:
        assert fill(ledger, count=1)[0].sequence == 2
    else:
        with pytest.raises(LedgerUnavailable, match="not kept"):
            fill(ledger, count=1)
    assert fill(ledger, count=1)[0].sequence == (3 if after else 2)
    assert verified(ledger).ok


FULL = """
import resource
ledger = Ledger.open(sys.argv[1])
draft = Draft("run-1", "run.started", {"text": "x" * 20_000})
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
ledger.append(draft)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
refused = 0
while refused < 3:  # reopening the file truncates the log, so a little fits again
    try:
        say(ledger.append(draft)[0].id)
        refused = 0
    except LedgerUnavailable as error:
        refused += 1
        say(f"refused: {error}")
assert len(ledger.events("run-1")) < 40
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
say(ledger.append(draft)[0].id)
"""


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'ledger.db'}"
    with process(FULL, url) as started:
        *lines, last = finished(started)
    refused = [line for line in lines if line.startswith("refused")]
    acknowledged = [line for line in lines if line not in refused]
    assert acknowledged
    assert all(line.startswith("refused: the write was not kept: SQLite: ") for line in refused)
    assert last == f"run-1:{len(acknowledged) + 2}"
    with Ledger.open(url) as ledger:
        assert verified(ledger).events == len(acknowledged) + 2


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


READ_ONLY = """
import modelpact.ledger.stores.sqlite
from modelpact.ledger import LedgerReader
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    Ledger.open(sys.argv[1])
except LedgerUnavailable as error:
    say(str(error))
with LedgerReader.open(sys.argv[1]) as reader:
    say(str(len(reader.events("run-1"))))
"""


def test_a_read_only_file_can_be_read_and_refuses_writes(open_folder: Path) -> None:
    file = open_folder / "ledger.db"
    with Ledger.open(f"sqlite:{file}") as ledger:
        fill(ledger)
    file.chmod(0o444)
    open_folder.chmod(0o555)
    with process(READ_ONLY, f"sqlite:{file}") as started:
        refused, count = finished(started)
    open_folder.chmod(0o755)
    assert "readonly" in refused or "cannot be opened" in refused
    assert count == "5"


def test_a_path_that_cannot_be_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database\n" * 20)
    for name in (".", "text.db", "text.db/below.db"):
        with pytest.raises(LedgerUnavailable, match=r"sqlite:|SQLite"):
            Ledger.open(f"sqlite:{tmp_path / name}")
    for name in ("missing.db", "missing/x.db"):
        with pytest.raises(LedgerError, match="no ledger in"):
            LedgerReader.open(f"sqlite:{tmp_path / name}")
    assert [path.name for path in tmp_path.iterdir()] == ["text.db"]


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be reached") as caught:
        Ledger.open("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("version", range(len(read_migrations())))
def test_older_stores_are_migrated(url: str, version: int) -> None:
    old = open_store(url).connect(writer=True)
    old.begin()
    old.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    for statements in read_migrations()[:version]:
        for statement in statements:
            old.execute(statement)
    old.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(version),))
    old.commit()
    old.close()
    with pytest.raises(LedgerError, match="open it once for writing"):
        LedgerReader.open(url)
    with Ledger.open(url) as ledger:
        fill(ledger)
        assert ledger.read("SELECT value FROM meta") == [(str(len(read_migrations())),)]
    with LedgerReader.open(url) as reader:
        assert len(reader.events("run-1")) == 5


def test_an_empty_store_cannot_be_read(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite:"):
        (tmp_path / "ledger.db").touch()
    with pytest.raises(LedgerError, match=r"no ledger in .+: name another with --store"):
        LedgerReader.open(url)


def test_newer_stores_are_refused(url: str) -> None:
    """A store of a newer version is refused with an error that says what to do."""
    with Ledger.open(url) as ledger:
        ledger.write(lambda tx: tx.execute("UPDATE meta SET value = '99'"))
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(NewerSchema, match=r"schema 99.*upgrade modelpact"):
            opening(url)


@pytest.mark.parametrize("version", ["abc", "-1", "²", "9" * 30])
def test_a_schema_version_that_is_no_number_is_refused(url: str, version: str) -> None:
    with Ledger.open(url) as ledger:
        ledger.write(lambda tx: tx.execute("UPDATE meta SET value = ?", (version,)))
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerError, match="no number"):
            opening(url)


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        fill(ledger)
    broken = (*read_migrations(), ("CREATE TABLE fine (x TEXT)", "CREATE NONSENSE"))
    with monkeypatch.context() as patched:
        patched.setattr("modelpact.ledger.stores.base.read_migrations", lambda: broken)
        with pytest.raises(LedgerError, match="NONSENSE"):
            Ledger.open(url)
    with Ledger.open(url) as ledger:
        assert verified(ledger).events == 5
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
        assert not raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'fine'").fetchall()


def test_several_ledgers_create_a_store_together(url: str) -> None:
    begun = threading.Barrier(4)

    def start() -> int:
        begun.wait()
        with Ledger.open(url) as ledger:
            return fill(ledger, count=1)[0].sequence

    with ThreadPoolExecutor(4) as pool:
        sequences = [future.result(60) for future in [pool.submit(start) for _ in range(4)]]
    assert sorted(sequences) == [1, 2, 3, 4]


def test_several_ledgers_create_a_file_together(tmp_path: Path) -> None:
    """SQLite itself does not wait while another process turns on write-ahead logging."""
    for number in range(40):
        begun = threading.Barrier(4)

        def start(number: int = number, begun: threading.Barrier = begun) -> None:
            begun.wait()
            Ledger.open(f"sqlite:{tmp_path / str(number)}").close()

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(start) for _ in range(4)]:
                future.result(60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_repeatedly_nothing_acknowledged_is_lost(url: str, seed: int) -> None:
    chance = random.Random(seed)
    acknowledged: dict[str, int] = {}
    for _ in range(4):
        acknowledged |= write_until_killed(url, chance.randrange(1, 60))
    with Ledger.open(url) as ledger:
        for envelope, last in acknowledged.items():
            assert verified(ledger, envelope).events >= last
