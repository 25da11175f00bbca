"""Careless and hostile clients, failing providers and stores: limits and errors over real HTTP."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from modelpact.configuration import Configuration
from modelpact.conversation.message import TextBlock
from modelpact.conversation.response import Response
from modelpact.ledger.errors import LedgerUnavailable, LedgerUncertain
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import read_pack
from modelpact.openwop import host as host_module
from modelpact.openwop import runs as runs_module
from modelpact.openwop.executor import NodeStep
from modelpact.openwop.workflows import WorkflowLibrary
from modelpact.providers.port import MockProvider, ProviderError
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpRequest
from tests.openwop.conftest import PACK, with_host
from tests.openwop.support import HostClient, serving, types

Ports = dict[str, MockProvider]


def node(config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    config = {"prompt": "Hi"} if config is None else config
    return {"nodeId": "n", "typeId": "vendor.acme.plain", "config": config, **more}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"prompt": "Hi", "schema": {"type": "objekt"}}, "nodes[0].config.schema: "),
        ({"prompt": "Hi", "schema": {"$ref": "http://x.example/s"}}, "nodes[0].config.schema: "),
        ({"prompt": "Hi", "schema": 5}, "nodes[0].config.schema: "),
        ({"prompt": "Hi", "envelope": "errror"}, "did you mean error"),
        ({"prompt": "Hi", "envelope": "error", "schema": {}}, "exclude each other"),
        ({"prompt": "Hi", "maxTokens": 0}, "nodes[0].config.maxTokens: "),
        ({"prompt": "Hi", "maxTokens": 2**80}, "nodes[0].config.maxTokens: "),
        ({"prompt": "Hi", "temperature": "hot"}, "nodes[0].config.temperature: "),
        ({"prompt": 5}, "nodes[0].config.prompt: "),
        ({"prompt": "Hi", "sistem": "x"}, "nodes[0].config: unknown field"),
    ],
)
def test_a_wrong_configuration_is_rejected_before_any_call(
    host: HostClient, ports: Ports, config: dict[str, Any], message: str
) -> None:
    status, answer, _ = host.ask("POST", "/v1/runs", {"nodes": [node(config)]})
    assert (status, answer["error"]) == (400, "invalid_request")
    assert message in answer["message"]
    assert ports["small"].requests == []


def test_a_packs_workflow_is_checked_when_it_is_loaded() -> None:
    wrong = {"workflowId": "w", "nodes": [node({"prompt": "Hi", "maxTokens": -1})]}
    pack = read_pack({**PACK, "workflows": [wrong]})
    with pytest.raises(InputError, match=r"acme: workflows\[0\].nodes\[0\].config.maxTokens"):
        WorkflowLibrary((pack,))
    custom = WorkflowLibrary((pack,), custom_types=("vendor.acme.plain",))
    assert custom.workflows, "its executor knows what it means"


def test_the_number_of_retry_models_is_limited(host: HostClient) -> None:
    other = {"provider": "small", "model": "lean"}
    body = {"nodes": [node()], "retryPolicy": {"onCapabilityNotProvided": [other] * 9}}
    status, answer, _ = host.ask("POST", "/v1/runs", body)
    assert status == 400
    assert "expected at most 8 models" in answer["message"]


def test_a_small_body_cannot_make_a_huge_prompt(host: HostClient, ports: Ports) -> None:
    """40 kB of placeholders for 40 kB of text would be gigabytes."""
    config = {"prompt": "{{a}}" * 8_000}
    run = host.start(nodes=[node(config)], inputs={"a": "x" * 40_000})
    error = host.finished(run)["error"]
    assert error["code"] == "prompt_not_resolved"
    assert "320,000,000 characters" in error["message"]
    assert ports["small"].requests == []


def test_doubling_outputs_are_limited(host: HostClient, ports: Ports) -> None:
    def doubling(number: int) -> dict[str, Any]:
        before = "{{seed}}" if not number else f"{{{{n{number - 1}}}}}"
        return {**node({"prompt": before * 2}), "nodeId": f"n{number}"}

    run = host.start(nodes=[doubling(number) for number in range(40)], inputs={"seed": "x" * 10_000})
    error = host.finished(run)["error"]
    assert error["code"] == "output_too_large"
    assert len(ports["small"].requests) < 10


def test_the_total_text_of_a_run_is_limited(host: HostClient, ports: Ports) -> None:
    many = [{**node({"prompt": "{{a}}"}), "nodeId": f"n{number}"} for number in range(60)]
    run = host.start(nodes=many, inputs={"a": "x" * 400_000})
    assert host.finished(run)["error"]["code"] in ("prompt_not_resolved", "output_too_large")
    assert len(ports["small"].requests) == 20


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ProviderError("big/full at http://10.1.2.3 is down", status=500), "5xx"),
        (ProviderError("no route to big/full"), "was not reached"),
    ],
)
def test_a_redacted_fallback_that_fails_is_not_named(
    ledger: Ledger, ports: Ports, configuration: Configuration, failure: ProviderError, message: str
) -> None:
    """S001-F2: no other field reveals a redacted fallback."""
    ports["big"] = MockProvider([failure])
    settings = with_host(configuration, redact_fallback=True)
    with serving(ledger, ports, configuration=settings, packs=(read_pack(PACK),)) as host:
        run = host.start(workflowId="acme.think", inputs={"what": "x"})
        ended = host.finished(run)
        assert ended["error"]["code"] == "provider_failed"
        assert "the fallback model" in ended["error"]["message"]
        assert message in ended["error"]["message"]
        public = msgspec.json.encode([ended, host.events(run)]).decode()
        for secret in ("10.1.2.3", "big", "full"):
            assert secret not in public
    (failed,) = [
        event for event in ledger.events(f"invocations/{run}", after=0, limit=100) if event.type == "capability.failed"
    ]
    assert str(failure) in msgspec.json.encode(failed.payload).decode(), "the record has it"


def test_without_gating_requirements_are_opaque(ledger: Ledger, ports: Ports, configuration: Configuration) -> None:
    """S001-E3: the fields are opaque metadata, and dispatch proceeds."""
    odd = {"requiredModelCapabilities": {"not": "a list"}, "fallbackModel": None}
    workflow = {"workflowId": "acme.odd", "nodes": [node(**odd)]}
    pack = read_pack({**PACK, "workflows": [workflow]}, gating=False)
    settings = with_host(configuration, gating=False)
    with serving(ledger, ports, configuration=settings, packs=(pack,)) as host:
        for run in (host.start(workflowId="acme.odd"), host.start(nodes=[node(**odd)])):
            assert host.finished(run)["status"] == "completed"


def test_the_catalog_lists_only_usable_fallbacks(ledger: Ledger, ports: Ports, configuration: Configuration) -> None:
    """S001-B5: a fallback's provider is supported; otherwise the operator gets a warning."""
    elsewhere = {"provider": "elsewhere", "model": "x"}
    pack = read_pack(
        {
            "name": "acme",
            "version": "1",
            "nodes": [
                {"typeId": "vendor.acme.plain", "requiredModelCapabilities": ["reasoning"], "fallbackModel": elsewhere},
                {"typeId": "core.ai.bare"},
            ],
            "workflows": [{"workflowId": "w", "nodes": [node(fallbackModel=elsewhere)]}],
        }
    )
    with serving(ledger, ports, configuration=configuration, packs=(pack,)) as host:
        _, catalog, _ = host.ask("GET", "/v1/host/sample/node-catalog")
        modules = {node["typeId"]: node for node in catalog["nodes"]}
        assert "fallbackModel" not in modules["vendor.acme.plain"]
        assert modules["vendor.acme.plain"]["requiredModelCapabilities"] == ["reasoning"]
        warnings = host.host.warnings
    assert len(warnings) == 3
    assert "core.ai.bare" in warnings[0]
    assert warnings[1].startswith("vendor.acme.plain: its fallbackModel is never used")
    assert warnings[2].startswith("w: n: its fallbackModel is never used")


