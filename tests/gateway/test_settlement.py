"""Every call that was opened is settled once, whatever upstream and client do."""

from typing import Any

import pytest

from modelpact.ledger.canonical import canonical
from tests.cli.conftest import Run
from tests.gateway.conftest import Serve
from tests.gateway.load_clients import verify_ledger
from tests.gateway.scripted_upstream import JSON_HEAD, STREAM_HEAD, WHOLE, scripted_upstream, sends

NOT_UTF8 = b'{"choices":[],"usage":{"prompt_tokens":"\xfe","completion_tokens":1,"\xff":1}}'
KEYED = 'api_key = { env = "OPENAI_API_KEY" }\n'
DEEP = b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def whole(body: bytes) -> bytes:
    return b"%bcontent-length: %d\r\n\r\n%b" % (JSON_HEAD, len(body), body)


@pytest.mark.parametrize("body", [NOT_UTF8, DEEP], ids=["no UTF-8 in its usage", "deep"])
@pytest.mark.parametrize("headers", [{}, {"modelpact-report": "body"}], ids=["plain", "report"])
def test_an_answer_that_is_not_json(serve: Serve, body: bytes, headers: dict[str, str]) -> None:
    """It is passed on as it is: what it took can only be estimated."""
    with scripted_upstream(sends(whole(body))) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any", headers)
        assert answer.status == 200
        assert answer.content.startswith(body[:-1])
        assert gateway.message("scripted/any").status in (200, 502)
        assert len(gateway.settled()) == 2
        assert gateway.settled()[0] == ("completed", None)


def test_a_stream_whose_usage_is_not_utf8(serve: Serve) -> None:
    stream = b"data: %b\n\ndata: [DONE]\n\n" % NOT_UTF8
    with scripted_upstream(sends(STREAM_HEAD + b"\r\n" + stream)) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any", stream=True)
        assert (answer.status, answer.content) == (200, stream)
        assert gateway.settled() == [("completed", None)]


def test_a_stream_without_content(serve: Serve) -> None:
    """What has no body has no stream either, whatever its type says."""
    head = b"HTTP/1.1 204 No Content\r\ncontent-type: text/event-stream\r\n\r\n"
    with scripted_upstream(sends(head)) as upstream:
        gateway = serve(upstream.settings)
        assert gateway.chat("scripted/any", stream=True).status in (204, 502)
        assert gateway.settled()[0][0] in ("completed", "failed")


@pytest.mark.parametrize("stream", [False, True])
def test_a_usage_that_costs_more_than_can_be_recorded(serve: Serve, run: Run, stream: bool) -> None:
    usage = b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}' % (2**40, 2**40)
    response = STREAM_HEAD + b"\r\ndata: %b\n\ndata: [DONE]\n\n" % usage if stream else whole(usage)
    with scripted_upstream(sends(response)) as upstream:
        gateway = serve(upstream.settings.replace('"vllm"', '"openai"') + KEYED)
        answer = gateway.chat("scripted/gpt-4o", stream=stream)
        assert answer.status == 200
        assert gateway.settled() == [("completed", None)]
        verify_ledger(run, f"sqlite:{gateway.path}")


@pytest.mark.parametrize("limit", [2**53, 10**17, 2**63])
def test_a_limit_that_no_record_can_hold(serve: Serve, run: Run, limit: int) -> None:
    """What a client may get is on the record before it leaves, and the chain is canonical."""
    with scripted_upstream(sends(whole(b"{}"))) as upstream:
        gateway = serve(upstream.settings)
        assert gateway.chat("scripted/any", max_tokens=limit).status == 200
        assert gateway.chat("scripted/any", max_tokens=limit, stream=True).status == 200
        assert gateway.settled() == [("completed", None)] * 2
        for event in gateway.events():
            canonical(event.payload)
        verify_ledger(run, f"sqlite:{gateway.path}")


@pytest.mark.parametrize("model", ["scripted/a\0b", "scripted/a\u2028b", "scripted/a\ud800b", "scripted/" + "m" * 501])
def test_a_model_name_that_not_every_store_takes(serve: Serve, model: str) -> None:
    """PostgreSQL keeps no NUL: such a request was sent, and its cost could not be recorded."""
    with scripted_upstream(sends(whole(WHOLE))) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat(model)
        assert answer.status in (400, 404)
        assert upstream.taken == 0
        assert gateway.invocations() == []


@pytest.mark.parametrize("verdict", [b"caf\xc3\xa9", b'a"} 1'], ids=["letters", "quotes"])
def test_a_verdict_header_of_an_upstream_is_dropped(serve: Serve, verdict: bytes) -> None:
    """It is not ours: neither for the counts, nor may it break the answer."""
    head = STREAM_HEAD + b"x: modelpact-verdict: %b\r\n\r\n" % verdict
    with scripted_upstream(sends(head + b"data: [DONE]\n\n")) as upstream:
        gateway = serve(upstream.settings)
        assert gateway.chat("scripted/any", stream=True).status == 200
        assert gateway.settled() == [("completed", None)]
        text = gateway.ask("/metrics", None, method="GET").content.decode()
        (line,) = [line for line in text.splitlines() if line.startswith("modelpact_requests_total")]
        assert 'verdict="yes"' in line


@pytest.mark.parametrize("ask", ["chat", "message"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_defect_of_the_gateway_settles_the_call(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, ask: str, stream: bool
) -> None:
    def mistake(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake")

    broken = {
        ("chat", False): "upstream.passthrough.read_usage",
        ("chat", True): "upstream.passthrough.UsageTap",
        ("message", False): "upstream.translate.WholeResponse",
        ("message", True): "upstream.sender.ResponseReport",
    }[ask, stream]
    monkeypatch.setattr(f"modelpact.gateway.{broken}", mistake)
    gateway = serve()
    gateway.openai.script.add("Hello")
    assert getattr(gateway, ask)("gpt-4o", stream=stream).status == 500
    ((state, error),) = gateway.settled()
    assert (state, error) == ("failed", "internal_error: the gateway failed")


@pytest.mark.parametrize("name", ["temperature", "reasoning_effort", "logprobs"])
def test_plan_keys_are_short(serve: Serve, name: str) -> None:
    """Thousands of plans are remembered, each with the parameters that it is for."""
    gateway = serve()
    fields: dict[str, Any] = {name: "x" * 100_000}
    answer = gateway.chat("gpt-4o", **fields)
    assert answer.status == 400
    assert len(answer.content) < 1_000
    remembered = gateway.gateway.state.planner._plans
    assert all(len(repr(plan)) < 5_000 for plan in remembered)
