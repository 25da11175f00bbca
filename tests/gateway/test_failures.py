"""Upstreams that fail: their errors are passed on, streams end well-formed, calls are recorded."""

import contextlib
import json
import socket
import threading

import pytest

from modelpact.gateway.responses import GatewayError
from modelpact.gateway.upstream.response import UpstreamFailed
from modelpact.vocabulary.errors import ModelpactError
from tests.fakes import Fail, Reply, cut, garbage, hang
from tests.gateway.support import HI, UPSTREAM_KEYS, RunningGateway

LONG = "x" * 2_000


@pytest.mark.parametrize("error", [GatewayError, UpstreamFailed])
def test_errors_of_the_gateway_are_modelpact_errors(error: type[Exception]) -> None:
    assert issubclass(error, ModelpactError)


def test_the_error_response_of_an_upstream_is_passed_on(gateway: RunningGateway) -> None:
    gateway.openai.script.add(Fail(400, "Too odd.", "invalid_request_error", "too_odd"))
    answer = gateway.chat("gpt-4o")
    assert (answer.status, answer.json["error"]["message"]) == (400, "Too odd.")
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["modelpact-verdict"] == "yes"
    assert answer.headers["modelpact-invocation"] == gateway.invocations()[0][0]
    ((state, error),) = gateway.settled()
    assert (state, error) == ("failed", "too_odd: openai answered 400 (too_odd): Too odd.")


def test_an_error_from_another_api_is_translated(gateway: RunningGateway) -> None:
    gateway.openai.script.add(Fail(429, retry_after=7))
    answer = gateway.message("gpt-4o")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert answer.headers["modelpact-invocation"] == gateway.invocations()[0][0]
    gateway.anthropic.script.add(Fail(529))
    answer = gateway.chat("claude-opus-4-5", max_tokens=10)
    assert answer.status == 529
    assert answer.json["error"]["code"] == "overloaded_error"


def test_the_upstream_key_is_removed_from_errors(gateway: RunningGateway) -> None:
    """The fakes say the key back that they were shown, as servers do."""
    gateway.openai.key = gateway.anthropic.key = "another"
    answers = [
        gateway.chat("gpt-4o"),
        gateway.message("claude-opus-4-5"),
        gateway.message("gpt-4o"),
        gateway.chat("claude-opus-4-5", max_tokens=10),
    ]
    assert [answer.status for answer in answers] == [401] * 4
    assert answers[2].json["error"]["message"].endswith("; check the key of openai")
    assert ".;" not in answers[2].json["error"]["message"]
    stored = b"".join(path.read_bytes() for path in gateway.path.parent.glob("ledger.db*"))
    for secret in UPSTREAM_KEYS.values():
        assert all(secret.encode() not in answer.content for answer in answers)
        assert secret.encode() not in stored


def test_the_upstream_key_is_removed_from_streams_and_headers(gateway: RunningGateway) -> None:
    secret = UPSTREAM_KEYS["ANTHROPIC_API_KEY"]
    event = json.dumps({"type": "error", "error": {"type": "bad", "message": f"not {secret}"}})
    events = f"event: error\ndata: {event}\n\n".encode()
    gateway.anthropic.script.add(
        Reply(LONG, fault=garbage(events, after=4)),
        Fail(401, f"{secret[:12]} {secret[12:]}", headers={"www-authenticate": f"no {secret}"}),
    )
    streamed = gateway.message("claude-opus-4-5", stream=True)
    assert b"event: error" in streamed.content
    refused = gateway.message("claude-opus-4-5")
    assert refused.headers["www-authenticate"] == "no [REDACTED]"
    assert [state for state, _ in gateway.settled()] == ["failed", "failed"]
    stored = b"".join(path.read_bytes() for path in gateway.path.parent.glob("ledger.db*"))
    assert secret.encode() not in streamed.content
    assert secret[:12].encode() not in stored


def test_an_upstream_that_cannot_be_reached(gateway: RunningGateway) -> None:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    upstream = gateway.gateway.state.upstreams.find("openai", "openai-chat")
    upstream.urls["openai-chat"] = f"http://127.0.0.1:{port}/v1/chat/completions"
    answer = gateway.chat("gpt-4o")
    assert (answer.status, answer.json["error"]["code"]) == (502, "unreachable")
    assert answer.headers["modelpact-invocation"] == gateway.invocations()[0][0]
    assert gateway.settled()[0][0] == "failed"


