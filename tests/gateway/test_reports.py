"""The report in the body of a response, on request."""

from typing import Any

import pytest

from tests.fakes import Fail, Reply, cut
from tests.gateway.conftest import Serve
from tests.gateway.planners import TOOLS
from tests.gateway.support import Answer, RunningGateway

BODY = {"modelpact-report": "body"}
OPENAI, ANTHROPIC = "openai/gpt-4o", "anthropic/claude-opus-4-5"


def ask(gateway: RunningGateway, api: str, model: str, **more: Any) -> Answer:
    if api == "anthropic":
        return gateway.message(model, **more)
    return gateway.chat(model, max_tokens=100, **more)


def agrees(report: dict[str, Any], answer: Answer) -> None:
    """The body says what the head says."""
    headers = answer.headers
    assert report["verdict"] == headers["modelpact-verdict"]
    assert report["requestedModel"] == headers["modelpact-requested-model"]
    assert report["servedModel"] == headers["modelpact-served-model"]
    assert report["invocation"] == headers["modelpact-invocation"]
    assert (report["carried"] or "") == headers.get("modelpact-carried", "")
    added = [name if value is True else f"{name}={value}" for name, value in report["added"].items()]
    assert ", ".join(added) == headers.get("modelpact-added", "")


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
def test_a_whole_response_has_the_report_as_a_field(gateway: RunningGateway, api: str, model: str) -> None:
    plain = ask(gateway, api, model)
    assert "modelpact" not in plain.json
    answer = ask(gateway, api, model, headers=BODY)
    report = answer.json["modelpact"]
    agrees(report, answer)
    assert report["cost"]["usd"] == answer.headers["modelpact-cost-usd"]
    assert report["cost"]["estimate"] is False
    assert {"unit": "tokens.input", "amount": 10 if model == ANTHROPIC else 11} in (report["cost"]["lines"])
    assert answer.text == plain.text == "You said: Hi"


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
def test_a_stream_has_the_report_before_its_last_event(gateway: RunningGateway, api: str, model: str) -> None:
    plain = ask(gateway, api, model, stream=True)
    assert b"modelpact" not in plain.content
    answer = ask(gateway, api, model, stream=True, headers=BODY)
    name, event = answer.events[-2]
    agrees(event["modelpact"], answer)
    assert float(event["modelpact"]["cost"]["usd"]) > 0
    if api == "anthropic":
        assert (name, event["type"], answer.events[-1][0]) == (*("modelpact", "modelpact"), "message_stop")
    else:
        assert (event["choices"], answer.events[-1][1]) == ([], "[DONE]")
    assert len(answer.events) == len(plain.events) + 1
    assert answer.text == plain.text


def test_the_report_names_the_added_usage_option(gateway: RunningGateway) -> None:
    """Only where the gateway asked, and not the client."""
    options: Any = {"stream_options": {"include_usage": True}}
    for more, added in (({}, {"stream_options.include_usage": True}), (options, {})):
        answer = gateway.chat("gpt-4o", BODY, stream=True, **more)
        assert answer.events[-2][1]["modelpact"]["added"] == added


def test_the_report_names_all_changes(serve: Serve) -> None:
    gateway = serve('[policy]\nunsupported_params = "drop"\n[gateway.aliases]\nx = "openai/gpt-5"\n')
    answer = gateway.chat("x", BODY, temperature=0.5, max_tokens=10)
    report = answer.json["modelpact"]
    assert report["dropped"] == ["temperature"]
    assert report["renamed"] == {"max_tokens": "max_completion_tokens"}
    assert report["requestedModel"] == "x"


def test_a_refusal_always_has_the_report(gateway: RunningGateway) -> None:
    """MP-A4: a refusal is a 422 with the full diagnostic and a suggestion."""
    for answer in (
        gateway.chat("openai/text-only", tools=TOOLS),
        gateway.message("openai/text-only", tools=[{"name": "x", "input_schema": {}}]),
    ):
        assert answer.status == 422
        error = answer.json["error"]
        assert error["type"] == "capability_not_provided"
        diagnostic = error["modelpact"]["diagnostic"]
        assert diagnostic["target"] == "openai/text-only"
        assert diagnostic["missing"][0]["requiredBy"] == ["request: tools"]
        assert diagnostic["suggestion"] in error["message"]


def test_an_upstream_error_has_the_report(gateway: RunningGateway) -> None:
    gateway.openai.script.add(Fail(400, "no"), Fail(500, body=b"<html>"))
    answer = gateway.chat("gpt-4o", BODY)
    assert answer.json["error"]["message"] == "no"
    agrees(answer.json["modelpact"], answer)
    assert answer.json["modelpact"]["cost"] is None
    assert gateway.chat("gpt-4o", BODY).content == b"<html>", "what is no JSON stays as it is"


def test_a_broken_stream_ends_with_its_error_and_the_report(gateway: RunningGateway) -> None:
    gateway.openai.script.add(Reply("x" * 500, fault=cut(5)))
    answer = gateway.chat("gpt-4o", BODY, stream=True)
    assert "error" in answer.events[-2][1]
    assert answer.events[-1][1]["modelpact"]["cost"]["estimate"] is True


def test_an_unknown_report_option_is_an_error(gateway: RunningGateway) -> None:
    answer = gateway.chat("gpt-4o", {"modelpact-report": "trailers"})
    assert answer.status == 400
    assert "modelpact-report: expected body" in answer.json["error"]["message"]
    assert not gateway.openai.requests
