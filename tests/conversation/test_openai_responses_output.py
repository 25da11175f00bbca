"""Answers of OpenAI's Responses API: whole bodies and streams say the same, here and elsewhere."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation import anthropic, openai_chat, openai_responses
from modelpact.conversation.anthropic import AnthropicStreamReader, AnthropicStreamWriter
from modelpact.conversation.message import OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat import OpenAIChatStreamWriter
from modelpact.conversation.openai_responses import OpenAIResponsesStreamReader, OpenAIResponsesStreamWriter
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
    ErrorBody,
    Finish,
    Response,
    ResponseError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
    collect,
    response_events,
)
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire import EventParser, write_event
from tests.conversation.openai_responses_response_bodies import responses_bodies, responses_events
from tests.conversation.response_bodies import WITH_USAGE, anthropic_bodies, openai_bodies
from tests.conversation.test_malformed_responses import JSON, _damaged


def read(events: Iterable[Any]) -> list[StreamEvent]:
    stream = OpenAIResponsesStreamReader()
    stream_events = [event for data in events for event in stream.feed(json.dumps(data))]
    return stream_events + stream.end()


def written(answer: Response) -> tuple[list[dict[str, Any]], OpenAIResponsesStreamWriter]:
    writer = OpenAIResponsesStreamWriter(answer.id, answer.model)
    return [written_event for event in response_events(answer) for written_event in writer.feed(event)], writer


def plain(response: Response | None) -> list[Any]:
    """Return what an answer says, in no API's spelling."""
    assert response is not None
    parts: list[Any] = []
    for block in response.content:
        if isinstance(block, ToolUseBlock):
            parts.append((block.id, block.name, block.input))
        elif isinstance(block, ThinkingBlock):
            parts.append(("thinking", block.thinking))
        elif isinstance(block, TextBlock):
            refused = "openai-chat spelling" in block.extra
            parts.append((block.text, refused))
        else:
            parts.append(block)
    reason = "end" if response.stop_reason == "stop_sequence" else response.stop_reason
    return [*parts, reason, response.usage, response.model, response.id]


# Whole bodies.


@given(responses_bodies())
def test_a_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    carried = openai_responses.write_response(openai_responses.read_response(body))
    assert carried.body == body
    assert carried.losses == ()


@given(openai_bodies())
def test_an_answer_of_chat_completions_becomes_a_response(body: dict[str, Any]) -> None:
    answer = openai_chat.read_response(body)
    assert plain(openai_responses.read_response(openai_responses.write_response(answer).body)) == plain(answer)


@given(anthropic_bodies())
def test_an_answer_of_anthropic_becomes_a_response(body: dict[str, Any]) -> None:
    answer = anthropic.read_response(body)
    own = [block for block in answer.content if not isinstance(block, OtherBlock)]
    reason = answer.stop_reason
    if reason == "unknown":
        assert "stop_reason" in [loss.path for loss in openai_responses.write_response(answer).losses]
        reason = "end"
    if reason == "tool_use" and not any(isinstance(block, ToolUseBlock) for block in own):
        reason = "end"
    if reason in ("end", "stop_sequence") and answer.tool_calls:
        reason = "tool_use"
    mine = msgspec.structs.replace(answer, content=tuple(own), stop_reason=reason)
    assert plain(openai_responses.read_response(openai_responses.write_response(answer).body)) == plain(mine)


@given(responses_bodies())
def test_a_response_survives_a_journey_through_the_others(body: dict[str, Any]) -> None:
    answer = openai_responses.read_response(body)
    theirs = anthropic.read_response(anthropic.write_response(answer).body)
    chat = openai_chat.read_response(openai_chat.write_response(answer).body)
    for other in (theirs, chat):
        assert [(tool_call.name, tool_call.input) for tool_call in other.tool_calls] == [
            (tool_call.name, tool_call.input) for tool_call in answer.tool_calls
        ]
        assert other.thinking == answer.thinking
        assert (other.usage, other.model, other.id) == (answer.usage, answer.model, answer.id)
    assert theirs.text == answer.text


