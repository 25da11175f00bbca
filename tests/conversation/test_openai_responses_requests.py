"""OpenAI Responses: the same body comes back, and bad bodies get a clear error."""

import copy
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from modelpact.conversation import openai_responses
from modelpact.conversation.message import Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.vocabulary.errors import InputError
from tests.conversation.leaves import names, values
from tests.conversation.openai_responses_request_bodies import (
    ANSWERED,
    BODIES,
    CALL,
    CITED,
    REASONED,
    SCHEMA,
    SEARCHED,
    TEXT,
    WEATHER,
    body,
    image,
    result,
    schema_format,
    user,
)


@pytest.mark.parametrize("given_body", BODIES.values(), ids=BODIES.keys())
def test_the_same_body_comes_back(given_body: dict[str, Any]) -> None:
    before = copy.deepcopy(given_body)
    carried = openai_responses.write_request(openai_responses.read_request(given_body))
    assert carried.body == before
    assert carried.fidelity == "lossless"
    assert given_body == before


texts = st.text(max_size=8)
more = st.dictionaries(names.filter(lambda name: name != "detail"), values, max_size=2)
parts = st.one_of(
    st.builds(lambda text, extra: {**extra, "type": "input_text", "text": text}, texts, more),
    st.builds(lambda text, extra: {**extra, "type": "output_text", "text": text}, texts, more),
    st.builds(lambda text, extra: {**extra, "type": "refusal", "refusal": text}, texts, more),
    st.builds(lambda url, extra: {**extra, **image(url)}, st.none() | texts, more),
    st.builds(lambda data, how: image(f"data:image/png;base64,{data}", detail=how), texts, texts),
    st.builds(lambda extra: {**extra, "type": "input_file", "file_id": "f"}, more),
    st.just(CITED),
)
contents = texts | st.lists(parts, max_size=3)
items = st.one_of(
    st.builds(
        lambda role, content, extra: {**extra, "role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "developer"]),
        contents,
        more,
    ),
    st.builds(lambda content: {**ANSWERED, "content": content}, contents),
    st.builds(lambda raw, extra: {**extra, **CALL, "arguments": raw}, texts, more),
    st.builds(lambda output, extra: {**extra, **result(output)}, contents, more),
    st.builds(
        lambda summary, extra: {**extra, **REASONED, "summary": summary},
        st.lists(st.builds(lambda text: {"type": "summary_text", "text": text}, texts), max_size=2),
        more,
    ),
    st.sampled_from([SEARCHED, {"id": "msg_1"}, {"type": "item_reference", "id": "rs_1"}]),
)
settings = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.none() | texts,
        "temperature": st.one_of(st.none(), st.integers(0, 2), st.floats(0, 2)),
        "max_output_tokens": st.none() | st.integers(1, 9),
        "stream": st.none() | st.booleans(),
        "tools": st.one_of(st.none(), st.lists(st.sampled_from([WEATHER]), max_size=2)),
        "tool_choice": st.sampled_from([None, "auto", "none", {"type": "mcp", "x": 1}]),
        "parallel_tool_calls": st.none() | st.booleans(),
        "text": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {},
                optional={
                    "format": st.sampled_from([None, {"type": "text"}, *schema_format(strict=False).values()]),
                    "verbosity": st.sampled_from([None, "low"]),
                },
            ),
        ),
        "reasoning": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"effort": st.sampled_from([None, "low", ""]), "summary": st.sampled_from([None, "auto"])}
            ),
        ),
        "previous_response_id": st.none() | texts,
        "x_new": values,
    },
)


@given(texts | st.none() | st.lists(items, max_size=5), settings)
def test_generated_bodies_come_back(content: Any, fields: dict[str, Any]) -> None:
    given_body = {"model": "m", "input": content, **fields}
    before = copy.deepcopy(given_body)
    assert openai_responses.write_request(openai_responses.read_request(given_body)).body == before


