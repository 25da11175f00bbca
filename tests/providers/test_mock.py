"""The mock: scripted, strict about its capabilities, and it records its requests."""

import asyncio
from typing import Any

import pytest

from modelpact import default_catalog
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
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
from modelpact.evidence import learn_from_rejection
from modelpact.providers import MockProvider, ProviderError, UnsupportedByProvider
from modelpact.providers.models.adapters import adapter_for
from modelpact.vocabulary.errors import UnknownCapability

HI = Message("user", (TextBlock("Hi"),))
ASK = Request("m", (HI,))


def complete(mock: MockProvider, request: Request = ASK) -> Response:
    return asyncio.run(mock.complete(request))


def stream(mock: MockProvider, request: Request = ASK) -> list[StreamEvent]:
    async def listed() -> list[StreamEvent]:
        return [event async for event in mock.stream(request)]

    return asyncio.run(listed())


def test_without_a_script_it_echoes() -> None:
    assert complete(MockProvider()).text == "You said: Hi"
    assert complete(MockProvider(), Request("m", (Message("assistant"),))).text == "You said nothing."


def test_a_script_is_used_in_order() -> None:
    whole = Response((TextBlock("two"),), "length", model="x")
    mock = MockProvider(["one", whole, lambda request: f"three to {request.model}"])
    assert complete(mock) == Response((TextBlock("one"),), usage=Usage(1, 1), model="m")
    assert complete(mock) == whole
    assert complete(mock).text == "three to m"
    assert mock.requests == [ASK] * 3
    with pytest.raises(ProviderError, match="the script of the mock has ended"):
        complete(mock)


def test_a_script_can_fail() -> None:
    with pytest.raises(ProviderError, match="busy") as raised:
        complete(MockProvider([ProviderError("busy", status=529)]))
    assert raised.value.status == 529
    with pytest.raises(ProviderError):
        complete(MockProvider([lambda _: ProviderError("busy")]))


def test_a_stream_equals_the_whole_response() -> None:
    call = ToolUseBlock("1", "now", {})
    whole = Response((ThinkingBlock("Hm."), TextBlock("A longer answer."), call), "tool_use", "", Usage(1, 2), "m")
    events = stream(MockProvider([whole], chunk=3))
    assert collect(events) == whole
    assert events[0] == ThinkingDelta("Hm.")
    assert events[2] == TextDelta("A l")
    assert events[-2:] == [ToolCall(call), Finish("tool_use", "", Usage(1, 2), "m")]


def test_a_stream_can_end_early() -> None:
    """A stream can end early."""
    events = stream(MockProvider(["A longer answer."], chunk=4, cut_after=2))
    assert events == [TextDelta("A lo"), TextDelta("nger")]
    assert collect(events) is None


USES: dict[str, dict[str, Any]] = {
    "tool-calling": {"tools": (Tool("now"),)},
    "tool-choice": {"tool_choice": ToolChoice("auto")},
    "structured-output": {"output": JsonSchema({})},
    "json-object": {"output": JsonObject()},
    "reasoning": {"reasoning": Reasoning("low")},
    "stop-sequences": {"stop": (".",)},
    "streaming": {"stream": True},
    "temperature": {"temperature": 0},
    "top-p": {"top_p": 1},
    "top-k": {"top_k": 1},
    "system-messages": {"messages": (Message("system"), HI)},
    "image-input": {"messages": (Message("user", (ImageBlock(url="u"),)),)},
}


@pytest.mark.parametrize(("name", "fields"), USES.items(), ids=USES)
def test_a_missing_capability_is_rejected(name: str, fields: dict[str, Any]) -> None:
    request = Request(**{"model": "m", "messages": (HI,), **fields})
    mock = MockProvider(supports=[])
    with pytest.raises(UnsupportedByProvider, match=name) as raised:
        complete(mock, request)
    assert (raised.value.capability, raised.value.status) == (name, 400)
    assert mock.requests == []
    assert complete(MockProvider(supports=[name]), request)
    assert complete(MockProvider(), request)


@pytest.mark.parametrize("block", [ToolUseBlock("1", "f", {}), ToolResultBlock("1")])
def test_blocks_of_tools_need_tools(block: Any) -> None:
    with pytest.raises(UnsupportedByProvider, match="tool-calling"):
        complete(MockProvider(supports=[]), Request("m", (HI, Message("assistant", (block,)))))


def test_streaming_is_rejected_without_the_capability() -> None:
    with pytest.raises(UnsupportedByProvider, match="streaming"):
        stream(MockProvider(supports=[]))


def test_the_token_limit_must_have_the_right_name() -> None:
    mock = MockProvider(token_limit_param="max-completion-tokens")
    with pytest.raises(ProviderError, match="use max-completion-tokens"):
        complete(mock, Request("m", (HI,), max_tokens=5))
    assert complete(mock, Request("m", (HI,), max_tokens=5, token_limit_param="max-completion-tokens"))
    assert complete(mock)


def test_no_messages_and_unknown_capabilities_are_errors() -> None:
    with pytest.raises(ProviderError, match="messages"):
        complete(MockProvider(), Request("m", ()))
    with pytest.raises(UnknownCapability):
        MockProvider(supports=["telepathy"])


# The mock that comes along.


def bundled(model: str, **fields: Any) -> Response:
    mock = adapter_for("mock")
    return asyncio.run(mock.complete(Request(model, (HI,), **fields)))


def test_claims_of_the_catalog_decide_what_a_model_lacks() -> None:
    tools = (Tool("look"),)
    assert bundled("demo", tools=tools).text == "You said: Hi"
    assert bundled("small").text == "You said: Hi"
    for name, request in (
        ("tool-calling", {"tools": tools}),
        ("structured-output", {"output": JsonSchema({"type": "object"})}),
        ("reasoning", {"reasoning": Reasoning("low")}),
        ("top-k", {"top_k": 3}),
    ):
        assert default_catalog().resolve("mock", "small").claim(name).support == "unsupported"
        with pytest.raises(UnsupportedByProvider, match=name):
            bundled("small", **request)


def test_a_prompt_above_the_context_window_is_rejected() -> None:
    mock = adapter_for("mock")
    long = Request("small", (Message("user", (TextBlock("long " * 8_192),)),))
    with pytest.raises(ProviderError, match="maximum context length is 8192 tokens") as caught:
        asyncio.run(mock.complete(long))
    (learned,) = learn_from_rejection(caught.value, long, "mock", "small")
    assert (learned.capability, learned.value) == ("context-window", 8192)
