"""OpenAI Chat Completions: the same body comes back, and bad bodies get a clear error."""

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.conversation import openai_chat
from modelpact.conversation.message import ToolUseBlock
from modelpact.conversation.request import JsonSchema, ToolChoice
from modelpact.vocabulary.errors import InputError
from tests.conversation.leaves import names, values
from tests.conversation.openai_chat_request_bodies import (
    BODIES,
    CALL,
    CUSTOM,
    SCHEMA,
    WEATHER,
    body,
    called,
    image,
    result,
    schema_format,
    user,
)


@pytest.mark.parametrize("given_body", BODIES.values(), ids=BODIES.keys())
def test_the_same_body_comes_back(given_body: dict[str, Any]) -> None:
    before = copy.deepcopy(given_body)
    carried = openai_chat.write_request(openai_chat.read_request(given_body))
    assert carried.body == before
    assert carried.fidelity == "lossless"
    assert given_body == before


texts = st.text(max_size=8)
more = st.dictionaries(names, values, max_size=2)
parts = st.one_of(
    st.builds(lambda text, extra: {**extra, "type": "text", "text": text}, texts, more),
    st.builds(lambda url, extra: {**extra, **image(url)}, texts, more),
    st.builds(lambda data: image(f"data:image/png;base64,{data}"), texts),
    st.builds(lambda extra: {**extra, "type": "file", "file": {"file_id": "f"}}, more),
)
contents = st.one_of(st.none(), texts, st.lists(parts, max_size=3))
calls = st.one_of(
    st.just(CUSTOM),
    st.builds(lambda extra: {**extra, **CALL}, more),
    st.builds(lambda raw: {**CALL, "function": {"name": "weather", "arguments": raw}}, texts),
)
messages = st.one_of(
    st.builds(lambda content, extra: {**extra, **user(content)}, contents, more),
    st.builds(lambda content: {"role": "developer", "content": content}, contents),
    st.builds(
        lambda content, made, extra: {**extra, **called(*made, content=content)},
        contents,
        st.lists(calls, min_size=1, max_size=3),
        more,
    ),
    st.builds(lambda content, extra: {**extra, **result(content)}, contents, more),
)
settings = st.fixed_dictionaries(
    {},
    optional={
        "stop": st.one_of(st.none(), texts, st.lists(texts, max_size=5)),
        "temperature": st.one_of(st.none(), st.integers(0, 2), st.floats(0, 2)),
        "max_tokens": st.one_of(st.none(), st.integers(1, 9)),
        "max_completion_tokens": st.integers(1, 9),
        "stream": st.one_of(st.none(), st.booleans()),
        "tools": st.one_of(st.none(), st.lists(st.sampled_from([WEATHER]), max_size=2)),
        "tool_choice": st.sampled_from([None, "auto", "none", "required"]),
        "parallel_tool_calls": st.one_of(st.none(), st.booleans()),
        "response_format": st.sampled_from(
            [None, {"type": "text"}, {"type": "json_object"}, schema_format(strict=False)]
        ),
        "reasoning_effort": st.sampled_from([None, "low", ""]),
        "x_new": values,
    },
)


@given(st.lists(messages, max_size=4), settings)
def test_generated_bodies_come_back(listed: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    given_body = {"model": "m", "messages": listed, **fields}
    before = copy.deepcopy(given_body)
    assert openai_chat.write_request(openai_chat.read_request(given_body)).body == before


def test_what_a_request_says() -> None:
    request = openai_chat.read_request(
        body(
            user(),
            called(),
            tools=[WEATHER],
            tool_choice={"type": "function", "function": {"name": "weather"}},
            response_format=schema_format(strict=None),
            max_completion_tokens=9,
            stop="END",
        )
    )
    assert request.tools[0].parameters == SCHEMA
    assert request.tool_choice == ToolChoice("tool", "weather")
    assert request.output == JsonSchema(SCHEMA, "city")
    assert (request.max_tokens, request.token_limit_param) == (9, "max-completion-tokens")
    assert request.stop == ("END",)
    call = request.messages[1].content[0]
    assert isinstance(call, ToolUseBlock)
    assert (call.name, call.input) == ("weather", {"city": "Paris"})


BROKEN: dict[str, Any] = {
    "not an object": [],
    "null": None,
    "no model": {"messages": []},
    "a model that is no text": {"model": 5, "messages": []},
    "no messages": {"model": "m"},
    "messages that are no list": {"model": "m", "messages": {}},
    "a message that is no object": {"model": "m", "messages": ["hi"]},
    "an unknown role": body({"role": "robot", "content": "x"}),
    "a role that is no text": body({"role": ["user"], "content": "x"}),
    "content that is a number": body(user(5)),
    "a part that is a text": body(user(["x"])),
    "a part without a type": body(user([{"text": "x"}])),
    "a type that is no text": body(user([{"type": {}}])),
    "a text part without text": body(user([{"type": "text"}])),
    "an image without a URL": body(user([{"type": "image_url", "image_url": "x"}])),
    "an image URL that is no text": body(user([{"type": "image_url", "image_url": {"url": 1}}])),
    "a result without an id": body({"role": "tool", "content": "x"}),
    "calls that are no list": body(called(tool_calls="x")),
    "a call without an id": body(called({"type": "function", "function": CALL["function"]})),
    "a call without a function": body(called({"id": "x", "type": "function"})),
    "arguments that are an object": body(called({**CALL, "function": {"name": "x", "arguments": {}}})),
    "tools that are no list": body(tools={}),
    "a tool without a name": body(tools=[{"type": "function", "function": {}}]),
    "a tool without a type": body(tools=[{"function": {"name": "x"}}]),
    "parameters that are a list": body(tools=[{"type": "function", "function": {"name": "x", "parameters": []}}]),
    "an unknown choice": body(tool_choice="maybe"),
    "a choice that is a number": body(tool_choice=1),
    "a choice of nothing": body(tool_choice={"type": "function", "function": {}}),
    "a format that is a text": body(response_format="json"),
    "a format without a type": body(response_format={}),
    "a schema without a name": body(response_format={"type": "json_schema", "json_schema": {}}),
    "a schema that is a text": body(response_format=schema_format(schema="x")),
    "a stop that is a number": body(stop=5),
    "stops that are numbers": body(stop=[5]),
    "a temperature in words": body(temperature="hot"),
    "a temperature that is true": body(temperature=True),
    "a limit in words": body(max_tokens="9"),
    "half a token": body(max_completion_tokens=0.5),
    "a stream in words": body(stream="yes"),
    "an effort that is a number": body(reasoning_effort=5),
    "parallel in words": body(parallel_tool_calls="no"),
}


@pytest.mark.parametrize("given_body", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bodies_are_input_errors(given_body: Any) -> None:
    with pytest.raises(InputError):
        openai_chat.read_request(given_body)


def test_errors_name_the_place() -> None:
    with pytest.raises(InputError, match=r"messages\[1\]\.content\[0\]\.text"):
        openai_chat.read_request(body(user(), user([{"type": "text"}])))


@given(
    st.recursive(
        values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["model", "messages", "role", "content", "type", "text", "tools", "function", "name", "stop"]
            ),
            inner | st.lists(inner, max_size=3),
            max_size=6,
        ),
        max_leaves=12,
    )
)
def test_anything_else_is_an_input_error(anything: Any) -> None:
    try:
        request = openai_chat.read_request(anything)
    except InputError:
        return
    assert openai_chat.write_request(request).body == anything
