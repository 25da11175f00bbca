"""A runtime writes in bulk on assumptions; where one is wrong, it reads and writes again."""

import asyncio
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.ledger.stores.sqlite import SqliteConnection
from modelpact.providers.contract import ContractError, Offer
from modelpact.providers.runtime.runtime import Runtime
from tests.providers.in_process_providers import ECHOING, Echo, echoing
from tests.providers.support import ANY, ECHO, World, assert_whole, events_of, flags, on_loop


@on_loop
async def test_the_settlement_of_another_runtime_stands(world: World, ledger: Ledger) -> None:
    """8.4, three runtimes on one store: whoever settles first settles; the rest is unharmed."""
    carrier = Echo()
    carrier.released.clear()
    runtime = echoing(ledger, carrier)
    calls = [asyncio.create_task(runtime.invoke("echo", ECHO, {"n": n})) for n in range(8)]
    while len(carrier.received) < 8:
        await asyncio.sleep(0.01)
    with Ledger.open(world.store) as other:
        ended = await Runtime(other, name="other").cancel(carrier.received[3], "somebody else said so")
        assert ended.state == "cancelled"
    carrier.released.set()
    done = {tool_call.id: tool_call for tool_call in await asyncio.gather(*calls)}
    assert done[ended.id].state == "cancelled"
    assert done[ended.id].settled_by == ended.settled_by
    assert sum(item.state == "completed" for item in done.values()) == 7
    # The answer came all the same: its cost replaces the one that had to be estimated.
    corrected = [event for event in ledger.events(ended.envelope) if event.type == "cost.corrected"]
    assert [event.payload["corrects"] for event in corrected] == [ended.settled_by]
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_nothing_is_routed_to_a_provider_that_another_runtime_deregistered(world: World, ledger: Ledger) -> None:
    """8.1: "the runtime MUST cease routing invocations to it", whoever took it out."""
    carrier = Echo()
    runtime = echoing(ledger, carrier)
    await runtime.invoke("echo", ECHO, {})
    with Ledger.open(world.store) as other:
        theirs = Runtime(other, name="other")
        await theirs.deregister("echo")
        for semantics in ("sync", "async", "streaming"):
            with pytest.raises(ContractError) as caught:
                await runtime.invoke("echo", ECHO, {}, semantics=semantics)
            assert caught.value.code == "provider_deregistered"
        assert len(carrier.received) == 1
        one_way = Offer(ECHO, {"type": "object", "required": ["n"]}, ANY, ("sync",))
        theirs.registry.register(msgspec.structs.replace(ECHOING, offers=(one_way,)))
        with pytest.raises(ContractError, match="not async"):
            await runtime.invoke("echo", ECHO, {}, semantics="async")
        with pytest.raises(ContractError, match="required"):
            await runtime.invoke("echo", ECHO, {})
        assert (await runtime.invoke("echo", ECHO, {"n": 1})).state == "completed"
        theirs.registry.register(ECHOING)
        assert (await runtime.invoke("echo", ECHO, {})).state == "completed"
    assert_whole(ledger)


@on_loop
async def test_an_idempotency_key_used_by_two_runtimes_is_one_invocation(world: World, ledger: Ledger) -> None:
    with Ledger.open(world.store) as other:
        mine, theirs = Echo(), Echo()
        first = echoing(ledger, mine)
        second = Runtime(other, name="other", transports={"echo": theirs})
        keys = [f"k{n}" for n in range(12)]
        both = await asyncio.gather(
            *(item.invoke("echo", ECHO, {"k": k}, idempotency_key=k) for k in keys for item in (first, second))
        )
        assert len({invocation.id for invocation in both}) == len(keys)
        assert len(mine.received) + len(theirs.received) == len(keys)
        assert {invocation.state for invocation in both} == {"completed"}
    assert_whole(ledger)


@on_loop
async def test_partials_of_one_batch_keep_their_order(ledger: Ledger) -> None:
    runtime = echoing(ledger)

    async def follow(n: int) -> list[Any]:
        opened = await runtime.invoke("echo", ECHO, {"n": n, "pieces": 5}, semantics="streaming")
        return [item async for item in runtime.stream(opened)]

    for *pieces, done in await asyncio.gather(*map(follow, range(16))):
        assert [piece.number for piece in pieces] == [1, 2, 3, 4, 5]
        assert (done.state, done.partials) == ("completed", 5)
        kinds = [event.type for event in events_of(ledger, done)]
        assert kinds == ["capability.invoked", *["capability.partial"] * 5, "capability.completed"]
        assert runtime.find(done.id) == done
    assert_whole(ledger)


@on_loop
async def test_an_invalid_row_fails_no_other_of_its_batch(ledger: Ledger) -> None:
    """Rows that share a statement share no fate: what a store refuses is refused to its owner."""
    runtime = echoing(ledger)
    good = [runtime.invoke("echo", ECHO, {"n": n}) for n in range(6)]
    bad = runtime.invoke("echo", ECHO, {}, idempotency_key="\ud800")
    *done, failed = await asyncio.gather(*good, bad, return_exceptions=True)
    assert isinstance(failed, Exception)
    assert {getattr(item, "state", item) for item in done} == {"completed"}
    assert_whole(ledger)


@on_loop
async def test_invocations_share_statements(lite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = echoing(lite_ledger)
    await runtime.invoke("echo", ECHO, {})
    parts: list[str] = []
    many, execute = SqliteConnection.execute_many, SqliteConnection.execute

    def watched_many(self: Any, sql: str, rows: Any) -> int:
        parts.append(sql)
        return many(self, sql, rows)

    def watched(self: Any, sql: str, params: Any = ()) -> Any:
        parts.append(sql)
        return execute(self, sql, params)

    monkeypatch.setattr(SqliteConnection, "execute_many", watched_many)
    monkeypatch.setattr(SqliteConnection, "execute", watched)
    await runtime.invoke("echo", ECHO, {})
    assert len(parts) == 8, parts  # to open: two and a commit; to settle: four and a commit
    parts.clear()
    await asyncio.gather(*(runtime.invoke("echo", ECHO, {"n": n}) for n in range(64)))
    assert len(parts) < 64