@pytest.mark.parametrize(
    ("fallback", "substitution", "reason"),
    [
        (None, True, "no fallback is declared"),
        ({"provider": "big", "model": "full"}, False, "substitution is off"),
        ({"provider": "elsewhere", "model": "x"}, True, "provider that is not supported here"),
        ({"provider": "locked", "model": "gpt-5"}, True, "no credential"),
        ({"provider": "small", "model": "lean"}, True, "does not have all that is required"),
    ],
)
def test_a_refusal_says_why_no_fallback_was_used(
    ledger: Ledger,
    ports: Ports,
    configuration: Configuration,
    fallback: dict[str, str] | None,
    substitution: bool,
    reason: str,
) -> None:
    more: dict[str, Any] = {"requiredModelCapabilities": ["reasoning"]}
    if fallback is not None:
        more["fallbackModel"] = fallback
    settings = with_host(configuration, substitution=substitution)
    with serving(ledger, ports, configuration=settings, packs=(read_pack(PACK),)) as host:
        error = host.finished(host.start(nodes=[node(**more)]))["error"]
    assert error["code"] == "capability_not_provided"
    assert reason in error["message"]


def test_uncounted_usage_is_marked_as_an_estimate(ledger: Ledger, ports: Ports, configuration: Configuration) -> None:
    ports["small"] = MockProvider([Response((TextBlock("Hello there"),)), "Counted"])
    with serving(ledger, ports, configuration=configuration, packs=(read_pack(PACK),)) as host:
        used = []
        for _ in range(2):
            run = host.start(nodes=[node()])
            assert host.finished(run)["status"] == "completed"
            used += [event["payload"] for event in host.events(run) if event["type"] == "provider.usage"]
    guessed, counted = used
    assert guessed["estimated"] is True
    assert guessed["inputTokens"] > 0
    assert guessed["outputTokens"] > 0
    assert "estimated" not in counted


