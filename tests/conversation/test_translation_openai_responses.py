"""Between OpenAI Responses and the other two APIs: what survives, and what is told as lost."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from modelpact.conversation import anthropic, openai_chat, openai_responses
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.message import Message
from modelpact.conversation.request import Request
from tests.conversation import anthropic_request_bodies as a
from tests.conversation import openai_chat_request_bodies as o
from tests.conversation import openai_responses_request_bodies as r
from tests.conversation.leaves import leaves
from tests.conversation.test_translation import BOTH, SPELLINGS, marks, shared

Write = Callable[[Request], TranslatedBody]
OTHERS: dict[str, Write] = {"openai-chat": openai_chat.write_request, "anthropic": anthropic.write_request}
elsewhere = pytest.mark.parametrize("write", OTHERS.values(), ids=OTHERS.keys())
KEPT = {name: body for name, body in BOTH.items() if name != "settings"}
"""Settings have stop sequences, which this API does not."""


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT.keys())
def test_what_both_can_say_survives_there_and_back(body: dict[str, Any]) -> None:
    """MP-V2: what both APIs can express survives the round trip."""
    first = openai_chat.read_request(body)
    there = openai_responses.write_request(first)
    assert there.losses == ()
    second = openai_responses.read_request(there.body)
    lenient = msgspec.structs.replace(
        first, tools=tuple(msgspec.structs.replace(tool, strict=False) for tool in first.tools)
    )
    assert shared(second) == shared(lenient)
    back = openai_chat.write_request(second)
    assert back.fidelity == "lossless"
    assert shared(openai_chat.read_request(back.body)) == shared(lenient)
    theirs = [
        shared(anthropic.read_request(anthropic.write_request(translated).body)) for translated in (second, lenient)
    ]
    assert theirs[0] == theirs[1]


def test_what_openai_says_in_both_of_its_ways() -> None:
    fields = {"metadata": {"a": "b"}, "service_tier": "flex", "prompt_cache_key": "k"}
    fields |= {"safety_identifier": "s", "user": "ann"}
    chat = o.body(o.user([o.image(detail="low")]), verbosity="low", **fields)
    there = openai_responses.write_request(openai_chat.read_request(chat))
    assert there.losses == ()
    assert there.body["text"] == {"verbosity": "low"}
    assert there.body["input"][0]["content"][0]["detail"] == "low"
    assert {name: there.body[name] for name in fields} == fields
    back = openai_chat.write_request(openai_responses.read_request(there.body))
    assert back.losses == ()
    assert back.body == chat


@elsewhere
def test_a_turn_is_one_message_elsewhere(write: Write) -> None:
    """Calls of one turn stand together, and their results after them."""
    items = [r.user(), r.ANSWERED, r.CALL, r.SECOND, r.result(), r.result("rain", "call_2")]
    messages = write(openai_responses.read_request(r.body(*items, max_output_tokens=9))).body["messages"]
    assert [message["role"] for message in messages][:2] == ["user", "assistant"]
    assert [message["role"] for message in messages][2:] in (["tool", "tool"], ["user"])


EVERYWHERE: dict[str, tuple[dict[str, Any], str, str]] = {
    "an earlier response": (r.BODIES["an earlier response"], "previous_response_id", "unsupported"),
    "a stored answer": (r.BODIES["an earlier response"], "store", "lossy"),
    "a conversation": (r.BODIES["a conversation"], "conversation", "unsupported"),
    "a stored prompt": (r.BODIES["no input"], "prompt", "unsupported"),
    "a reference": (r.BODIES["a reference"], "messages[0].content[0]", "unsupported"),
    "the background": (r.BODIES["settings of the API"], "background", "unsupported"),
    "what to include": (r.BODIES["settings of the API"], "include", "lossy"),
    "truncation": (r.BODIES["settings of the API"], "truncation", "lossy"),
    "at most so many calls": (r.BODIES["settings of the API"], "max_tool_calls", "lossy"),
    "probabilities": (r.body(top_logprobs=2), "top_logprobs", "unsupported"),
    "probabilities that are included": (r.body(include=["message.output_text.logprobs"]), "include", "unsupported"),
    "a summary": (r.BODIES["an effort and a summary"], "reasoning.summary", "lossy"),
    "a file": (r.BODIES["a file"], "messages[0].content[0]", "unsupported"),
    "an image by file": (r.BODIES["an image by file"], "messages[0].content[0]", "unsupported"),
    "web search": (r.BODIES["the API's own tools"], "tools.web_search", "unsupported"),
    "file search": (r.BODIES["the API's own tools"], "tools.file_search", "unsupported"),
    "a computer": (r.BODIES["the API's own tools"], "tools.computer_use_preview", "unsupported"),
    "code": (r.BODIES["the API's own tools"], "tools.code_interpreter", "unsupported"),
    "mcp": (r.BODIES["the API's own tools"], "tools.mcp", "unsupported"),
    "a server's call": (r.BODIES["a server's calls"], "messages[1].content[0]", "unsupported"),
    "custom calls": (r.BODIES["custom calls"], "messages[1].content[0]", "unsupported"),
    "their results": (r.BODIES["custom calls"], "messages[2].content[0]", "unsupported"),
    "reasoning": (r.BODIES["reasoning before a call"], "messages[1].content[0]", "lossy"),
    "citations": (r.BODIES["a cited answer"], "messages[1].content[0].annotations", "lossy"),
    "a phase": (r.BODIES["a cited answer"], "messages[1].phase", "lossy"),
    "a cut": (r.BODIES["an answer that was cut"], "messages[1].status", "lossy"),
    "a namespace": (r.BODIES["a call in a namespace"], "messages[1].content[0].namespace", "lossy"),
    "a tool's strictness": (r.BODIES["a bare tool"], "tools.now.strict by default", "lossy"),
    "a field of a tool": (r.BODIES["a tool with fields of its own"], "tools.weather.defer_loading", "lossy"),
    "a chosen tool of the API": (r.BODIES["a chosen tool of the API"], "tool_choice", "unsupported"),
    "allowed tools": (r.BODIES["allowed tools"], "tool_choice", "unsupported"),
    "a format with more": (r.BODIES["a schema with more"], "text.format", "unsupported"),
    "fields of tomorrow": (r.body(x_new=1), "x_new", "lossy"),
}


@elsewhere
@pytest.mark.parametrize(("body", "path", "fidelity"), EVERYWHERE.values(), ids=EVERYWHERE)
def test_what_no_other_api_can_say(body: dict[str, Any], path: str, fidelity: str, write: Write) -> None:
    carried = write(openai_responses.read_request(body))
    assert (path, fidelity) in [(loss.path, loss.fidelity) for loss in carried.losses]


@pytest.mark.parametrize(
    ("request_", "path", "fidelity"),
    [
        (openai_chat.read_request(o.body(stop="END")), "stop", "unsupported"),
        (openai_chat.read_request(o.body(n=2)), "n", "unsupported"),
        (openai_chat.read_request(o.body(logprobs=True)), "logprobs", "unsupported"),
        (openai_chat.read_request(o.body(seed=7)), "seed", "lossy"),
        (openai_chat.read_request(o.body(frequency_penalty=1)), "frequency_penalty", "lossy"),
        (openai_chat.read_request(o.BODIES["audio"]), "messages[0].content[0]", "unsupported"),
        (openai_chat.read_request(o.BODIES["a custom tool"]), "tools.custom", "unsupported"),
        (openai_chat.read_request(o.BODIES["a named user"]), "messages[0].name", "lossy"),
        (openai_chat.read_request(o.BODIES["allowed tools"]), "tool_choice", "unsupported"),
        (openai_chat.read_request(o.BODIES["old functions"]), "functions", "unsupported"),
        (anthropic.read_request(a.BODIES["thinking"]), "messages[1].content[0]", "lossy"),
        (anthropic.read_request(a.BODIES["thinking"]), "messages[1].content[1]", "unsupported"),
        (anthropic.read_request(a.BODIES["thinking"]), "reasoning.budget_tokens", "lossy"),
        (anthropic.read_request(a.BODIES["a document"]), "messages[0].content[0]", "unsupported"),
        (anthropic.read_request(a.BODIES["a server's tool"]), "tools.web_search", "unsupported"),
        (anthropic.read_request(a.body(top_k=4)), "top_k", "lossy"),
        (anthropic.read_request(a.body(mcp_servers=[{"url": "x"}])), "mcp_servers", "unsupported"),
        (anthropic.read_request(a.body(a.user([a.result(is_error=True)]))), "messages[0].content[0].is_error", "lossy"),
    ],
)
def test_what_responses_cannot_say(request_: Request, path: str, fidelity: str) -> None:
    carried = openai_responses.write_request(request_)
    assert (path, fidelity) in [(loss.path, loss.fidelity) for loss in carried.losses]


WORDS = SPELLINGS | {
    *("input_text", "output_text", "input_image", "message", "function_call", "completed"),
    *("function_call_output", "refusal", "disabled", "reasoning.encrypted_content"),
    *("msg_1", "msg_2", "fc_1", "fco_1"),
}
"""Words of the APIs' grammar, and ids by which only the server knows its items."""


