"""Commands that cancel tell remote providers of it, or say that they could not."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modelpact.configuration import load_configuration
from modelpact.identity import Authority
from modelpact.ledger import Ledger
from modelpact.providers.contract import ContractError
from modelpact.providers.http import HttpTransport
from modelpact.providers.runtime.runtime import Runtime
from tests.cli.conftest import Run
from tests.providers.fake_provider import Fake, faking
from tests.providers.processes.starting import providing
from tests.providers.support import ECHO, World, on_loop, until


@pytest.fixture
def user(tmp_path: Path) -> World:
    """The user's own authority, in the data folder of the commands, and a store."""
    (tmp_path / "modelpact.toml").write_text('[store]\nurl = "sqlite:work.db"\n')
    authority = Authority.init(tmp_path / "data" / "identity" / "authority")
    return World(tmp_path, authority, f"sqlite:{tmp_path / 'work.db'}")


async def opened(user: World, fake: Fake) -> str:
    """Open an invocation that waits for the fake, in a runtime that is gone then."""
    carrier = HttpTransport(user.identity("once", "provider"), user.trust)
    with Ledger.open(user.store) as ledger:
        runtime = Runtime(ledger, default_transport=carrier)
        runtime.registry.register(fake.registration)
        invocation = await runtime.invoke("fake", ECHO, {}, semantics="async", deadline_s=None)
    await carrier.aclose()
    return invocation.id


async def say(run: Run, *args: str) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(run, *args)


@pytest.mark.parametrize("way", ["cancel", "deregister"])
@on_loop
async def test_a_remote_provider_is_notified(user: World, run: Run, way: str) -> None:
    """S003-8.1-9: open invocations "MAY be cancelled"; the provider is notified."""
    async with faking(user) as fake:
        waiting = await opened(user, fake)
        user.identity("desk", "runtime")
        arguments: Any = {
            "cancel": ("invocations", "cancel", waiting),
            "deregister": ("providers", "deregister", "fake", "--policy", "cancel"),
        }[way]
        done = await say(run, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert fake.cancelled == [waiting]
        assert [entry["state"] for entry in fake.gone] == ["deregistered"] * (way == "deregister")


@on_loop
async def test_a_draining_provider_is_notified_of_its_deregistration(user: World, run: Run) -> None:
    async with faking(user) as fake:
        await opened(user, fake)
        user.identity("desk", "runtime")
        done = await say(run, "providers", "deregister", "fake", "--reason", "moved")
        assert (done.returncode, done.stderr) == (0, "")
        assert fake.cancelled == []
        assert [(entry["state"], entry["reason"]) for entry in fake.gone] == [("deregistered", "moved")]


@on_loop
async def test_a_running_provider_stops_when_it_is_deregistered(user: World, run: Run, tmp_path: Path) -> None:
    """Three processes: the provider, its runtime, and the command, which only shares the store."""
    user.identity("desk", "runtime")
    with Ledger.open(user.store) as ledger:
        async with user.hosting(ledger) as host:
            with providing(user, host.url, tmp_path / "worked") as process:
                await until(lambda: host.runtime.registry.find("echo"))
                assert (await host.runtime.invoke("echo", ECHO, {})).state == "completed"
                done = await say(run, "providers", "deregister", "echo", "--reason", "moved")
                assert (done.returncode, done.stderr) == (0, "")
                assert await asyncio.to_thread(process.wait, 60) == 3
            with pytest.raises(ContractError, match="nothing is routed"):
                await host.runtime.invoke("echo", ECHO, {})
    assert "has echo as deregistered: moved" in (tmp_path / "worked.log").read_text()


@on_loop
async def test_a_provider_that_cannot_be_notified_is_named_and_the_cancellation_recorded(user: World, run: Run) -> None:
    async with faking(user) as fake:
        first = await opened(user, fake)
        done = await say(run, "invocations", "cancel", first)
        assert done.returncode == 0
        assert "fake was not notified: you have no runtime certificate" in done.stderr
        assert fake.cancelled == []
    user.identity("desk", "runtime")
    with Ledger.open(user.store) as ledger:
        assert Runtime(ledger).find(first).state == "cancelled"
    async with faking(user) as fake:
        with Ledger.open(user.store) as ledger:
            await Runtime(ledger).deregister("fake")
        second = await opened(user, fake)
    done = await say(run, "providers", "deregister", "fake", "--policy", "cancel")
    assert done.returncode == 0
    assert done.stderr.count("modelpact: fake was not notified: ") == 1
    with Ledger.open(user.store) as ledger:
        assert Runtime(ledger).find(second).state == "cancelled"


def test_commands_use_the_plain_http_hosts_of_the_configuration(user: World, run: Run) -> None:
    """Configuration: `plain_http` of `[contract]` names hosts that may be reached without TLS."""
    from modelpact.cli.runtime import make_runtime

    settings = user.folder / "modelpact.toml"
    settings.write_text('[contract]\nplain_http = ["gpu.lan"]\n')
    with Ledger.open(user.store) as ledger:
        runtime = make_runtime(ledger, load_configuration(settings))
        far = user.registration("far", "http://gpu.lan:1", identity="")
        assert runtime.registry.register(far).type == "provider.registered"
        kinds = [event.type for event in ledger.events("registry")]
        assert kinds == ["provider.registered", "upstream.allowed"]
