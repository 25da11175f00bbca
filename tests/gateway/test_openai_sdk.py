"""The official `openai` SDK, unmodified, to upstreams of both APIs."""

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
from tests.gateway.support import HI

TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]


@pytest.fixture(params=["openai", "anthropic"])
def sdk(serve: Serve, blocking: bool, request: pytest.FixtureRequest) -> OpenAISDK:
    return OpenAISDK(serve(MORE), blocking, request.param)


def chat(sdk: OpenAISDK, **more: Any) -> tuple[Any, Mapping[str, str]]:
    fields = {"model": sdk.model, "messages": HI, **more}
    return sdk.raw(lambda client: client.chat.completions, **fields)


def chunks(sdk: OpenAISDK, **more: Any) -> list[Any]:
    fields = {"model": sdk.model, "messages": HI, **more}
    return sdk.events(lambda client: client.chat.completions, **fields)


def test_plain(sdk: OpenAISDK) -> None:
    answer, head = chat(sdk)
    assert answer.choices[0].message.content == "You said: Hi"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens > 0
    assert head["modelpact-served-model"] == f"{sdk.upstream}/{sdk.model}"
    assert head["modelpact-verdict"] == ("yes" if sdk.upstream == "openai" else "labelled")
    assert float(head["modelpact-cost-usd"]) > 0
    assert head["modelpact-invocation"]
    assert ("modelpact-carried" in head) is (sdk.upstream == "anthropic")


def test_a_system_message_and_a_limit(sdk: OpenAISDK) -> None:
    sdk.fake.script.add("a long answer indeed " * 20)
    system = {"role": "system", "content": "Be brief."}
    answer, _ = chat(sdk, messages=[system, *HI], max_tokens=5, temperature=0.5, stop=["§"])
    assert answer.choices[0].finish_reason == "length"


def test_streaming(sdk: OpenAISDK) -> None:
    received = chunks(sdk, stream_options={"include_usage": True})
    texts = [chunk.choices[0].delta.content or "" for chunk in received if chunk.choices]
    assert "".join(texts) == "You said: Hi"
    assert len(texts) >= 3, "as it comes, not at once"
    assert received[-1].usage.completion_tokens > 0
    assert not [chunk for chunk in chunks(sdk) if not chunk.choices], "no usage unless asked for"


def test_the_head_is_there_before_the_stream(sdk: OpenAISDK) -> None:
    """MP-A3: the headers are there before the first byte of the stream."""
    stream, head = chat(sdk, stream=True)
    assert head["modelpact-served-model"] == f"{sdk.upstream}/{sdk.model}"
    assert head["modelpact-invocation"]
    assert stream is not None


def test_tools_there_and_back(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS[:1]), "Sunny.")
    answer, _ = chat(sdk, tools=TOOLS, tool_choice="auto")
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Rome"}
    turns = [
        *HI,
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "22 degrees"},
    ]
    answer, _ = chat(sdk, tools=TOOLS, messages=turns)
    assert answer.choices[0].message.content == "Sunny."


def test_parallel_tools(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS), Reply(calls=CALLS))
    answer, _ = chat(sdk, tools=TOOLS, parallel_tool_calls=True)
    tool_calls = answer.choices[0].message.tool_calls
    cities = [json.loads(call.function.arguments) for call in tool_calls]
    assert cities == [{"city": "Rome"}, {"city": "Oslo"}]
    pieces: dict[int, str] = {}
    for chunk in chunks(sdk, tools=TOOLS):
        for call in chunk.choices[0].delta.tool_calls or []:
            text = call.function.arguments if call.function else ""
            pieces[call.index] = pieces.get(call.index, "") + (text or "")
    assert [json.loads(piece) for piece in pieces.values()] == cities
    turns = [
        *HI,
        answer.choices[0].message.model_dump(exclude_none=True),
        *({"role": "tool", "tool_call_id": call.id, "content": "22"} for call in answer.choices[0].message.tool_calls),
    ]
    assert chat(sdk, tools=TOOLS, messages=turns)[0].choices[0].message.content


