"""Hosts that share a store: a second host with the same name does not start."""

import asyncio
import contextlib
import json

import pytest

from modelpact.configuration import read_configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.server import LeaseLost, leased, serve_gateway
from modelpact.ledger.errors import NameTaken
from modelpact.ledger.ledger import Ledger
from modelpact.openwop.host import Host
from modelpact.openwop.runs import RunOwnedElsewhere
from modelpact.providers.port import MockProvider
from modelpact.providers.runtime.runtime import Runtime
from tests.openwop.support import TOKEN

NODES = {"nodes": [{"nodeId": "n", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hi"}}]}


def _named(name: str) -> str:
    return f"[gateway]\nname = {json.dumps(name)}\n"


def test_hosts_with_different_names_share_a_store(url: str) -> None:
    async def both() -> None:
        config_a, config_b = read_configuration(_named("a")), read_configuration(_named("b"))
        with Ledger.open(url) as first, Ledger.open(url) as second:
            async with (
                serve_gateway(first, config_a, token=TOKEN, environment={}) as a,
                serve_gateway(second, config_b, token=TOKEN, environment={}) as b,
            ):
                assert (a.host.name, b.host.name) == ("a", "b")
                with pytest.raises(NameTaken, match=r"another \[gateway\] name"):
                    async with serve_gateway(second, config_a, token=TOKEN, environment={}):
                        raise AssertionError("it must not begin")
            async with serve_gateway(second, config_a, token=TOKEN, environment={}):
                pass

    asyncio.run(both())


def test_a_host_that_cannot_bind_its_port_leaves_others_alone(url: str) -> None:
    """What an earlier process left is looked at only by one that can serve."""

    async def serve() -> None:
        with Ledger.open(url) as ledger:
            configuration = read_configuration(_named("a"))
            async with serve_gateway(ledger, configuration, token=TOKEN, environment={}) as serving:
                host = serving.host
                request = host.library.read_run(NODES, host.default)
                left = await host.runs.open(request, "b", "operator")
                with pytest.raises(OSError, match="in use"):
                    async with serve_gateway(
                        ledger, read_configuration(_named("b")), token=TOKEN, port=serving.server.port, environment={}
                    ):
                        raise AssertionError("it must not begin")
                assert (await host.runs.find(left.id)).status == "pending"

    asyncio.run(serve())


def test_a_run_is_begun_once_and_ended_once(ledger: Ledger) -> None:
    async def race() -> None:
        port = MockProvider()
        hosts = [Host(ledger, ModelCaller(Runtime(ledger), ports={"mock": port}, environment={})) for _ in range(2)]
        first = hosts[0]
        request = first.library.read_run(NODES, first.default)
        run = await first.runs.open(request, first.name, "")
        await asyncio.gather(*(host.recover() for host in hosts))
        for host in hosts:
            await host.wait_idle()
        assert len(port.requests) == 1
        done = await first.runs.find(run.id)
        assert done.status == "completed"
        before = await first.runs.events(run)
        assert [event.type for event in before].count("run.started") == 1
        await hosts[1].runner.fail_interrupted(run)
        with pytest.raises(RunOwnedElsewhere, match="another process has begun or ended the run"):
            await first.runs.append(run, "node.started", {"nodeId": "n"})
        assert await first.runs.events(run) == before

    asyncio.run(race())


def test_a_host_that_loses_its_lease_stops(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelpact.gateway.server._LEASE_CHECK_S", 0.01)

    class Lost:
        def is_held(self) -> bool:
            return False

        def release(self) -> None:
            pass

    async def hold() -> None:
        with Ledger.open(url) as ledger:
            monkeypatch.setattr(type(ledger.store), "lease", lambda *_: Lost())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(30), leased(ledger.store, {"host/a": "[host] name"}):
                    await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="host/a was taken over"):
        asyncio.run(hold())
