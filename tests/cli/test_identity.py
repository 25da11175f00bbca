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


def test_the_life_cycle_of_keys_and_certificates(run: Run, folder: Path) -> None:
    issued = data(run("identity", "issue", "acme", "--host", "localhost", "--json"))
    assert issued["identity"] == "modelpact:provider:acme"
    assert Path(issued["file"]).is_relative_to(folder)
    renewed = data(run("identity", "rotate", "acme", "--keep-key", "--json"))
    assert renewed["fingerprint"] == issued["fingerprint"]
    before = PublicKeys.parse(run("identity", "export").stdout)
    rotated = data(run("identity", "rotate", "--signing-key", "--json"))
    after = PublicKeys.parse(run("identity", "export").stdout)
    assert rotated == {"signing_key": after.current.key_id, "handed_over_by": before.current.key_id}
    assert before.extended_by(after) == after
    (revoked,) = data(run("identity", "revoke", issued["serial"], "--json"))
    assert revoked["state"] == "revoked"
    listing = data(run("identity", "list", "--json"))
    assert [certificate["state"] for certificate in listing["certificates"]] == ["revoked", "valid"]
    assert [entry["current"] for entry in listing["signing_keys"]] == [False, True]


def test_tables_show_no_private_keys(run: Run, folder: Path) -> None:
    output = [
        run("identity", "issue", "acme"),
        run("identity", "issue", "run", "--kind", "runtime", "--days", "30"),
        run("identity", "rotate", "acme"),
        run("identity", "revoke", "run", "--reason", "superseded"),
        run("identity", "rotate", "--signing-key"),
        run("identity", "list"),
        run("identity", "export"),
    ]
    assert [done.returncode for done in output] == [0] * len(output)
    everything = "".join(done.stdout + done.stderr for done in output)
    assert "PRIVATE" not in everything
    listing = output[-2].stdout
    assert "revoked: superseded" in listing
    assert listing.count("acme") == 2


def test_exit_1_if_nothing_was_revoked_or_something_expired(run: Run, folder: Path) -> None:
    past = datetime.now(UTC) - timedelta(days=31)
    Authority.open(folder / "authority", clock=lambda: past).issue("old", days=30)
    assert run("identity", "list").returncode == 1
    assert run("identity", "revoke", "old").returncode == 0
    second = run("identity", "revoke", "old")
    assert (second.returncode, second.stdout) == (1, "old was already revoked.\n")
    assert run("identity", "list").returncode == 0


@pytest.mark.parametrize(
    ("args", "message"),
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
def test_wrong_usage_exits_with_2(run: Run, folder: Path, args: tuple[str, ...], message: str) -> None:
    done = run("identity", *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_init_creates_only_what_is_missing(run: Run, tmp_path: Path) -> None:
    Authority.init(tmp_path / "here" / "authority")
    made = data(run("identity", "init", "--dir", "here", "--json"))
    assert Path(made["authority"]) == Path("here/authority/root.pem")
    assert (tmp_path / "here" / "keyring" / f"{made['signing_key']}.pem").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_key_that_others_can_read_is_rejected_with_the_remedy(run: Run, folder: Path) -> None:
    for pem in (folder / "keyring").glob("*.pem"):
        pem.chmod(0o644)
    done = run("identity", "list")
    assert done.returncode == 2
    assert "chmod 600" in done.stderr