def test_what_an_answer_says() -> None:
    answer = openai_responses.read_response(
        {
            "id": "resp_1",
            "model": "gpt-5",
            "status": "completed",
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"},
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
                },
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            ],
            "usage": {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 14,
            },
        }
    )
    thought, text, call = answer.content
    assert isinstance(thought, ThinkingBlock)
    assert thought.extra["openai-responses"] == {"encrypted_content": "gA"}
    assert text == TextBlock("Hi")
    assert isinstance(call, ToolUseBlock)
    assert answer.stop_reason == "tool_use"
    assert answer.usage == Usage(9, 5, 2, 4)
    lost = {loss.path for loss in openai_chat.write_response(answer).losses}
    assert lost == {"extra.body", "extra.usage", "thinking.encrypted_content"}
    assert "reasoning_content" not in openai_chat.write_response(answer).body["choices"][0]["message"]


def test_a_changed_answer_is_written_anew() -> None:
    body = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    answer = openai_responses.read_response({**body, "id": "resp_1", "model": "m", "output": []})
    assert answer.stop_reason == "length"
    changed = msgspec.structs.replace(
        answer, content=(TextBlock("Hi"), ToolUseBlock("c", "f", {"a": 1})), stop_reason="tool_use"
    )
    written_body = openai_responses.write_response(changed).body
    assert (written_body["status"], written_body["incomplete_details"]) == ("completed", None)
    message, call = written_body["output"]
    assert message == {
        "id": "msg_resp_1_0",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
    }
    assert (call["call_id"], call["arguments"], call["status"]) == ("c", '{"a":1}', "completed")


def test_an_answer_repeats_what_was_asked() -> None:
    request_body = {"model": "m", "input": "Hi", "temperature": 0.5, "tools": [{"type": "function"}]}
    body = openai_responses.write_response(Response((TextBlock("x"),)), created=7, request_body=request_body).body
    assert (body["temperature"], body["tools"], body["created_at"]) == (0.5, request_body["tools"], 7)
    assert (body["tool_choice"], body["store"], body["error"]) == ("auto", False, None)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (Response((TextBlock("x"),), "length"), "incomplete", "max_output_tokens"),
        (Response((TextBlock("x"),), "refusal"), "incomplete", "content_filter"),
        (Response((TextBlock("No.", REFUSED),), "refusal"), "completed", None),
        (Response((TextBlock("x"),), "end"), "completed", None),
    ],
)
def test_how_an_answer_ended(answer: Response, status: str, reason: str | None) -> None:
    events, _ = written(answer)
    for body in (openai_responses.write_response(answer).body, events[-1]["response"]):
        assert body["status"] == status
        assert (body["incomplete_details"] or {}).get("reason") == reason
        assert openai_responses.read_response(body).stop_reason == answer.stop_reason
    assert events[-1]["type"] == f"response.{status}"
    assert events[-1]["response"]["output"][0]["status"] == status


# Streams.


@given(responses_bodies(), st.data())
def test_a_stream_collects_to_the_body(body: dict[str, Any], data: st.DataObject) -> None:
    assert collect(read(responses_events(body, data.draw))) == openai_responses.read_response(body)


