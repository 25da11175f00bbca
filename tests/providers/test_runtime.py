"""The runtime beyond the owp specification: idempotency, deadlines, reminders, callers that
leave.
"""

import asyncio
from typing import Any

import pytest

from modelpact.ledger import Ledger
from modelpact.providers.contract import ContractError, Invocation, Offer
from modelpact.providers.runtime.human import ASK, human_registration
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from tests.providers.fake_provider import faking
from tests.providers.faulty_behaviours import hangs, stalls
from tests.providers.support import ANY, ECHO, World, assert_whole, echo_provider, events_of, on_loop, until


@on_loop
async def test_inputs_are_checked_before_anything_is_recorded(world: World, ledger: Ledger) -> None:
    schema = {"type": "object", "required": ["city"]}
    offer = Offer(ECHO, schema, ANY)
    async with world.hosting(ledger) as host, faking(world, offers=(offer,)) as fake:
        host.runtime.registry.register(fake.registration)
        for value in ({}, "text", {"city": float("nan")}, {"city": object()}):
            with pytest.raises(ContractError):
                await host.runtime.invoke("fake", ECHO, value)
        assert host.runtime.invocations() == []
        assert fake.received == []


@on_loop
async def test_idempotency_keys_give_the_same_invocation(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        first = await runtime.invoke("fake", ECHO, {"a": 1}, idempotency_key="k")
        again = await runtime.invoke("fake", ECHO, {"a": 1}, idempotency_key="k")
        assert first == again
        assert len(fake.received) == 1
        with pytest.raises(ContractError, match="another invocation") as caught:
            await runtime.invoke("fake", ECHO, {"a": 2}, idempotency_key="k")
        assert caught.value.code == "idempotency_conflict"


@on_loop
async def test_humans_are_reminded_and_deadlines_kept_by_any_runtime(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger, name="first") as first:
        first.runtime.registry.register(human_registration())
        opened = await first.runtime.invoke(
            "human", ASK, {"question": "?"}, semantics="async", deadline_s=0.6, remind_every_s=0.1
        )
        assert isinstance(opened, Invocation)
    # The runtime that opened it is gone; another one on the store keeps time.
    async with world.hosting(ledger, name="second") as second:
        done = await until(lambda: (invocation := second.runtime.find(opened.id)).state == "failed" and invocation)
        assert "deadline" in str(done.error)
    kinds = [event.type for event in events_of(ledger, opened)]
    assert kinds.count("capability.reminded") >= 1
    assert kinds[-1] == "capability.failed"
    assert_whole(ledger)


@on_loop
async def test_a_stream_requested_twice_runs_once(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, echo_provider().running(world.settings("echo", host.url)):
        runtime = host.runtime
        how: Any = {"semantics": "streaming", "idempotency_key": "k"}
        first = await runtime.invoke("echo", ECHO, {"a": 1}, **how)
        again = await runtime.invoke("echo", ECHO, {"a": 1}, **how)
        assert first.id == again.id
        pieces = [piece async for piece in runtime.stream(first)]
        repeated = [piece async for piece in runtime.stream(again)]
        assert pieces == repeated
        assert len(pieces) == 3
    assert_whole(ledger)


def test_deadlines_hold_without_a_host(lite_ledger: Ledger) -> None:
    async def main() -> None:
        runtime = Runtime(lite_ledger)
        runtime.registry.register(human_registration())
        invocation = await runtime.invoke("human", ASK, {"question": "?"}, semantics="async", deadline_s=0.1)
        done = await runtime.wait(invocation.id)
        assert str(done.error).startswith("deadline")

    asyncio.run(asyncio.wait_for(main(), 10))


@on_loop
async def test_a_reader_who_leaves_a_stream_cancels_it(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = stalls
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="streaming")
        stream = host.runtime.stream(opened)
        assert isinstance(await anext(stream), Partial)
        await stream.aclose()  # type: ignore[attr-defined]
        assert host.runtime.find(opened.id).state == "cancelled"
        assert fake.cancelled == [opened.id]
    assert_whole(ledger)


@on_loop
async def test_a_caller_who_leaves_cancels_and_the_provider_hears(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = hangs
        task = asyncio.create_task(host.runtime.invoke("fake", ECHO, {}))
        await until(lambda: fake.received)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (invocation,) = await until(lambda: host.runtime.invocations("cancelled"))
        await until(lambda: fake.cancelled == [invocation.id])
    assert_whole(ledger)