def missing(body: dict[str, Any], carried: TranslatedBody) -> list[Any]:
    joined = "\n".join(str(leaf) for leaf in leaves(carried.body))
    return [
        leaf
        for leaf in leaves(body)
        if str(leaf) not in WORDS and leaf not in (0, 1) and not any(part in joined for part in _pieces(str(leaf)))
    ]


def _pieces(leaf: str) -> list[str]:
    """A data URL and arguments arrive in pieces."""
    if leaf.startswith("data:"):
        return [leaf.partition(",")[2]] if leaf.partition(",")[2] else [leaf]
    return [leaf, *(city for city in ("Paris", "Rome") if city in leaf)]


CROSSINGS: list[Any] = [
    *(
        pytest.param(b, openai_responses.read_request, write, id=f"{api}: {name}")
        for api, write in OTHERS.items()
        for name, b in r.BODIES.items()
    ),
    *(
        pytest.param(b, openai_chat.read_request, openai_responses.write_request, id=f"from chat: {name}")
        for name, b in o.BODIES.items()
    ),
    *(
        pytest.param(b, anthropic.read_request, openai_responses.write_request, id=f"from anthropic: {name}")
        for name, b in a.BODIES.items()
    ),
]


@pytest.mark.parametrize(("body", "read", "write"), CROSSINGS)
def test_nothing_is_dropped_without_a_word(body: dict[str, Any], read: Callable[[Any], Request], write: Write) -> None:
    """MP-V3: every difference is reported as lossless, lossy or unsupported."""
    carried = write(read(body))
    lost = missing(body, carried)
    losses = [loss for loss in carried.losses if "needs a limit" not in loss.what]
    assert not lost or losses, lost