@given(responses_bodies(), st.data())
def test_bytes_may_be_cut_anywhere(body: dict[str, Any], data: st.DataObject) -> None:
    events = responses_events(body, data.draw)
    raw = b"".join(write_event(json.dumps(event), event["type"]) for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    parser, stream = EventParser(), OpenAIResponsesStreamReader()
    events_read: list[StreamEvent] = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        for event in parser.feed(raw[start:end]):
            events_read += stream.feed(event.data)
    assert collect(events_read) == openai_responses.read_response(body)


@given(responses_bodies(), st.data())
def test_a_server_may_leave_out_pieces(body: dict[str, Any], data: st.DataObject) -> None:
    events = responses_events(body, data.draw)
    whole = ("response.output_item.done", f"response.{body['status']}")
    answer = openai_responses.read_response(body)
    assert collect(read([event for event in events if event["type"] in whole])) == answer
    assert collect(read(events[-1:])) == answer
    bare = {**events[-1], "response": {**body, "output": []}}
    assert collect(read([*events[:-1], bare])) == answer


@given(responses_bodies())
def test_events_that_are_written_are_read_again(body: dict[str, Any]) -> None:
    answer = openai_responses.read_response(body)
    events, writer = written(answer)
    collected = collect(read(events))
    if answer.stop_reason == "unknown":
        answer = msgspec.structs.replace(answer, stop_reason=_usual(answer))
    assert plain(collected) == plain(answer)
    assert writer.losses == ()
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def _usual(answer: Response) -> Any:
    return "tool_use" if answer.tool_calls else "end"


@given(anthropic_bodies())
def test_a_stream_of_anthropic_becomes_one_of_responses(body: dict[str, Any]) -> None:
    answer = anthropic.read_response(body)
    source = AnthropicStreamWriter(answer.id, answer.model)
    stream, writer = (AnthropicStreamReader(), OpenAIResponsesStreamWriter(answer.id, answer.model))
    events = [
        written_event
        for event in response_events(answer)
        for sent in source.feed(event)
        for mine in stream.feed(json.dumps(sent))
        for written_event in writer.feed(mine)
    ]
    whole = openai_responses.read_response(openai_responses.write_response(answer).body)
    assert plain(collect(read(events))) == plain(whole)


@given(responses_bodies())
def test_a_stream_of_responses_becomes_one_of_chat_completions(body: dict[str, Any]) -> None:
    answer = openai_responses.read_response(body)
    writer = OpenAIChatStreamWriter(answer.id, answer.model, request_body=WITH_USAGE)
    chunks = [item for event in response_events(answer) for item in writer.feed(event)]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    refused = [block for block in answer.content if isinstance(block, TextBlock) and block.extra == REFUSED]
    assert len(text) == len(answer.text) - sum(len(item.text) for item in refused)


def test_the_events_of_a_text_come_in_order() -> None:
    events, _ = written(Response((ThinkingBlock("Hm"), TextBlock("Hi"), ToolUseBlock("c", "f", {}))))
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done"),
        *("output_item.done", "completed"),
    ]
    places = [event["output_index"] for event in events if "output_index" in event]
    assert places == [0] * 6 + [1] * 6 + [2] * 4
    assert events[-1]["response"]["output"] == [
        event["item"] for event in events if event["type"] == "response.output_item.done"
    ]


def test_texts_that_touch_stay_apart() -> None:
    answer = Response((TextBlock("a"), TextBlock("b"), ThinkingBlock("c"), ThinkingBlock("d")))
    events, _ = written(answer)
    assert plain(collect(read(events))) == plain(answer)
    assert len(events[-1]["response"]["output"]) == 3


def test_what_an_answer_cannot_say_here_is_told() -> None:
    answer = Response(
        (ThinkingBlock("Hm", "sig"), OtherBlock("anthropic", {"type": "redacted_thinking"})),
        "stop_sequence",
        "END",
        extra={"anthropic": {"container": 1}},
    )
    losses = {loss.path for loss in openai_responses.write_response(answer).losses}
    assert losses == {"content[0].signature", "content[1]", "stop_sequence", "extra.container"}
    _, writer = written(answer)
    lost = {loss.path for loss in writer.losses}
    assert lost == {"thinking.signature", "content", "stop_sequence", "extra.container"}


def test_a_stream_that_was_cut_off_has_no_end() -> None:
    events, _ = written(Response((TextBlock("Hi"),)))
    assert collect(read(events[:-1])) is None


def test_a_stream_breaks_off_with_an_error() -> None:
    error = {"code": "server_error", "message": "busy"}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    writer = OpenAIResponsesStreamWriter("resp_1", "m")
    with pytest.raises(ResponseError, match="busy") as raised:
        read([*writer.feed(TextDelta("Hi")), failed])
    assert raised.value.body == ErrorBody("busy", code="server_error")


# Answers that are not what they should be.

