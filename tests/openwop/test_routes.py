"""The routes of the host: authentication, errors, streams, conformance endpoints."""

from typing import Any

import pytest

from modelpact.ledger.ledger import Ledger
from modelpact.providers.port import MockProvider, ProviderError
from tests.openwop.support import HostClient, serving, types

GATE = "/v1/host/sample/test/evaluate-model-capability-gate"
FIXTURE = b'{"workflowId":"conformance-model-capability-insufficient","inputs":'
HALF = FIXTURE + rb'{"a":"\ud800"}}'
ENDLESS = FIXTURE + b'{"a":1e400}}'
HALF_NODE = (
    rb'{"nodeId":"\udfff","module":{"requiredModelCapabilities":["vision"]},'
    b'"activeProvider":"a","activeModel":"b"}'
)
SYNTHESIZE = "/v1/host/sample/test/synthesize-model-capability-event"


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic dDp0", "Bearer  ", "t" * 12])
@pytest.mark.parametrize(
    "path", ["/v1/runs/x", "/v1/runs/x/events", "/v1/host/sample/node-catalog", "/openapi.json", GATE]
)
def test_a_token_is_required(host: HostClient, authorization: str, path: str) -> None:
    host.token = ""
    status, body, headers = host.ask("GET", path, headers={"authorization": authorization} if authorization else {})
    assert status == 401
    assert body["error"] == "unauthorized"
    assert headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/runs/nobody", None, 404, "not_found"),
        ("GET", "/v1/runs/nobody/events", None, 404, "not_found"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("GET", "/v1/runs/a%2Fb", None, 404, "not_found"),
        ("GET", "/v1/runs/%ff", None, 400, "invalid_request"),
        ("DELETE", "/v1/runs", None, 405, "method_not_allowed"),
        ("POST", "/v1/runs", b"{", 400, "invalid_request"),
        ("POST", "/v1/runs", b'{"workflowId":"a","workflowId":"b"}', 400, "invalid_request"),
        ("POST", "/v1/runs", b"[" * 100_000, 400, "invalid_request"),
        ("POST", "/v1/runs", b'{"workflowId": "\xff"}', 400, "invalid_request"),
        ("POST", "/v1/runs", HALF, 400, "invalid_request"),
        ("POST", "/v1/runs", ENDLESS, 400, "invalid_request"),
        ("POST", GATE, HALF_NODE, 400, "invalid_request"),
        ("POST", "/v1/runs", [], 400, "invalid_request"),
        ("POST", "/v1/runs", {}, 400, "invalid_request"),
        ("POST", "/v1/runs", {"workflowId": 5}, 400, "invalid_request"),
        ("POST", "/v1/runs", {"workflowId": "nope"}, 404, "unknown_workflow"),
        ("POST", "/v1/runs", {"nodes": []}, 400, "invalid_request"),
        ("POST", "/v1/runs", {"nodes": [{"nodeId": "a", "typeId": "x.y"}]}, 400, "invalid_request"),
        ("POST", GATE, {"activeProvider": 5}, 400, "invalid_request"),
        ("POST", SYNTHESIZE, {"activeProvider": "x", "activeModel": 5}, 400, "invalid_request"),
    ],
)
def test_errors_are_flat_and_closed(
    host: HostClient, method: str, path: str, body: Any, status: int, code: str
) -> None:
    """S001-W14: errors are flat and closed."""
    received, answer, _ = host.ask(method, path, body)
    assert (received, answer["error"]) == (status, code)
    assert set(answer) <= {"error", "message", "details"}
    assert answer["message"]


def test_all_problems_of_an_inline_node_are_reported(host: HostClient) -> None:
    node = {
        "nodeId": "n",
        "typeId": "vendor.acme.plain",
        "requiredModelCapabilities": ["telepathy", "reasoning", "reasoning"],
        "fallbackModel": None,
    }
    status, answer, _ = host.ask("POST", "/v1/runs", {"nodes": [node]})
    assert status == 400
    assert [problem["path"] for problem in answer["details"]["problems"]] == [
        "nodes[0].requiredModelCapabilities[0]",
        "nodes[0].requiredModelCapabilities[2]",
        "nodes[0].fallbackModel",
    ]