@st.composite
def marked(draw: st.DrawFn) -> tuple[dict[str, Any], str, str]:
    """Return a body with one mark somewhere, and where a loss of it is reported."""
    mark = draw(marks)
    place = draw(st.integers(0, 3))
    where = f"messages[{place}]"
    item, path = draw(
        st.sampled_from(
            [
                (r.user(mark), where),
                (r.user([{"type": "input_text", "text": mark}]), where),
                (r.user([{**r.TEXT, "note": mark}]), f"{where}.content[0].note"),
                (r.user([r.image(mark)]), where),
                (r.user([r.image(detail=mark)]), f"{where}.content[0].detail"),
                (r.user(phase=mark), f"{where}.phase"),
                (r.user([{"type": mark}]), f"{where}.content[0]"),
                (r.user([{"type": "input_file", "file_id": mark}]), f"{where}.content[0]"),
                ({**r.CALL, "call_id": mark}, where),
                ({**r.CALL, "note": mark}, f"{where}.content[0].note"),
                ({**r.REASONED, "encrypted_content": mark}, f"{where}.content[0]"),
                ({"type": "item_reference", "id": mark}, f"{where}.content[0]"),
                ({"type": mark, "id": "x"}, f"{where}.content[0]"),
                (r.result(mark), where),
                (r.result([{"type": "input_text", "text": mark}]), where),
                (r.result(name=mark), f"{where}.content[0].name"),
                ({"role": "developer", "content": mark}, where),
            ]
        )
    )
    items = [r.user("plain") for _ in range(place)]
    return r.body(*items, item, max_output_tokens=9), mark, path


@given(marked(), st.sampled_from(list(OTHERS.values())))
def test_a_mark_arrives_or_is_reported_by_its_place(case: tuple[dict[str, Any], str, str], write: Write) -> None:
    body, mark, path = case
    carried = write(openai_responses.read_request(body))
    arrived = any(mark in str(leaf) for leaf in leaves(carried.body))
    assert arrived or path in [loss.path for loss in carried.losses]


def test_thinking_goes_back_only_to_the_api_that_thought() -> None:
    ours = openai_responses.read_request(r.BODIES["reasoning before a call"]).messages[1].content
    plain = Request("m", (Message("assistant", ours),), max_tokens=9)
    written = openai_responses.write_request(plain)
    assert written.body["input"][0] == r.REASONED
    for write in OTHERS.values():
        assert "Hm." not in str(write(plain).body)
    theirs = anthropic.read_request(a.BODIES["thinking"])
    assert "Hm." not in str(openai_responses.write_request(theirs).body)
    stored = openai_responses.read_request(r.BODIES["reasoning without a summary"]).messages[1].content
    written = openai_responses.write_request(Request("m", (Message("assistant", stored),)))
    assert [loss.path for loss in written.losses] == ["messages[0].content[0]"]
    assert [item["type"] for item in written.body["input"]] == ["message"]
