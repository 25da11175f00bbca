"""From one API to the other: what both can say survives, what cannot is reported by its place."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.message import ThinkingBlock
from modelpact.conversation.request import Request
from tests.conversation import anthropic_request_bodies as a
from tests.conversation import openai_chat_request_bodies as o
from tests.conversation.leaves import leaves

Shared = tuple[Any, ...]


def shared(request: Request) -> Shared:
    """Return what both APIs can say of a request, in no API's spelling."""
    messages: list[tuple[str, Any]] = []
    for message in request.messages:
        for block in message.content:
            content: Any = block
            if hasattr(block, "input"):
                content = (block.id, block.name, block.input)  # type: ignore[union-attr]
            elif hasattr(block, "tool_use_id"):
                inner = tuple(part.text for part in block.content)  # type: ignore[union-attr]
                content = (block.tool_use_id, inner)
            elif hasattr(block, "text"):
                content = block.text
            messages.append((message.role, content))
    tools = [(tool.name, tool.parameters, tool.description, tool.strict) for tool in request.tools]
    choice = request.tool_choice
    called = None if choice is None or choice.mode == "auto" else choice
    output = getattr(request.output, "schema", None)
    return (
        messages,
        tools,
        called,
        request.parallel_tool_calls is not False,
        output,
        request.max_tokens,
        request.temperature,
        request.top_p,
        request.stop,
        request.stream,
        request.reasoning.effort if request.reasoning else "",
    )


