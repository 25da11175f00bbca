"""The limits of a key apply to its runs: models, rate and budget."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from modelpact.configuration import read_configuration
from modelpact.gateway.key_store import create_key, revoke_key
from modelpact.gateway.keys import KeySettings
from modelpact.gateway.server import serve_gateway
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.ledger import Ledger
from tests.fakes.openai import FakeOpenAI
from tests.openwop.support import TOKEN, HostClient, in_thread, types

CONFIGURATION = """
[providers.paid]
kind = "openai"
base_url = {base_url}
[models."paid/gpt-4o"]
reasoning = false
[models."paid/gpt-4.1"]
reasoning = true
[host]
model = "paid/gpt-4o"
packs = [{pack}]
"""
PACK = {
    "name": "acme",
    "version": "1",
    "nodes": [
        {
            "typeId": "vendor.acme.think",
            "requiredModelCapabilities": ["reasoning"],
            "fallbackModel": {"provider": "paid", "model": "gpt-4.1"},
        },
        {"typeId": "vendor.acme.plain"},
    ],
}


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    server = FakeOpenAI()
    with server.in_thread():
        yield server


@contextmanager
def gateway(ledger: Ledger, fake: FakeOpenAI, folder: Any) -> Iterator[HostClient]:
    """Serve a gateway from a thread; the client uses the operator's token."""
    (folder / "pack.json").write_text(json.dumps(PACK))
    text = CONFIGURATION.format(base_url=json.dumps(fake.base_url), pack=json.dumps(str(folder / "pack.json")))

    @asynccontextmanager
    async def opened() -> AsyncIterator[HostClient]:
        configuration = read_configuration(text)
        async with serve_gateway(ledger, configuration, token=TOKEN, environment={}) as serving:
            yield HostClient(serving.url, host=serving.host)

    with in_thread(opened) as client:
        yield client


def node(name: str = "n", kind: str = "plain", **more: Any) -> dict[str, Any]:
    return {"nodeId": name, "typeId": f"vendor.acme.{kind}", "config": {"prompt": "Hi"}, **more}


def keyed(client: HostClient, secret: str) -> HostClient:
    return HostClient(client.url, secret)


def test_a_run_may_use_only_the_keys_models(ledger: Ledger, fake: FakeOpenAI, tmp_path: Any) -> None:
    _, secret = create_key(ledger, "narrow", KeySettings(models=("paid/gpt-4o",)))
    with gateway(ledger, fake, tmp_path) as operator:
        client = keyed(operator, secret)
        other = {"provider": "paid", "model": "gpt-4.1"}
        for body in (
            {"nodes": [node()], "configurable": {"ai": other}},
            {"nodes": [node()], "retryPolicy": {"onCapabilityNotProvided": [other]}},
            {"nodes": [node(fallbackModel=other)]},
        ):
            status, answer, _ = client.ask("POST", "/v1/runs", body)
            assert (status, answer["error"]) == (403, "model_not_allowed")
            assert "the key narrow is not for paid/gpt-4.1" in answer["message"]
        run = client.start(nodes=[node(kind="think")])
        error = client.finished(run)["error"]
        assert error["code"] == "capability_not_provided"
        assert "not allowed to this client" in error["message"]
        assert "model.capability.substituted" not in types(client.events(run))
        assert fake.requests == []
        assert client.finished(client.start(nodes=[node()]))["status"] == "completed"
        run = operator.start(nodes=[node(kind="think")])
        assert operator.finished(run)["status"] == "completed"
        assert client.ask("GET", f"/v1/runs/{run}")[0] == 404


def test_runs_count_against_the_keys_rate(ledger: Ledger, fake: FakeOpenAI, tmp_path: Any) -> None:
    """The start counts, and so does every call after the first; such a call waits."""
    _, secret = create_key(ledger, "slow", KeySettings(rate=2))
    with gateway(ledger, fake, tmp_path) as operator:
        client = keyed(operator, secret)
        run = client.start(nodes=[node("a"), node("b")])
        assert client.finished(run)["status"] == "completed"
        status, answer, headers = client.ask("POST", "/v1/runs", {"nodes": [node()]})
        assert (status, answer["error"]) == (429, "rate_limit_exceeded")
        assert 0 < int(headers["retry-after"]) <= 30


def test_runs_spend_the_keys_budget(ledger: Ledger, fake: FakeOpenAI, tmp_path: Any) -> None:
    """The budget is checked before each call; the cost of a run is the key's."""
    key, secret = create_key(ledger, "poor", KeySettings(budget=1))
    with gateway(ledger, fake, tmp_path) as operator:
        client = keyed(operator, secret)
        run = client.start(nodes=[node("a"), node("b")])
        error = client.finished(run)["error"]
        assert error == {"code": "insufficient_quota", "message": "the key poor has spent its budget"}
        assert types(client.events(run)).count("provider.usage") == 1
        status, answer, _ = client.ask("POST", "/v1/runs", {"nodes": [node()]})
        assert (status, answer["error"]) == (429, "insufficient_quota")
    assert len(fake.requests) == 1
    spent = {total.name: total.money for total in cost_totals(ledger, "worker")}
    assert spent[key.id] > 1


def test_a_run_ends_with_its_key(
    ledger: Ledger, fake: FakeOpenAI, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelpact.gateway.server._KEYS_SECONDS", 0.05)
    key, secret = create_key(ledger, "gone", KeySettings())
    held, release = threading.Event(), threading.Event()
    with gateway(ledger, fake, tmp_path) as operator:
        client = keyed(operator, secret)
        fake.hold = (held, release)
        run = client.start(nodes=[node("a"), node("b")])
        assert held.wait(30)
        revoke_key(ledger, key.id)
        for _ in range(3_000):
            if client.ask("GET", f"/v1/runs/{run}")[0] == 401:
                break
        fake.hold = None
        release.set()
        error = asyncio.run(_ended(operator, run))
    assert error["code"] == "client_unknown"
    assert len(fake.requests) == 1


async def _ended(client: HostClient, run: str) -> Any:
    async for _ in client.host.runs.follow(await client.host.runs.find(run)):
        pass
    return (await client.host.runs.find(run)).error
