"""The fake of OpenAI refuses at `/responses` what OpenAI refuses, in its words."""

import json
from typing import Any

import pytest

from tests.fakes import Call, Fail, Reply
from tests.fakes.client import events, post
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "input": "Hi", **fields}


def held(schema: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True}}


@pytest.mark.parametrize(
    ("body", "status", "message", "param", "code"),
    [
        (ask(top_k=5), 400, "Unknown parameter: 'top_k'.", "top_k", "unknown_parameter"),
        (ask(messages=[]), 400, "Unknown parameter: 'messages'.", "messages", "unknown_parameter"),
        ({"input": "Hi"}, 400, "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        ({"model": "gpt-4o"}, 400, "Missing required parameter: 'input'.", "input", "missing_required_parameter"),
        (
            ask(input=5),
            400,
            "Invalid type for 'input': expected one of a string or an array, but got an integer instead.",
            "input",
            "invalid_type",
        ),
        (
            ask(input=[{"role": "tool", "content": "x"}]),
            400,
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
            "input[0].role",
            "invalid_value",
        ),
        (
            ask(input=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]),
            400,
            "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            ask(max_output_tokens=5),
            400,
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead.",
            "max_output_tokens",
            "integer_below_min_value",
        ),
        (
            ask(model="gpt-5", temperature=0.5),
            400,
            "Unsupported parameter: 'temperature' is not supported with this model.",
            "temperature",
            "unsupported_parameter",
        ),
        (
            ask(reasoning={"effort": "low"}),
            400,
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            "reasoning.effort",
            "unsupported_parameter",
        ),
        (
            ask(include=["reasoning.encrypted_content"]),
            400,
            "Encrypted content is not supported with this model.",
            "include",
            None,
        ),
        (
            ask(tools=[{"type": "function", "function": {"name": "f"}}]),
            400,
            "Missing required parameter: 'tools[0].name'.",
            "tools[0].name",
            "missing_required_parameter",
        ),
        (
            ask(tools=[TOOL], tool_choice={"type": "function", "name": "f"}),
            400,
            "Tool choice 'f' not found in 'tools' parameter.",
            "tool_choice",
            None,
        ),
        (
            ask(text=held({"type": "object", "properties": {}})),
            400,
            "Invalid schema for response_format 'a': In context=(), 'additionalProperties' is "
            "required to be supplied and to be false.",
            "text.format.schema",
            "invalid_json_schema",
        ),
        (
            ask(text={"format": {"type": "json_object"}}),
            400,
            "Response input messages must contain the word 'json' in some form to use "
            "'text.format' of type 'json_object'.",
            "input",
            None,
        ),
        (ask(input=[CALL]), 400, "No tool output found for function call c1.", "input", None),
        (
            ask(input=[{"type": "function_call_output", "call_id": "c", "output": "x"}]),
            400,
            "No tool call found for function call output with call_id c.",
            "input",
            None,
        ),
        (
            ask(previous_response_id="resp_0"),
            400,
            "Previous response with id 'resp_0' not found.",
            "previous_response_id",
            "previous_response_not_found",
        ),
    ],
)
@on_loop
async def test_what_is_refused(
    body: dict[str, Any], status: int, message: str, param: str | None, code: str | None
) -> None:
    async with FakeOpenAI() as fake:
        answered, response, _ = await post(fake, "/responses", body)
    assert answered == status
    kind = "invalid_request_error"
    assert response["error"] == {"message": message, "type": kind, "param": param, "code": code}


@on_loop
async def test_what_is_answered() -> None:
    async with FakeOpenAI([Reply(), Reply("So", (Call("weather"),)), Fail(429)]) as fake:
        _, response, headers = await post(fake, "/responses", ask(text=held(SCHEMA)))
        assert json.loads(response["output"][0]["content"][0]["text"]) == {"city": "x"}
        assert headers["x-request-id"].startswith("req_")
        _, response, _ = await post(fake, "/responses", ask(tools=[TOOL]))
        assert [item["type"] for item in response["output"]] == ["message", "function_call"]
        assert (await post(fake, "/responses", ask()))[0] == 429
        forced = ask(tools=[TOOL], tool_choice="required")
        _, response, _ = await post(fake, "/responses", forced)
        assert json.loads(response["output"][0]["arguments"]) == {"city": "x"}


@on_loop
async def test_what_was_stored_is_remembered() -> None:
    async with FakeOpenAI() as fake:
        _, first, _ = await post(fake, "/responses", ask(model="gpt-5"))
        thought = first["output"][0]
        again = ask(model="gpt-5", input=[thought, {"role": "user", "content": "?"}])
        assert (await post(fake, "/responses", again))[0] == 200
        _, second, _ = await post(fake, "/responses", ask(model="gpt-5", store=False))
        status, response, _ = await post(fake, "/responses", {**again, "input": second["output"]})
        assert (status, "Items are not persisted" in response["error"]["message"]) == (404, True)
        more = ask(model="gpt-5", previous_response_id=first["id"])
        assert (await post(fake, "/responses", more))[0] == 200


@on_loop
async def test_events_are_numbered_and_end_with_the_whole() -> None:
    async with FakeOpenAI(["Hello there, you"]) as fake:
        streamed = await events(fake, "/responses", ask(stream=True))
    assert [one["sequence_number"] for one in streamed] == list(range(len(streamed)))
    assert (streamed[0]["type"], streamed[-1]["type"]) == ("response.created", "response.completed")
    pieces = [one["delta"] for one in streamed if one["type"] == "response.output_text.delta"]
    assert "".join(pieces) == "Hello there, you"
    assert streamed[-1]["response"]["output"][0]["content"][0]["text"] == "Hello there, you"
