"""Providers with invalid responses: each leaves a clear record and a working system."""

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity.tls import server_context
from modelpact.ledger import Ledger
from tests.providers import faulty_behaviours as bad
from tests.providers.fake_provider import Behaviour, answer_body, faking, right
from tests.providers.processes.starting import providing
from tests.providers.support import ECHO, World, assert_whole, call, events_of, flags, on_loop, until


@pytest.mark.parametrize(
    ("behaviour", "error", "flagged"),
    [
        (bad.hangs, "deadline", False),
        (bad.drips, "deadline", False),
        (bad.floods, "oversized_response", True),
        (bad.garbage, "invalid_response", True),
        (bad.unsigned, "unsigned_response", True),
        (bad.forged, "forged_signature", True),
        (bad.nonsense_header, "forged_signature", True),
        (bad.stale, "replayed_response", True),
        (bad.replays, "foreign_response", True),
        (bad.both, "invalid_response", True),
        (bad.more_fields, "invalid_response", True),
        (bad.deep, "invalid_response", True),
        (bad.lone_surrogate, "invalid_response", True),
        (bad.only_promises, "invalid_response", True),
        (bad.breaks_down, "unreachable", False),
        (bad.breaks_off, "unreachable", False),
    ],
)
@on_loop
async def test_an_invalid_response_fails_its_invocation_and_nothing_else(
    world: World, ledger: Ledger, behaviour: Behaviour, error: str, flagged: bool
) -> None:
    """MP-P6: hangs, drips, sends 100 MB, sends garbage, vanishes."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        good = await runtime.invoke("fake", ECHO, {"n": 1})
        fake.behaviour = behaviour
        # Long enough for 16 MB of it on a busy machine, where it does not have to pass.
        patience = 0.5 if error == "deadline" else 20.0
        done = await runtime.invoke("fake", ECHO, {"n": 2}, deadline_s=patience)
        assert done.state == "failed"
        assert str(done.error).startswith(error), done.error
        assert flags(ledger) == ([("fake", error)] if flagged else [])
        assert events_of(ledger, done)[-1].payload["cost"]["estimate"] is True
        assert fake.sent < bad.FLOOD / 4, "it was cut off, not swallowed"
        fake.behaviour = right
        after = await runtime.invoke("fake", ECHO, {"n": 3})
        assert (good.state, after.state, after.output) == ("completed", "completed", {"n": 3})
        if error == "deadline":
            assert set(fake.cancelled) == {done.id}
    assert_whole(ledger)


@pytest.mark.parametrize(
    ("behaviour", "error", "flagged"),
    [
        (bad.hangs, "deadline", False),
        (bad.floods_promises, "oversized_response", True),
        (bad.garbage_promises, "invalid_response", True),
        (bad.unsigned_promises, "unsigned_response", True),
        (bad.promises_another, "foreign_response", True),
        (bad.replays, "foreign_response", True),
        (bad.breaks_down, "unreachable", False),
        (bad.breaks_off, "unreachable", False),
    ],
)
@on_loop
async def test_an_invalid_acknowledgement_fails_its_invocation_and_nothing_else(
    world: World, ledger: Ledger, behaviour: Behaviour, error: str, flagged: bool
) -> None:
    """MP-P6: the same where a response is only acknowledged."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        good = await runtime.invoke("fake", ECHO, {"n": 1}, semantics="async")
        fake.behaviour = behaviour
        patience = 0.5 if error == "deadline" else 20.0
        done = await runtime.invoke("fake", ECHO, {"n": 2}, semantics="async", deadline_s=patience)
        assert done.state == "failed"
        assert str(done.error).startswith(error), done.error
        assert flags(ledger) == ([("fake", error)] if flagged else [])
        assert runtime.find(good.id).state == "open"
        assert fake.sent < bad.FLOOD / 4
    assert_whole(ledger)


@pytest.mark.parametrize("semantics", ["sync", "streaming"])
@on_loop
async def test_a_second_response_over_another_route(world: World, ledger: Ledger, semantics: Any) -> None:
    """MP-P6: a response that was given in place is pushed once more."""
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        done: Any = await runtime.invoke("fake", ECHO, {"n": 1}, semantics=semantics)
        if semantics == "streaming":
            *_, done = [item async for item in runtime.stream(done)]
        url = f"{host.url}/v1/invocations/{done.id}/response"
        body = answer_body(done.id, {"n": 2})
        status, response = await call(mine, "POST", url, body, fake.headers(done.id, body))
        assert (status, response["error"]["code"]) == (409, "answered_twice")
        assert runtime.find(done.id).output == {"n": 1}
        assert flags(ledger) == [("fake", "answered_twice")]
    assert_whole(ledger)


@on_loop
async def test_a_provider_that_acknowledges_and_vanishes(world: World, ledger: Ledger) -> None:
    """MP-P6: the acknowledged invocation of a provider that vanishes ends with its deadline."""
    async with world.hosting(ledger) as host:
        async with faking(world) as fake:
            host.runtime.registry.register(fake.registration)
            opened = await host.runtime.invoke("fake", ECHO, {}, semantics="async", deadline_s=1.0)
            assert opened.state == "open"
        done = await host.runtime.wait(opened.id)
        assert str(done.error).startswith("deadline")
        assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_that_speaks_no_http(world: World, ledger: Ledger) -> None:
    """MP-P6: sends garbage, over its own certificate."""

    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(os.urandom(10_000))
        await writer.drain()
        writer.close()

    tls: ssl.SSLContext = server_context(world.identity("fake"), world.trust)
    server = await asyncio.start_server(babble, "127.0.0.1", 0, ssl=tls)
    async with server, world.hosting(ledger) as host:
        port = server.sockets[0].getsockname()[1]
        host.runtime.registry.register(world.registration("fake", f"https://127.0.0.1:{port}"))
        done = await host.runtime.invoke("fake", ECHO, {})
        assert done.state == "failed"
        assert flags(ledger) in ([], [("fake", "invalid_response")])
    assert_whole(ledger)


@on_loop
async def test_a_provider_that_is_unavailable(world: World, ledger: Ledger) -> None:
    """MP-P6: a provider that is away is not flagged."""
    async with world.hosting(ledger) as host:
        host.runtime.registry.register(world.registration("fake", "https://127.0.0.1:1"))
        for semantics in ("sync", "async"):
            done = await host.runtime.invoke("fake", ECHO, {}, semantics=semantics)
            assert done.state == "failed"
            assert str(done.error).startswith("unreachable")
        assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_that_is_killed_and_comes_back(world: World, ledger: Ledger, tmp_path: Path) -> None:
    """MP-P6: kill -9 of a provider's process while it works."""
    worked = tmp_path / "worked"
    worked.touch()
    async with world.hosting(ledger) as host:
        runtime = host.runtime
        with providing(world, host.url, worked, HANG="1") as process:
            await until(lambda: runtime.registry.find("echo"))
            invocation = asyncio.create_task(runtime.invoke("echo", ECHO, {}))
            await until(worked.read_text)
            process.send_signal(signal.SIGKILL)
            done = await invocation
            assert (done.state, str(done.error).partition(":")[0]) == ("failed", "unreachable")
        gone = runtime.registry.active("echo").registration.base_url
        with providing(world, host.url, worked):
            await until(lambda: runtime.registry.active("echo").registration.base_url != gone)
            assert (await runtime.invoke("echo", ECHO, {"a": 1})).output == {"a": 1}
        assert flags(ledger) == []
    assert_whole(ledger)
