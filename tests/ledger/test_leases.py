"""Leases on both stores: one live process for a name, free again when that dies."""

import contextlib
import subprocess
import sys
import time

import pytest

from modelpact.ledger.stores.base import Lease, NameTaken, Store, open_store
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


def test_one_has_a_name_and_others_have_others(store: Store) -> None:
    first, other = store.lease("host/a"), store.lease("host/b")
    with pytest.raises(NameTaken, match="host/a is held by another live process"):
        store.lease("host/a")
    assert first.is_held()
    assert other.is_held()
    first.release()
    again = store.lease("host/a")
    again.release()
    other.release()


def test_a_killed_process_has_no_name(store: Store, url: str) -> None:
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


def test_a_connection_that_broke_is_made_again_unless_another_was_faster(
    postgres_url: str,
) -> None:
    store = open_store(postgres_url)
    lease = store.lease("host/a")
    assert isinstance(lease, PostgresLease)
    _break(lease)
    assert lease.is_held(), "the store was away, nobody else has it"
    assert lease.is_held()
    with pytest.raises(NameTaken):
        store.lease("host/a")
    _break(lease)
    other = _taken(store, "host/a")
    lease.is_held()
    assert not lease.is_held()
    other.release()


def test_a_name_that_ones_own_broken_connection_holds_is_not_lost(postgres_url: str) -> None:
    """The server misses a link that vanished only later; until then nobody else can have it."""
    store = open_store(postgres_url)
    lease = store.lease("host/a")
    assert isinstance(lease, PostgresLease)
    vanished, lease._connection = lease._connection, None
    assert vanished is not None
    assert lease.is_held()
    assert lease.is_held()
    vanished.close()
    while _broken(lease):
        assert lease.is_held()
    with pytest.raises(NameTaken):
        store.lease("host/a")
    lease.release()


def _taken(store: Store, name: str) -> Lease:
    """Take a name as soon as the server has noticed that it is free."""
    while True:
        with contextlib.suppress(NameTaken):
            return store.lease(name)


def _broken(lease: PostgresLease) -> bool:
    return lease._connection is None


def _break(lease: PostgresLease) -> None:
    assert lease._connection is not None
    lease._connection._raw.close()
