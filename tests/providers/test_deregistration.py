"""A running provider that the runtime deregisters is notified, accepts no more, and stays away."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.providers.contract import ComplianceProfile
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.sdk import CapabilityCall, Deregistered, FinalOutput, Provider
from modelpact.providers.sdk import runtime_client as standing
from modelpact.providers.sdk.runtime_client import RefusedByRuntime
from tests.providers.fake_provider import faking
from tests.providers.processes.starting import providing
from tests.providers.support import ANY, ECHO, World, assert_whole, call, echo_provider, flags, on_loop, until

STRICT = ComplianceProfile("strict", on_deregistration="cancel", on_violation="deregister")


def hearing(provider: Provider) -> "asyncio.Queue[Deregistered]":
    """Return the list of deregistrations that the hook of a provider receives."""
    notices: asyncio.Queue[Deregistered] = asyncio.Queue()
    provider.on_deregistered(notices.put)
    return notices


async def exit_code(process: "subprocess.Popen[bytes]") -> int:
    return await asyncio.to_thread(process.wait, 60)


@pytest.mark.parametrize(
    ("release", "state", "then"),
    [
        (False, "deregistered", "start it again to register it again"),
        (True, "released", "`modelpact providers register`"),
    ],
)
@on_loop
async def test_a_deregistered_process_exits_with_the_reason(
    world: World, ledger: Ledger, tmp_path: Path, release: bool, state: str, then: str
) -> None:
    """S003-8.1-8: the runtime routes no more invocations to it, and the provider is notified."""
    worked = tmp_path / "worked"
    async with world.hosting(ledger) as host:
        runtime = host.runtime
        with providing(world, host.url, worked) as process:
            await until(lambda: runtime.registry.find("echo"))
            assert (await runtime.invoke("echo", ECHO, {})).state == "completed"
            await runtime.deregister("echo", "moved to another room", release=release)
            assert await exit_code(process) == 3
        assert [event.type for event in ledger.events("registry")] == [
            "provider.registered",
            "provider.deregistered",
        ], "it did not register again"
    log = worked.with_suffix(".log").read_text()
    assert f"the runtime has echo as {state}: moved to another room; " in log
    assert then in log
    assert_whole(ledger)


@on_loop
async def test_an_expelled_process_exits_with_the_reason(world: World, ledger: Ledger, tmp_path: Path) -> None:
    """S003-8.5-9: a compliance profile may require the deregistration."""
    worked = tmp_path / "worked"
    async with world.hosting(ledger, profile=STRICT) as host, world.client("echo") as mine:
        with providing(world, host.url, worked) as process:
            await until(lambda: host.runtime.registry.find("echo"))
            url = f"{host.url}/v1/invocations/inv_never/response"
            assert (await call(mine, "POST", url, {}))[0] == 404
            assert await exit_code(process) == 3
    registered = Runtime(ledger).registry.find("echo")
    assert registered is not None
    assert registered[1] == "expelled"
    log = worked.with_suffix(".log").read_text()
    assert "the runtime has echo as expelled: violation: unknown_invocation; " in log


@on_loop
async def test_open_invocations_finish_and_new_ones_are_refused(world: World, ledger: Ledger) -> None:
    """S003-8.1-9: open invocations may be completed."""
    provider = Provider("slow", "tool", units=("discrete",))
    notices, begun, free = hearing(provider), asyncio.Semaphore(0), asyncio.Event()

    @provider.capability(ECHO, input=ANY, output=ANY, semantics=("sync", "async", "streaming"))
    async def slow(value: dict[str, Any], call: CapabilityCall) -> Any:
        begun.release()
        await free.wait()
        yield {"piece": 1}
        yield FinalOutput(value)

    async with (
        world.hosting(ledger) as host,
        provider.running(world.settings("slow", host.url)) as registration,
        world.client("main") as theirs,
    ):
        runtime = host.runtime
        late = await runtime.invoke("slow", ECHO, {"late": True}, semantics="async")
        stream = await runtime.invoke("slow", ECHO, {}, semantics="streaming")

        async def follow() -> Any:
            return [piece async for piece in runtime.stream(stream)][-1]

        following = asyncio.create_task(follow())
        for _ in range(2):
            await begun.acquire()
        await runtime.deregister("slow", policy="drain")
        for semantics in ("sync", "async", "streaming"):
            message = {"invocationId": "inv_new", "capability": ECHO, "semantics": semantics}
            url = f"{registration.base_url}/invocations"
            status, response = await call(theirs, "POST", url, {**message, "input": {}})
            assert (status, b"was deregistered" in response) == (410, True)
        assert notices.empty()
        free.set()
        assert (await following).state == "completed"
        assert (await runtime.wait(late.id)).state == "completed"
        gone = await notices.get()
        assert (gone.provider, gone.state, gone.reason) == ("slow", "deregistered", "asked to")
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_without_a_notice_learns_it_from_a_refusal(world: World, ledger: Ledger) -> None:
    """Every request gets the code `provider_deregistered`."""
    source = Provider("clock", "signal-source", units=("discrete",), max_latency_ms=60_000)
    notices = hearing(source)
    async with world.hosting(ledger) as host, source.running(world.settings("clock", host.url)):
        await source.emit("clock.tick", {})
        await Runtime(ledger).deregister("clock", "from a command that reaches nobody")
        with pytest.raises(RefusedByRuntime, match="provider_deregistered"):
            await source.emit("clock.tick", {})
        gone = await notices.get()
        assert (gone.state, gone.reason) == ("deregistered", "clock is deregistered; nothing is routed to it")


@on_loop
async def test_an_idle_provider_without_a_notice_checks_its_state(
    world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "_CHECK_SECONDS", 0.05)
    provider = echo_provider()
    notices = hearing(provider)
    async with world.hosting(ledger) as host, provider.running(world.settings("echo", host.url)):
        await Runtime(ledger).deregister("echo", "from a command that reaches nobody")
        assert (await notices.get()).state == "deregistered"


@on_loop
async def test_an_unavailable_runtime_does_not_end_the_registration(
    world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "_CHECK_SECONDS", 0.05)
    provider, looked = echo_provider(), asyncio.Semaphore(0)
    notices = hearing(provider)
    async with world.hosting(ledger) as host:
        port = host.server.port
        context = provider.running(world.settings("echo", host.url))
        await context.__aenter__()
    try:
        look = standing.RegistrationStatus._check

        async def counted(self: standing.RegistrationStatus) -> None:
            await look(self)
            looked.release()

        monkeypatch.setattr(standing.RegistrationStatus, "_check", counted)
        for _ in range(3):
            await looked.acquire()
        async with world.hosting(ledger, port=port) as host:
            assert (await host.runtime.invoke("echo", ECHO, {})).state == "completed"
        assert notices.empty()
    finally:
        await context.__aexit__(None, None, None)


@on_loop
async def test_a_notice_about_another_registration_only_triggers_a_check(world: World, ledger: Ledger) -> None:
    """A late notice about an earlier registration ends nothing."""
    provider = echo_provider()
    notices = hearing(provider)
    async with (
        world.hosting(ledger) as host,
        provider.running(world.settings("echo", host.url)) as registration,
        world.client("main") as theirs,
    ):
        notice = {"provider": "echo", "registered": "registry:99", "state": "expelled"}
        url = f"{registration.base_url}/deregistered"
        assert (await call(theirs, "POST", url, notice))[0] == 204
        assert (await call(theirs, "POST", url, {"state": "expelled"}))[0] == 400
        assert (await host.runtime.invoke("echo", ECHO, {})).state == "completed"
        assert notices.empty()
        host.runtime.registry.register(registration)  # an operator did: another event stands
        await host.runtime.deregister("echo")
        assert (await notices.get()).state == "deregistered"


@on_loop
async def test_a_failing_hook_does_not_stop_the_others(world: World, ledger: Ledger) -> None:
    provider = echo_provider()

    @provider.on_deregistered
    async def fails(gone: Deregistered) -> None:
        raise RuntimeError("no pager")

    notices = hearing(provider)
    async with world.hosting(ledger) as host, provider.running(world.settings("echo", host.url)):
        await host.runtime.deregister("echo")
        assert (await notices.get()).state == "deregistered"


@on_loop
async def test_only_the_provider_itself_gets_its_state(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, world.client("echo") as mine, world.client("rival") as theirs:
        event = host.runtime.registry.register(world.registration("echo", "https://127.0.0.1:1"))
        url = f"{host.url}/v1/providers/echo"
        stands = {"provider": "echo", "state": "active", "event": event.id}
        assert await call(mine, "GET", url) == (200, stands)
        status, response = await call(theirs, "GET", url)
        assert (status, response["error"]["code"]) == (403, "not_yours")
        await host.runtime.deregister("echo")
        assert await call(mine, "GET", url) == (200, {**stands, "state": "deregistered"})


@on_loop
async def test_a_source_that_is_expelled_for_a_signal_is_notified(world: World, ledger: Ledger) -> None:
    """S003-8.5-6: it misrepresents cost; its open invocations are cancelled."""
    async with (
        world.hosting(ledger, profile=STRICT) as host,
        faking(world, max_latency_ms=60_000) as fake,
        world.client("fake") as mine,
    ):
        registered = host.runtime.registry.register(fake.registration)
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="async")
        cost = [{"unit": "tokens.input", "amount": 1}]
        signal = {"source": "fake", "id": "s1", "number": 1, "type": "clock.tick", "emitted": 1}
        body = msgspec.json.encode({**signal, "content": {}, "cost": cost})
        headers = fake.headers("fake/s1", body)
        assert (await call(mine, "POST", f"{host.url}/v1/signals", body, headers))[0] == 200
        assert fake.cancelled == [opened.id]
        (notice,) = fake.gone
        assert notice == {
            "provider": "fake",
            "registered": registered.id,
            "state": "expelled",
            "reason": "violation: misstated_cost",
        }
    assert flags(ledger) == [("fake", "misstated_cost")]
