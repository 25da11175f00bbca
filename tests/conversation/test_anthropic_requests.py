"""Anthropic Messages: the same body comes back, and bad bodies get a clear error."""

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.conversation import anthropic
from modelpact.conversation.message import ToolResultBlock
from modelpact.conversation.request import JsonSchema, Reasoning, ToolChoice
from modelpact.vocabulary.errors import InputError
from tests.conversation.anthropic_request_bodies import (
    BODIES,
    BY_DATA,
    BY_URL,
    DOCUMENT,
    SCHEMA,
    TEXT,
    THINKING,
    USE,
    WEATHER,
    assistant,
    body,
    image,
    result,
    user,
)
from tests.conversation.leaves import names, values


@pytest.mark.parametrize("given_body", BODIES.values(), ids=BODIES.keys())
def test_the_same_body_comes_back(given_body: dict[str, Any]) -> None:
    before = copy.deepcopy(given_body)
    carried = anthropic.write_request(anthropic.read_request(given_body))
    assert carried.body == before
    assert carried.fidelity == "lossless"
    assert given_body == before


texts = st.text(max_size=8)
more = st.dictionaries(names, values, max_size=2)
plain = st.one_of(
    st.builds(lambda text, extra: {**extra, "type": "text", "text": text}, texts, more),
    st.builds(lambda block, extra: {**extra, **block}, st.sampled_from([BY_URL, BY_DATA]), more),
    st.just(DOCUMENT),
)
results = st.builds(
    lambda content, failed, extra: {**extra, "type": "tool_result", "tool_use_id": "t", **content, **failed},
    st.fixed_dictionaries({}, optional={"content": st.one_of(st.none(), texts, st.lists(plain, max_size=2))}),
    st.fixed_dictionaries({}, optional={"is_error": st.one_of(st.none(), st.booleans())}),
    more,
)
uses = st.builds(lambda value, extra: {**extra, **USE, "input": value}, values, more)
messages = st.one_of(
    st.builds(lambda content, extra: {**extra, **user(content)}, texts, more),
    st.builds(
        lambda first, then, extra: {**extra, **user([*first, *then])},
        st.lists(results, max_size=3),
        st.lists(plain, max_size=3),
        more,
    ),
    st.builds(lambda blocks: assistant(*blocks), st.lists(st.one_of(plain, uses, st.just(THINKING)), max_size=3)),
    st.builds(lambda content: {"role": "system", "content": content}, texts),
)
settings = st.fixed_dictionaries(
    {},
    optional={
        "system": st.one_of(st.none(), texts, st.lists(plain, max_size=2)),
        "max_tokens": st.one_of(st.none(), st.integers(1, 9)),
        "stop_sequences": st.one_of(st.none(), st.lists(texts, max_size=3)),
        "temperature": st.one_of(st.none(), st.integers(0, 1), st.floats(0, 1)),
        "top_k": st.one_of(st.none(), st.integers(0, 9)),
        "stream": st.one_of(st.none(), st.booleans()),
        "tools": st.one_of(st.none(), st.lists(st.sampled_from([WEATHER]), max_size=2)),
        "tool_choice": st.sampled_from(
            [None, *(body["tool_choice"] for body in BODIES.values() if "tool_choice" in body)]
        ),
        "thinking": st.sampled_from([None, *(body["thinking"] for body in BODIES.values() if "thinking" in body)]),
        "output_config": st.sampled_from(
            [None, *(body["output_config"] for body in BODIES.values() if "output_config" in body)]
        ),
        "x_new": values,
    },
)


