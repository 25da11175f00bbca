"""Names are leased while a process runs; its connections end with it."""

import asyncio
import threading

import pytest

from modelpact.gateway.server import leased
from modelpact.ledger.stores.base import open_store
from modelpact.ledger.stores.postgres import PostgresConnection, PostgresStore
from tests.stores import Counted

NAMES = {"gateway/a": "[gateway] name", "host/a": "[host] name"}


def test_cancelled_while_it_takes_a_name_it_lets_go_of_it(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread cannot be cancelled: what it takes is let go again."""
    reached, free = threading.Event(), threading.Event()
    connect = PostgresStore.connect

    def slow(self: PostgresStore, *, writer: bool) -> PostgresConnection:
        reached.set()
        assert free.wait(60)
        return connect(self, writer=writer)

    monkeypatch.setattr(PostgresStore, "connect", slow)

    async def hold() -> None:
        async with leased(open_store(counted.url), NAMES):
            raise AssertionError("it must not begin")

    async def main() -> None:
        holding = asyncio.create_task(hold())
        await asyncio.to_thread(reached.wait, 60)
        holding.cancel()
        await asyncio.sleep(0)
        free.set()
        await asyncio.wait([holding])
        assert holding.cancelled()

    asyncio.run(main())
    counted.assert_none()


def test_cancelled_while_it_lets_go_it_lets_go_of_all(counted: Counted) -> None:
    async def hold(entered: asyncio.Event, leave: asyncio.Event) -> None:
        async with leased(open_store(counted.url), NAMES):
            entered.set()
            await leave.wait()

    async def main() -> None:
        for turns in range(6):  # a cancellation at each step of leaving
            entered, leave = asyncio.Event(), asyncio.Event()
            holding = asyncio.create_task(hold(entered, leave))
            await entered.wait()
            assert counted.count() == len(NAMES)
            leave.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            holding.cancel()
            await asyncio.wait([holding])
            await asyncio.to_thread(counted.assert_none)

    asyncio.run(main())
