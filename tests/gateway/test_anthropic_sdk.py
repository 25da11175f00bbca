"""The official `anthropic` SDK, unmodified, to upstreams of both APIs."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes import Reply
from tests.gateway.conftest import Serve
from tests.gateway.sdks import (
    CALLS,
    LOSSY,
    MORE,
    PIXEL,
    WEATHER,
    AnthropicSDK,
    anthropic,
    check_errors,
    check_errors_in_streams,
)
from tests.gateway.support import HI

# The SDK warns of models as they age; the fake's are as good as new.
pytestmark = pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")

TOOLS: Any = [{"name": "weather", "description": "Tells it.", "input_schema": WEATHER}]


@pytest.fixture(params=["anthropic", "openai"])
def sdk(serve: Serve, blocking: bool, request: pytest.FixtureRequest) -> AnthropicSDK:
    return AnthropicSDK(serve(LOSSY + MORE), blocking, request.param)


def fields_of(sdk: AnthropicSDK, **fields: Any) -> dict[str, Any]:
    return {"model": sdk.model, "messages": HI, "max_tokens": 500, **fields}


def message(sdk: AnthropicSDK, **fields: Any) -> tuple[Any, Mapping[str, str]]:
    return sdk.raw(lambda client: client.messages, **fields_of(sdk, **fields))


def final(sdk: AnthropicSDK, **fields: Any) -> Any:
    """Add a stream up, as the SDK does."""
    wanted = fields_of(sdk, **fields)
    return sdk.final(lambda client: client.messages.stream(**wanted), "get_final_message")


def calls(answer: Any) -> list[Any]:
    return [block.input for block in answer.content if block.type == "tool_use"]


def text(answer: Any) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def test_plain(sdk: AnthropicSDK) -> None:
    answer, head = message(sdk)
    assert text(answer) == "You said: Hi"
    assert answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens > 0
    assert head["modelpact-served-model"] == f"{sdk.upstream}/{sdk.model}"
    assert head["modelpact-verdict"] == ("yes" if sdk.upstream == "anthropic" else "labelled")
    assert float(head["modelpact-cost-usd"]) > 0
    assert ("modelpact-carried" in head) is (sdk.upstream == "openai")


def test_counting(sdk: AnthropicSDK) -> None:
    counted = sdk.call(lambda client: client.messages.count_tokens(model=sdk.model, messages=HI))
    assert 0 < counted.input_tokens < 20


def test_a_system_prompt_and_settings(sdk: AnthropicSDK) -> None:
    sdk.fake.script.add("one § two")
    more = {"temperature": 0.5}  # the SDK has no name for it any more
    answer, _ = message(sdk, system="Be brief.", stop_sequences=["§"], extra_body=more)
    assert text(answer) == "one "
    sdk.fake.script.add("a long answer indeed " * 20)
    assert message(sdk, max_tokens=5)[0].stop_reason == "max_tokens"


def test_streaming(sdk: AnthropicSDK) -> None:
    answer = final(sdk)
    assert text(answer) == "You said: Hi"
    assert (answer.stop_reason, answer.role) == ("end_turn", "assistant")
    assert answer.usage.output_tokens > 0
    kinds = [event.type for event in sdk.events(lambda client: client.messages, **fields_of(sdk))]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert kinds.count("content_block_delta") > 1


def test_tools_there_and_back(sdk: AnthropicSDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS[:1]), "Sunny.")
    answer, _ = message(sdk, tools=TOOLS, tool_choice={"type": "auto"})
    assert (calls(answer), answer.stop_reason) == ([{"city": "Rome"}], "tool_use")
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "22 degrees"}
    turns = [
        *HI,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
        {"role": "user", "content": [result]},
    ]
    assert text(message(sdk, tools=TOOLS, messages=turns)[0]) == "Sunny."


def test_parallel_tools(sdk: AnthropicSDK) -> None:
    sdk.fake.script.add(*[Reply(calls=CALLS)] * 3)
    cities = [{"city": "Rome"}, {"city": "Oslo"}]
    answer, _ = message(sdk, tools=TOOLS)
    assert calls(answer) == cities
    assert calls(final(sdk, tools=TOOLS)) == cities
    alone = {"type": "auto", "disable_parallel_tool_use": True}
    assert len(calls(message(sdk, tools=TOOLS, tool_choice=alone)[0])) == 1
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "22"}
        for block in answer.content
        if block.type == "tool_use"
    ]
    turns = [
        *HI,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
        {"role": "user", "content": results},
    ]
    assert text(message(sdk, tools=TOOLS, messages=turns)[0])


def test_a_tool_that_must_be_called(sdk: AnthropicSDK) -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        assert calls(message(sdk, tools=TOOLS, tool_choice=choice)[0]) == [{"city": "x"}]


def test_structured_output(sdk: AnthropicSDK) -> None:
    sdk.fake.script.add('{"city": "Rome"}', '{"city": "Oslo"}')
    config = {"format": {"type": "json_schema", "schema": WEATHER}}
    assert text(message(sdk, output_config=config)[0]) == '{"city": "Rome"}'
    assert text(final(sdk, output_config=config)) == '{"city": "Oslo"}'


@pytest.mark.parametrize(
    "source",
    [{"type": "base64", "media_type": "image/png", "data": PIXEL}, {"type": "url", "url": "https://example.com/a.png"}],
)
def test_images(sdk: AnthropicSDK, source: Any) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
    answer, _ = message(sdk, messages=[{"role": "user", "content": parts}])
    assert text(answer).startswith("You said: What is this?[")


def test_thinking(sdk: AnthropicSDK) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    fields: Any = {"thinking": thinking, "max_tokens": 3_000}
    if sdk.upstream == "openai":
        with pytest.raises(anthropic.UnprocessableEntityError, match="reasoning"):
            message(sdk, **fields)
        answer, head = message(sdk, model="gpt-5", **fields)
        assert text(answer) == "You said: Hi"
        assert "budget" in head["modelpact-lossy"]
        return
    sdk.fake.script.add(Reply("So.", thinking="Hm"), Reply("So.", thinking="Hm"))
    answer, _ = message(sdk, **fields)
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert answer.content[0].signature
    turns = [*HI, {"role": "assistant", "content": answer.content}, *HI]
    streamed = final(sdk, **fields, messages=turns)
    assert streamed.content[0].thinking == "Hm"


def test_effort(sdk: AnthropicSDK) -> None:
    model = "gpt-5" if sdk.upstream == "openai" else sdk.model
    answer, _ = message(sdk, model=model, output_config={"effort": "low"})
    assert text(answer) == "You said: Hi"
    sent = sdk.fake.bodies[-1]
    assert (sent.get("reasoning_effort") or sent["output_config"]["effort"]) == "low"


def test_prompt_caching(sdk: AnthropicSDK) -> None:
    system = [{"type": "text", "text": "x" * 8_000, "cache_control": {"type": "ephemeral"}}]
    message(sdk, system=system)
    answer, _ = message(sdk, system=system)
    assert answer.usage.cache_read_input_tokens > 1_000


def test_errors_have_their_classes(sdk: AnthropicSDK) -> None:
    check_errors(sdk, anthropic, message)
    with pytest.raises(anthropic.AuthenticationError, match="modelpact keys create"):
        sdk.call(lambda client: client.messages.create(**fields_of(sdk)), api_key="none")


def test_errors_in_streams(sdk: AnthropicSDK) -> None:
    check_errors_in_streams(sdk, anthropic, final)


def test_a_model_that_declines(sdk: AnthropicSDK) -> None:
    sdk.fake.script.add(Reply(refusal="I will not."))
    answer, _ = message(sdk)
    assert text(answer) == "I will not."
    assert answer.stop_reason == "refusal"


def test_refusals(sdk: AnthropicSDK) -> None:
    with pytest.raises(anthropic.UnprocessableEntityError) as caught:
        message(sdk, model="openai/text-only", tools=TOOLS)
    error = caught.value.body["error"]
    assert caught.value.body["type"] == "error"
    assert error["type"] == "capability_not_provided"
    assert error["modelpact"]["diagnostic"]["missing"][0]["capability"] == "tool-calling"
    assert error["modelpact"]["diagnostic"]["suggestion"]
    assert caught.value.response.headers["modelpact-verdict"] == "no"


def test_emulated_answers(sdk: AnthropicSDK) -> None:
    called = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    sdk.gateway.openai.script.add(called, called, '{"city": "Rome"}')
    answer, head = message(sdk, model="workload/emulated", tools=TOOLS)
    assert calls(answer) == [{"city": "Rome"}]
    assert head["modelpact-emulated"].startswith("tool-calling: ")
    assert calls(final(sdk, model="workload/emulated", tools=TOOLS)) == [{"city": "Rome"}]
    config = {"format": {"type": "json_schema", "schema": WEATHER}}
    answer, _ = message(sdk, model="workload/emulated", output_config=config)
    assert text(answer) == '{"city": "Rome"}'


def test_substituted_answers(sdk: AnthropicSDK) -> None:
    name = "substituted" if sdk.upstream == "openai" else "carried-away"
    answer, head = message(sdk, model=f"workload/{name}")
    assert (text(answer), answer.model) == ("You said: Hi", sdk.model)
    reported = head["modelpact-substituted"]
    assert reported == f"openai/text-only -> {sdk.upstream}/{sdk.model}: it lacks tool-calling"


def test_the_report_does_not_disturb_the_sdk(sdk: AnthropicSDK) -> None:
    fields = {"modelpact-report": "body"}
    answer, _ = message(sdk, extra_headers=fields)
    assert answer.model_extra["modelpact"]["servedModel"] == f"{sdk.upstream}/{sdk.model}"
    assert text(final(sdk, extra_headers=fields)) == "You said: Hi"


def test_models(sdk: AnthropicSDK) -> None:
    listed = sdk.call(lambda client: client.models.list())
    assert f"{sdk.upstream}/{sdk.model}" in {model.id for model in listed.data}
