"""Invocations whose content is not kept: digests stay, prompts and answers do not."""

import asyncio
import hashlib
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.ledger.stores.base import read_migrations
from modelpact.providers.contract import ContentDigest, ContractError, Invocation
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from modelpact.vocabulary.errors import InputError
from tests.providers.fake_provider import accepted, faking
from tests.providers.in_process_providers import Echo, echoing
from tests.providers.support import ECHO, World, assert_whole, events_of, flags, on_loop

MARK = "nobody-else-reads-this"


def digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(msgspec.json.encode(value)).hexdigest()}"


def tables() -> list[str]:
    statements = [line.split() for migration in read_migrations() for line in migration]
    return [words[2] for words in statements if words[:2] == ["CREATE", "TABLE"]]


def stored(ledger: Ledger) -> str:
    """Return everything that is in the store, as one text."""
    return "\n".join(str(row) for name in tables() for row in ledger.read(f"SELECT * FROM {name}"))


@on_loop
async def test_only_digests_are_stored(ledger: Ledger) -> None:
    runtime = echoing(ledger)
    value = {"secret": MARK}
    with_content = await runtime.invoke("echo", ECHO, value)
    assert MARK in stored(ledger)
    other = {"secret": MARK[::-1]}
    done = await runtime.invoke("echo", ECHO, other, keep_content=False)
    assert (done.state, done.output, done.kept) == ("completed", other, False)
    assert MARK[::-1] not in stored(ledger)
    invocation = runtime.find(done.id)
    assert (invocation.input, invocation.output) == (ContentDigest(digest(other)), ContentDigest(digest(other)))
    assert not invocation.kept
    assert runtime.find(with_content.id).output == value
    shapes = [[(event.type, set(event.payload)) for event in events_of(ledger, at)] for at in (with_content, done)]
    assert shapes[0] == shapes[1]
    opened, settled = events_of(ledger, done)
    assert (opened.payload["input"], settled.payload["output"]) == (digest(other), digest(other))
    assert_whole(ledger)


class Counting(Ledger):
    writes = 0

    async def write_async(self, work: Any) -> Any:
        self.writes += 1
        return await super().write_async(work)


@on_loop
async def test_a_stream_that_is_not_kept_takes_as_many_writes_as_a_call(world: World) -> None:
    with Counting.open(world.store) as ledger:
        assert isinstance(ledger, Counting)
        runtime = echoing(ledger)
        value = {"secret": MARK, "pieces": 100}
        opened = await runtime.invoke("echo", ECHO, value, semantics="streaming", keep_content=False)
        *pieces, done = [item async for item in runtime.stream(opened)]
        assert ledger.writes == 2
        assert isinstance(done, Invocation)
        assert (done.state, done.output, done.partials) == ("completed", value, 100)
        contents = [piece.content for piece in pieces if isinstance(piece, Partial)]
        assert [content["piece"] for content in contents] == list(range(1, 101))
        assert [event.type for event in events_of(ledger, done)] == ["capability.invoked", "capability.completed"]
        lines = b"".join(msgspec.json.encode(content) + b"\n" for content in contents)
        recorded = events_of(ledger, done)[-1].payload["partials"]
        assert recorded == {"count": 100, "digest": f"sha256:{hashlib.sha256(lines).hexdigest()}"}
        assert runtime.find(done.id).partials == 100
        assert MARK not in stored(ledger)
        assert runtime.lifecycle.digests == {}
        assert_whole(ledger)


@on_loop
async def test_partials_can_be_hashed_while_the_answer_is_kept(ledger: Ledger) -> None:
    runtime = echoing(ledger)
    value = {"pieces": 100}
    opened = await runtime.invoke("echo", ECHO, value, semantics="streaming", keep_partials=False)
    *pieces, done = [item async for item in runtime.stream(opened)]
    assert len(pieces) == 100
    invocation = runtime.find(opened.id)
    assert (invocation.input, invocation.output, invocation.partials) == (value, value, 100)
    assert isinstance(done, Invocation)
    assert done.output == value
    kinds = [event.type for event in events_of(ledger, invocation)]
    assert kinds == ["capability.invoked", "capability.completed"]
    assert events_of(ledger, invocation)[-1].payload["partials"]["count"] == 100
    assert ledger.read("SELECT COUNT(*) FROM partials") == [(0,)]
    assert runtime.lifecycle.digests == {}
    assert_whole(ledger)


