"""`modelpact audit`, as a process: shows, follows, proves, moves; exit codes are honest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Draft, Ledger
from tests.cli.conftest import Run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The user's own ledger, with a story in it."""
    file = tmp_path / "data" / "modelpact.db"
    with Ledger.open(f"sqlite:{file}") as ledger:
        ledger.write(lambda tx: tx.open_envelope("run-1", "run", "a test"))
        (origin,) = ledger.append(Draft("session-1", "session.opened", {"who": "me"}))
        (begun,) = ledger.append(Draft("run-1", "run.started", {"text": "a\x1b[31mb"}, origin.id))
        ledger.append(Draft("run-1", "run.failed", {"because": "so"}, begun.id))
    return file


def ok(done: "subprocess.CompletedProcess[str]", code: int = 0) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_show_lists_envelopes_events_and_one_event(run: Run, store: Path) -> None:
    envelopes = ok(run("audit", "show"))
    assert "run-1" in envelopes
    assert "a test" in envelopes
    assert [entry["id"] for entry in json.loads(ok(run("audit", "show", "--json")))] == ["run-1", "session-1"]
    events = ok(run("audit", "show", "run-1")).splitlines()
    assert ["run-1:1" in events[0], "run-1:2" in events[1]] == [True, True]
    first = ok(run("audit", "show", "run-1", "--limit", "1"))
    assert first.endswith("\n1 more follow: --after 1, or --limit.\n")
    assert "more follow" not in ok(run("audit", "show", "run-1", "--after", "1"))
    entry = ok(run("audit", "show", "run-1:1"))
    assert "\x1b" not in entry
    assert "run.started" in entry
    data = json.loads(ok(run("audit", "show", "run-1:1", "--json")))
    assert data["payload"] == {"text": "a\x1b[31mb"}
    assert data["time"].isdecimal()


def test_why_walks_back_to_the_origin(run: Run, store: Path) -> None:
    """`audit show ID --why` walks back to the origin."""
    lines = ok(run("audit", "show", "run-1:2", "--why")).splitlines()
    assert ["run-1:2" in lines[0], "run-1:1" in lines[1], "session-1:1" in lines[2]] == [True] * 3
    chain = json.loads(ok(run("audit", "show", "run-1:2", "--why", "--json")))
    assert [entry["id"] for entry in chain] == ["run-1:2", "run-1:1", "session-1:1"]


def test_an_unknown_name_is_reported_with_the_nearest(run: Run, store: Path) -> None:
    done = run("audit", "show", "run-2:7")
    assert done.returncode == 2
    assert "did you mean run-1?" in done.stderr


def test_tail_shows_the_latest(run: Run, store: Path) -> None:
    assert "run-1:2" in ok(run("audit", "tail", "-n", "1"))
    lines = ok(run("audit", "tail", "--json")).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["session-1:1", "run-1:1", "run-1:2"]
    assert "run-1:1" in ok(run("audit", "tail", "run-1", "--type", "run.started"))


