"""Generated requests: the strict fakes accept every field that the codecs write."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation import anthropic, openai_chat, openai_responses
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
from tests.conversation.anthropic_request_bodies import BODIES as ANTHROPIC_BODIES
from tests.conversation.openai_chat_request_bodies import BODIES as OPENAI_BODIES
from tests.conversation.openai_responses_request_bodies import BODIES as RESPONSES_BODIES
from tests.fakes.anthropic_shapes import MESSAGES
from tests.fakes.anthropic_shapes import check as check_anthropic
from tests.fakes.openai_responses_shapes import check_responses
from tests.fakes.openai_shapes import CHAT
from tests.fakes.openai_shapes import check as check_openai

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXTS = st.text("abc ", min_size=1, max_size=5)
IMAGE = ImageBlock(data="aGk=", media_type="image/png")
maybe = st.none()


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Draw messages: a question, and optionally calls, their results and a response."""
    question: list[Block] = [TextBlock(draw(TEXTS))]
    if draw(st.booleans()):
        question.append(draw(st.sampled_from([IMAGE, ImageBlock(url="https://x.example/y.png")])))
    messages = [Message("user", tuple(question))]
    count = draw(st.integers(0, 2))
    if not count:
        return messages
    blocks: list[Block] = []
    if draw(st.booleans()):
        blocks.append(ThinkingBlock("Hm", "sig"))
    if draw(st.booleans()):
        blocks.append(TextBlock(draw(TEXTS)))
    blocks += [ToolUseBlock(f"c{number}", "f", {"a": "x"}) for number in range(count)]
    messages.append(Message("assistant", tuple(blocks)))
    failed = draw(st.booleans())
    results = tuple(ToolResultBlock(f"c{number}", (TextBlock(draw(TEXTS)),), failed) for number in range(count))
    if draw(st.booleans()):
        return [*messages, Message("tool", results)]
    return [*messages, *(Message("tool", (result,)) for result in results)]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    system = [Message("system", (TextBlock("Be kind."),))] if draw(st.booleans()) else []
    tools = (Tool("f", SCHEMA, draw(st.sampled_from(["", "d"])), draw(maybe | st.booleans())),)
    choices = [ToolChoice("auto"), ToolChoice("none"), ToolChoice("required"), ToolChoice("tool", "f")]
    outputs: list[Any] = [None, JsonObject(), JsonSchema(SCHEMA), JsonSchema(SCHEMA, "n", "d", True)]
    thoughts = [None, Reasoning("low"), Reasoning(budget_tokens=2_000)]
    return Request(
        "m",
        (*system, *draw(turns())),
        tools=tools,
        tool_choice=draw(maybe | st.sampled_from(choices)),
        parallel_tool_calls=draw(maybe | st.booleans()),
        output=draw(st.sampled_from(outputs)),
        reasoning=draw(st.sampled_from(thoughts)),
        max_tokens=draw(maybe | st.integers(16, 20)),
        token_limit_param=draw(st.sampled_from(["max-tokens", "max-completion-tokens"])),
        temperature=draw(maybe | st.sampled_from([0, 0.5, 1, 1.5])),
        top_p=draw(maybe | st.sampled_from([0.1, 1])),
        top_k=draw(maybe | st.integers(1, 5)),
        stop=tuple(draw(st.lists(TEXTS, max_size=5))),
        stream=draw(st.booleans()),
    )


@given(requests())
def test_openai_accepts_every_field(request: Request) -> None:
    carried = openai_chat.write_request(request)
    if carried.fidelity != "unsupported":
        check_openai(CHAT, carried.body)


@given(requests())
def test_anthropic_accepts_every_field(request: Request) -> None:
    carried = anthropic.write_request(request)
    if carried.fidelity != "unsupported":
        check_anthropic(MESSAGES, carried.body)


@pytest.mark.parametrize("name", [key for key in ANTHROPIC_BODIES if key != "no messages"])
def test_bodies_of_anthropic_are_translated_to_openai(name: str) -> None:
    carried = openai_chat.write_request(anthropic.read_request(ANTHROPIC_BODIES[name]))
    if carried.fidelity != "unsupported":
        check_openai(CHAT, carried.body)


@pytest.mark.parametrize("name", list(OPENAI_BODIES))
def test_bodies_of_openai_are_translated_to_anthropic(name: str) -> None:
    carried = anthropic.write_request(openai_chat.read_request(OPENAI_BODIES[name]))
    if carried.fidelity != "unsupported":
        check_anthropic(MESSAGES, carried.body)


@given(requests())
def test_responses_accepts_every_field(request: Request) -> None:
    carried = openai_responses.write_request(request)
    if carried.fidelity != "unsupported":
        check_responses(carried.body)


@pytest.mark.parametrize("name", [key for key in ANTHROPIC_BODIES if key != "no messages"])
def test_bodies_of_anthropic_are_translated_to_responses(name: str) -> None:
    carried = openai_responses.write_request(anthropic.read_request({**ANTHROPIC_BODIES[name], "max_tokens": 16}))
    if carried.fidelity != "unsupported":
        check_responses(carried.body)


@pytest.mark.parametrize("name", list(OPENAI_BODIES))
def test_bodies_of_openai_are_translated_to_responses(name: str) -> None:
    request = openai_chat.read_request(OPENAI_BODIES[name])
    carried = openai_responses.write_request(msgspec.structs.replace(request, max_tokens=None))
    if carried.fidelity != "unsupported":
        check_responses(carried.body)


EMPTY = ("an empty text", "no items")


@pytest.mark.parametrize("name", [key for key in RESPONSES_BODIES if key not in EMPTY])
def test_bodies_of_responses_are_translated_to_the_others(name: str) -> None:
    request = openai_responses.read_request(RESPONSES_BODIES[name])
    if request.messages:
        chat, theirs = openai_chat.write_request(request), anthropic.write_request(request)
        if chat.fidelity != "unsupported":
            check_openai(CHAT, chat.body)
        if theirs.fidelity != "unsupported":
            check_anthropic(MESSAGES, theirs.body)
