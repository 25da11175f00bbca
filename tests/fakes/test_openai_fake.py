"""The fake of OpenAI refuses what OpenAI refuses, in its words."""

import json
from typing import Any

import pytest

from modelpact.emulation.validation import Schema
from tests.fakes import Call, Fail, Reply
from tests.fakes.client import events, post
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI

HI = {"role": "user", "content": "Hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city", "days"],
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["name", "kind", "tags", "note"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string", "minLength": 3}},
}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [HI], **fields}


def schema_format(schema: Any, strict: bool = True) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": strict}}


CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}


@pytest.mark.parametrize(
    ("body", "status", "message", "param", "code"),
    [
        (chat(top_k=5), 400, "Unrecognized request argument supplied: top_k", None, None),
        ({"messages": [HI]}, 400, "you must provide a model parameter", None, None),
        ({"model": "gpt-4o"}, 400, "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"),
        (
            chat(temperature="hot"),
            400,
            "Invalid type for 'temperature': expected a number, but got a string instead.",
            "temperature",
            "invalid_type",
        ),
        (
            chat(temperature=3),
            400,
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
            "temperature",
            "decimal_above_max_value",
        ),
        (
            chat(messages=[]),
            400,
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages",
            "empty_array",
        ),
        (
            chat(messages=[{**HI, "cache_control": {"type": "ephemeral"}}]),
            400,
            "Unknown parameter: 'messages[0].cache_control'.",
            "messages[0].cache_control",
            "unknown_parameter",
        ),
        (
            chat(messages=[{"role": "robot", "content": "x"}]),
            400,
            "Invalid value: 'robot'. Supported values are: 'system', 'developer', 'user', 'assistant', and 'tool'.",
            "messages[0].role",
            "invalid_value",
        ),
        (
            chat(stop=["a", "b", "c", "d", "e"]),
            400,
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an "
            "array with length 5 instead.",
            "stop",
            "array_above_max_length",
        ),
        (
            chat(model="gpt-9"),
            404,
            "The model `gpt-9` does not exist or you do not have access to it.",
            None,
            "model_not_found",
        ),
        (
            chat(model="gpt-5", temperature=0.2),
            400,
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the "
            "default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        (
            chat(model="o3", max_tokens=5),
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        (chat(reasoning_effort="low"), 400, "Unrecognized request argument supplied: reasoning_effort", None, None),
        (
            chat(response_format={"type": "json_object"}),
            400,
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            "messages",
            None,
        ),
        (
            chat(response_format=schema_format({"type": "object", "properties": {}})),
            400,
            "Invalid schema for response_format 'a': In context=(), 'additionalProperties' is "
            "required to be supplied and to be false.",
            "response_format",
            "invalid_json_schema",
        ),
        (
            chat(model="gpt-3.5-turbo", messages=[IMAGE]),
            400,
            "Invalid content type. image_url is only supported by certain models.",
            "messages.[0].content.[0].type",
            None,
        ),
        (
            chat(tool_choice="required"),
            400,
            "'tool_choice' is only allowed when 'tools' are specified.",
            "tool_choice",
            None,
        ),
        (
            chat(messages=[HI, CALLED, HI]),
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "c1",
            "messages",
            None,
        ),
        (
            chat(messages=[HI, {"role": "tool", "tool_call_id": "c1", "content": "x"}]),
            400,
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            "messages.[1].role",
            None,
        ),
        (
            chat(stream_options={"include_usage": True}),
            400,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
            None,
        ),
    ],
)
@on_loop
async def test_refusals(body: dict[str, Any], status: int, message: str, param: str | None, code: str | None) -> None:
    async with FakeOpenAI() as fake:
        got, answer, headers = await post(fake, "/chat/completions", body)
    assert got == status
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    assert answer == {"error": error}
    assert headers["x-request-id"].startswith("req_")


@on_loop
async def test_a_prompt_that_is_too_long() -> None:
    body = chat(model="text-only", messages=[{"role": "user", "content": "x" * 40_000}])
    async with FakeOpenAI() as fake:
        status, answer, _ = await post(fake, "/chat/completions", body)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")


@on_loop
async def test_keys() -> None:
    async with FakeOpenAI(key="sk-right") as fake:
        status, answer, _ = await post(fake, "/chat/completions", chat())
        assert (status, answer["error"]["code"]) == (401, None)
        wrong = {"authorization": "Bearer sk-wrong"}
        status, answer, _ = await post(fake, "/chat/completions", chat(), wrong)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        right = {"authorization": "Bearer sk-right"}
        assert (await post(fake, "/chat/completions", chat(), right))[0] == 200


@on_loop
async def test_scripted_errors_carry_a_wait() -> None:
    async with FakeOpenAI([Fail(429, retry_after=1.5), Fail(503), Fail(500)]) as fake:
        status, answer, headers = await post(fake, "/chat/completions", chat())
        assert (status, answer["error"]["code"]) == (429, "rate_limit_exceeded")
        assert (headers["retry-after"], headers["retry-after-ms"]) == ("1.5", "1500")
        assert [(await post(fake, "/chat/completions", chat()))[0] for _ in range(3)] == [503, 500, 200]


@on_loop
async def test_addresses_and_bodies() -> None:
    async with FakeOpenAI() as fake:
        assert (await post(fake, "/nowhere", chat()))[0] == 404
        status, answer, _ = await post(fake, "/chat/completions", b"{")
        assert (status, answer["error"]["message"][:16]) == (400, "We could not par")


@on_loop
async def test_structured_output_matches_its_schema() -> None:
    async with FakeOpenAI() as fake:
        body = chat(response_format=schema_format(PERSON))
        _, answer, _ = await post(fake, "/chat/completions", body)
        value = json.loads(answer["choices"][0]["message"]["content"])
        assert Schema(PERSON, "x").findings(value) == []


@on_loop
async def test_forced_calls_have_arguments_that_match() -> None:
    async with FakeOpenAI() as fake:
        body = chat(tools=[TOOL], tool_choice="required")
        _, answer, _ = await post(fake, "/chat/completions", body)
        (choice,) = answer["choices"]
        (call,) = choice["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert Schema(TOOL["function"]["parameters"], "x").findings(arguments) == []  # type: ignore[index]
        assert choice["finish_reason"] == "tool_calls"


@on_loop
async def test_parallel_calls_can_be_turned_off() -> None:
    two = Reply(calls=(Call("weather"), Call("weather")))
    async with FakeOpenAI([two, two]) as fake:
        _, answer, _ = await post(fake, "/chat/completions", chat(tools=[TOOL]))
        assert len(answer["choices"][0]["message"]["tool_calls"]) == 2
        body = chat(tools=[TOOL], parallel_tool_calls=False)
        _, answer, _ = await post(fake, "/chat/completions", body)
        assert len(answer["choices"][0]["message"]["tool_calls"]) == 1


@on_loop
async def test_streams_count_only_when_asked() -> None:
    async with FakeOpenAI() as fake:
        plain = await events(fake, "/chat/completions", chat(stream=True))
        assert plain[-1] == "[DONE]"
        assert not any("usage" in one for one in plain[:-1])
        options = {"include_usage": True}
        chunks = await events(fake, "/chat/completions", chat(stream=True, stream_options=options))
        assert chunks[-2]["choices"] == []
        assert chunks[-2]["usage"]["total_tokens"] > 0
        assert all(message["usage"] is None for message in chunks[:-2])
        text = "".join(message["choices"][0]["delta"].get("content") or "" for message in chunks[:-2])
        assert text == "You said: Hi"


@on_loop
async def test_limits_and_stops_cut_the_answer() -> None:
    async with FakeOpenAI(["abcdefghij" * 4, "one STOP two"]) as fake:
        _, answer, _ = await post(fake, "/chat/completions", chat(max_tokens=2))
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["choices"][0]["message"]["content"] == "abcdefgh"
        _, answer, _ = await post(fake, "/chat/completions", chat(stop="STOP"))
        assert answer["choices"][0]["message"]["content"] == "one "


@on_loop
async def test_a_long_prompt_is_cached() -> None:
    long = [{"role": "system", "content": "x" * 8_000}, HI]
    async with FakeOpenAI() as fake:
        cached = []
        for _ in range(2):
            _, answer, _ = await post(fake, "/chat/completions", chat(messages=long))
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == 0
    assert cached[1] >= 1_024


@on_loop
async def test_a_reply_can_lie() -> None:
    def lie(body: dict[str, Any]) -> None:
        body["model"] = "another"
        body["usage"]["prompt_tokens"] = 0

    async with FakeOpenAI([Reply("x", patch=lie)]) as fake:
        _, answer, _ = await post(fake, "/chat/completions", chat())
        assert (answer["model"], answer["usage"]["prompt_tokens"]) == ("another", 0)
        assert fake.bodies == [chat()]


@on_loop
async def test_embeddings() -> None:
    body: dict[str, Any] = {"model": "text-embedding-3-small", "input": ["a", "b"]}
    async with FakeOpenAI() as fake:
        _, answer, _ = await post(fake, "/embeddings", {**body, "dimensions": 8})
        assert [len(row["embedding"]) for row in answer["data"]] == [8, 8]
        assert (await post(fake, "/embeddings", {**body, "dimensions": 9_999}))[0] == 400
        assert (await post(fake, "/embeddings", {**body, "size": 1}))[0] == 400
        assert (await post(fake, "/embeddings", {**body, "model": "gpt-4o"}))[0] == 403
        assert (await post(fake, "/chat/completions", chat(model=body["model"])))[0] == 404