def test_what_a_request_says() -> None:
    request = openai_responses.read_request(
        body(
            user(),
            REASONED,
            ANSWERED,
            CALL,
            result(),
            instructions="Be brief.",
            tools=[WEATHER],
            tool_choice={"type": "function", "name": "weather"},
            text=schema_format(strict=None),
            reasoning={"effort": "low", "summary": "auto"},
            max_output_tokens=9,
        )
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    thought, text, call = request.messages[2].content
    assert isinstance(thought, ThinkingBlock)
    assert thought.thinking == "Hm.\n\nSo."
    assert text == TextBlock("Hello")
    assert isinstance(call, ToolUseBlock)
    assert (call.id, call.name, call.input) == ("call_1", "weather", {"city": "Paris"})
    (answer,) = request.messages[3].content
    assert isinstance(answer, ToolResultBlock)
    assert (answer.tool_use_id, answer.content) == ("call_1", (TextBlock("sunny"),))
    assert request.tools[0].parameters == SCHEMA
    assert request.tool_choice == ToolChoice("tool", "weather")
    assert request.output == JsonSchema(SCHEMA, "city")
    assert request.reasoning == Reasoning("low")
    assert (request.max_tokens, request.token_limit_param) == (9, "max-output-tokens")


def test_what_was_changed_is_written_anew() -> None:
    request = openai_responses.read_request(body(user(), REASONED, ANSWERED, CALL))
    turn = request.messages[1]
    thought, text, call = turn.content
    assert isinstance(thought, ThinkingBlock)
    changed = Message("assistant", (ThinkingBlock("Ha.", "", thought.extra), text, call, text), turn.metadata)
    again = msgspec.structs.replace(request, messages=(changed,))
    written = openai_responses.write_request(again).body["input"]
    assert [item["type"] for item in written] == ["reasoning", "message", "function_call", "message"]
    assert written[0]["summary"] == [{"type": "summary_text", "text": "Ha."}]
    assert written[0]["encrypted_content"] == "gAAA"
    assert written[1] == {"type": "message", "role": "assistant", "content": "Hello"}


def test_nothing_is_stored_that_was_not_asked_for() -> None:
    """Responses are stored unless a request says otherwise; elsewhere it is the other way round."""
    request = Request("m", (Message("user", (TextBlock("Hi"),)),), reasoning=Reasoning("low"))
    written = openai_responses.write_request(request).body
    assert (written["store"], written["include"]) == (False, ["reasoning.encrypted_content"])


def test_a_tool_is_as_strict_as_it_was() -> None:
    """Functions are strict by default here, and not elsewhere."""
    messages = (Message("user", (TextBlock("Hi"),)),)
    for strict in (None, False, True):
        request = Request("m", messages, tools=(Tool("f", SCHEMA, strict=strict),))
        assert openai_responses.write_request(request).body["tools"][0]["strict"] is bool(strict)
    own = openai_responses.read_request(body(tools=[{"type": "function", "name": "f"}]))
    renamed = msgspec.structs.replace(own.tools[0], name="g")
    (tool,) = openai_responses.write_request(msgspec.structs.replace(own, tools=(renamed,))).body["tools"]
    assert "strict" not in tool


BROKEN: dict[str, Any] = {
    "not an object": [],
    "null": None,
    "no model": {"input": "x"},
    "a model that is no text": {"model": 5, "input": "x"},
    "input that is a number": {"model": "m", "input": 5},
    "input that is an object": {"model": "m", "input": {}, "x": 1},
    "an item that is a text": {"model": "m", "input": ["hi"]},
    "an item of no kind": body({"content": "x"}),
    "a kind that is no text": body({"type": 5}),
    "an unknown role": body({"role": "tool", "content": "x"}),
    "a role that is no text": body({"role": ["user"], "content": "x"}),
    "a message without content": body({"role": "user"}),
    "content that is a number": body(user(5)),
    "a part that is a text": body(user(["x"])),
    "a part without a type": body(user([{"text": "x"}])),
    "a text part without text": body(user([{"type": "input_text"}])),
    "a refusal without words": body(user([{"type": "refusal"}])),
    "an image URL that is no text": body(user([image({"url": "x"})])),
    "a call without an id": body({"type": "function_call", "name": "f", "arguments": "{}"}),
    "a call without a name": body({"type": "function_call", "call_id": "c", "arguments": "{}"}),
    "arguments that are an object": body({**CALL, "arguments": {}}),
    "a result without output": body({"type": "function_call_output", "call_id": "c"}),
    "a result with a number": body(result(5)),
    "a result of a number": body(result(identity=5)),  # type: ignore[arg-type]
    "a summary that is a text": body({**REASONED, "summary": "x"}),
    "a summary of texts": body({**REASONED, "summary": ["x"]}),
    "instructions that are a list": body(instructions=[user()]),
    "tools that are no list": body(tools={"a": 1}),
    "a tool without a name": body(tools=[{"type": "function"}]),
    "a tool without a type": body(tools=[{"name": "x"}]),
    "parameters that are a list": body(tools=[{**WEATHER, "parameters": []}]),
    "strictness in words": body(tools=[{**WEATHER, "strict": "yes"}]),
    "an unknown choice": body(tool_choice="maybe"),
    "a choice that is a number": body(tool_choice=1),
    "a choice of nothing": body(tool_choice={"type": "function"}),
    "text that is a text": body(text="json"),
    "a format that is a text": body(text={"format": "json"}),
    "a format without a type": body(text={"format": {}}),
    "a schema without a name": body(text={"format": {"type": "json_schema"}}),
    "a schema that is a text": body(text=schema_format(schema="x")),
    "reasoning that is a text": body(reasoning="low"),
    "an effort that is a number": body(reasoning={"effort": 5}),
    "a temperature in words": body(temperature="hot"),
    "a temperature that is true": body(temperature=True),
    "half a token": body(max_output_tokens=0.5),
    "a stream in words": body(stream="yes"),
    "parallel in words": body(parallel_tool_calls="no"),
}


@pytest.mark.parametrize("given_body", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bodies_are_input_errors(given_body: Any) -> None:
    with pytest.raises(InputError):
        openai_responses.read_request(given_body)


def test_errors_name_the_place() -> None:
    with pytest.raises(InputError, match=r"input\[1\]\.content\[0\]\.text"):
        openai_responses.read_request(body(user(), user([{"type": "input_text"}])))
    with pytest.raises(InputError, match=r"input\[1\]\.output\[1\]\.type"):
        openai_responses.read_request(body(CALL, result([TEXT, {}])))


@given(
    st.recursive(
        values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                [
                    *("model", "input", "role", "content", "type", "text", "tools", "name"),
                    *("output", "call_id", "summary", "reasoning", "format", "instructions"),
                ]
            ),
            inner | st.lists(inner, max_size=3),
            max_size=6,
        ),
        max_leaves=12,
    )
)
def test_anything_else_is_an_input_error(anything: Any) -> None:
    try:
        request = openai_responses.read_request(anything)
    except InputError:
        return
    assert openai_responses.write_request(request).body == anything


def test_metadata_of_the_caller_is_left_alone() -> None:
    """Metadata that only looks like an API's spelling breaks nothing."""
    odd_ones: list[Any] = ["text", 5, {"extra": "x"}, {"items": 5}, {"items": [5]}]
    odd_ones += [{"items": [{"parts": 5}]}, {"items": [{"parts": [5]}]}, {"items": []}]
    for odd in odd_ones:
        message = Message("user", (TextBlock("Hi"),), {"openai-responses": odd})
        written = openai_responses.write_request(Request("m", (message,))).body["input"]
        assert written == [{"type": "message", "role": "user", "content": "Hi"}]