@pytest.mark.parametrize("fault", [cut(3), cut(3, clean=True), garbage(after=3)])
def test_a_stream_that_breaks_ends_with_an_error_event(gateway: RunningGateway, fault: object) -> None:
    """MP-A7: the stream ends with a well-formed error event, and the record says what happened."""
    gateway.openai.script.add(Reply(LONG, fault=fault))  # type: ignore[arg-type]
    gateway.anthropic.script.add(Reply(LONG, fault=fault))  # type: ignore[arg-type]
    first = gateway.chat("gpt-4o", stream=True)
    assert first.status == 200
    assert "error" in first.events[-1][1]
    assert b"[DONE]" not in first.content
    second = gateway.message("claude-opus-4-5", stream=True)
    name, event = second.events[-1]
    assert (name, event["type"]) == ("error", "error")
    states = gateway.settled()
    assert [state for state, _ in states] == ["failed", "failed"]
    assert all(error and error.startswith(("cut_off", "malformed")) for _, error in states)
    costs = [event.payload["cost"] for event in gateway.events("capability.failed")]
    spent = [{line["unit"] for line in cost["lines"]} for cost in costs]
    assert all("tokens.output" in units for units in spent), "what was made is paid for"


@pytest.mark.parametrize("fault", [cut(6), cut(6, clean=True)])
def test_a_translated_stream_that_breaks_ends_with_an_error_event(gateway: RunningGateway, fault: object) -> None:
    gateway.openai.script.add(Reply(LONG, fault=fault))  # type: ignore[arg-type]
    gateway.anthropic.script.add(Reply(LONG, fault=fault))  # type: ignore[arg-type]
    first = gateway.message("gpt-4o", stream=True)
    assert first.events[-1][1]["type"] == "error"
    second = gateway.chat("claude-opus-4-5", stream=True, max_tokens=4_000)
    assert "error" in second.events[-1][1]
    assert [state for state, _ in gateway.settled()] == ["failed", "failed"]


def test_an_error_in_a_stream_is_recorded(gateway: RunningGateway) -> None:
    """It passes as it is, no second one is added, and the record does not say "completed"."""
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"M"}}'
    gateway.anthropic.script.add(Reply(LONG, fault=garbage(event + b"\n\n", after=4)))
    answer = gateway.message("claude-opus-4-5", stream=True)
    assert [event["type"] for _, event in answer.events].count("error") == 1
    assert gateway.settled() == [("failed", "overloaded_error: M")]


def test_text_about_the_end_does_not_end_a_stream(gateway: RunningGateway) -> None:
    text = "data: [DONE]\n\n and message_stop " * 20
    gateway.openai.script.add(Reply(text, fault=cut(10, clean=True)))
    gateway.openai.piece = 50
    assert "error" in gateway.chat("gpt-4o", stream=True).events[-1][1]
    assert gateway.settled()[0][0] == "failed"


@pytest.mark.parametrize(
    ("path", "model"),
    [("/v1/chat/completions", "gpt-4o"), ("/v1/messages", "claude-opus-4-5"), ("/v1/messages", "gpt-4o")],
)
def test_a_client_that_leaves_a_stream_cancels_the_call(gateway: RunningGateway, path: str, model: str) -> None:
    """MP-A7: the gateway closes the upstream's stream and settles the record."""
    fake = gateway.openai if model == "gpt-4o" else gateway.anthropic
    fake.script.add(Reply(LONG, fault=hang(6)))
    left(gateway, path, {"model": model, "messages": HI, "max_tokens": 5_000, "stream": True})
    gateway.wait_until(lambda: fake.gone == 1)
    ((state, error),) = gateway.settled()
    assert (state, error) == ("cancelled", "the client left")
    ((payload,)) = [event.payload for event in gateway.events("capability.cancelled")]
    assert payload["cost"]["estimate"] is True
    assert {"tokens.input", "tokens.output"} <= {line["unit"] for line in payload["cost"]["lines"]}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_client_that_leaves_before_the_answer_cancels_the_call(gateway: RunningGateway, path: str) -> None:
    held, release = threading.Event(), threading.Event()
    gateway.openai.hold = (held, release)
    body = json.dumps({"model": "gpt-4o", "messages": HI, "max_tokens": 50}).encode()
    with opened(gateway, path, body):
        assert held.wait(30)
    ((state, error),) = gateway.settled()
    release.set()
    assert (state, error) == ("cancelled", "the client left")
    (cost,) = [event.payload["cost"] for event in gateway.events("capability.cancelled")]
    assert cost["estimate"] is True
    assert "currency" in {line["unit"] for line in cost["lines"]}, "it was sent, so it may cost"


@contextlib.contextmanager
def opened(gateway: RunningGateway, path: str, body: bytes):  # type: ignore[no-untyped-def]
    """Send a request by hand, to leave when one wants."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {gateway.key}\r\n"
        f"anthropic-version: 2023-06-01\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode() + body)
        yield connection


def left(gateway: RunningGateway, path: str, body: object) -> None:
    """Leave a stream once some of it has come."""
    with opened(gateway, path, json.dumps(body).encode()) as connection:
        came = b""
        while b"data: " not in came:
            came += connection.recv(65_536)
