"""Request bodies as people send them to OpenAI Chat Completions."""

from typing import Any

PNG = "iVBORw0KGgo="
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA},
}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
}


def user(content: Any = "Hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "messages": list(messages or [user()]), **more}


def called(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls or [CALL]), **more}


def result(content: Any = "sunny", identity: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content, **more}


def schema_format(**more: Any) -> dict[str, Any]:
    inner = {"name": "city", "schema": SCHEMA, **more}
    return {"type": "json_schema", "json_schema": inner}


SECOND = {**CALL, "id": "call_2", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
CUSTOM = {"id": "call_3", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
TEXT = {"type": "text", "text": "What is this?"}


def image(url: str = "https://x.example/a.png", **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


BODIES: dict[str, dict[str, Any]] = {
    "one message": body(),
    "a system message": body({"role": "system", "content": "Be brief."}, user()),
    "a developer message": body({"role": "developer", "content": "Be brief."}, user()),
    "a named user": body(user(name="ann")),
    "text parts": body(user([TEXT, {"type": "text", "text": "Well?"}])),
    "one text part": body(user([TEXT])),
    "an image by URL": body(user([TEXT, image(detail="high")])),
    "an image as data": body(user([TEXT, image(f"data:image/png;base64,{PNG}")])),
    "odd data URLs": body(user([image("data:text/plain,hi"), image("data:image/png;base64,"), image("")])),
    "an image with fields called like ours": body(user([{**image(part=1), "part": {"x": 2}}])),
    "audio": body(user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])),
    "a file": body(user([{"type": "file", "file": {"file_id": "file-1"}}])),
    "tools": body(tools=[WEATHER], tool_choice="auto", parallel_tool_calls=True),
    "a strict tool": body(tools=[{"type": "function", "function": {**WEATHER["function"], "strict": True}}]),
    "a bare tool": body(tools=[{"type": "function", "function": {"name": "now"}}]),
    "a tool with nulls": body(
        tools=[{"type": "function", "function": {"name": "n", "description": None, "strict": None, "parameters": {}}}]
    ),
    "a tool with fields of its own": body(
        tools=[{"type": "function", "openai-chat": 1, "function": {"name": "n", "anthropic": [2]}}]
    ),
    "a custom tool": body(tools=[{"type": "custom", "custom": {"name": "sql"}}]),
    "no tools": body(tools=[], tool_choice="none"),
    "a chosen tool": body(tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}),
    "allowed tools": body(
        tools=[WEATHER],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]}},
    ),
    "a call and its result": body(user(), called(), result()),
    "parallel calls": body(user(), called(CALL, SECOND), result(), result("rain", "call_2"), user("And?")),
    "custom and function calls in turn": body(user(), called(CUSTOM, CALL, CUSTOM)),
    "a call without its type": body(user(), called({"id": "c", "function": CALL["function"]})),
    "a call with fields of its own": body(
        user(), called({**CALL, "index": 0, "function": {**CALL["function"], "note": "x"}})
    ),
    "a call beside text": body(user(), called(content="Let me look.")),
    "a call beside empty texts": body(user(), called(content=""), user(), called(content=[])),
    "a call without content": body(user(), {"role": "assistant", "tool_calls": [CALL]}),
    "arguments that are not JSON": body(
        user(), called({**CALL, "function": {"name": "weather", "arguments": '{"city": '}})
    ),
    "arguments with a key twice": body(
        user(), called({**CALL, "function": {"name": "w", "arguments": '{"a":1,"a":2}'}})
    ),
    "results in every form": body(user(), called(), result([TEXT]), result([]), result(None), result(name="weather")),
    "a result without content": body(user(), {"role": "tool", "tool_call_id": "call_1"}),
    "a refusal": body(user(), {"role": "assistant", "content": None, "refusal": "I cannot."}),
    "an earlier answer as sent back": body(
        user(),
        {"role": "assistant", "content": "Hello", "refusal": None, "annotations": [], "audio": None, "tool_calls": []},
    ),
    "a JSON object": body(response_format={"type": "json_object"}),
    "plain text": body(response_format={"type": "text"}),
    "a schema": body(response_format=schema_format(strict=True)),
    "a schema with nulls": body(response_format=schema_format(strict=None, description="")),
    "a schema with more": body(response_format=schema_format(other=1)),
    "one stop": body(stop="END"),
    "several stops": body(stop=["END", "\n\n"]),
    "no stops": body(stop=[]),
    "nulls everywhere": body(
        stop=None, tools=None, tool_choice=None, response_format=None, stream=None, max_tokens=None
    ),
    "numbers": body(temperature=0, top_p=0.5, max_tokens=5, seed=7, n=1, frequency_penalty=0.0),
    "both limits": body(max_tokens=5, max_completion_tokens=6),
    "the new limit": body(max_completion_tokens=6, reasoning_effort="low"),
    "a stream": body(stream=True, stream_options={"include_usage": True}),
    "no stream": body(stream=False, store=False, metadata={"a": "b"}, user="ann"),
    "fields of tomorrow": body(x_new={"a": [1, None, {"b": False}]}, service_tier="flex"),
    "old functions": body(functions=[{"name": "f"}], function_call="auto"),
    "texts of every script": body(user("日本語 😀👩‍👩‍👧 עברית \u0000 \ufeff")),
    "no messages": {"model": "gpt-5", "messages": []},
}
