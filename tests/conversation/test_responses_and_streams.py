"""Answers: whole bodies and streams say the same, in both APIs and between them."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.anthropic import AnthropicStreamReader, AnthropicStreamWriter
from modelpact.conversation.message import Message, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat import OpenAIChatStreamReader, OpenAIChatStreamWriter
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
    Finish,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
    collect,
    response_events,
)
from modelpact.vocabulary.errors import InputError
from modelpact.wire import EventParser, write_event
from tests.conversation.response_bodies import (
    WITH_USAGE,
    anthropic_bodies,
    anthropic_events,
    openai_bodies,
    openai_chunks,
)


def read_openai(chunks: Iterable[Any], done: bool = True) -> list[StreamEvent]:
    stream = OpenAIChatStreamReader()
    events = [event for chunk in chunks for event in stream.feed(json.dumps(chunk))]
    return events + (stream.feed(openai_chat.DONE) if done else stream.end())


def read_anthropic(events: Iterable[Any]) -> list[StreamEvent]:
    stream = AnthropicStreamReader()
    stream_events = [event for data in events for event in stream.feed(json.dumps(data))]
    return stream_events + stream.end()


def plain(response: Response | None) -> Response:
    """Without what only one API says of the whole, and its spelling of what both say."""
    assert response is not None
    content = []
    for block in response.content:
        if isinstance(block, ToolUseBlock):
            block = msgspec.structs.replace(block, raw="", extra={})
        if isinstance(block, ThinkingBlock):
            block = ThinkingBlock(block.thinking, block.signature)
        if isinstance(block, TextBlock) and block.extra != REFUSED:
            block = TextBlock(block.text)
        content.append(block)
    return msgspec.structs.replace(response, content=tuple(content), extra={})


# Whole bodies.


@given(openai_bodies())
def test_an_openai_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    assert openai_chat.write_response(openai_chat.read_response(body)).body == body


@given(anthropic_bodies())
def test_an_anthropic_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    carried = anthropic.write_response(anthropic.read_response(body))
    assert carried.body == body
    assert carried.losses == ()


@given(openai_bodies())
def test_an_openai_answer_survives_a_journey_through_anthropic(body: dict[str, Any]) -> None:
    answer = openai_chat.read_response(body)
    back = anthropic.read_response(anthropic.write_response(answer).body)
    assert [block.text for block in back.content if isinstance(block, TextBlock)] == [
        block.text for block in answer.content if isinstance(block, TextBlock)
    ]
    assert [(tool_call.name, tool_call.input) for tool_call in back.tool_calls] == [
        (tool_call.name, tool_call.input) for tool_call in answer.tool_calls
    ]
    assert back.thinking == answer.thinking
    assert (back.stop_reason, back.usage) == (answer.stop_reason, answer.usage)
    assert (back.model, back.id) == (answer.model, answer.id)


# Streams.


@given(openai_bodies(), st.data())
def test_an_openai_stream_collects_to_the_body(body: dict[str, Any], data: st.DataObject) -> None:
    events = read_openai(openai_chunks(body, data.draw))
    assert collect(events) == _told_in_streams(openai_chat.read_response(body))


def _told_in_streams(answer: Response) -> Response:
    """Chunks do not tell a null content from an empty one."""
    own = {k: v for k, v in answer.extra["openai-chat"].items() if k != "message"}
    return msgspec.structs.replace(answer, extra={"openai-chat": own})


@given(anthropic_bodies(), st.data())
def test_an_anthropic_stream_collects_to_the_body(body: dict[str, Any], data: st.DataObject) -> None:
    events = read_anthropic(anthropic_events(body, data.draw))
    assert collect(events) == anthropic.read_response(body)


@given(anthropic_bodies(), st.data())
def test_bytes_may_be_cut_anywhere(body: dict[str, Any], data: st.DataObject) -> None:
    written = anthropic_events(body, data.draw)
    raw = b"".join(write_event(json.dumps(data), data["type"]) for data in written)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    parser, stream = EventParser(), AnthropicStreamReader()
    events_read: list[StreamEvent] = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        for event in parser.feed(raw[start:end]):
            events_read += stream.feed(event.data)
    assert collect(events_read) == anthropic.read_response(body)


@given(openai_bodies())
def test_chunks_that_are_written_are_read_again(body: dict[str, Any]) -> None:
    answer = openai_chat.read_response(body)
    writer = OpenAIChatStreamWriter(answer.id, answer.model, request_body=WITH_USAGE)
    chunks = [chunk for event in response_events(answer) for chunk in writer.feed(event)]
    assert plain(collect(read_openai(chunks))) == plain(answer)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


@given(anthropic_bodies())
def test_events_that_are_written_are_read_again(body: dict[str, Any]) -> None:
    answer = anthropic.read_response(body)
    writer = AnthropicStreamWriter(answer.id, answer.model)
    events = [written_event for event in response_events(answer) for written_event in writer.feed(event)]
    assert collect(read_anthropic(events)) == answer
    assert writer.losses == ()


@given(anthropic_bodies())
def test_spelling_out_and_collecting_changes_nothing(body: dict[str, Any]) -> None:
    answer = anthropic.read_response(body)
    assert collect(response_events(answer)) == answer


@given(anthropic_bodies())
def test_a_stream_that_was_cut_off_has_no_end(body: dict[str, Any]) -> None:
    writer = AnthropicStreamWriter("msg", "m")
    events = [
        written_event
        for event in response_events(anthropic.read_response(body))
        for written_event in writer.feed(event)
    ]
    assert collect(read_anthropic(events[:-1])) is None


# What the counts mean.


def test_anthropic_input_excludes_the_cache_and_ours_includes_it() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    body = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": usage}
    answer = anthropic.read_response(body)
    assert answer.usage == Usage(240, 5, 2, 200, 30)
    written = openai_chat.write_response(answer).body["usage"]
    assert written["prompt_tokens"] == 240
    assert written["prompt_tokens_details"] == {"cached_tokens": 200, "cache_write_tokens": 30}
    assert written["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert anthropic.write_response(openai_chat.read_response(openai_chat.write_response(answer).body)).body[
        "usage"
    ] == {**usage}


def test_deepseek_tells_its_cache_hits_in_a_field_of_its_own() -> None:
    body = _body({"role": "assistant", "content": "x"})
    body["usage"] = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}
    assert openai_chat.read_response(body).usage == Usage(9, 1, 0, 4)


# What the servers that resemble OpenAI do.


def _body(message: dict[str, Any], reason: str = "stop", **choice: Any) -> dict[str, Any]:
    first = {"index": 0, "message": message, "finish_reason": reason, **choice}
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": [first]}


def _call(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [fields]}}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def test_two_calls_at_one_index_are_two_calls() -> None:
    chunks = [
        _call(index=0, id="a", type="function", function={"name": "f", "arguments": "{}"}),
        _call(index=0, id="b", type="function", function={"name": "g", "arguments": "{}"}),
    ]
    events = read_openai([*chunks, END])
    assert [event.call.name for event in events if isinstance(event, ToolCall)] == ["f", "g"]


def test_calls_without_an_index_go_by_their_id() -> None:
    chunks = [
        _call(id="a", type="function", function={"name": "f", "arguments": '{"x"'}),
        _call(function={"arguments": ":1}"}),
        _call(id="b", type="function", function={"name": "g"}),
    ]
    events = read_openai([*chunks, END])
    calls = [event.call for event in events if isinstance(event, ToolCall)]
    assert [(call.name, call.input) for call in calls] == [("f", {"x": 1}), ("g", {})]


def test_a_stream_without_done_ends_when_the_model_has_stopped() -> None:
    stop = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    assert isinstance(read_openai([stop], done=False)[-1], Finish)
    text = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
    assert read_openai([text], done=False) == [TextDelta("x")]
    assert read_openai([text], done=True) == [TextDelta("x")]


def test_vllm_tells_what_stopped_it() -> None:
    body = _body({"role": "assistant", "content": "x"}, stop_reason="END")
    assert openai_chat.read_response(body).stop_sequence == "END"
    assert openai_chat.write_response(openai_chat.read_response(body)).losses[0].path == "stop_sequence"


def test_log_probabilities_are_put_together() -> None:
    def chunk(token: str) -> dict[str, Any]:
        probs = {"content": [{"token": token, "logprob": -1}], "refusal": None}
        return {"choices": [{"index": 0, "delta": {"content": token}, "logprobs": probs}]}

    stop = {"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]}
    finish = read_openai([chunk("a"), chunk("b"), stop])[-1]
    assert isinstance(finish, Finish)
    tokens = finish.extra["openai-chat"]["choice"]["logprobs"]["content"]
    assert [token["token"] for token in tokens] == ["a", "b"]


def test_mistral_thinks_in_parts() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    content = [part, {"type": "text", "text": "Yes"}]
    answer = openai_chat.read_response(_body({"role": "assistant", "content": content}))
    assert answer.content == (OtherBlock("openai-chat", part), TextBlock("Yes"))


# Refusals.


def test_a_refusal_is_text_and_a_reason() -> None:
    answer = openai_chat.read_response(_body({"role": "assistant", "content": None, "refusal": "No."}))
    assert (answer.text, answer.stop_reason) == ("No.", "refusal")
    body = openai_chat.write_response(answer).body["choices"][0]
    assert (body["message"]["refusal"], body["message"]["content"]) == ("No.", None)
    assert body["finish_reason"] == "stop"
    theirs = anthropic.write_response(answer).body
    assert (theirs["stop_reason"], theirs["content"][0]["text"]) == ("refusal", "No.")


def test_a_refusal_can_be_sent_back_as_text() -> None:
    from modelpact.conversation.request import Request

    answer = openai_chat.read_response(_body({"role": "assistant", "content": None, "refusal": "No."}))
    carried = openai_chat.write_request(Request("m", (Message("assistant", answer.content),)))
    assert carried.body["messages"] == [{"role": "assistant", "content": "No."}]
    assert carried.losses == ()


# Losses.


def test_what_an_answer_cannot_say_elsewhere_is_told() -> None:
    answer = Response(
        (ThinkingBlock("Hm", "sig"), OtherBlock("anthropic", {"type": "redacted_thinking"})), "stop_sequence", "END"
    )
    losses = {loss.path for loss in openai_chat.write_response(answer).losses}
    assert losses == {"thinking.signature", "content[0]", "stop_sequence"}
    writer = OpenAIChatStreamWriter("1", "m")
    for event in response_events(answer):
        writer.feed(event)
    assert {loss.path for loss in writer.losses} == {"thinking.signature", "content", "stop_sequence"}


def test_text_blocks_that_touch_stay_apart() -> None:
    blocks = (TextBlock("a"), TextBlock("b"), ThinkingBlock(""), TextBlock(""))
    assert collect(response_events(Response(blocks))) == Response(blocks)
    assert collect([TextDelta("a"), TextDelta("b"), Finish()]) == Response((TextBlock("ab"),))
    assert collect([BlockEnd(), ThinkingDelta("a"), BlockEnd("s"), Finish()]) == Response((ThinkingBlock("a", "s"),))


def test_one_answer_is_read_and_not_several() -> None:
    body = _body({"role": "assistant", "content": "x"})
    with pytest.raises(InputError, match="n = 1"):
        openai_chat.read_response({**body, "choices": body["choices"] * 2})
    with pytest.raises(InputError, match="n = 1"):
        read_openai([{"choices": [{"index": 1, "delta": {"content": "x"}}]}])
