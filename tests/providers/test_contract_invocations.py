"""The owp specification (docs/spec/owp.md), 8.2 Invocations: over mutual TLS, on both stores."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.providers.contract import ContractError, Invocation, Offer
from modelpact.providers.transport import Partial
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpResponse
from tests.providers.fake_provider import Fake, Message, answer_body, faking, right
from tests.providers.faulty_behaviours import EVENTS, final, hangs, piece
from tests.providers.support import ANY, ECHO, World, assert_whole, call, echo_provider, flags, on_loop


@on_loop
async def test_a_synchronous_response_is_bounded_in_time(world: World, ledger: Ledger) -> None:
    """S003-8.2-2, S003-8.2-1: a response within a bounded time."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        with pytest.raises(InputError, match="bounded in time"):
            await runtime.invoke("fake", ECHO, {}, deadline_s=None)
        fake.behaviour = hangs
        began = time.monotonic()
        late = await runtime.invoke("fake", ECHO, {}, deadline_s=0.2)
        assert time.monotonic() - began >= 0.2
        assert (late.state, str(late.error).partition(":")[0]) == ("failed", "deadline")
        fake.behaviour = right
        done = await runtime.invoke("fake", ECHO, {"a": 1})
        assert (done.state, done.output) == ("completed", {"a": 1})
    assert_whole(ledger)


@on_loop
async def test_an_asynchronous_response_blocks_nobody(world: World, ledger: Ledger) -> None:
    """S003-8.2-3: acknowledged first, delivered when it arrives."""
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        assert opened.state == "open"
        assert opened.acknowledged is not None
        waiting = asyncio.create_task(runtime.wait(opened.id))
        other = await runtime.invoke("fake", ECHO, {"other": "work"})
        assert other.state == "completed"
        assert not waiting.done()
        body = answer_body(opened.id, {"later": True})
        url = f"{host.url}/v1/invocations/{opened.id}/response"
        assert (await call(mine, "POST", url, body, fake.headers(opened.id, body)))[0] == 200
        assert (await waiting).output == {"later": True}
    assert_whole(ledger)


@on_loop
async def test_partial_responses_arrive_during_the_stream(world: World, ledger: Ledger) -> None:
    """S003-8.2-4: partial responses that end in a final one."""
    read = asyncio.Event()

    async def waits_for_its_reader(fake: Fake, message: Message) -> HttpResponse:
        async def body() -> AsyncIterator[bytes]:
            yield piece(fake, message, 1)
            await read.wait()
            yield piece(fake, message, 2)
            yield final(fake, message, 3)

        return HttpResponse(200, EVENTS, body())

    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = waits_for_its_reader
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming")
        stream = runtime.stream(opened)
        first = await anext(stream)
        assert isinstance(first, Partial)
        assert runtime.find(opened.id).state == "open"
        read.set()
        second, done = [item async for item in stream]
        assert isinstance(second, Partial)
        assert isinstance(done, Invocation)
        assert [item.content for item in (first, second)] == [{"n": 1}, {"n": 2}]
        assert (done.state, done.output, done.partials) == ("completed", {"done": True}, 2)
    assert_whole(ledger)


@on_loop
async def test_all_three_semantics_are_supported(world: World, ledger: Ledger) -> None:
    """S003-8.2-6: a runtime supports all three forms."""
    async with world.hosting(ledger) as host, echo_provider().running(world.settings("echo", host.url)):
        runtime = host.runtime
        done = await runtime.invoke("echo", ECHO, {"way": "sync"})
        assert (done.state, done.output) == ("completed", {"way": "sync"})

        opened = await runtime.invoke("echo", ECHO, {"way": "async"}, semantics="async")
        late: list[Any] = [item async for item in runtime.follow(opened.id)]
        opened = await runtime.invoke("echo", ECHO, {"way": "streaming"}, semantics="streaming")
        live: list[Any] = [item async for item in runtime.stream(opened)]
        for way, came in (("async", late), ("streaming", live)):
            assert [item.content for item in came[:-1]] == [{"half": 1}, {"half": 2}]
            assert came[-1].output == {"way": way}
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_an_overdue_stream_is_cancelled_before_its_failure_is_yielded(world: World, ledger: Ledger) -> None:
    """The provider is notified even if the consumer stops at the failure."""

    async def stalls(fake: Fake, message: Message) -> HttpResponse:
        async def body() -> AsyncIterator[bytes]:
            yield piece(fake, message, 1)
            await fake.released.wait()

        return HttpResponse(200, EVENTS, body())

    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = stalls
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming", deadline_s=0.2)
        stream = runtime.stream(opened)
        async for item in stream:
            if isinstance(item, Invocation):
                assert str(item.error).startswith("deadline:")
                assert fake.cancelled == [opened.id]
                break
        else:
            raise AssertionError("the stream ended without its invocation")
    assert_whole(ledger)


@pytest.mark.parametrize(("status", "refused"), [(204, False), (404, False), (500, True)])
@on_loop
async def test_a_refused_cancellation_is_reported(world: World, ledger: Ledger, status: int, refused: bool) -> None:
    """A provider may not know the invocation (404); any other refusal is reported."""
    reports: list[str] = []
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.notifier.on_unnotified = lambda registration, reason: reports.append(reason)
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        fake.cancel_status = status
        await runtime.cancel(opened.id, "not needed")
        assert fake.cancelled == [opened.id]
    expected = [f"fake refused with status {status}: "] if refused else []
    assert reports == expected
    assert_whole(ledger)


@on_loop
async def test_semantics_are_declared_with_the_capability(world: World, ledger: Ledger) -> None:
    """S003-8.2-5, S003-8.2-7: declared with the capability; a provider may support a subset."""
    async with (
        world.hosting(ledger) as host,
        faking(world, offers=(Offer(ECHO, ANY, ANY, ("sync",)),)) as fake,
        world.client("fake") as mine,
    ):
        url = f"{host.url}/v1/providers"
        registration: Any = msgspec.to_builtins(fake.registration)
        wrong: Any
        for wrong in ([], ["sync", "sync"], ["sometimes"], "sync"):
            offers = [{**registration["offers"][0], "semantics": wrong}]
            status, response = await call(mine, "POST", url, {**registration, "offers": offers})
            assert status == 400, wrong
            assert "semantics" in response["error"]["message"] or "offers[0]" in str(response)
        assert (await call(mine, "POST", url, registration))[0] == 201
        assert (await host.runtime.invoke("fake", ECHO, {})).state == "completed"
        for other in ("async", "streaming"):
            with pytest.raises(ContractError, match=f"as sync, not {other}") as caught:
                await host.runtime.invoke("fake", ECHO, {}, semantics=other)
            assert caught.value.code == "unsupported_semantics"
        assert len(fake.received) == 1
    assert flags(ledger) == []
    assert_whole(ledger)