@on_loop
async def test_a_cancelled_stream_records_the_digest_of_its_partials(ledger: Ledger) -> None:
    carrier = Echo()
    carrier.released.clear()
    runtime = echoing(ledger, carrier)
    opened = await runtime.invoke("echo", ECHO, {}, semantics="streaming", keep_content=False)
    seen = asyncio.Event()

    async def read() -> None:
        async for piece in runtime.stream(opened):
            if isinstance(piece, Partial) and piece.number == 2:
                seen.set()

    reading = asyncio.create_task(read())
    await seen.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    invocation = runtime.find(opened.id)
    assert (invocation.state, invocation.partials) == ("cancelled", 2)
    assert events_of(ledger, invocation)[-1].payload["partials"]["count"] == 2
    assert runtime.lifecycle.digests == {}
    assert_whole(ledger)


@on_loop
async def test_partials_out_of_order_are_a_violation(ledger: Ledger) -> None:
    class Confused(Echo):
        async def stream(self, registration: Any, invocation: Any) -> Any:
            yield Partial(invocation.id, 1, {})
            yield Partial(invocation.id, 3, {})

    runtime = echoing(ledger, Confused())
    opened = await runtime.invoke("echo", ECHO, {}, semantics="streaming", keep_content=False)
    *_, done = [item async for item in runtime.stream(opened)]
    assert isinstance(done, Invocation)
    assert (done.state, done.partials) == ("failed", 1)
    assert "not 2" in str(done.error)
    assert flags(ledger) == [("echo", "reordered_partial")]


@on_loop
async def test_after_a_restart_it_fails_as_interrupted_with_an_estimated_cost(world: World) -> None:
    """8.4: outstanding invocations are persisted; one without its content cannot be sent again."""
    with Ledger.open(world.store) as ledger:
        carrier = Echo()
        carrier.released.clear()
        runtime = echoing(ledger, carrier)
        for semantics in ("sync", "streaming"):
            calling = asyncio.create_task(
                runtime.invoke("echo", ECHO, {"a": 1}, semantics=semantics, keep_content=False)
            )
            while not runtime.invocations("open") or (semantics == "sync" and not carrier.received):
                await asyncio.sleep(0.01)
            if semantics == "streaming":
                await calling
            else:
                left = calling
        with Ledger.open(world.store) as after:
            fresh = Echo()
            again = Runtime(after, transports={"echo": fresh})
            taken = await again.recover()
            assert [invocation.state for invocation in taken] == ["failed", "failed"]
            for invocation in taken:
                assert str(invocation.error).startswith("interrupted")
                event = after.event(str(invocation.settled_by))
                assert event is not None
                assert event.payload["cost"]["estimate"] is True
            assert fresh.received == []
            assert_whole(after)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)


@on_loop
async def test_an_idempotency_key_returns_the_record_without_the_answer(ledger: Ledger) -> None:
    carrier = Echo()
    runtime = echoing(ledger, carrier)
    value = {"secret": MARK}
    first, *others = await asyncio.gather(
        *(runtime.invoke("echo", ECHO, value, idempotency_key="once", keep_content=False) for _ in range(4))
    )
    assert {invocation.id for invocation in others} == {first.id}
    assert carrier.received == [first.id]
    assert first.output == value
    assert {invocation.output for invocation in others} == {ContentDigest(digest(value))}
    with pytest.raises(ContractError) as caught:
        await runtime.invoke("echo", ECHO, {}, idempotency_key="once", keep_content=False)
    assert caught.value.code == "idempotency_conflict"


@on_loop
async def test_asynchronous_invocations_keep_their_content(lite: World, lite_ledger: Ledger) -> None:
    with pytest.raises(InputError, match="answered by way of the store"):
        await echoing(lite_ledger).invoke("echo", ECHO, {}, semantics="async", keep_content=False)
    assert lite_ledger.events("invocations/runtime") == []
    async with lite.hosting(lite_ledger) as host, faking(lite) as fake:
        host.runtime.registry.register(fake.registration)

        async def promises(fake: Any, message: Any) -> Any:
            return accepted(fake, message)

        fake.behaviour = promises
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="streaming", keep_content=False)
        (done,) = [item async for item in host.runtime.stream(opened)]
        assert isinstance(done, Invocation)
        assert (done.state, str(done.error).partition(":")[0]) == ("failed", "not_kept")
    assert flags(lite_ledger) == []
    assert_whole(lite_ledger)
