"""The official `openai` SDK with the Responses API, to upstreams of both APIs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes import Reply
from tests.gateway.conftest import Serve
from tests.gateway.sdks import (
    CALLS,
    MORE,
    PIXEL,
    WEATHER,
    City,
    OpenAISDK,
    check_errors,
    check_errors_in_streams,
    openai,
)

TOOLS: Any = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
CITIES = [{"city": "Rome"}, {"city": "Oslo"}]


@pytest.fixture(params=["openai", "anthropic"])
def sdk(serve: Serve, blocking: bool, request: pytest.FixtureRequest) -> OpenAISDK:
    return OpenAISDK(serve(MORE), blocking, request.param)


def ask(sdk: OpenAISDK, **more: Any) -> tuple[Any, Mapping[str, str]]:
    fields = {"model": sdk.model, "input": "Hi", **more}
    return sdk.raw(lambda client: client.responses, **fields)


def final(sdk: OpenAISDK, **more: Any) -> Any:
    """Add a stream up, as the SDK does."""
    fields = {"model": sdk.model, "input": "Hi", **more}
    return sdk.final(lambda client: client.responses.stream(**fields), "get_final_response")


def calls(answer: Any) -> list[Any]:
    return [json.loads(item.arguments) for item in answer.output if item.type == "function_call"]


def test_plain(sdk: OpenAISDK) -> None:
    answer, head = ask(sdk)
    assert (answer.output_text, answer.status) == ("You said: Hi", "completed")
    assert answer.usage.input_tokens > 0
    assert head["modelpact-served-model"] == f"{sdk.upstream}/{sdk.model}"
    assert float(head["modelpact-cost-usd"]) > 0
    assert ("modelpact-added" in head) is (sdk.upstream == "anthropic")


def test_streaming(sdk: OpenAISDK) -> None:
    answer = final(sdk)
    assert answer.output_text == "You said: Hi"
    assert answer.usage.output_tokens > 0
    events = sdk.events(lambda client: client.responses, model=sdk.model, input="Hi")
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert kinds.count("response.output_text.delta") > 1


def test_tools_there_and_back(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS[:1]), "Sunny.")
    answer, _ = ask(sdk, tools=TOOLS)
    assert calls(answer) == CITIES[:1]
    (call,) = [item for item in answer.output if item.type == "function_call"]
    turns = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "22 degrees"},
    ]
    assert ask(sdk, tools=TOOLS, input=turns)[0].output_text == "Sunny."


def test_parallel_tools(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS), Reply(calls=CALLS))
    assert calls(ask(sdk, tools=TOOLS)[0]) == CITIES
    assert calls(final(sdk, tools=TOOLS)) == CITIES


def test_structured_output(sdk: OpenAISDK) -> None:
    sdk.fake.script.add('{"name": "Rome", "people": 3}', '{"name": "Oslo", "people": 1}')
    fields: Any = {"model": sdk.model, "input": "Hi", "text_format": City}
    answer = sdk.call(lambda client: client.responses.parse(**fields))
    assert answer.output_parsed == City(name="Rome", people=3)
    assert final(sdk, text_format=City).output_parsed == City(name="Oslo", people=1)


def test_images(sdk: OpenAISDK) -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
    ]
    answer, _ = ask(sdk, input=[{"role": "user", "content": parts}])
    assert answer.output_text.startswith("You said: What is this?[")


def test_reasoning_settings(sdk: OpenAISDK) -> None:
    model = "gpt-5" if sdk.upstream == "openai" else sdk.model
    answer, _ = ask(sdk, model=model, reasoning={"effort": "low"})
    assert answer.output_text == "You said: Hi"
    sent = sdk.fake.bodies[-1]
    assert (sent.get("reasoning") or sent["output_config"])["effort"] == "low"


def test_errors_have_their_classes(sdk: OpenAISDK) -> None:
    check_errors(sdk, openai, ask)


def test_errors_in_streams(sdk: OpenAISDK) -> None:
    check_errors_in_streams(sdk, openai, final)


def test_a_model_that_declines(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(refusal="I will not."))
    answer, _ = ask(sdk)
    assert "I will not." in answer.model_dump_json()


def test_refusals(sdk: OpenAISDK) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        ask(sdk, model="openai/text-only", tools=TOOLS)
    assert caught.value.code == "capability_not_provided"
    assert caught.value.body["modelpact"]["diagnostic"]["suggestion"]


def test_emulated_answers(sdk: OpenAISDK) -> None:
    called = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    sdk.gateway.openai.script.add(called, called)
    answer, head = ask(sdk, model="workload/emulated", tools=TOOLS)
    assert calls(answer) == CITIES[:1]
    assert head["modelpact-emulated"].startswith("tool-calling: ")
    assert calls(final(sdk, model="workload/emulated", tools=TOOLS)) == CITIES[:1]


def test_substituted_answers(sdk: OpenAISDK) -> None:
    name = "substituted" if sdk.upstream == "openai" else "carried-away"
    answer, head = ask(sdk, model=f"workload/{name}")
    assert (answer.output_text, answer.model) == ("You said: Hi", sdk.model)
    reported = head["modelpact-substituted"]
    assert reported == f"openai/text-only -> {sdk.upstream}/{sdk.model}: it lacks tool-calling"
