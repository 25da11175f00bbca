"""Providers that misbehave: each leaves a clear record and a working system."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from modelpact.identity import HEADER
from modelpact.ledger import Ledger
from modelpact.providers.carrier import Partial
from modelpact.providers.contract import Invocation
from modelpact.wire import Outgoing
from tests.providers.fake import (
    COST,
    Behaviour,
    Fake,
    Message,
    accepted,
    answer_body,
    faking,
    partial_body,
    right,
    streamed,
)
from tests.providers.support import (
    ECHO,
    World,
    assert_whole,
    call,
    events_of,
    flags,
    on_loop,
    until,
)


async def hangs(fake: Fake, message: Message) -> Outgoing:
    await fake.released.wait()
    return Outgoing(500)


async def drips(fake: Fake, message: Message) -> Outgoing:
    whole = answer_body(message["invocationId"], {"slow": "x" * 100_000})

    async def body() -> AsyncIterator[bytes]:
        for place in range(len(whole)):
            yield whole[place : place + 1]
            await asyncio.sleep(0.02)

    return Outgoing(200, fake.headers(message["invocationId"], whole), body())


async def floods(fake: Fake, message: Message) -> Outgoing:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(1_600):
            yield b" " * 65_536

    return Outgoing(200, ((HEADER, "none"),), body())


async def floods_events(fake: Fake, message: Message) -> Outgoing:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(1_600):
            yield b": " + b"x" * 65_536 + b"\n"

    return Outgoing(200, (("content-type", "text/event-stream"),), body())


async def garbage(fake: Fake, message: Message) -> Outgoing:
    body = b"\x00\xff not json \xf0"
    return Outgoing(200, fake.headers(message["invocationId"], body), body)


async def unsigned(fake: Fake, message: Message) -> Outgoing:
    return Outgoing(200, (), answer_body(message["invocationId"], {}))


async def forged(fake: Fake, message: Message) -> Outgoing:
    return fake.answer(message["invocationId"], {}, ring=fake.world.keyring("thief"))


async def nonsense_header(fake: Fake, message: Message) -> Outgoing:
    body = answer_body(message["invocationId"], {})
    return Outgoing(200, ((HEADER, "v1;sig=yes"),), body)


async def stale(fake: Fake, message: Message) -> Outgoing:
    return fake.answer(message["invocationId"], {}, time=time.time() - 3_600)


async def replays(fake: Fake, message: Message) -> Outgoing:
    """Answer every invocation with the right answer to the first."""
    return fake.answer(fake.heard[0]["invocationId"], {})


async def both(fake: Fake, message: Message) -> Outgoing:
    return fake.answer(message["invocationId"], {}, fields={"error": "and"})


async def more_fields(fake: Fake, message: Message) -> Outgoing:
    return fake.answer(message["invocationId"], {}, fields={"extra": 1})


async def deep(fake: Fake, message: Message) -> Outgoing:
    body = b'{"invocationId":"x","output":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return Outgoing(200, fake.headers(message["invocationId"], body), body)


async def lone_surrogate(fake: Fake, message: Message) -> Outgoing:
    body = answer_body(message["invocationId"], {"text": "@"}).replace(b'"@"', b'"\\ud800 x"')
    return Outgoing(200, fake.headers(message["invocationId"], body), body)


async def only_promises(fake: Fake, message: Message) -> Outgoing:
    return accepted(fake, message)


async def breaks_down(fake: Fake, message: Message) -> Outgoing:
    raise RuntimeError("provider fell over")


@pytest.mark.parametrize(
    ("behaviour", "error", "flagged"),
    [
        (hangs, "deadline", None),
        (drips, "deadline", None),
        (floods, "oversized_response", "oversized_response"),
        (garbage, "invalid_response", "invalid_response"),
        (unsigned, "unsigned_response", "unsigned_response"),
        (forged, "forged_signature", "forged_signature"),
        (nonsense_header, "forged_signature", "forged_signature"),
        (stale, "replayed_response", "replayed_response"),
        (replays, "foreign_response", "foreign_response"),
        (both, "invalid_response", "invalid_response"),
        (more_fields, "invalid_response", "invalid_response"),
        (deep, "invalid_response", "invalid_response"),
        (lone_surrogate, "invalid_response", "invalid_response"),
        (only_promises, "invalid_response", "invalid_response"),
        (breaks_down, "unreachable", None),
    ],
)
@on_loop
async def test_a_bad_answer_fails_its_invocation_and_nothing_else(
    lite: World, lite_ledger: Ledger, behaviour: Behaviour, error: str, flagged: str | None
) -> None:
    async with lite.hosting(lite_ledger) as host, faking(lite) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        good = await runtime.invoke("fake", ECHO, {"n": 1})
        fake.behaviour = behaviour
        bad = await runtime.invoke("fake", ECHO, {"n": 2}, deadline_s=1.0)
        assert bad.state == "failed"
        assert str(bad.error).startswith(error), bad.error
        assert flags(lite_ledger) == ([("fake", flagged)] if flagged else [])
        assert events_of(lite_ledger, bad)[-1].payload["cost"]["estimate"] is True
        fake.behaviour = right
        after = await runtime.invoke("fake", ECHO, {"n": 3})
        assert (good.state, after.state, after.output) == ("completed", "completed", {"n": 3})
        if error == "deadline":
            assert fake.cancelled == [bad.id]
    assert_whole(lite_ledger)


def piece(fake: Fake, message: Message, number: int, sequence: int | None = None) -> bytes:
    body = partial_body(message["invocationId"], number, {"n": number})
    return fake.event("partial", message["invocationId"], body, sequence or number)


def final(fake: Fake, message: Message, sequence: int) -> bytes:
    body = answer_body(message["invocationId"], {"done": True})
    return fake.event("final", message["invocationId"], body, sequence)


async def reorders(fake: Fake, message: Message) -> Outgoing:
    return streamed(*(piece(fake, message, number) for number in (1, 3, 2)))


async def renumbers(fake: Fake, message: Message) -> Outgoing:
    return streamed(piece(fake, message, 1), piece(fake, message, 3, sequence=2))


async def drops_one(fake: Fake, message: Message) -> Outgoing:
    return streamed(piece(fake, message, 1), final(fake, message, 3))


async def repeats(fake: Fake, message: Message) -> Outgoing:
    return streamed(piece(fake, message, 1), piece(fake, message, 1))


async def stops(fake: Fake, message: Message) -> Outgoing:
    return streamed(piece(fake, message, 1))


async def unsigned_events(fake: Fake, message: Message) -> Outgoing:
    return streamed(b"event: partial\ndata: {}\n\n")


async def other_events(fake: Fake, message: Message) -> Outgoing:
    return streamed(piece(fake, message, 1).replace(b"event: partial", b"event: ping"))


async def another_piece(fake: Fake, message: Message) -> Outgoing:
    body = partial_body("inv_other", 1, {})
    return streamed(fake.event("partial", "inv_other", body, 1))


async def vanishes(fake: Fake, message: Message) -> Outgoing:
    async def body() -> AsyncIterator[bytes]:
        yield piece(fake, message, 1)
        raise ConnectionResetError

    return Outgoing(200, (("content-type", "text/event-stream"),), body())


async def stalls(fake: Fake, message: Message) -> Outgoing:
    async def body() -> AsyncIterator[bytes]:
        yield piece(fake, message, 1)
        await fake.released.wait()

    return Outgoing(200, (("content-type", "text/event-stream"),), body())


@pytest.mark.parametrize(
    ("behaviour", "error", "flagged", "kept"),
    [
        (reorders, "reordered_response", "reordered_response", 1),
        (renumbers, "reordered_partial", "reordered_partial", 1),
        (drops_one, "reordered_response", "reordered_response", 1),
        (repeats, "reordered_response", "reordered_response", 1),
        (stops, "cut_off", None, 1),
        (unsigned_events, "invalid_response", "invalid_response", 0),
        (other_events, "invalid_response", "invalid_response", 0),
        (another_piece, "foreign_response", "foreign_response", 0),
        (vanishes, "unreachable", None, 1),
        (stalls, "deadline", None, 1),
        (floods_events, "oversized_response", "oversized_response", 0),
    ],
)
@on_loop
async def test_a_bad_stream_ends_with_a_failed_invocation(
    lite: World,
    lite_ledger: Ledger,
    behaviour: Behaviour,
    error: str,
    flagged: str | None,
    kept: int,
) -> None:
    async with lite.hosting(lite_ledger) as host, faking(lite) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = behaviour
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming", deadline_s=1.5)
        came = [one async for one in runtime.stream(opened)]
        end = came[-1]
        assert isinstance(end, Invocation)
        assert (end.state, len(came) - 1) == ("failed", end.partials)
        # What a provider that vanishes has sent may not have left its buffers.
        assert end.partials == kept or (behaviour is vanishes and end.partials < kept)
        assert str(end.error).startswith(error), end.error
        assert flags(lite_ledger) == ([("fake", flagged)] if flagged else [])
    assert_whole(lite_ledger)


@on_loop
async def test_a_reader_who_leaves_a_stream_cancels_it(lite: World, lite_ledger: Ledger) -> None:
    async with lite.hosting(lite_ledger) as host, faking(lite) as fake:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = stalls
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="streaming")
        stream = host.runtime.stream(opened)
        assert isinstance(await anext(stream), Partial)
        await stream.aclose()  # type: ignore[attr-defined]
        assert host.runtime.find(opened.id).state == "cancelled"
        assert fake.cancelled == [opened.id]
    assert_whole(lite_ledger)


@on_loop
async def test_a_caller_who_leaves_cancels_and_the_provider_hears(
    lite: World, lite_ledger: Ledger
) -> None:
    async with lite.hosting(lite_ledger) as host, faking(lite) as fake:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = hangs
        task = asyncio.create_task(host.runtime.invoke("fake", ECHO, {}))
        await until(lambda: fake.heard)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (found,) = await until(lambda: host.runtime.listed("cancelled"))
        await until(lambda: fake.cancelled == [found.id])
    assert_whole(lite_ledger)


@on_loop
async def test_a_provider_that_is_not_there(lite: World, lite_ledger: Ledger) -> None:
    async with lite.hosting(lite_ledger) as host:
        host.runtime.registry.register(lite.registration("fake", "https://127.0.0.1:1"))
        for semantics in ("sync", "async"):
            done = await host.runtime.invoke("fake", ECHO, {}, semantics=semantics)
            assert done.state == "failed"
            assert str(done.error).startswith("unreachable")
        assert flags(lite_ledger) == []
    assert_whole(lite_ledger)


@on_loop
async def test_late_answers_over_the_surface_are_judged_too(world: World, ledger: Ledger) -> None:
    """Forged, foreign, unknown, repeated: refused, flagged; the right one still finds its way."""
    async with (
        world.hosting(ledger) as host,
        faking(world) as fake,
        faking(world, "rival") as rival,
        world.client("fake") as mine,
        world.client("rival") as theirs,
        world.client("stranger") as stranger,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        runtime.registry.register(rival.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}"
        body = answer_body(opened.id, {"who": "me"})

        async def push(client: Any, where: str, headers: Any, data: bytes = body) -> Any:
            status, said = await call(client, "POST", where, data, headers)
            error = said.get("error", {})
            return status, error.get("violation") or error.get("code")

        thief = world.keyring("thief")
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body, ring=thief))
        assert got == (403, "forged_signature")
        assert await push(mine, f"{url}/response", ()) == (403, "unsigned_response")
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body, 2))
        assert got == (403, "reordered_response")
        got = await push(theirs, f"{url}/response", rival.headers(opened.id, body))
        assert got == (404, "unknown_invocation")
        nowhere = f"{host.url}/v1/invocations/inv_nothing/response"
        got = await push(mine, nowhere, fake.headers("inv_nothing", body))
        assert got == (404, "unknown_invocation")
        got = await push(stranger, f"{url}/response", fake.headers(opened.id, body))
        assert got == (403, "not_yours")
        assert runtime.find(opened.id).state == "open"
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body))
        assert got == (200, None)
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body))
        assert got == (409, "answered_twice")
        done = runtime.find(opened.id)
        assert (done.state, done.output) == ("completed", {"who": "me"})
        assert flags(ledger) == [
            ("fake", "forged_signature"),
            ("fake", "unsigned_response"),
            ("fake", "reordered_response"),
            ("rival", "foreign_invocation"),
            ("fake", "unknown_invocation"),
            ("fake", "answered_twice"),
        ]
    assert_whole(ledger)


@on_loop
async def test_pushed_pieces_keep_their_order(world: World, ledger: Ledger) -> None:
    async with (
        world.hosting(ledger) as host,
        faking(world) as fake,
        world.client("fake") as mine,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = only_promises
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming")
        came: list[Any] = []

        async def follow() -> None:
            async for one in runtime.stream(opened):
                came.append(one)

        following = asyncio.create_task(follow())
        url = f"{host.url}/v1/invocations/{opened.id}"
        await until(lambda: runtime.find(opened.id).acknowledged)
        for number in (1, 2):
            body = partial_body(opened.id, number, {"n": number})
            headers = fake.headers(opened.id, body, number)
            assert (await call(mine, "POST", f"{url}/partials", body, headers))[0] == 200
        body = partial_body(opened.id, 4, {})
        status, said = await call(
            mine, "POST", f"{url}/partials", body, fake.headers(opened.id, body, 4)
        )
        assert (status, said["error"]["violation"]) == (403, "reordered_response")
        body = answer_body(opened.id, {"end": 1})
        status, _ = await call(
            mine, "POST", f"{url}/response", body, fake.headers(opened.id, body, 3)
        )
        assert status == 200
        await following
        assert [one.content["n"] for one in came[:-1]] == [1, 2]
        assert came[-1].output == {"end": 1}
    assert_whole(ledger)


@on_loop
async def test_an_answer_after_the_deadline_corrects_the_cost_only(
    world: World, ledger: Ledger
) -> None:
    async with (
        world.hosting(ledger) as host,
        faking(world) as fake,
        world.client("fake") as mine,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async", deadline_s=0.2)
        done = await runtime.wait(opened.id)
        assert str(done.error).startswith("deadline")
        url = f"{host.url}/v1/invocations/{opened.id}/response"
        body = answer_body(opened.id, {"late": True}, cost=[{"unit": "discrete", "amount": 9}])
        status, said = await call(mine, "POST", url, body, fake.headers(opened.id, body))
        assert (status, said["error"]["code"]) == (409, "settled")
        last = ledger.events(opened.envelope)[-1]
        assert (last.type, last.payload["corrects"]) == ("cost.corrected", done.settled_by)
        assert runtime.find(opened.id).output is None
        assert flags(ledger) == []
        status, said = await call(mine, "POST", url, body, fake.headers(opened.id, body))
        assert (status, said["error"]["code"]) == (409, "answered_twice")
        assert flags(ledger) == [("fake", "answered_twice")]
    assert_whole(ledger)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"id":',
        b"[" * 10_000,
        msgspec.json.encode({"id": "A B", "category": "tool", "offers": [], "units": []}),
    ],
)
@on_loop
async def test_garbage_to_the_surface_is_told_and_changes_nothing(
    lite: World, lite_ledger: Ledger, body: bytes
) -> None:
    async with lite.hosting(lite_ledger) as host, lite.client("fake") as mine:
        for path in ("/v1/providers", "/v1/costs/corrections", "/v1/signals"):
            status, said = await call(mine, "POST", f"{host.url}{path}", body)
            assert status == 400, path
            assert said["error"]["message"]
        for method, path in (("GET", "/v1/providers"), ("PUT", "/v1/signals"), ("GET", "/x")):
            status, _ = await call(mine, method, f"{host.url}{path}")
            assert status in (404, 405)
        assert lite_ledger.events("registry") == []


@on_loop
async def test_signals_come_once_and_in_order(world: World, ledger: Ledger) -> None:
    """Issue 4, signal sources: at least once, ordered, deduplicated, latency measured."""
    from modelpact.providers.signals import SignalInbox

    async with (
        world.hosting(ledger) as host,
        faking(world, "pulse", category="signal-source", offers=(), max_latency_ms=1_000) as fake,
        world.client("pulse") as mine,
        world.client("rival") as theirs,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        url = f"{host.url}/v1/signals"

        async def emit(name: str, number: int, client: Any = mine, **more: Any) -> Any:
            content = {
                "source": "pulse",
                "id": name,
                "number": number,
                "type": "pulse.beat",
                "emitted": time.time_ns() // 1_000_000 - more.pop("ago", 0),
                "content": {"rate": 0.5},
                "cost": COST,
                **more,
            }
            body = msgspec.json.encode(content)
            status, said = await call(
                client, "POST", url, body, fake.headers(f"pulse/{name}", body, number)
            )
            return status, said.get("duplicate", said.get("error", {}).get("code"))

        assert await emit("a", 1) == (200, False)
        assert await emit("a", 1) == (200, True)
        assert await emit("c", 3) == (409, "out_of_order")
        assert await emit("b", 2, ago=5_000) == (200, False)
        assert await emit("c", 3) == (200, False)
        assert await emit("again", 2) == (409, "out_of_order")
        assert await emit("d", 4, client=theirs) == (403, "not_yours")
        assert flags(ledger) == []
        assert await emit("d", 4, cost=[{"unit": "tokens.input", "amount": 1}]) == (200, False)
        assert flags(ledger) == [("pulse", "misstated_cost")]
        inbox = SignalInbox(runtime)
        assert [one.id for one in inbox.after("pulse")] == ["a", "b", "c", "d"]
        measured = inbox.latency("pulse")
        assert (measured.count, measured.late) == (4, 1)
        assert measured.longest_ms >= 5_000
        late = [one.payload["late"] for one in ledger.events("signals/pulse")]
        assert late == [False, True, False, False]
    assert_whole(ledger)
