"""Answers that are not what they should be: a clear error, never another one."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.anthropic import AnthropicStreamReader
from modelpact.conversation.anthropic.response import write_anthropic_error
from modelpact.conversation.openai_chat import OpenAIChatStreamReader
from modelpact.conversation.openai_chat.response import write_openai_error
from modelpact.conversation.response import ErrorBody, ResponseError, StreamEvent, ToolCall, read_error
from modelpact.vocabulary.errors import InputError, ModelpactError
from tests.conversation.response_bodies import anthropic_bodies, openai_bodies

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "response: expected an object"),
        ({}, "response.choices: expected a list"),
        ({"choices": []}, "expected one choice, not 0"),
        ({"choices": [{"message": None}]}, "message: expected an object"),
        ({"choices": [{"message": {"content": 7}}]}, r"message.content: expected a list"),
        (
            {"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "f"}}]}}]},
            r"message.tool_calls\[0\].function.arguments: expected a string",
        ),
        (
            {"choices": [{"message": {}}], "usage": {"prompt_tokens": -1}},
            "usage.prompt_tokens: expected a number of tokens, not -1",
        ),
    ],
)
def test_openai_bodies(body: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        openai_chat.read_response(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "response: expected an object"),
        ({}, "response.content: expected a list"),
        ({"content": [{"type": "tool_use", "id": "1", "name": "f"}]}, r"content\[0\].*needs input"),
        ({"content": [], "usage": {"output_tokens": "1"}}, "usage.output_tokens"),
        ({"content": [], "stop_reason": 1}, "stop_reason: expected a string"),
    ],
)
def test_anthropic_bodies(body: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        anthropic.read_response(body)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (["{"], "not JSON"),
        (["[]"], "expected an object"),
        (['{"choices":{}}'], "stream.choices: expected a list"),
        (['{"choices":[{"delta":{"content":1}}]}'], "content: expected a string"),
        (['{"choices":[{"delta":{"tool_calls":[{"function":{}}]}}]}', "STOP"], "id|name"),
        (["STOP", '{"choices":[{"delta":{"content":"x"}}]}'], "after the model stopped"),
        (["STOP", "[DONE]", "[DONE]"], "after its end"),
        (['{"usage":{"completion_tokens":true},"choices":[]}'], "completion_tokens"),
    ],
)
def test_openai_streams(chunks: list[str], message: str) -> None:
    stop = '{"choices":[{"delta":{},"finish_reason":"stop"}]}'
    with pytest.raises(InputError, match=message):
        _feed(OpenAIChatStreamReader(), [stop if chunk == "STOP" else chunk for chunk in chunks])


START = {"type": "message_start", "message": {"id": "1", "model": "m", "usage": {}}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STOP = {"type": "content_block_stop", "index": 0}


def _tool(raw: str) -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": raw}
    return [
        START,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        STOP,
    ]


def _end(reason: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{}], "stream.type: expected a string"),
        ([TEXT], "a block before message_start"),
        ([START, START], "second message_start"),
        ([START, TEXT, TEXT], "before the last one ended"),
        ([START, STOP], "not open"),
        ([START, {"type": "content_block_delta", "delta": {"type": "text_delta"}}], "outside of a block"),
        (
            [START, TEXT, {"type": "content_block_delta", "delta": {"type": "thinking_delta"}}],
            "a thinking_delta in a text block",
        ),
        ([START, TEXT, {"type": "message_stop"}], "before the message was complete"),
        ([_end("end_turn")], "before message_start"),
        ([START, {"type": "message_stop"}, {"type": "ping"}], "after the message's end"),
        ([*_tool('{"x'), _end("tool_use")], "input of 'f' is not JSON"),
    ],
)
def test_anthropic_streams(events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _feed(AnthropicStreamReader(), [json.dumps(event) for event in events])


def _feed(stream: OpenAIChatStreamReader | AnthropicStreamReader, events: list[str]) -> None:
    for event in events:
        stream.feed(event)


def test_a_call_that_the_limit_cut_keeps_its_text() -> None:
    stream = AnthropicStreamReader()
    events: list[StreamEvent] = []
    for event in [*_tool('{"x'), _end("max_tokens"), {"type": "message_stop"}]:
        events += stream.feed(json.dumps(event))
    assert isinstance(events[0], ToolCall)
    assert (events[0].call.input, events[0].call.raw) == (None, '{"x')


def test_kinds_that_are_new_are_passed_over() -> None:
    stream = AnthropicStreamReader()
    assert stream.feed('{"type":"ping"}') == []
    assert stream.feed('{"type":"something_new","x":1}') == []


@given(st.data())
def test_damaged_openai_answers_never_raise_anything_else(data: st.DataObject) -> None:
    body = _damaged(data.draw(openai_bodies()), data)
    with contextlib.suppress(ModelpactError):
        openai_chat.read_response(body)
    chunk = {**body, "choices": [{"delta": message} for message in _messages(body)]}
    with contextlib.suppress(ModelpactError):
        OpenAIChatStreamReader().feed(json.dumps(chunk))


@given(st.data())
def test_damaged_anthropic_answers_never_raise_anything_else(data: st.DataObject) -> None:
    with contextlib.suppress(ModelpactError):
        anthropic.read_response(_damaged(data.draw(anthropic_bodies()), data))


@given(st.lists(st.dictionaries(st.sampled_from(["type", "delta", "message", "choices"]), JSON)))
def test_garbage_never_raises_anything_else(events: list[Any]) -> None:
    for stream in (OpenAIChatStreamReader(), AnthropicStreamReader()):
        for event in events:
            with contextlib.suppress(ModelpactError):
                stream.feed(json.dumps(event))


def _messages(body: Any) -> list[Any]:
    choices = body.get("choices")
    return [choice.get("message") for choice in choices] if isinstance(choices, list) else []


def _damaged(body: Any, data: st.DataObject) -> Any:
    """Replace one value somewhere in it."""
    body = copy.deepcopy(body)
    places: list[tuple[Any, Any]] = []
    stack = [body]
    while stack:
        node = stack.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, (dict, list)):
                stack.append(value)
    where, key = data.draw(st.sampled_from(places))
    where[key] = data.draw(JSON)
    if "choices" in body and isinstance(body["choices"], list):
        body["choices"] = [choice for choice in body["choices"] if isinstance(choice, dict)]
    return body


# Errors in the APIs' words.


def test_errors_are_read_and_written() -> None:
    openai = {"error": {"message": "no", "type": "t", "param": "temperature", "code": "c"}}
    error = read_error(openai)
    assert error == ErrorBody("no", "t", "c", "temperature")
    assert write_openai_error(error) == openai
    anthropic = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    error = read_error(anthropic)
    assert error is not None
    assert error.status == 529
    assert write_anthropic_error(error, 529) == anthropic
    assert read_error({"error": "plain"}) == ErrorBody("plain")
    assert read_error({"message": "vllm", "code": 400}) == ErrorBody("vllm", code="400")
    assert read_error("x") is None
    assert read_error({"error": {}}) is None


def test_errors_in_streams_are_raised() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(ResponseError, match="busy"):
        AnthropicStreamReader().feed(json.dumps(error))
    with pytest.raises(ResponseError, match="broke") as raised:
        OpenAIChatStreamReader().feed('{"error":{"message":"broke","type":"server_error"}}')
    assert raised.value.body.status == 500
    with pytest.raises(ResponseError):
        openai_chat.read_response({"error": {"message": "x"}})
    with pytest.raises(ResponseError):
        anthropic.read_response(error)
