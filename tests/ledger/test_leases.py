"""Leases on both stores: a name has one live holder, and is free when that dies."""

import contextlib
import subprocess
import sys
import time

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
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
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


def test_a_lost_lease_is_taken_again_if_the_name_is_free(
    postgres_url: str,
) -> None:
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