def test_tail_follows(store: Path) -> None:
    command = ["audit", "tail", "--follow", "--json", "--store", f"sqlite:{store}"]
    with subprocess.Popen([sys.executable, "-m", "modelpact", *command], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        first = [json.loads(started.stdout.readline())["id"] for _ in range(3)]
        assert first[-1] == "run-1:2"
        with Ledger.open(f"sqlite:{store}") as ledger:
            ledger.append(Draft("run-2", "run.started", {}), Draft("run-1", "acme.more", {}))
            assert json.loads(started.stdout.readline())["id"] == "run-1:3"
            assert json.loads(started.stdout.readline())["id"] == "run-2:1"
            ledger.append(Draft("run-2", "run.completed", {}))
            assert json.loads(started.stdout.readline())["id"] == "run-2:2"
        started.kill()


def test_an_export_can_be_verified_elsewhere_with_the_public_key(run: Run, store: Path, tmp_path: Path) -> None:
    ok(run("identity", "init"))
    (tmp_path / "keys.json").write_text(ok(run("identity", "export")))
    ok(run("audit", "export", "run-1", "--sign", "-o", "run.jsonl"))
    elsewhere = {"MODELPACT_DATA": str(tmp_path / "elsewhere")}
    verify = ("audit", "verify", "run.jsonl")
    proven = ok(run(*verify, "--keys", "keys.json", **elsewhere))
    assert "2 events, signed up to event 2 by" in proven
    assert "not proven" in ok(run(*verify, **elsewhere))
    ok(run("identity", "rotate", "--signing-key"))
    ok(run(*verify))  # archives and exports outlive their keys

    file = tmp_path / "run.jsonl"
    file.write_text(file.read_text().replace('"so"', '"no"'))
    broken = run(*verify, "--keys", "keys.json", **elsewhere)
    assert broken.returncode == 1
    assert "run-1:2: edited" in broken.stdout
    (report,) = json.loads(ok(run(*verify, "--json"), 1))
    assert not report["ok"]
    assert (report["broken"]["kind"], report["broken"]["line"]) == ("edited", 3)
    refused = run("audit", "import", "run.jsonl", **elsewhere)
    assert refused.returncode == 1
    assert "edited" in refused.stdout


def test_verify_finds_changes_in_the_store(run: Run, store: Path) -> None:
    assert "nobody has signed it" in ok(run("audit", "verify"))
    with Ledger.open(f"sqlite:{store}") as ledger:
        ledger.write(lambda tx: tx.execute("UPDATE events SET payload = '{}' WHERE sequence = 2"))
    done = run("audit", "verify")
    assert done.returncode == 1
    assert "✗ run-1: run-1:2: edited" in done.stdout
    assert "✓ session-1" in done.stdout
    ok(run("audit", "verify", "session-1"))


def test_verify_against_an_expected_head(run: Run, store: Path) -> None:
    digest = json.loads(ok(run("audit", "show", "run-1:1", "--json")))["hash"]
    ok(run("audit", "verify", "run-1", "--head", f"1:{digest}"))
    assert "truncated" in ok(run("audit", "verify", "run-1", "--head", f"9:{digest}"), 1)
    assert run("audit", "verify", "run-1", "--head", "x").returncode == 2


def test_import_is_idempotent(run: Run, store: Path, tmp_path: Path) -> None:
    ok(run("audit", "export", "run-1", "-o", "run.jsonl.gz"))
    other = ("--store", f"sqlite:{tmp_path / 'other.db'}")
    assert "2 events imported, 0 were already here" in ok(run("audit", "import", "run.jsonl.gz", *other))
    second = json.loads(ok(run("audit", "import", "run.jsonl.gz", "--json", *other)))
    assert second == {"envelope": "run-1", "events": 0, "known": 2, "left": 0}
    piped = run("audit", "import", "-", *other, stdin=ok(run("audit", "export", "run-1")))
    assert "0 events imported" in ok(piped)


def test_an_archive_can_be_dropped_from_the_store(run: Run, store: Path) -> None:
    refused = run("audit", "archive", "run-1", "--to", "run.jsonl.gz", "--drop")
    assert refused.returncode == 2
    assert "identity init" in refused.stderr
    ok(run("identity", "init"))
    done = ok(run("audit", "archive", "run-1", "--to", "run.jsonl.gz", "--drop", "--reason", "old"))
    assert "3 events, archived, signed up to event 3" in done
    assert "archived" in ok(run("audit", "show"))
    ok(run("audit", "verify", "run.jsonl.gz"))
    assert "run-1: 3 events, archived, not here, signed up to event 3" in ok(run("audit", "verify"))
    second = run("audit", "archive", "session-1", "--to", "run.jsonl.gz", "--drop")
    assert second.returncode == 2
    assert "not the archive of session-1" in second.stderr


def test_the_store_is_that_of_the_option_the_configuration_or_the_user(run: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[store]\nurl = "sqlite:here.db"\n')
    assert f"there is no ledger in {tmp_path / 'here.db'}" in run("audit", "show").stderr
    with Ledger.open(f"sqlite:{tmp_path / 'here.db'}") as ledger:
        ledger.append(Draft("configured", "run.started", {}))
    assert "configured" in ok(run("audit", "show"))
    assert "run-1" in ok(run("audit", "show", "--store", f"sqlite:{store}"))
    (tmp_path / "modelpact.toml").write_text("[policy]\nemulate = false\n")
    assert "run-1" in ok(run("audit", "show"))


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_long_verification_shows_a_progress_bar(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'long.db'}"
    with Ledger.open(url) as ledger:
        for _ in range(4):
            ledger.append(*(Draft("long", "run.started", {"n": n}) for n in range(10_000)))
    leader, follower = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "modelpact", "audit", "verify", "--store", url],
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
        env={**os.environ, "MODELPACT_DATA": str(tmp_path)},
    )
    os.close(follower)
    output = os.read(leader, 65_536).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "long █" in output
    assert output.endswith("\x1b[K")


def test_the_keys_of_others_are_not_trusted_by_default(run: Run, store: Path, tmp_path: Path) -> None:
    other = Keyring.init(tmp_path / "other")
    (tmp_path / "other.json").write_bytes(other.export())
    ok(run("identity", "init"))
    ok(run("audit", "export", "run-1", "--sign", "-o", "run.jsonl"))
    assert "unknown key" in ok(run("audit", "verify", "run.jsonl", "--keys", "other.json"), 1)
