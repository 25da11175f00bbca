"""Request bodies as people send them to Anthropic Messages."""

from typing import Any

PNG = "iVBORw0KGgo="
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: dict[str, Any] = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "What is this?"}
USE: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}


def user(content: Any = "Hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = list(messages or [user()])
    return {"model": "claude-opus-4-5", "max_tokens": 1024, "messages": listed, **more}


def result(content: Any = "sunny", identity: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


BY_URL = image(type="url", url="https://x.example/a.png")
BY_DATA = image(type="base64", media_type="image/png", data=PNG)
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
    "title": "Report",
    "citations": {"enabled": True},
}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}

BODIES: dict[str, dict[str, Any]] = {
    "one message": body(),
    "a system text": body(system="Be brief."),
    "an empty system text": body(system=""),
    "system blocks": body(system=[{"type": "text", "text": "Be brief."}]),
    "cached system blocks": body(system=[TEXT, {**TEXT, **CACHED}]),
    "no system blocks": body(system=[]),
    "instructions on the way": body(user(), {"role": "system", "content": "Now French."}, user()),
    "text blocks": body(user([TEXT, {**TEXT, **CACHED}])),
    "one text block": body(user([TEXT])),
    "an image by URL": body(user([BY_URL, TEXT])),
    "an image as data": body(user([{**BY_DATA, **CACHED}, TEXT])),
    "an image by file": body(user([image(type="file", file_id="file_1")])),
    "an empty image": body(user([image(type="url", url=""), image(type="base64", x=1)])),
    "a document": body(user([DOCUMENT, TEXT])),
    "tools": body(tools=[WEATHER], tool_choice={"type": "auto"}),
    "a custom, cached, strict tool": body(tools=[{**WEATHER, **CACHED, "type": "custom", "strict": True}]),
    "a bare tool": body(tools=[{"name": "now", "input_schema": {}}]),
    "a tool with nulls": body(tools=[{"name": "n", "input_schema": {}, "description": None, "strict": None}]),
    "a tool with fields of its own": body(tools=[{**WEATHER, "anthropic": 1, "openai-chat": 2, "description": ""}]),
    "a server's tool": body(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "no tools": body(tools=[], stop_sequences=[]),
    "any tool": body(tools=[WEATHER], tool_choice={"type": "any"}),
    "one tool": body(tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"}),
    "one tool, alone": body(
        tools=[WEATHER], tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    ),
    "auto, alone": body(tools=[WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    "auto, not alone": body(tools=[WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": False}),
    "none, alone": body(tools=[WEATHER], tool_choice={"type": "none", "disable_parallel_tool_use": True}),
    "choices with more": body(tool_choice={"type": "auto", "name": "x"}),
    "a null beside the choice": body(tool_choice={"type": "auto", "disable_parallel_tool_use": None}),
    "a call and its result": body(user(), assistant(TEXT, USE), user([result()])),
    "parallel calls": body(
        user(),
        assistant(USE, {**USE, "id": "toolu_2"}),
        user([result(), result("rain", "toolu_2"), {"type": "text", "text": "And?"}]),
    ),
    "results in messages of their own": body(user(), assistant(USE), user([result()]), user([result()]), user("And?")),
    "text after a call": body(user(), assistant(USE, TEXT)),
    "inputs of every kind": body(assistant({**USE, "input": None}, {**USE, "input": [1, "x"]})),
    "results in every form": body(
        user(
            [
                result([TEXT]),
                result([]),
                result(None),
                result("broken", is_error=True),
                result("fine", is_error=False),
                result("?", is_error=None),
                {"type": "tool_result", "tool_use_id": "toolu_1"},
                result([TEXT, BY_DATA], **CACHED),
            ]
        )
    ),
    "thinking": body(
        user(),
        assistant(THINKING, {"type": "redacted_thinking", "data": "x"}, TEXT),
        thinking={"type": "enabled", "budget_tokens": 2048},
    ),
    "unsigned thinking": body(
        assistant(
            {"type": "thinking", "thinking": "Hm."},
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking", "thinking": "x", "signature": None},
        )
    ),
    "thinking off": body(thinking={"type": "disabled"}),
    "adaptive thinking": body(thinking={"type": "adaptive", "display": "omitted"}, output_config={"effort": "high"}),
    "thinking without a budget": body(thinking={"type": "enabled", "budget_tokens": None}),
    "a schema": body(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
    "a schema and effort": body(output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}),
    "a schema with more": body(output_config={"format": {"type": "json_schema", "schema": SCHEMA, "x": 1}, "y": 2}),
    "empty settings": body(output_config={}),
    "stops": body(stop_sequences=["END", "\n\n"]),
    "numbers": body(temperature=0.5, top_p=1, top_k=40, stream=True),
    "no stream": body(stream=False, metadata={"user_id": "ann"}),
    "nulls": body(system=None, tools=None, stop_sequences=None, temperature=None, thinking=None),
    "fields of tomorrow": body(container="c", mcp_servers=[{"url": "https://m.example"}], x_new=1),
    "messages with fields of their own": body(user(x_note=1)),
    "texts of every script": body(user("日本語 😀👩‍👩‍👧 עברית \u0000 \ufeff")),
    "no messages": {"model": "claude-opus-4-5", "max_tokens": 1, "messages": []},
}