def test_one_tool_only_and_a_tool_that_must_be_called(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(calls=CALLS))
    answer, _ = chat(sdk, tools=TOOLS, parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1
    answer, _ = chat(sdk, tools=TOOLS, tool_choice="required")
    assert answer.choices[0].message.tool_calls[0].function.name == "weather"
    named = {"type": "function", "function": {"name": "weather"}}
    answer, _ = chat(sdk, tools=TOOLS, tool_choice=named)
    assert answer.choices[0].message.tool_calls[0].function.name == "weather"


def test_structured_output(sdk: OpenAISDK) -> None:
    sdk.fake.script.add('{"name": "Rome", "people": 3}', '{"name": "Oslo", "people": 1}')
    fields: Any = {"model": sdk.model, "messages": HI, "response_format": City}
    answer = sdk.call(lambda client: client.chat.completions.parse(**fields))
    assert answer.choices[0].message.parsed == City(name="Rome", people=3)
    answer = sdk.final(lambda client: client.chat.completions.stream(**fields), "get_final_completion")
    assert answer.choices[0].message.parsed == City(name="Oslo", people=1)


@pytest.mark.parametrize("url", [f"data:image/png;base64,{PIXEL}", "https://example.com/a.png"])
def test_images(sdk: OpenAISDK, url: str) -> None:
    parts: Any = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    answer, _ = chat(sdk, messages=[{"role": "user", "content": parts}])
    assert answer.choices[0].message.content.startswith("You said: What is this?[")


def test_reasoning_settings(sdk: OpenAISDK) -> None:
    model = "gpt-5" if sdk.upstream == "openai" else sdk.model
    answer, head = chat(sdk, model=model, reasoning_effort="low", max_completion_tokens=2_000)
    assert answer.choices[0].message.content == "You said: Hi"
    sent = sdk.fake.bodies[-1]
    effort = sent.get("reasoning_effort") or sent["output_config"]["effort"]
    assert effort == "low"
    assert "modelpact-dropped" not in head
    if sdk.upstream == "openai":
        assert answer.usage.completion_tokens_details.reasoning_tokens == 64
        with pytest.raises(openai.UnprocessableEntityError, match="accepts"):
            chat(sdk, model=model, reasoning_effort="extreme")


def test_embeddings(sdk: OpenAISDK) -> None:
    def ask(model: str) -> Any:
        return sdk.call(lambda client: client.embeddings.create(model=model, input=["a", "b"]))

    if sdk.upstream == "openai":
        vectors = ask("text-embedding-3-small")
        assert [len(item.embedding) for item in vectors.data] == [1_536, 1_536]
        assert sdk.gateway.settled() == [("completed", None)]
    with pytest.raises(openai.UnprocessableEntityError, match="embedding-output"):
        ask(sdk.model)


def test_errors_have_their_classes(sdk: OpenAISDK) -> None:
    check_errors(sdk, openai, chat)
    with pytest.raises(openai.AuthenticationError, match="modelpact keys create"):
        sdk.call(lambda client: client.chat.completions.create(model=sdk.model, messages=HI), api_key="none")


def test_errors_in_streams(sdk: OpenAISDK) -> None:
    check_errors_in_streams(sdk, openai, chunks)


def test_a_model_that_declines(sdk: OpenAISDK) -> None:
    sdk.fake.script.add(Reply(refusal="I will not."))
    answer, _ = chat(sdk)
    message = answer.choices[0].message
    assert "I will not." in (message.refusal or message.content)


def test_refusals(sdk: OpenAISDK) -> None:
    """MP-A4: a refusal is a 422 in the API's format, with diagnostic and suggestion."""
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        chat(sdk, model="openai/text-only", tools=TOOLS)
    error = caught.value
    assert (error.code, error.type) == ("capability_not_provided", "capability_not_provided")
    assert error.response.headers["modelpact-verdict"] == "no"
    assert error.body["modelpact"]["diagnostic"]["missing"][0]["capability"] == "tool-calling"
    assert error.body["modelpact"]["diagnostic"]["suggestion"]


def test_emulated_answers(sdk: OpenAISDK) -> None:
    called = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    sdk.gateway.openai.script.add(called, called, '{"name": "Rome", "people": 3}')
    answer, head = chat(sdk, model="workload/emulated", tools=TOOLS)
    (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Rome"}
    assert head["modelpact-emulated"].startswith("tool-calling: ")
    assert head["modelpact-verdict"] == "labelled"
    pieces = [
        part.function.arguments
        for chunk in chunks(sdk, model="workload/emulated", tools=TOOLS)
        for part in chunk.choices[0].delta.tool_calls or []
    ]
    assert json.loads("".join(piece or "" for piece in pieces)) == {"city": "Rome"}
    fields: Any = {"model": "workload/emulated", "messages": HI, "response_format": City}
    answer = sdk.call(lambda client: client.chat.completions.parse(**fields))
    assert answer.choices[0].message.parsed == City(name="Rome", people=3)


def test_substituted_answers(sdk: OpenAISDK) -> None:
    name = "substituted" if sdk.upstream == "openai" else "carried-away"
    answer, head = chat(sdk, model=f"workload/{name}")
    assert answer.choices[0].message.content == "You said: Hi"
    assert answer.model == sdk.model, "the model that answered, not the one asked for"
    reported = head["modelpact-substituted"]
    assert reported == f"openai/text-only -> {sdk.upstream}/{sdk.model}: it lacks tool-calling"


def test_the_report_does_not_disturb_the_sdk(sdk: OpenAISDK) -> None:
    request: Any = {"model": sdk.model, "messages": HI}
    fields = {"modelpact-report": "body"}
    answer, _ = chat(sdk, extra_headers=fields)
    assert answer.model_extra["modelpact"]["servedModel"] == f"{sdk.upstream}/{sdk.model}"
    result = chunks(sdk, extra_headers=fields)
    assert result[-1].model_extra["modelpact"]["cost"]["usd"]
    final = sdk.final(
        lambda client: client.chat.completions.stream(**request, extra_headers=fields), "get_final_completion"
    )
    assert final.choices[0].message.content == "You said: Hi"


def test_models(sdk: OpenAISDK) -> None:
    listed = sdk.call(lambda client: client.models.list())
    assert {f"{sdk.upstream}/{sdk.model}", "workload/emulated"} <= {model.id for model in listed.data}
    model = sdk.call(lambda client: client.models.retrieve(f"{sdk.upstream}/{sdk.model}"))
    assert model.model_extra["modelpact"]["capabilities"]["tool-calling"] == "native"