BOTH: dict[str, dict[str, Any]] = {
    "one message": o.body(max_tokens=9),
    "instructions": o.body({"role": "system", "content": "Be brief."}, o.user(), max_tokens=9),
    "text and images": o.body(o.user([o.TEXT, o.image(), o.image(f"data:image/png;base64,{o.PNG}")]), max_tokens=9),
    "calls": o.body(
        o.user(),
        o.called(o.CALL, o.SECOND, content="Let me look."),
        o.result(),
        o.result("rain", "call_2"),
        o.user("And?"),
        max_tokens=9,
        tools=[o.WEATHER],
        tool_choice="required",
    ),
    "one call at a time": o.body(tools=[o.WEATHER], tool_choice="auto", parallel_tool_calls=False, max_tokens=9),
    "a chosen tool": o.body(
        tools=[o.WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=9
    ),
    "settings": o.body(max_tokens=9, temperature=0.5, top_p=0.9, stop=["END"], stream=True, reasoning_effort="low"),
    "a schema": o.body(
        max_tokens=9,
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": o.SCHEMA, "strict": True}},
    ),
    "who asks": o.body(max_tokens=9, user="ann"),
    "what goes without saying": o.body(
        max_tokens=9, n=1, logprobs=False, store=False, response_format={"type": "text"}
    ),
    "usage in a stream": o.body(max_tokens=9, stream=True, stream_options={"include_usage": True}),
}


@pytest.mark.parametrize("body", BOTH.values(), ids=BOTH.keys())
def test_what_both_can_say_survives_there_and_back(body: dict[str, Any]) -> None:
    """MP-V2: what both APIs can express survives the round trip."""
    first = openai_chat.read_request(body)
    there = anthropic.write_request(first)
    assert there.losses == ()
    assert there.fidelity == "lossless"
    back = openai_chat.write_request(anthropic.read_request(there.body))
    assert back.fidelity == "lossless"
    assert shared(openai_chat.read_request(back.body)) == shared(first)


TO_ANTHROPIC: dict[str, tuple[dict[str, Any], str, str]] = {
    "no limit": (o.body(), "max_tokens", "lossy"),
    "a name": (o.body(o.user(name="ann")), "messages[0].name", "lossy"),
    "detail": (o.body(o.user([o.image(detail="low")])), "messages[0].content[0].image_url", "lossy"),
    "audio": (o.BODIES["audio"], "messages[0].content[0]", "unsupported"),
    "a file": (o.BODIES["a file"], "messages[0].content[0]", "unsupported"),
    "custom calls": (o.body(o.user(), o.called(o.CUSTOM)), "messages[1].content[0]", "unsupported"),
    "custom tools": (o.BODIES["a custom tool"], "tools.custom", "unsupported"),
    "a field of a tool": (o.BODIES["a tool with fields of its own"], "tools.n.anthropic", "lossy"),
    "broken arguments": (o.BODIES["arguments that are not JSON"], "messages[1].content[0]", "unsupported"),
    "a field of a call": (o.BODIES["a call with fields of its own"], "messages[1].content[0].index", "lossy"),
    "late instructions": (o.body(o.user(), {"role": "system", "content": "French!"}), "messages[1]", "lossy"),
    "a JSON object": (o.body(response_format={"type": "json_object"}), "output", "unsupported"),
    "a schema's name beside another title": (
        o.body(response_format=o.schema_format(schema={**o.SCHEMA, "title": "Town"})),
        "output",
        "lossy",
    ),
    "a schema's leniency": (o.body(response_format=o.schema_format(strict=False)), "output", "lossy"),
    "heat": (o.body(temperature=1.5), "temperature", "unsupported"),
    "several answers": (o.body(n=2), "n", "unsupported"),
    "allowed tools": (o.BODIES["allowed tools"], "tool_choice", "unsupported"),
    "a seed": (o.body(seed=7), "seed", "lossy"),
    "no effort": (o.body(reasoning_effort="minimal"), "reasoning.effort", "unsupported"),
    "a refusal": (o.BODIES["a refusal"], "messages[1].refusal", "lossy"),
    "fields of tomorrow": (o.body(x_new=1), "x_new", "lossy"),
}
TO_OPENAI: dict[str, tuple[dict[str, Any], str, str]] = {
    "caching": (a.body(a.user([{**a.TEXT, **a.CACHED}])), "messages[0].content[0].cache_control", "lossy"),
    "a document": (a.BODIES["a document"], "messages[0].content[0]", "unsupported"),
    "an image by file": (a.BODIES["an image by file"], "messages[0].content[0]", "unsupported"),
    "thinking": (a.BODIES["thinking"], "messages[1].content[0]", "lossy"),
    "redacted thinking": (a.BODIES["thinking"], "messages[1].content[1]", "unsupported"),
    "a budget": (a.BODIES["thinking"], "reasoning.budget_tokens", "lossy"),
    "thinking off": (a.BODIES["thinking off"], "reasoning.type", "lossy"),
    "a failed tool": (a.body(a.user([a.result(is_error=True)])), "messages[0].content[0].is_error", "lossy"),
    "an image from a tool": (
        a.body(a.user([a.result([a.BY_DATA])])),
        "messages[0].content[0].content[0]",
        "unsupported",
    ),
    "text after a call": (a.BODIES["text after a call"], "messages[1].content[1]", "lossy"),
    "a server's tool": (a.BODIES["a server's tool"], "tools.web_search", "unsupported"),
    "a cached tool": (a.body(tools=[{**a.WEATHER, **a.CACHED}]), "tools.weather.cache_control", "lossy"),
    "the top k": (a.body(top_k=4), "top_k", "lossy"),
    "five stops": (a.body(stop_sequences=list("abcde")), "stop", "unsupported"),
    "servers": (a.body(mcp_servers=[{"url": "x"}]), "mcp_servers", "unsupported"),
    "most effort": (a.body(output_config={"effort": "max"}), "reasoning.effort", "unsupported"),
    "a field of a message": (a.body(a.user(x_note=1)), "messages[0].x_note", "lossy"),
    "fields of tomorrow": (a.body(x_new=1), "x_new", "lossy"),
}


@pytest.mark.parametrize(("body", "path", "fidelity"), TO_ANTHROPIC.values(), ids=TO_ANTHROPIC)
def test_what_anthropic_cannot_say(body: dict[str, Any], path: str, fidelity: str) -> None:
    carried = anthropic.write_request(openai_chat.read_request(body))
    assert (path, fidelity) in [(loss.path, loss.fidelity) for loss in carried.losses]
    assert carried.fidelity != "lossless"


@pytest.mark.parametrize(("body", "path", "fidelity"), TO_OPENAI.values(), ids=TO_OPENAI)
def test_what_openai_cannot_say(body: dict[str, Any], path: str, fidelity: str) -> None:
    carried = openai_chat.write_request(anthropic.read_request(body))
    assert (path, fidelity) in [(loss.path, loss.fidelity) for loss in carried.losses]
    assert carried.fidelity != "lossless"


def test_a_schema_says_its_name_itself_where_there_is_no_place_beside_it() -> None:
    named = o.schema_format(description="Where it is.", strict=True)
    carried = anthropic.write_request(openai_chat.read_request(o.body(max_tokens=9, response_format=named)))
    assert carried.losses == ()
    titled = {"title": "city", "description": "Where it is."}
    assert carried.body["output_config"]["format"]["schema"] == {**titled, **o.SCHEMA}


SPELLINGS = {
    *("text", "image_url", "image", "base64", "url", "function", "custom", "tool", "tool_use"),
    *("tool_result", "thinking", "enabled", "document", "auto", "any", "none", "required"),
    *("system", "developer", "user", "assistant", "json_schema", "json_object", "answer"),
    *("disabled", "adaptive", "file", "redacted_thinking", "ephemeral", "city", "allowed_tools"),
}
"""Words of the APIs' own grammar: another API says them in another way."""


def check(body: dict[str, Any], carried: TranslatedBody) -> None:
    """Every leaf shows up in the target, or else something was reported as lost."""
    there = Counter(str(leaf) for leaf in leaves(carried.body))
    joined = "\n".join(there)
    lost = [
        leaf for leaf in leaves(body) if str(leaf) not in SPELLINGS and str(leaf) not in joined and leaf not in (0, 1)
    ]
    whole = [path for path in lost if not any(part in joined for part in _parts(path))]
    assert not whole or carried.losses, whole


def _parts(leaf: Any) -> list[str]:
    """A data URL and arguments arrive in pieces."""
    text = str(leaf)
    if text.startswith("data:"):
        return [text.partition(",")[2]] if text.partition(",")[2] else []
    return ["Paris", "Rome"] if text.startswith("{") else []


CROSSINGS: list[Any] = [
    *(
        pytest.param(b, openai_chat.read_request, anthropic.write_request, id=f"openai: {n}")
        for n, b in o.BODIES.items()
    ),
    *(
        pytest.param(b, anthropic.read_request, openai_chat.write_request, id=f"anthropic: {n}")
        for n, b in a.BODIES.items()
    ),
]


@pytest.mark.parametrize(("body", "read", "write"), CROSSINGS)
def test_nothing_is_dropped_without_a_word(
    body: dict[str, Any], read: Callable[[Any], Request], write: Callable[[Request], TranslatedBody]
) -> None:
    """MP-V3: every difference is reported as lossless, lossy or unsupported."""
    check(body, write(read(body)))


marks = st.integers(10**6, 10**9).map(lambda number: f"mark{number}")


@st.composite
def marked(draw: st.DrawFn) -> tuple[dict[str, Any], str, str]:
    """Return a body for OpenAI with one mark somewhere, and where a loss of it is reported."""
    mark = draw(marks)
    place = draw(st.integers(0, 3))
    messages = [o.user("plain") for _ in range(place)]
    where = f"messages[{place}]"
    message, path = draw(
        st.sampled_from(
            [
                (o.user(mark), where),
                (o.user([{"type": "text", "text": mark}]), where),
                (o.user([{"type": "text", "text": "t", "note": mark}]), f"{where}.content[0].note"),
                (o.user([o.image(mark)]), where),
                (o.user([o.image(detail=mark)]), f"{where}.content[0].image_url"),
                (o.user("t", name=mark), f"{where}.name"),
                (o.user([{"type": mark}]), f"{where}.content[0]"),
                (o.user([{"type": "file", "file": {"file_id": mark}}]), f"{where}.content[0]"),
                (o.called({**o.CALL, "id": mark}), where),
                (o.called({**o.CALL, "note": mark}), f"{where}.content[0].note"),
                (o.called({**o.CALL, "function": {"name": mark, "arguments": "{"}}), f"{where}.content[0]"),
                (o.result(mark), where),
                (o.result([{"type": "text", "text": mark}]), where),
                (o.result(name=mark), f"{where}.name"),
                ({"role": "developer", "content": mark}, where),
            ]
        )
    )
    return o.body(*messages, message, max_tokens=9), mark, path


@given(marked())
def test_a_mark_arrives_or_is_reported_by_its_place(case: tuple[dict[str, Any], str, str]) -> None:
    body, mark, path = case
    carried = anthropic.write_request(openai_chat.read_request(body))
    arrived = any(mark in str(leaf) for leaf in leaves(carried.body))
    assert arrived or path in [loss.path for loss in carried.losses]


def test_a_request_of_no_api_can_be_written_for_both() -> None:
    request = openai_chat.read_request(BOTH["calls"])
    plain = Request(model=request.model, messages=(*request.messages[:1], *request.messages[4:]), max_tokens=5)
    assert anthropic.write_request(plain).fidelity == openai_chat.write_request(plain).fidelity == "lossless"


def test_metadata_of_the_caller_is_left_alone() -> None:
    """Metadata that only looks like an API's spelling breaks nothing."""
    request = openai_chat.read_request(o.body(max_tokens=5))
    message = request.messages[0]
    for odd in ("text", 5, {"extra": "x"}, {"content": "absent"}, {"content": 7}):
        metadata = {"openai-chat": odd, "anthropic": odd, "modelpact": odd}
        changed = Request("m", (type(message)("user", message.content, metadata),), max_tokens=5)
        assert anthropic.write_request(changed).body["messages"][0]["role"] == "user"
        assert openai_chat.write_request(changed).body["messages"][0]["role"] == "user"


def test_thinking_is_never_sent_where_it_has_no_place() -> None:
    request = anthropic.read_request(a.BODIES["thinking"])
    assert any(isinstance(b, ThinkingBlock) for m in request.messages for b in m.content)
    assert "Hm." not in str(openai_chat.write_request(request).body)
