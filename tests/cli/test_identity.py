"""`modelpact identity`, as a process: output for people, JSON, exit codes, no secrets."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Authority, PublicKeys
from tests.cli.conftest import Run


def data(done: "subprocess.CompletedProcess[str]", code: int = 0) -> Any:
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    done = run("identity", "init")
    assert done.returncode == 0, done.stderr
    return tmp_path / "data" / "identity"


def test_a_life_of_keys_and_certificates(run: Run, folder: Path) -> None:
    issued = data(run("identity", "issue", "acme", "--host", "localhost", "--json"))
    assert issued["identity"] == "modelpact:provider:acme"
    assert Path(issued["file"]).is_relative_to(folder)
    renewed = data(run("identity", "rotate", "acme", "--keep-key", "--json"))
    assert renewed["fingerprint"] == issued["fingerprint"]
    before = PublicKeys.parse(run("identity", "export").stdout)
    rotated = data(run("identity", "rotate", "--signing-key", "--json"))
    after = PublicKeys.parse(run("identity", "export").stdout)
    assert rotated == {
        "signing_key": after.current.key_id,
        "handed_over_by": before.current.key_id,
    }
    assert before.extended_by(after) == after
    (gone,) = data(run("identity", "revoke", issued["serial"], "--json"))
    assert gone["state"] == "revoked"
    listed = data(run("identity", "list", "--json"))
    assert [one["state"] for one in listed["certificates"]] == ["revoked", "valid"]
    assert [one["current"] for one in listed["signing_keys"]] == [False, True]


def test_people_see_tables_and_no_keys(run: Run, folder: Path) -> None:
    shown = [
        run("identity", "issue", "acme"),
        run("identity", "issue", "run", "--kind", "runtime", "--days", "30"),
        run("identity", "rotate", "acme"),
        run("identity", "revoke", "run", "--reason", "superseded"),
        run("identity", "rotate", "--signing-key"),
        run("identity", "list"),
        run("identity", "export"),
    ]
    assert [done.returncode for done in shown] == [0] * len(shown)
    everything = "".join(done.stdout + done.stderr for done in shown)
    assert "PRIVATE" not in everything
    listing = shown[-2].stdout
    assert "revoked: superseded" in listing
    assert listing.count("acme") == 2


def test_answers_of_no_exit_1(run: Run, folder: Path) -> None:
    past = datetime.now(UTC) - timedelta(days=31)
    Authority.open(folder / "authority", clock=lambda: past).issue("old", days=30)
    assert run("identity", "list").returncode == 1
    assert run("identity", "revoke", "old").returncode == 0
    again = run("identity", "revoke", "old")
    assert (again.returncode, again.stdout) == (1, "old was already revoked.\n")
    assert run("identity", "list").returncode == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("init",), "already has keys"),
        (("issue", "../x"), "cannot be a name"),
        (("issue", "x", "--host", "http://x"), "is not a host name"),
        (("issue", "x", "--days", "0"), "--days"),
        (("rotate",), "either NAME or --signing-key"),
        (("rotate", "x", "--signing-key"), "either NAME or --signing-key"),
        (("rotate", "--signing-key", "--keep-key"), "is for certificates"),
        (("rotate", "nobody"), "unknown name 'nobody'"),
        (("revoke", "nobody"), "unknown name or serial"),
        (("list", "--dir", "elsewhere"), "modelpact identity init"),
    ],
)
def test_wrong_use_exits_2(run: Run, folder: Path, args: tuple[str, ...], said: str) -> None:
    done = run("identity", *args)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_init_makes_what_is_missing(run: Run, tmp_path: Path) -> None:
    Authority.init(tmp_path / "here" / "authority")
    made = data(run("identity", "init", "--dir", "here", "--json"))
    assert Path(made["authority"]) == Path("here/authority/root.pem")
    assert (tmp_path / "here" / "keyring" / f"{made['signing_key']}.pem").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_loose_key_is_refused_with_the_remedy(run: Run, folder: Path) -> None:
    for pem in (folder / "keyring").glob("*.pem"):
        pem.chmod(0o644)
    done = run("identity", "list")
    assert done.returncode == 2
    assert "chmod 600" in done.stderr
