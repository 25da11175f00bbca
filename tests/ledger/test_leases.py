"""Leases on both stores: a name has one live holder, and is free when that dies."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelpact.ledger.errors import NameTaken
from modelpact.ledger.stores.base import Lease, Store, open_store
from modelpact.ledger.stores.postgres import PostgresLease

HOLD = """
import sys
from modelpact.ledger.stores.base import open_store
lease = open_store(sys.argv[1]).lease("host/a")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)


def test_a_name_has_one_holder(store: Store) -> None:
    first, other = store.lease("host/a"), store.lease("host/b")
    with pytest.raises(NameTaken, match="host/a is held by another live process"):
        store.lease("host/a")
    assert first.is_held()
    assert other.is_held()
    first.release()
    again = store.lease("host/a")
    again.release()
    other.release()


def test_a_killed_process_loses_its_name(store: Store, url: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(NameTaken):
            store.lease("host/a")
        process.kill()
        process.wait(30)
    until = time.monotonic() + 30
    while True:
        try:
            store.lease("host/a").release()
            return
        except NameTaken:  # the server needs a moment to notice
            assert time.monotonic() < until


def test_a_lost_lease_is_taken_again_if_the_name_is_free(postgres_url: str) -> None:
    store = open_store(postgres_url)
    lease = store.lease("host/a")
    assert isinstance(lease, PostgresLease)
    _break(lease)
    assert lease.is_held(), "the store was unreachable, and the name is free"
    assert lease.is_held()
    with pytest.raises(NameTaken):
        store.lease("host/a")
    _break(lease)
    other = _take_when_free(store, "host/a")
    lease.is_held()
    assert not lease.is_held()
    other.release()


def test_a_name_held_by_its_own_broken_connection_is_not_lost(postgres_url: str) -> None:
    """Until the server notices the broken connection, no other process can take the name."""
    store = open_store(postgres_url)
    lease = store.lease("host/a")
    assert isinstance(lease, PostgresLease)
    vanished, lease._connection = lease._connection, None
    assert vanished is not None
    assert lease.is_held()
    assert lease.is_held()
    vanished.close()
    while _is_broken(lease):
        assert lease.is_held()
    with pytest.raises(NameTaken):
        store.lease("host/a")
    lease.release()


def _take_when_free(store: Store, name: str) -> Lease:
    """Take a name as soon as the server has noticed that it is free."""
    while True:
        with contextlib.suppress(NameTaken):
            return store.lease(name)


def _is_broken(lease: PostgresLease) -> bool:
    return lease._connection is None


def _break(lease: PostgresLease) -> None:
    assert lease._connection is not None
    lease._connection._raw.close()


def test_a_release_removes_the_file_of_sqlite(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / 'ledger.db'}")
    lease = store.lease("host/a")
    (file,) = tmp_path.glob("*.lease")
    assert file.stat().st_mode & 0o777 == 0o600
    lease.release()
    assert list(tmp_path.glob("*.lease*")) == [tmp_path / "ledger.db.leases"]
    again = store.lease("host/a")
    lease.release()  # it must not remove the file of the next holder
    with pytest.raises(NameTaken):
        store.lease("host/a")
    again.release()


RACE = """
import os, sys, time
from modelpact.ledger.errors import NameTaken
from modelpact.ledger.stores.base import open_store
url, marker, until = sys.argv[1], sys.argv[2], time.monotonic() + 1
taken = 0
while time.monotonic() < until:
    try:
        lease = open_store(url).lease("host/a")
    except NameTaken:
        continue
    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))  # fails if another process holds it too
    taken += 1
    os.unlink(marker)
    lease.release()
print(taken)
"""


def test_processes_that_race_for_a_name_never_hold_it_together(tmp_path: Path) -> None:
    arguments = [f"sqlite:{tmp_path / 'ledger.db'}", str(tmp_path / "marker")]
    processes = [subprocess.Popen([sys.executable, "-c", RACE, *arguments], stdout=subprocess.PIPE) for _ in range(3)]
    counts = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(counts) > 0