IMAGE = {"type": "input_image", "image_url": "x"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "response: expected an object"),
        ({}, "response.output: expected a list"),
        ({"output": [], "status": "queued"}, "expected completed or incomplete, not 'queued'"),
        ({"output": [{}]}, r"response.output\[0\].type"),
        ({"output": [{"role": "user", "content": "x"}]}, "expected assistant, not 'user'"),
        (
            {"output": [{"role": "assistant", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "an image is not part of a response",
        ),
        ({"output": [], "usage": {"input_tokens": -1}}, "usage.input_tokens"),
        ({"output": [], "status": "incomplete", "incomplete_details": 1}, "incomplete_details"),
        ({"output": [], "model": 5}, "model: expected a string"),
    ],
)
def test_malformed_bodies(body: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        openai_responses.read_response(body)


def _delta(index: Any = 0, part: Any = 0, text: Any = "x") -> dict[str, Any]:
    place = {"output_index": index, "content_index": part}
    return {"type": "response.output_text.delta", **place, "delta": text}


ITEM: dict[str, Any] = {
    "type": "response.output_item.done",
    "output_index": 0,
    "item": {"type": "message", "role": "assistant", "content": []},
}
END: dict[str, Any] = {"type": "response.completed", "response": {"output": []}}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{}], "stream.type: expected a string"),
        ([_delta("0")], "output_index: expected an index"),
        ([_delta(part=-1)], "content_index: expected an index"),
        ([_delta(text=1)], "delta: expected a string"),
        ([ITEM, _delta()], "an event for item 0 came after the end of the item"),
        ([ITEM, ITEM], "an event for item 0 came after the end of the item"),
        ([_delta(), _delta(1), _delta()], "mixed"),
        ([{**ITEM, "item": None}], "stream.item: expected an object"),
        ([{"type": "response.completed"}], "stream.response: expected an object"),
        ([{**END, "response": {"status": "queued"}}], "completed or incomplete"),
        ([END, _delta()], "after the response's end"),
    ],
)
def test_malformed_streams(events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(events)


def test_errors_are_raised() -> None:
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    failed = {"status": "failed", "output": [], "error": error}
    with pytest.raises(ResponseError, match="slow down") as raised:
        openai_responses.read_response(failed)
    assert raised.value.body.status == 429
    with pytest.raises(ResponseError, match="slow down"):
        read([{"type": "response.failed", "response": failed}])
    with pytest.raises(ResponseError, match="the response failed"):
        openai_responses.read_response({"status": "failed", "output": []})
    with pytest.raises(ResponseError, match="no"):
        openai_responses.read_response({"error": {"message": "no"}})
    with pytest.raises(ResponseError, match="odd") as raised:
        read([{"type": "error", "code": "server_error", "message": "odd", "param": None}])
    assert raised.value.body.status == 500
    with pytest.raises(ResponseError, match="odd"):
        read([{"type": "error", "error": {"type": "server_error", "message": "odd"}}])


def test_kinds_that_are_new_are_passed_over() -> None:
    assert read([{"type": "response.something.new", "x": 1}, {"type": "keepalive"}]) == []
    assert OpenAIResponsesStreamReader().feed("[DONE]") == []


def test_reasoning_is_told_once() -> None:
    at = {"output_index": 0, "content_index": 0, "summary_index": 0}
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    events = [
        {"type": "response.reasoning_summary_text.delta", **at, "delta": "short"},
        {"type": "response.reasoning_text.delta", **at, "delta": "long"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        END,
    ]
    events_read = read(events)
    assert events_read[0] == ThinkingDelta("short")
    assert [type(item) for item in events_read] == [ThinkingDelta, BlockEnd, Finish]


def test_a_call_without_its_arguments_takes_the_pieces() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "f"}
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    events_read = read([{**piece, "delta": '{"a"'}, {**piece, "delta": ":1}"}, done])
    assert events_read == [ToolCall(ToolUseBlock("c", "f", {"a": 1}, '{"a":1}'))]


@given(st.data())
def test_damaged_answers_never_raise_anything_else(data: st.DataObject) -> None:
    body = data.draw(responses_bodies())
    damaged = _damaged(body, data)
    with contextlib.suppress(ModelpactError):
        openai_responses.write_response(openai_responses.read_response(damaged))
    stream = OpenAIResponsesStreamReader()
    with contextlib.suppress(ModelpactError):
        for event in responses_events(body, data.draw):
            stream.feed(json.dumps(_damaged(event, data) if data.draw(st.booleans()) else event))
            stream.feed(json.dumps({"type": "response.completed", "response": damaged}))


NAMES = ["type", "delta", "item", "response", "part", "output_index", "content_index", "error"]
TYPES = st.sampled_from(
    [
        *("error", "response.failed", "response.completed", "response.output_item.done"),
        *("response.content_part.done", "response.output_text.delta", "response.refusal.delta"),
        *("response.reasoning_summary_text.delta", "response.function_call_arguments.delta"),
    ]
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), JSON | TYPES | st.just(0))))
def test_garbage_never_raises_anything_else(events: list[Any]) -> None:
    stream = OpenAIResponsesStreamReader()
    for event in events:
        with contextlib.suppress(ModelpactError):
            stream.feed(json.dumps(event))