@given(st.lists(messages, max_size=4), settings)
def test_generated_bodies_come_back(listed: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    given_body = {"model": "m", "messages": listed, **fields}
    before = copy.deepcopy(given_body)
    assert anthropic.write_request(anthropic.read_request(given_body)).body == before


def test_what_a_request_says() -> None:
    request = anthropic.read_request(
        body(
            user(),
            assistant(USE),
            user([result("no", is_error=True), TEXT]),
            system="Be brief.",
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
            thinking={"type": "enabled", "budget_tokens": 1024},
        )
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool", "user"]
    assert request.tool_choice == ToolChoice("required")
    assert request.parallel_tool_calls is False
    assert request.output == JsonSchema(SCHEMA)
    assert request.reasoning == Reasoning("low", 1024)
    failed = request.messages[3].content[0]
    assert isinstance(failed, ToolResultBlock)
    assert failed.is_error


BROKEN: dict[str, Any] = {
    "not an object": [],
    "no model": {"messages": []},
    "no messages": {"model": "m"},
    "an unknown role": body({"role": "tool", "content": "x"}),
    "a role that is no text": body({"role": [], "content": "x"}),
    "no content": body({"role": "user"}),
    "null content": body(user(None)),
    "a block that is a text": body(user(["x"])),
    "a block without a type": body(user([{"text": "x"}])),
    "a text block without text": body(user([{"type": "text", "text": None}])),
    "an image without a source": body(user([{"type": "image"}])),
    "an image of null": body(user([image(type="base64", media_type="image/png", data=None)])),
    "an image URL that is no text": body(user([image(type="url", url=5)])),
    "a call without an id": body(assistant({"type": "tool_use", "name": "x", "input": {}})),
    "a call without an input": body(assistant({"type": "tool_use", "id": "x", "name": "x"})),
    "a result without an id": body(user([{"type": "tool_result", "content": "x"}])),
    "a result of the assistant": body(assistant(result())),
    "a result after text": body(user([TEXT, result()])),
    "a result in a result": body(user([result([result()])])),
    "an error in words": body(user([result(is_error="yes")])),
    "thinking without a thought": body(assistant({"type": "thinking", "signature": "x"})),
    "a signature that is a number": body(assistant({**THINKING, "signature": 5})),
    "a system that is a number": body(system=5),
    "tools that are no list": body(tools={}),
    "a tool without a name": body(tools=[{"input_schema": {}}]),
    "a tool without a schema": body(tools=[{"name": "x"}]),
    "a schema that is a text": body(tools=[{"name": "x", "input_schema": "{}"}]),
    "a description that is a number": body(tools=[{**WEATHER, "description": 5}]),
    "a choice that is a text": body(tool_choice="auto"),
    "a choice without a type": body(tool_choice={}),
    "alone in words": body(tool_choice={"type": "auto", "disable_parallel_tool_use": "yes"}),
    "stops that are a text": body(stop_sequences="END"),
    "a temperature in words": body(temperature="hot"),
    "a limit in words": body(max_tokens="9"),
    "half a token": body(top_k=0.5),
    "a stream in words": body(stream="yes"),
    "thinking in words": body(thinking="hard"),
    "thinking without a type": body(thinking={}),
    "a budget in words": body(thinking={"type": "enabled", "budget_tokens": "much"}),
    "settings in words": body(output_config="json"),
    "an output schema that is a text": body(output_config={"format": {"type": "json_schema", "schema": "abc"}}),
}


@pytest.mark.parametrize("given_body", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bodies_are_input_errors(given_body: Any) -> None:
    with pytest.raises(InputError):
        anthropic.read_request(given_body)


def test_errors_name_the_place() -> None:
    with pytest.raises(InputError, match=r"messages\[1\]\.content\[0\]\.text"):
        anthropic.read_request(body(user(), user([{"type": "text"}])))


@given(
    st.recursive(
        values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["model", "messages", "role", "content", "type", "text", "tools", "system", "name", "thinking"]
            ),
            inner | st.lists(inner, max_size=3),
            max_size=6,
        ),
        max_leaves=12,
    )
)
def test_anything_else_is_an_input_error(anything: Any) -> None:
    try:
        request = anthropic.read_request(anything)
    except InputError:
        return
    assert anthropic.write_request(request).body == anything
