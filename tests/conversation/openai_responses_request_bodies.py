"""Request bodies as people send them to OpenAI Responses."""

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
    "name": "weather",
    "description": "The weather.",
    "parameters": SCHEMA,
    "strict": True,
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Paris"}',
}
SECOND = {**CALL, "call_id": "call_2", "arguments": '{"city":"Rome"}'}
REASONED: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}, {"type": "summary_text", "text": "So."}],
    "encrypted_content": "gAAA",
}
ANSWERED: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}],
}
CITED: dict[str, Any] = {
    "type": "output_text",
    "text": "Hello",
    "annotations": [{"type": "url_citation", "url": "https://x.example", "title": "X"}],
}
TEXT = {"type": "input_text", "text": "What is this?"}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "x"}}


def user(content: Any = "Hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def body(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "input": list(items or [user()]), **more}


def image(url: Any = "https://x.example/a.png", **more: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, **more}


def result(output: Any = "sunny", identity: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identity, "output": output, **more}


def schema_format(**more: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, **more}}


BODIES: dict[str, dict[str, Any]] = {
    "a text": {"model": "gpt-5", "input": "Hi"},
    "an empty text": {"model": "gpt-5", "input": ""},
    "no input": {"model": "gpt-5", "prompt": {"id": "pmpt_1", "variables": {"a": "b"}}},
    "no items": {"model": "gpt-5", "input": []},
    "instructions": {"model": "gpt-5", "instructions": "Be brief.", "input": "Hi"},
    "instructions beside a developer": body(
        {"role": "developer", "content": "Be kind."}, user(), instructions="Be brief."
    ),
    "empty instructions": body(instructions=""),
    "one message": body(),
    "a message with its type": body(user(type="message")),
    "a message with no type": body(user(type=None)),
    "a system message": body({"role": "system", "content": "Be brief."}, user()),
    "one text part": body(user([TEXT])),
    "text parts": body(user([TEXT, {"type": "input_text", "text": "Well?"}])),
    "no parts": body(user([])),
    "an image by URL": body(user([TEXT, image(detail="high")])),
    "an image as data": body(user([TEXT, image(f"data:image/png;base64,{PNG}", detail="auto")])),
    "an image by file": body(user([{"type": "input_image", "file_id": "file-1", "detail": "low"}])),
    "an image with nulls": body(user([image(file_id=None)])),
    "odd images": body(user([image("data:text/plain,hi"), image(""), image(None)])),
    "a file": body(user([{"type": "input_file", "file_id": "file-1"}])),
    "a file as data": body(user([{"type": "input_file", "filename": "a.pdf", "file_data": "data:;base64,AAAA"}])),
    "an earlier answer": body(user(), ANSWERED, user("And?")),
    "an earlier answer in short": body(user(), {"role": "assistant", "content": "Hello"}),
    "an earlier answer in input parts": body(user(), {"role": "assistant", "content": [TEXT]}),
    "a cited answer": body(user(), {**ANSWERED, "content": [CITED], "phase": "final_answer"}),
    "an answer that was cut": body(user(), {**ANSWERED, "status": "incomplete"}),
    "a refusal": body(user(), {**ANSWERED, "content": [{"type": "refusal", "refusal": "No."}]}),
    "a refusal with more": body(user(), {**ANSWERED, "content": [{"type": "refusal", "refusal": "No.", "why": 1}]}),
    "a call and its result": body(user(), CALL, result()),
    "a call with its id": body(user(), {**CALL, "id": "fc_1", "status": "completed"}, result(id="fco_1", status=None)),
    "a call in a namespace": body(user(), {**CALL, "namespace": "n"}, result()),
    "parallel calls": body(user(), CALL, SECOND, result(), result("rain", "call_2"), user("And?")),
    "a call beside text": body(user(), ANSWERED, CALL, result()),
    "text after a call": body(user(), CALL, ANSWERED, result()),
    "two messages in one turn": body(user(), ANSWERED, {**ANSWERED, "id": "msg_2"}, CALL),
    "reasoning before a call": body(user(), REASONED, CALL, result()),
    "reasoning without a summary": body(user(), {"type": "reasoning", "id": "rs_1", "summary": []}, ANSWERED),
    "reasoning in full": body(
        user(), {**REASONED, "content": [{"type": "reasoning_text", "text": "Long."}], "encrypted_content": None}
    ),
    "arguments that are not JSON": body(user(), {**CALL, "arguments": '{"city": '}),
    "no arguments": body(user(), {**CALL, "arguments": ""}),
    "results in parts": body(user(), CALL, SECOND, result([TEXT, image(detail="low")]), result([], "call_2")),
    "a file from a tool": body(user(), CALL, result([{"type": "input_file", "file_id": "f"}])),
    "a result without a call": body(user(), {"type": "function_call_output", "output": "x"}),
    "a reference": body({"type": "item_reference", "id": "msg_1"}, user()),
    "a reference in short": body({"id": "msg_1"}, user()),
    "a server's calls": body(user(), SEARCHED, ANSWERED, user("More?")),
    "a computer": body(
        user(),
        {"type": "computer_call", "id": "c", "call_id": "k", "action": {"type": "click"}},
        {"type": "computer_call_output", "call_id": "k", "output": {"type": "x"}},
    ),
    "an approval": body(
        {"type": "mcp_approval_request", "id": "a", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
    ),
    "custom calls": body(
        user(),
        {"type": "custom_tool_call", "call_id": "k", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "k", "output": "1"},
    ),
    "tools": body(tools=[WEATHER], tool_choice="auto", parallel_tool_calls=True),
    "a bare tool": body(tools=[{"type": "function", "name": "now"}]),
    "a tool with nulls": body(tools=[{"type": "function", "name": "n", "parameters": None, "strict": None}]),
    "a tool with fields of its own": body(tools=[{**WEATHER, "defer_loading": True, "x": {}}]),
    "the API's own tools": body(
        tools=[
            {"type": "web_search", "filters": {"allowed_domains": ["x.example"]}},
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
            {"type": "computer_use_preview", "display_width": 8, "display_height": 8},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "mcp", "server_label": "x", "server_url": "https://x.example"},
            {"type": "image_generation"},
            {"type": "custom", "name": "sql"},
        ]
    ),
    "no tools": body(tools=[], tool_choice="none"),
    "a chosen tool": body(tools=[WEATHER], tool_choice={"type": "function", "name": "weather"}),
    "a chosen tool of the API": body(tools=[WEATHER], tool_choice={"type": "web_search"}),
    "allowed tools": body(
        tools=[WEATHER], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]}
    ),
    "plain text": body(text={"format": {"type": "text"}}),
    "a JSON object": body(text={"format": {"type": "json_object"}}),
    "a schema": body(text=schema_format(strict=True)),
    "a schema with nulls": body(text=schema_format(strict=None, description="")),
    "a schema with more": body(text=schema_format(other=1)),
    "a verbosity": body(text={**schema_format(), "verbosity": "low"}),
    "an empty text setting": body(text={}),
    "a text setting with a null": body(text={"format": None}),
    "an effort": body(reasoning={"effort": "low"}),
    "an effort and a summary": body(reasoning={"effort": "low", "summary": "auto"}),
    "no effort": body(reasoning={"effort": None, "summary": None}),
    "an empty reasoning setting": body(reasoning={}),
    "nulls everywhere": {
        "model": "gpt-5",
        **dict.fromkeys(("input", "instructions", "tools", "tool_choice", "text", "reasoning")),
        **dict.fromkeys(("max_output_tokens", "stream", "store", "previous_response_id")),
    },
    "numbers": body(temperature=0, top_p=0.5, max_output_tokens=50, top_logprobs=2),
    "a stream": body(stream=True, stream_options={"include_obfuscation": False}),
    "no stream": body(stream=False, store=False, metadata={"a": "b"}, user="ann"),
    "an earlier response": body(previous_response_id="resp_1", store=True),
    "a conversation": body(conversation={"id": "conv_1"}),
    "settings of the API": body(
        include=["reasoning.encrypted_content"],
        truncation="auto",
        background=True,
        service_tier="flex",
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        safety_identifier="s",
        max_tool_calls=3,
    ),
    "fields of tomorrow": body(x_new={"a": [1, None, {"b": False}]}),
    "texts of every script": body(user("日本語 😀👩‍👩‍👧 עברית \u0000 \ufeff")),
}
