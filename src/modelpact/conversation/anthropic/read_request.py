"""Anthropic Messages: request bodies to requests."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import (
    checked,
    kept,
    listed,
    objects,
    rest,
    text_field,
    typed,
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
MODES: Final = {"auto": "auto", "none": "none", "any": "required", "tool": "tool"}
_MODELLED: Final = frozenset(
    [
        *("model", "messages", "system", "tools", "tool_choice", "stop_sequences", "max_tokens"),
        *("temperature", "top_p", "top_k", "stream", "thinking", "output_config"),
    ]
)
_ROLES: Final[tuple[Role, ...]] = ("user", "assistant", "system")


def from_anthropic(body: Any) -> Request:
    """Read a request body; what only this API can say is kept in `extras`."""
    body = checked(body, "body")
    extras = {key: value for key, value in body.items() if key not in _MODELLED or value is None}
    held = {key: value for key, value in body.items() if key not in extras}
    spelling: dict[str, Any] = {}
    messages = _read_system(held["system"], spelling) if "system" in held else []
    for place, one in enumerate(objects(body.get("messages"), "messages")):
        messages += _read_message(one, f"messages[{place}]")
    choice, parallel = _read_choice(held, extras)
    tools = objects(held.get("tools", []), "tools")
    for name in ("tools", "stop_sequences", "stream"):
        if name in held and not held[name]:
            spelling[name] = held[name]
    output, effort = _read_config(held, extras)
    return Request(
        model=text_field(body, "model", "body"),
        messages=tuple(messages),
        tools=tuple(read_tool(one, f"tools[{place}]") for place, one in enumerate(tools)),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        output=output,
        reasoning=_read_reasoning(held, effort),
        max_tokens=typed(held, "max_tokens", int, "a whole number"),
        temperature=typed(held, "temperature", (int, float), "a number"),
        top_p=typed(held, "top_p", (int, float), "a number"),
        top_k=typed(held, "top_k", int, "a whole number"),
        stop=tuple(listed(held.get("stop_sequences", []), "stop_sequences")),
        stream=bool(typed(held, "stream", bool, "true or false")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def _read_system(system: Any, spelling: dict[str, Any]) -> list[Message]:
    if isinstance(system, str):
        spelling["system"] = "text"
        return [Message("system", (TextBlock(system),))]
    spelling["system"] = "blocks"
    listed_blocks = objects(system, "system")
    blocks = [_read_block(one, f"system[{place}]") for place, one in enumerate(listed_blocks)]
    return [Message("system", tuple(blocks))]


def _read_message(data: Mapping[str, Any], where: str) -> list[Message]:
    role = data.get("role")
    if role not in _ROLES:
        raise InputError(f"{where}.role: expected user or assistant, not {role!r:.60}")
    content = data.get("content")
    said: dict[str, Any] = {}
    if isinstance(content, str):
        said["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        parts = objects(content, f"{where}.content")
        blocks = [_read_block(one, f"{where}.content[{n}]") for n, one in enumerate(parts)]
    extra = rest(data, {"role", "content"})
    if extra:
        said["extra"] = extra
    if role == "system":
        said["placed"] = True
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if not results:
        return [Message(role, tuple(others), {API: said} if said else {})]
    if role != "user":
        raise InputError(f"{where}.content: tool results come from the user")
    if any(isinstance(block, ToolResultBlock) for block in blocks[len(results) :]):
        raise InputError(f"{where}.content: tool results come before everything else")
    found = [Message("tool", tuple(results), {API: {**said, "alone": True}})]
    if others:
        found.append(Message(role, tuple(others), {API: {"joined": True}}))
    return found


def _read_block(data: Mapping[str, Any], where: str) -> Block:
    kind = text_field(data, "type", where)
    if kind == "text":
        text = text_field(data, "text", where)
        return TextBlock(text, kept(API, rest(data, {"type", "text"})))
    if kind == "image":
        return _read_image(data, where)
    if kind == "tool_use":
        if "input" not in data:
            raise InputError(f"{where}: a tool_use block needs input")
        fields = rest(data, {"type", "id", "name", "input"})
        identity, name = text_field(data, "id", where), text_field(data, "name", where)
        return ToolUseBlock(identity, name, data["input"], extra=kept(API, fields))
    if kind == "tool_result":
        return _read_result(data, where)
    if kind == "thinking":
        known = {"type", "thinking", "signature"} if data.get("signature") else {"type", "thinking"}
        signature = typed(data, "signature", str, "a text") or ""
        thought = text_field(data, "thinking", where)
        return ThinkingBlock(thought, signature, kept(API, rest(data, known)))
    return OtherBlock(API, dict(data))


def _read_image(data: Mapping[str, Any], where: str) -> Block:
    source = checked(data.get("source"), f"{where}.source")
    extra = kept(API, rest(data, {"type", "source"}))
    kind = text_field(source, "type", f"{where}.source")
    if kind == "url" and set(source) == {"type", "url"}:
        url = text_field(source, "url", f"{where}.source")
        if url:
            return ImageBlock(url=url, extra=extra)
    if kind == "base64" and set(source) == {"type", "media_type", "data"}:
        content = text_field(source, "data", f"{where}.source")
        media_type = text_field(source, "media_type", f"{where}.source")
        if content:
            return ImageBlock(data=content, media_type=media_type, extra=extra)
    return OtherBlock(API, dict(data))


def _read_result(data: Mapping[str, Any], where: str) -> ToolResultBlock:
    content = data.get("content")
    said: dict[str, Any] = {}
    inner: list[Block] = []
    if content is None:
        said["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        said["content"] = "text"
        inner = [TextBlock(content)]
    else:
        said["content"] = "blocks"
        parts = objects(content, f"{where}.content")
        inner = [_read_block(one, f"{where}.content[{n}]") for n, one in enumerate(parts)]
    failed = typed(data, "is_error", bool, "true or false")
    if "is_error" in data and not failed:
        said["is_error"] = failed
    carried = tuple(one for one in inner if isinstance(one, (TextBlock, ImageBlock, OtherBlock)))
    if len(carried) != len(inner):
        raise InputError(f"{where}.content: no calls, results or thinking in a tool's result")
    fields = rest(data, {"type", "tool_use_id", "content", "is_error"})
    identity = text_field(data, "tool_use_id", where)
    return ToolResultBlock(identity, carried, bool(failed), kept(API, fields, said))


def read_tool(data: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps its own fields, and how it was spelled."""
    kind = data.get("type", "custom")
    name = text_field(data, "name", where) if kind == "custom" or "name" in data else ""
    if kind != "custom":
        return Tool(name, extra={f"{API} kind": str(kind), f"{API} spelling": data})
    if "input_schema" not in data:
        raise InputError(f"{where}: a tool needs input_schema")
    return Tool(
        name,
        typed(data, "input_schema", dict, "a JSON Schema") or {},
        typed(data, "description", str, "a text") or "",
        typed(data, "strict", bool, "true or false"),
        kept(API, rest(data, {"name", "type", "description", "input_schema", "strict"}), data),
    )


