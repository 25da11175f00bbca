"""Cache markers change what a request costs, not what it means (MP-V4, S000-5-5)."""

from typing import Any

import pytest

from tests.gateway.planners import TOOLS
from tests.gateway.support import RunningGateway

MARK: Any = {"cache_control": {"type": "ephemeral"}}
TEXT: Any = {"type": "text", "text": "Be brief.", **MARK}
TOOL: Any = {"name": "weather", "input_schema": {"type": "object"}, **MARK}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"system": [TEXT]}, "messages[0].content[0].cache_control"),
        ({"messages": [{"role": "user", "content": [TEXT]}]}, "messages[0].content[0].cache_control"),
        ({"tools": [TOOL]}, "tools.weather.cache_control"),
        (MARK, ""),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_markers_are_dropped_and_reported(gateway: RunningGateway, fields: Any, place: str, stream: bool) -> None:
    """OpenAI's models cache by themselves, so nothing is lost but the marker."""
    answer = gateway.message("gpt-4o", stream=stream, **fields)
    assert (answer.status, answer.headers["modelpact-verdict"]) == (200, "labelled")
    assert answer.headers["modelpact-dropped"] == "cache_control"
    reported = f"{place}: only anthropic has this field" if place else None
    assert answer.headers.get("modelpact-lossy") == reported
    assert "modelpact-warnings" not in answer.headers
    (sent,) = gateway.openai.bodies
    assert "cache_control" not in str(sent)
    (decided,) = gateway.events("negotiation.decided")
    assert decided.payload["dropped"] == ["cache_control"]


def test_a_model_without_caching_gets_a_warning(gateway: RunningGateway) -> None:
    answer = gateway.message("gpt-3.5-turbo", system=[TEXT])
    assert answer.status == 200
    assert answer.headers["modelpact-dropped"] == "cache_control"
    assert answer.headers["modelpact-warnings"].startswith("prompt-caching is not supported")


def test_other_untranslatable_fields_are_still_refused(gateway: RunningGateway) -> None:
    body: Any = {"model": "gpt-4o", "messages": [], "max_tokens": 9, "system": [TEXT], "top_k": 5}
    body["messages"] = [{"role": "user", "content": "Hi", "x": 1}]
    refused = gateway.ask("/v1/messages", {**body, "service_tier": "auto"})
    assert refused.status == 422
    assert "cache_control" not in refused.json["error"]["message"]


def test_anthropic_models_receive_the_markers(gateway: RunningGateway) -> None:
    for answer in (
        gateway.message("claude-opus-4-5", system=[TEXT]),
        gateway.chat("claude-opus-4-5", messages=[{"role": "user", "content": [TEXT]}]),
    ):
        assert answer.status == 200
        assert "modelpact-dropped" not in answer.headers
    assert all("cache_control" in str(request) for request in gateway.anthropic.bodies)


def test_a_request_without_markers_reports_none(gateway: RunningGateway) -> None:
    answer = gateway.message("gpt-4o", tools=[{"name": "weather", "input_schema": {}}])
    assert "modelpact-dropped" not in answer.headers
    assert "modelpact-dropped" not in gateway.chat("gpt-4o", tools=TOOLS).headers