@pytest.mark.parametrize("path", [GATE, SYNTHESIZE])
def test_the_conformance_endpoints_answer_like_the_gate(host: HostClient, path: str) -> None:
    """S001-W18..20, S001-T5: without claims, they use a table by provider; they redact only on
    request.
    """
    module = {
        "requiredModelCapabilities": ["structured-output", "reasoning"],
        "fallbackModel": {"provider": "anthropic", "model": "claude-opus-4-7"},
    }
    body: dict[str, Any] = {
        "module": module,
        "activeProvider": "acme",
        "activeModel": "any",
        "substitutionSupported": True,
    }
    status, answer, _ = host.ask("POST", path, body)
    assert status == 200
    assert answer["outcome"]["route"] == "substitute"
    assert answer["event"]["payload"]["fallbackProvider"] == "anthropic"
    _, hidden, _ = host.ask("POST", path, {**body, "redact": True})
    assert hidden["event"]["payload"]["fallbackProvider"] == "[REDACTED]"
    _, fits, _ = host.ask("POST", path, {**body, "activeProvider": "gemini"})
    assert fits == {"outcome": {"route": "dispatch"}, "event": None}
    _, claimed, _ = host.ask("POST", path, {**body, "claims": {}})
    assert claimed["outcome"] == {
        "route": "refuse",
        "missingCapabilities": ["structured-output", "reasoning"],
        "fallbackAttempted": True,
    }


def test_the_conformance_endpoints_need_the_conformance_flag(ledger: Ledger, ports: dict[str, MockProvider]) -> None:
    with serving(ledger, ports) as plain:
        assert plain.ask("POST", GATE, {})[0] == 404
        _, document, _ = plain.ask("GET", "/openapi.json")
        assert GATE not in document["paths"]


def test_a_stream_has_the_same_events_and_can_be_resumed(host: HostClient) -> None:
    """S001-W8, S001-W9: the events as JSON and as a stream that can be resumed."""
    run = host.start(workflowId="acme.think", inputs={"what": "x"})
    whole = host.stream(run)
    assert whole == host.events(run)
    assert types(whole)[-1] == "run.completed"
    assert host.stream(run, last=whole[2]["eventId"]) == whole[3:]
    assert host.stream(run, last=whole[-1]["eventId"]) == []
    status, answer, _ = host.ask(
        "GET", f"/v1/runs/{run}/events", headers={"accept": "text/event-stream", "last-event-id": "run/another:3"}
    )
    assert (status, answer["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream, application/json", "text/event-stream"),
        ("text/event-stream;q=0.5, application/json", "application/json"),
        ("text/html, application/json;q=0.1", "application/json"),
    ],
)
def test_content_is_negotiated(host: HostClient, accept: str, kind: str) -> None:
    run = host.start(workflowId="conformance-model-capability-insufficient")
    host.finished(run)
    import urllib.request

    request = urllib.request.Request(
        f"{host.url}/v1/runs/{run}/events", headers={"accept": accept, "authorization": f"Bearer {host.token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["content-type"] == kind


def test_an_unavailable_media_type_is_406(host: HostClient) -> None:
    run = host.start(workflowId="conformance-model-capability-insufficient")
    status, answer, _ = host.ask("GET", f"/v1/runs/{run}/events", headers={"accept": "application/xml"})
    assert (status, answer["error"]) == (406, "not_acceptable")


def test_a_provider_that_fails_fails_the_node(
    ledger: Ledger, configuration: Any, ports: dict[str, MockProvider]
) -> None:
    ports["small"] = MockProvider([ProviderError("out of order", status=503)])
    with serving(ledger, ports, configuration=configuration) as host:
        node = {"nodeId": "n", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hi"}}
        node_on_big = {**node, "fallbackModel": {"provider": "big", "model": "full"}}
        assert host.finished(host.start(nodes=[node_on_big]))["status"] == "completed"
        run = host.start(nodes=[node], configurable={"ai": {"provider": "small", "model": "other"}})
        ended = host.finished(run)
        assert ended["error"]["code"] == "provider_failed"
        assert "out of order" in ended["error"]["message"]
        assert "provider.usage" not in types(host.events(run))


def test_an_envelope_is_emitted_when_the_answer_fits_it(
    ledger: Ledger, configuration: Any, ports: dict[str, MockProvider]
) -> None:
    ports["big"] = MockProvider(['{"reasoning": null, "code": "no_data", "message": "Nothing there"}', '{"code": 5}'])
    ask = {"nodeId": "n", "typeId": "core.ai.callPrompt", "config": {"prompt": "Go", "envelope": "error"}}
    active = {"ai": {"provider": "big", "model": "full"}}
    with serving(ledger, ports, configuration=configuration) as host:
        run = host.start(nodes=[ask], configurable=active)
        assert host.finished(run)["status"] == "completed"
        (emitted,) = [event for event in host.events(run) if event["type"] == "envelope.emitted"]
        assert emitted["payload"]["kind"] == "error"
        assert emitted["payload"]["output"]["code"] == "no_data"
        run = host.start(nodes=[ask], configurable=active)
        assert host.finished(run)["error"]["code"] == "invalid_output"
        assert "envelope.emitted" not in types(host.events(run))
