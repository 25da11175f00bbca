"""The conversation model: roles, blocks, metadata, and reading that names the place of errors."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.message import (
    Conversation,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    read_conversation,
    write_conversation,
)
from modelpact.conversation.response import (
    Finish,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
    collect,
)
from modelpact.vocabulary.errors import InputError
from tests.conversation import anthropic_request_bodies as anthropic_bodies
from tests.conversation import openai_chat_request_bodies as openai_bodies


def conversation_of(*blocks: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks), **more}]}


BLOCKS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({"type": "text", "text": "Hi"}, TextBlock("Hi")),
    "an image by URL": ({"type": "image", "url": "https://x.example/a.png"}, ImageBlock(url="https://x.example/a.png")),
    "an image as data": (
        {"type": "image", "data": "AAAA", "media_type": "image/png"},
        ImageBlock(data="AAAA", media_type="image/png"),
    ),
    "tool_use": (
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": None}},
        ToolUseBlock("1", "f", {"a": None}),
    ),
    "tool_result": (
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}], "is_error": True},
        ToolResultBlock("1", (TextBlock("ok"),), True),
    ),
    "thinking": ({"type": "thinking", "thinking": "Hm.", "signature": "s"}, ThinkingBlock("Hm.", "s")),
}


@pytest.mark.parametrize(("data", "block"), BLOCKS.values(), ids=BLOCKS)
def test_blocks_are_read_and_written(data: dict[str, Any], block: Any) -> None:
    """MP-V1: blocks of text, image, tool use, tool result and thinking, with metadata."""
    given_data = conversation_of(data, metadata={"turn": 1})
    conversation = read_conversation(given_data)
    assert conversation.messages == [Message("user", (block,), {"turn": 1})]
    assert write_conversation(conversation) == given_data


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_roles(role: str) -> None:
    """MP-V1: the roles system, user, assistant and tool."""
    assert read_conversation(conversation_of(role=role)).messages[0].role == role


def test_a_text_is_short_for_a_text_block() -> None:
    conversation = read_conversation({"messages": [{"role": "user", "content": "Hi"}]})
    assert conversation.messages[0].content == (TextBlock("Hi"),)


BROKEN: dict[str, tuple[Any, str]] = {
    "a list": ([], "conversation: expected an object"),
    "an unknown field": ({"messages": [], "x": 1}, "no field 'x'"),
    "no messages": ({}, "conversation.messages: expected a list"),
    "a message that is a text": ({"messages": ["x"]}, r"messages\[0\]: expected an object"),
    "an unknown role": (conversation_of(role="robot"), r"messages\[0\].role: expected system"),
    "a role that is a list": ({"messages": [{"role": [], "content": []}]}, r"messages\[0\].role: expected system"),
    "a field of no message": (conversation_of(x=1), r"messages\[0\]: no field 'x'"),
    "content that is a number": ({"messages": [{"role": "user", "content": 5}]}, "content"),
    "metadata that is a list": (conversation_of(metadata=[]), "metadata: expected an object"),
    "a block that is a text": (conversation_of("x"), r"content\[0\]: expected a block"),
    "an unknown block": (conversation_of({"type": "textt"}), r"unknown block type.*did you mean text"),
    "a block without a type": (conversation_of({}), "block type"),
    "a type that is a list": (conversation_of({"type": []}), "block type"),
    "a text that is a number": (conversation_of({"type": "text", "text": 5}), r"content\[0\].text"),
    "a text without text": (conversation_of({"type": "text"}), "needs text"),
    "a field of no block": (conversation_of({"type": "text", "text": "", "x": 1}), "has no 'x'"),
    "an image of nothing": (conversation_of({"type": "image"}), "either url or data"),
    "an image twice": (conversation_of({"type": "image", "url": "u", "data": "d"}), "either url or data"),
    "a call without an input": (conversation_of({"type": "tool_use", "id": "1", "name": "f"}), "needs input"),
    "a result of thinking": (
        conversation_of(
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "thinking", "thinking": "x"}]}
        ),
        "text and images",
    ),
    "half a character": (conversation_of({"type": "text", "text": "\ud800"}), "not valid Unicode"),
    "half a character in a key": (conversation_of(metadata={"\ud800": 1}), "not valid Unicode"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_conversations_name_the_place(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_conversation(data)


def test_endless_nesting_is_refused() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="nested more than 100 deep"):
        read_conversation(conversation_of({"type": "tool_use", "id": "1", "name": "f", "input": deep}))


@pytest.mark.parametrize("body", openai_bodies.BODIES.values(), ids=openai_bodies.BODIES)
def test_what_was_read_from_openai_is_written_and_read_again(body: dict[str, Any]) -> None:
    messages = list(openai_chat.read_request(body).messages)
    assert read_conversation(write_conversation(Conversation(messages))).messages == messages


@pytest.mark.parametrize("body", anthropic_bodies.BODIES.values(), ids=anthropic_bodies.BODIES)
def test_what_was_read_from_anthropic_is_written_and_read_again(body: dict[str, Any]) -> None:
    messages = list(anthropic.read_request(body).messages)
    assert read_conversation(write_conversation(Conversation(messages))).messages == messages


def test_a_copy_is_a_conversation_of_its_own() -> None:
    first = read_conversation(conversation_of({"type": "text", "text": "Hi"}))
    second = first.copy()
    second.messages.append(Message("user"))
    second.metadata["x"] = 1
    assert len(first.messages) == 1
    assert first.metadata == {}


def test_the_texts_of_an_answer() -> None:
    call = ToolUseBlock("1", "f", {})
    response = Response((ThinkingBlock("Hm."), TextBlock("a"), call, TextBlock("b")))
    assert (response.text, response.thinking, response.tool_calls) == ("ab", "Hm.", (call,))
    assert Usage(1, 2, 3, 4, 5) + Usage(1, 1, 1, 1, 1) == Usage(2, 3, 4, 5, 6)


def test_a_stream_is_put_together() -> None:
    call = ToolUseBlock("1", "f", {})
    events: list[StreamEvent] = [
        ThinkingDelta("H"),
        ThinkingDelta("m"),
        TextDelta("a"),
        TextDelta("b"),
        ToolCall(call),
        ToolCall(call),
        TextDelta("c"),
        Finish("tool_use", "", Usage(1, 2), "m"),
    ]
    content = (ThinkingBlock("Hm"), TextBlock("ab"), call, call, TextBlock("c"))
    assert collect(events) == Response(content, "tool_use", "", Usage(1, 2), "m")
    assert collect(events[:-1]) is None


@given(st.lists(st.text(max_size=4)))
def test_no_text_of_a_stream_is_lost(pieces: list[str]) -> None:
    whole = collect([*map(TextDelta, pieces), Finish()])
    assert whole is not None
    assert whole.text == "".join(pieces)
