"""Anthropic Messages: read request bodies."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fields import (
    make_extra,
    optional_bool,
    optional_int,
    optional_number,
    optional_schema,
    optional_string,
    read_object,
    read_objects,
    read_strings,
    required_string,
    without,
)
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    OtherBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.request import JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.vocabulary.errors import InputError

API: Final = "anthropic"
CHOICE_MODES: Final = {"auto": "auto", "none": "none", "any": "required", "tool": "tool"}
"""The modes of `ToolChoice`, by this API's names of them."""
_MODELLED: Final = frozenset(
    [
        *("model", "messages", "system", "tools", "tool_choice", "stop_sequences", "max_tokens"),
        *("temperature", "top_p", "top_k", "stream", "thinking", "output_config"),
    ]
)
_ROLES: Final[tuple[Role, ...]] = ("user", "assistant", "system")


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    extras = {name: value for name, value in body.items() if name not in _MODELLED or value is None}
    fields = {name: value for name, value in body.items() if name not in extras}
    spelling: dict[str, Any] = {}
    messages = _read_system(fields["system"], spelling) if "system" in fields else []
    for index, message in enumerate(read_objects(body.get("messages"), "messages")):
        messages += _read_message(message, f"messages[{index}]")
    choice, parallel = _read_choice(fields, extras)
    tools = read_objects(fields.get("tools", []), "tools")
    for name in ("tools", "stop_sequences", "stream"):
        if name in fields and not fields[name]:
            spelling[name] = fields[name]
    output, effort = _read_output_config(fields, extras)
    return Request(
        model=required_string(body, "model", "body"),
        messages=tuple(messages),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        output=output,
        reasoning=_read_reasoning(fields, effort),
        max_tokens=optional_int(fields, "max_tokens"),
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
        top_k=optional_int(fields, "top_k"),
        stop=tuple(read_strings(fields.get("stop_sequences", []), "stop_sequences")),
        stream=bool(optional_bool(fields, "stream")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps the fields that only this API has, and the spelling."""
    kind = tool.get("type", "custom")
    name = required_string(tool, "name", where) if kind == "custom" or "name" in tool else ""
    if kind != "custom":
        return Tool(name, extra={f"{API} kind": str(kind), f"{API} spelling": tool})
    if "input_schema" not in tool:
        raise InputError(f"{where}: a tool needs input_schema")
    fields = without(tool, {"name", "type", "description", "input_schema", "strict"})
    return Tool(
        name,
        optional_schema(tool, "input_schema"),
        optional_string(tool, "description"),
        optional_bool(tool, "strict"),
        make_extra(API, fields, tool),
    )


def _read_system(system: Any, spelling: dict[str, Any]) -> list[Message]:
    if isinstance(system, str):
        spelling["system"] = "text"
        return [Message("system", (TextBlock(system),))]
    spelling["system"] = "blocks"
    return [Message("system", tuple(_read_blocks(system, "system")))]


def _read_message(data: Mapping[str, Any], where: str) -> list[Message]:
    """Read a message; tool results become a message of their own."""
    role = data.get("role")
    if role not in _ROLES:
        raise InputError(f"{where}.role: expected user or assistant, not {role!r:.60}")
    content = data.get("content")
    spelling: dict[str, Any] = {}
    if isinstance(content, str):
        spelling["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        blocks = _read_blocks(content, f"{where}.content")
    extra = without(data, {"role", "content"})
    if extra:
        spelling["extra"] = extra
    if role == "system":
        spelling["placed"] = True
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if not results:
        return [Message(role, tuple(others), {API: spelling} if spelling else {})]
    if role != "user":
        raise InputError(f"{where}.content: tool results come from the user")
    if any(isinstance(block, ToolResultBlock) for block in blocks[len(results) :]):
        raise InputError(f"{where}.content: tool results come before everything else")
    messages = [Message("tool", tuple(results), {API: {**spelling, "alone": True}})]
    if others:
        messages.append(Message(role, tuple(others), {API: {"joined": True}}))
    return messages


def _read_blocks(content: Any, where: str) -> list[Block]:
    blocks = read_objects(content, where)
    return [_read_block(block, f"{where}[{index}]") for index, block in enumerate(blocks)]


def _read_block(data: Mapping[str, Any], where: str) -> Block:
    kind = required_string(data, "type", where)
    if kind == "text":
        text = required_string(data, "text", where)
        return TextBlock(text, make_extra(API, without(data, {"type", "text"})))
    if kind == "image":
        return _read_image(data, where)
    if kind == "tool_use":
        if "input" not in data:
            raise InputError(f"{where}: a tool_use block needs input")
        fields = without(data, {"type", "id", "name", "input"})
        call_id, name = required_string(data, "id", where), required_string(data, "name", where)
        return ToolUseBlock(call_id, name, data["input"], extra=make_extra(API, fields))
    if kind == "tool_result":
        return _read_result(data, where)
    if kind == "thinking":
        signature = optional_string(data, "signature")
        known = {"type", "thinking", "signature"} if signature else {"type", "thinking"}
        thinking = required_string(data, "thinking", where)
        return ThinkingBlock(thinking, signature, make_extra(API, without(data, known)))
    return OtherBlock(API, dict(data))


def _read_image(data: Mapping[str, Any], where: str) -> Block:
    source = read_object(data.get("source"), f"{where}.source")
    extra = make_extra(API, without(data, {"type", "source"}))
    kind = required_string(source, "type", f"{where}.source")
    if kind == "url" and set(source) == {"type", "url"}:
        url = required_string(source, "url", f"{where}.source")
        if url:
            return ImageBlock(url=url, extra=extra)
    if kind == "base64" and set(source) == {"type", "media_type", "data"}:
        content = required_string(source, "data", f"{where}.source")
        media_type = required_string(source, "media_type", f"{where}.source")
        if content:
            return ImageBlock(data=content, media_type=media_type, extra=extra)
    return OtherBlock(API, dict(data))


def _read_result(data: Mapping[str, Any], where: str) -> ToolResultBlock:
    content = data.get("content")
    spelling: dict[str, Any] = {}
    blocks: list[Block] = []
    if content is None:
        spelling["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        spelling["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        spelling["content"] = "blocks"
        blocks = _read_blocks(content, f"{where}.content")
    is_error = optional_bool(data, "is_error")
    if "is_error" in data and not is_error:
        spelling["is_error"] = is_error
    inner = tuple(
        block for block in blocks if isinstance(block, (TextBlock, ImageBlock, OtherBlock))
    )
    if len(inner) != len(blocks):
        raise InputError(f"{where}.content: no calls, results or thinking in a tool's result")
    fields = without(data, {"type", "tool_use_id", "content", "is_error"})
    call_id = required_string(data, "tool_use_id", where)
    return ToolResultBlock(call_id, inner, bool(is_error), make_extra(API, fields, spelling))


def _read_choice(
    fields: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[ToolChoice | None, bool | None]:
    """Return the choice of tools, and whether tools may be called in parallel."""
    if "tool_choice" not in fields:
        return None, None
    choice = read_object(fields["tool_choice"], "tool_choice")
    mode = CHOICE_MODES.get(required_string(choice, "type", "tool_choice"))
    known = {"type", "disable_parallel_tool_use"} | ({"name"} if mode == "tool" else set())
    serial = optional_bool(choice, "disable_parallel_tool_use")
    if mode is None or set(choice) - known or (serial is None and len(choice) != len(known) - 1):
        extras["tool_choice"] = choice
        return None, None
    name = required_string(choice, "name", "tool_choice") if mode == "tool" else ""
    return ToolChoice(mode, name), None if serial is None else not serial  # type: ignore[arg-type]


def _read_output_config(
    fields: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[JsonSchema | None, str]:
    """Return the schema of the output and the reasoning effort; the rest goes to `extras`."""
    if "output_config" not in fields:
        return None, ""
    config = read_object(fields["output_config"], "output_config")
    remaining, output = dict(config), None
    form = remaining.get("format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        output = JsonSchema(optional_schema(form, "schema"))
        if form.get("schema") is not None and len(form) == 2:
            del remaining["format"]
    effort = optional_string(remaining, "effort")
    if effort:
        del remaining["effort"]
    if remaining or not config:
        extras["output_config"] = remaining
    return output, effort


def _read_reasoning(fields: Mapping[str, Any], effort: str) -> Reasoning | None:
    if "thinking" not in fields:
        return Reasoning(effort) if effort else None
    thinking = read_object(fields["thinking"], "thinking")
    budget = optional_int(thinking, "budget_tokens")
    extra = without(thinking, {"budget_tokens"}) if budget is not None else dict(thinking)
    required_string(thinking, "type", "thinking")
    if budget is not None and extra == {"type": "enabled"}:
        extra = {}
    return Reasoning(effort, budget, extra)
