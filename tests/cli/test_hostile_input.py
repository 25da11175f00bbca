"""Edited stores and hostile input on the command line: told in words, never with a traceback."""

import contextlib
import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Attribution, CostLine, CostRecord, Draft, Ledger, Transaction
from tests.cli.conftest import Run


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    made = Keyring.init(tmp_path / "keyring")
    (tmp_path / "keys.json").write_bytes(made.export())
    return made


@pytest.fixture
def store(tmp_path: Path, keyring: Keyring) -> Path:
    """The user's ledger: five signed events, one of them with a cost."""
    file = tmp_path / "data" / "modelpact.db"
    record = CostRecord((CostLine("currency", 10**9, "USD"),), Attribution("acme"))

    def work(tx: Transaction) -> None:
        tx.open_envelope("run-1", "run", "a test")
        for number in range(4):
            tx.append(Draft("run-1", "run.started", {"number": number}))
        event = tx.append(Draft("run-1", "capability.completed", {"cost": record.to_json()}))
        tx.record_cost(event, record)

    with Ledger.open(f"sqlite:{file}", signer=keyring) as ledger:
        ledger.write(work)
    return file


def edit(file: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(file)) as raw:
        for statement in statements:
            raw.execute(statement)
        raw.commit()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM events WHERE sequence > 3", "run-1:4: truncated"),
        ("DELETE FROM events", "run-1:1: truncated"),
        ("UPDATE events SET sequence = 3.5 WHERE sequence = 3", "run-1:3: edited"),
        ("UPDATE costs SET money = 1", "table costs: run-1:5: edited"),
        ("UPDATE cost_hours SET money = 1", "table cost_hours: edited"),
        ("UPDATE attributions SET provider = 'x'", "table cost_hours: edited"),
    ],
)
def test_verify_names_what_was_edited(run: Run, store: Path, statement: str, message: str) -> None:
    whole = run("audit", "verify", "--keys", "keys.json")
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "✓ table costs: 1 rows agree with the events" in whole.stdout
    edit(store, statement)
    done = run("audit", "verify", "--keys", "keys.json")
    assert (done.returncode, done.stderr) == (1, "")
    assert message in done.stdout
    broken = [report for report in json.loads(run("audit", "verify", "--json").stdout) if not report["ok"]]
    assert broken
    assert all(report["broken"]["kind"] in message for report in broken if report["source"] in message)


COMMANDS = (
    ("audit", "verify"),
    ("audit", "show"),
    ("audit", "show", "run-1"),
    ("audit", "show", "run-1:2", "--why"),
    ("audit", "tail"),
    ("audit", "export", "run-1"),
    ("costs",),
    ("costs", "--since", "1h"),
)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = 'abc'",
        "UPDATE events SET payload = x'ff00', hash = x'ff', time = 'abc' WHERE sequence = 2",
        "UPDATE envelopes SET kind = x'ff', archived = 'yes'",
        "UPDATE checkpoints SET sequence = 'z'",
        "UPDATE cost_hours SET pieces = 'abc', money = 1e300, currency = x'ff'",
        "DROP TABLE events",
    ],
)
def test_no_edit_ends_in_a_traceback(run: Run, store: Path, statement: str) -> None:
    edit(store, statement)
    for command in COMMANDS:
        done = run(*command)
        assert "Traceback" not in done.stderr, command
        assert done.returncode in (0, 1, 2)
    assert run(*COMMANDS[0]).returncode != 0


def hashed(body: str) -> tuple[bytes, str]:
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body[:-1]},"hash":"{digest}"}}\n'.encode(), digest


def export_of(payload: str, cause: str = "null", more: str = "") -> bytes:
    """Make an export of one event, right in its hashes and wrong in itself."""
    event, head = hashed(
        f'{{"cause":{cause},"envelope":"e","payload":{payload},"previous":"{"0" * 64}",'
        f'"sequence":1,"time":"1","type":"acme.x"{more}}}'
    )
    header, _ = hashed(
        f'{{"checkpoints":0,"envelope":"e","events":1,"format":"modelpact-audit/1",'
        f'"head":"{head}","keys":[],"kind":"","signed":0,"subject":""}}'
    )
    return header + event


