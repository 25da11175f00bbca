"""Requests and responses round-trip as JSON and match their schemas."""

from typing import Any, get_args

import pytest
from hypothesis import given

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, TokenLimitParam, Tool, ToolChoice
from modelpact.conversation.response import Response, StopReason, response_events
from modelpact.emulation.validation import Schema
from modelpact.providers.models.json_codec import (
    INPUT,
    OUTPUT,
    read_event,
    read_request,
    read_response,
    write_event,
    write_request,
    write_response,
)
from modelpact.vocabulary.errors import InputError
from tests.conversation.anthropic_request_bodies import BODIES as ANTHROPIC_BODIES
from tests.conversation.openai_chat_request_bodies import BODIES as OPENAI_BODIES
from tests.conversation.response_bodies import anthropic_bodies, openai_bodies

TAKES, GIVES = Schema(INPUT, "input"), Schema(OUTPUT, "output")
FULL = Request(
    "m",
    (
        Message("system", (TextBlock("Be kind."),)),
        Message("user", (TextBlock("Hi"), ImageBlock(url="https://x/y.png"))),
        Message("assistant", (ThinkingBlock("Hm", "s"), ToolUseBlock("1", "f", {"a": 1}))),
        Message("tool", (ToolResultBlock("1", (TextBlock("x"),), is_error=True),)),
    ),
    tools=(Tool("f", {"type": "object"}, "d", strict=True),),
    tool_choice=ToolChoice("tool", "f"),
    parallel_tool_calls=False,
    output=JsonSchema({"type": "object"}, "n", "d", strict=True),
    reasoning=Reasoning("low", 5, {"type": "enabled"}),
    max_tokens=5,
    token_limit_param="max-completion-tokens",
    temperature=0.5,
    top_p=1,
    top_k=3,
    stop=("a", "b"),
)


def test_a_full_request() -> None:
    value = write_request(FULL)
    assert TAKES.findings(value) == []
    assert read_request(value) == FULL
    assert read_request(write_request(Request("m", (), output=JsonObject()))).output == JsonObject()


def test_a_text_is_read_as_a_block() -> None:
    value = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert TAKES.findings(value) == []
    assert read_request(value) == Request("m", (Message("user", (TextBlock("Hi"),)),))


def bodies() -> list[Any]:
    listed: list[Any] = [(openai_chat.read_request, body) for body in _values(OPENAI_BODIES)]
    return listed + [(anthropic.read_request, body) for body in _values(ANTHROPIC_BODIES)]


def _values(bodies: Any) -> list[Any]:
    return list(bodies.values()) if isinstance(bodies, dict) else list(bodies)


@pytest.mark.parametrize(("read", "body"), bodies())
def test_requests_of_the_apis(read: Any, body: Any) -> None:
    request = read(body)
    value = write_request(request)
    again = read_request(value)
    assert again == read({**body, "stream": False}) or again.messages == request.messages


@given(openai_bodies())
def test_responses_of_openai(body: dict[str, Any]) -> None:
    response = openai_chat.read_response(body)
    value = write_response(response)
    assert GIVES.findings(value) == []
    assert read_response(value) == response
    assert [read_event(write_event(event)) for event in response_events(response)] == list(response_events(response))


@given(anthropic_bodies())
def test_responses_of_anthropic(body: dict[str, Any]) -> None:
    response = anthropic.read_response(body)
    value = write_response(response)
    assert GIVES.findings(value) == []
    assert read_response(value) == response
    assert [read_event(write_event(event)) for event in response_events(response)] == list(response_events(response))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "request: expected an object"),
        ({"messages": []}, "request.model: expected the name of a model"),
        ({"model": "m"}, "conversation.messages: expected a list"),
        ({"model": "m", "messages": [], "stream": True}, "no field 'stream'"),
        ({"model": "m", "messages": [], "stop": "x"}, "request.stop"),
        ({"model": "m", "messages": [], "output": {"type": "xml"}}, "request.output.type"),
        ({"model": "m", "messages": [{"role": "robot"}]}, r"messages\[0\].role"),
    ],
)
def test_errors_name_the_field(value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_request(value)
    assert TAKES.findings(value)


def test_invalid_events_and_responses_are_errors() -> None:
    with pytest.raises(InputError, match="event"):
        read_event({"type": "nothing"})
    with pytest.raises(InputError, match="response"):
        read_response({"content": [], "stop_reason": "bored"})


def test_the_schemas_list_the_values_of_the_types() -> None:
    assert INPUT["properties"]["token_limit_param"]["enum"] == list(get_args(TokenLimitParam))
    assert OUTPUT["properties"]["stop_reason"]["enum"] == list(get_args(StopReason))
    assert set(INPUT["properties"]) == set(Request.__struct_fields__) - {"stream"}
    assert set(OUTPUT["properties"]) == {*Response.__struct_fields__, "losses"}