def _read_choice(
    held: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[ToolChoice | None, bool | None]:
    if "tool_choice" not in held:
        return None, None
    given = checked(held["tool_choice"], "tool_choice")
    mode = MODES.get(text_field(given, "type", "tool_choice"))
    known = {"type", "disable_parallel_tool_use"} | ({"name"} if mode == "tool" else set())
    alone = typed(given, "disable_parallel_tool_use", bool, "true or false")
    if mode is None or set(given) - known or (alone is None and len(given) != len(known) - 1):
        extras["tool_choice"] = given
        return None, None
    name = text_field(given, "name", "tool_choice") if mode == "tool" else ""
    return ToolChoice(mode, name), None if alone is None else not alone  # type: ignore[arg-type]


def _read_config(held: Mapping[str, Any], extras: dict[str, Any]) -> tuple[JsonSchema | None, str]:
    if "output_config" not in held:
        return None, ""
    config = checked(held["output_config"], "output_config")
    left, output = dict(config), None
    form = left.get("format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        schema = typed(form, "schema", dict, "a JSON Schema")
        output = JsonSchema(schema or {})
        if schema is not None and len(form) == 2:
            del left["format"]
    effort = typed(left, "effort", str, "a text") or ""
    if effort:
        del left["effort"]
    if left or not config:
        extras["output_config"] = left
    return output, effort


def _read_reasoning(held: Mapping[str, Any], effort: str) -> Reasoning | None:
    if "thinking" not in held:
        return Reasoning(effort) if effort else None
    thinking = checked(held["thinking"], "thinking")
    budget = typed(thinking, "budget_tokens", int, "a whole number")
    extra = rest(thinking, {"budget_tokens"}) if budget is not None else dict(thinking)
    text_field(thinking, "type", "thinking")
    if budget is not None and extra == {"type": "enabled"}:
        extra = {}
    return Reasoning(effort, budget, extra)