DEEP = '{"a":' + "[" * 20_000 + "]" * 20_000 + "}"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"checkpoints":0,"envelope":"\xff"}\n', 1),
        (export_of('"text"'), 1),
        (export_of("{}", cause="5"), 1),
        (export_of("{}", more=',"zzz":5'), 1),
        (export_of(f'{{"a":{"9" * 5_000}}}'), 1),
        (export_of('{"a":1.5}'), 1),
        (export_of('{"a": 1}'), 1),
        (export_of(DEEP), 1),
        (b'{"checkpoints":' + b"[" * 200_000, 1),
        (export_of('{"a":1}'), 0),
    ],
    ids=["utf-8", "text", "cause", "field", "digits", "half", "space", "deep", "keys", "fine"],
)
def test_a_hostile_export_is_rejected_without_a_traceback(run: Run, tmp_path: Path, data: bytes, code: int) -> None:
    (tmp_path / "e.jsonl").write_bytes(data)
    for command in ("verify", "import"):
        done = run("audit", command, "e.jsonl")
        assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    assert ("e" in run("audit", "show").stdout.split()) == (code == 0)


def test_hostile_arguments_are_rejected_without_a_traceback(run: Run, store: Path) -> None:
    for arguments in (
        ("audit", "verify", "run-1", "--head", f"{'1' * 5_000}:{'a' * 64}"),
        ("audit", "verify", "run-1", "--head", f"²:{'a' * 64}"),
        ("audit", "show", "\udcff"),
        ("audit", "tail", "\udcff"),
        ("audit", "verify", "\udcff"),
        ("audit", "export", "\udcff"),
        ("audit", "archive", "\udcff", "--to", "x.gz"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith("modelpact: ")


ESCAPES = "\x1b]0;title\x07\x1b[2J\nline"


def test_control_characters_from_a_store_are_escaped(run: Run, store: Path) -> None:
    quoted = ESCAPES.replace("'", "''")
    edit(
        store,
        f"UPDATE events SET type = '{quoted}', cause = '{quoted}' WHERE sequence = 2",
        f"UPDATE envelopes SET kind = '{quoted}', subject = '{quoted}'",
        f"UPDATE attributions SET provider = '{quoted}'",
        f"UPDATE costs SET currency = '{quoted}'",
        f"UPDATE cost_hours SET currency = '{quoted}'",
        f"INSERT INTO envelopes VALUES ('{quoted}', '', '', 1, NULL)",
        f"INSERT INTO checkpoints VALUES ('{quoted}', 1, '{quoted}', 1, '{quoted}', '')",
    )
    commands = (*COMMANDS[:5], *COMMANDS[6:], ("costs", "--format", "csv"))
    for command in (*commands, ("audit", "show", "run-1:2")):
        done = run(*command)
        assert "\x1b" not in done.stdout + done.stderr, command
        assert "\x07" not in done.stdout + done.stderr, command
        assert not any(line.startswith("line") for line in done.stdout.splitlines()), command


def test_a_password_in_a_store_is_not_shown(run: Run) -> None:
    word = "hunter" + "two"
    for url in (f"postgresql://127.0.0.1:1/x?password={word}", f"postgresql://u:{word}@[/x"):
        done = run("audit", "verify", "--store", url)
        assert done.returncode == 2
        assert word not in done.stdout + done.stderr


def test_an_import_with_keys_imports_what_is_signed(run: Run, store: Path, tmp_path: Path, keyring: Keyring) -> None:
    with Ledger.open(f"sqlite:{store}") as ledger:
        ledger.append(Draft("run-1", "run.completed", {}))
    (tmp_path / "e.jsonl").write_text(run("audit", "export", "run-1").stdout)
    other_store = ("--store", f"sqlite:{tmp_path / 'other.db'}")
    command = ("audit", "import", "e.jsonl", "--keys", "keys.json", *other_store)
    assert "5 events imported, 0 were already here; 1 unsigned ones were skipped" in run(*command).stdout
    done = json.loads(run(*command, "--unsigned", "--json").stdout)
    assert done == {"envelope": "run-1", "events": 1, "known": 5, "left": 0}


@pytest.mark.parametrize(
    "command",
    [
        ("show", "mock/\x1b[2J"),
        ("diff", "mock/demo", "mock/\x1b[2J"),
        ("negotiate", "--target", "mock/\x1b[2J", "--need", "tools"),
        ("probe", "mock/\x1b[2J", "--yes"),
    ],
)
def test_control_characters_in_names_are_rejected(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.returncode == 2
    assert "\x1b" not in result.stdout + result.stderr
    assert "visible characters only" in result.stderr