def test_an_unexpected_error_is_json(host: HostClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(host.host, "catalog", broken)
    status, answer, _ = host.ask("GET", "/v1/host/sample/node-catalog")
    assert (status, answer["error"]) == (500, "internal_error")
    assert "mistake" not in answer["message"]


@pytest.mark.parametrize("kind", [LedgerUnavailable, LedgerUncertain])
def test_a_short_outage_of_the_store_is_retried(
    ledger: Ledger, ports: Ports, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """If it is not known whether a commit succeeded, nothing is written twice."""
    monkeypatch.setattr(runs_module, "_RETRY_PAUSES", (0.01,) * 5)
    real = ledger.write_async
    failed: list[int] = []

    async def failing(work: Callable[..., Any]) -> Any:
        if "append" in getattr(work, "func", work).__qualname__ and len(failed) % 2 == 0:
            failed.append(1)
            if kind is LedgerUncertain:
                await real(work)
            raise kind("away")
        failed.append(0)
        return await real(work)

    monkeypatch.setattr(ledger, "write_async", failing)
    with serving(ledger, ports) as host:
        nodes = [{**node(), "typeId": "core.ai.callPrompt"}]
        run = host.start(nodes=nodes)
        assert host.finished(run)["status"] == "completed"
        assert sum(failed) > 1
        assert types(host.events(run)) == [
            "run.started",
            "node.started",
            "provider.usage",
            "node.completed",
            "run.completed",
        ]


def test_a_run_that_lost_its_store_ends_when_the_store_is_back(
    ledger: Ledger, ports: Ports, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runs_module, "_RETRY_PAUSES", (0.01,))
    monkeypatch.setattr(host_module, "_RETRY_SECONDS", 0.01)
    real = ledger.write_async
    away = threading.Event()

    async def failing(work: Callable[..., Any]) -> Any:
        if away.is_set():
            raise LedgerUnavailable("the disk is full")
        return await real(work)

    async def executor(_: NodeStep) -> str:
        away.set()
        return "done"

    monkeypatch.setattr(ledger, "write_async", failing)
    caplog.set_level(logging.ERROR, "modelpact.openwop")
    with serving(ledger, ports, executors={"core.ai.callPrompt": executor}) as host:
        run = host.start(nodes=[{**node({}), "typeId": "core.ai.callPrompt"}])
        until = threading.Event()
        for _ in range(3_000):
            if any(run in record.getMessage() for record in caplog.records):
                break
            until.wait(0.01)
        assert "the disk is full" in caplog.text
        away.clear()
        assert host.finished(run)["error"]["code"] == "run_interrupted"


def test_one_tenant_cannot_take_all_places(ledger: Ledger, ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MAX_RUNNING", 4)
    monkeypatch.setattr(host_module, "MAX_WAITING", 4)
    release = threading.Event()

    async def executor(_: NodeStep) -> str:
        await asyncio.to_thread(release.wait, 30)
        return "done"

    def by_token(request: HttpRequest) -> str:
        return (request.headers.get("authorization") or "").removeprefix("Bearer ")

    with serving(ledger, ports, executors={"core.ai.callPrompt": executor}, authorise=by_token) as greedy:
        other = HostClient(greedy.url, "other")
        nodes = [{**node({}), "typeId": "core.ai.callPrompt"}]
        runs = [greedy.start(nodes=nodes) for _ in range(4)]
        status, answer, headers = greedy.ask("POST", "/v1/runs", {"nodes": nodes})
        assert (status, answer["error"]) == (429, "too_many_runs")
        assert headers["retry-after"] == "1"
        theirs = other.start(nodes=nodes)
        for _ in range(3_000):
            if other.ask("GET", f"/v1/runs/{theirs}")[1]["status"] == "running":
                break
        states = [greedy.ask("GET", f"/v1/runs/{run}")[1]["status"] for run in runs]
        assert states.count("running") <= 2
        assert other.ask("GET", f"/v1/runs/{theirs}")[1]["status"] == "running"
        release.set()
        for run in runs:
            assert greedy.finished(run)["status"] == "completed"
        assert other.finished(theirs)["status"] == "completed"
