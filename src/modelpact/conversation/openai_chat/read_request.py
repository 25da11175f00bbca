"""OpenAI Chat Completions: request bodies to requests."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import (
    checked,
    from_data_url,
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
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_shared import read_arguments
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    TokenLimitParam,
    Tool,
    ToolChoice,
)
from modelpact.vocabulary.errors import InputError

API: Final = "openai-chat"
CALL: Final = "openai-chat tool call"
"""The `api` of a block that is a tool call of a kind that only this API has."""

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_MODELLED: Final = frozenset(
    [
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
        *("reasoning_effort", "stop", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "stream"),
    ]
)


def from_openai_chat(body: Any) -> Request:
    """Read a request body; what only this API can say is kept in `extras`."""
    body = checked(body, "body")
    extras = {key: value for key, value in body.items() if key not in _MODELLED or value is None}
    held = {key: value for key, value in body.items() if key not in extras}
    spelling: dict[str, Any] = {}
    limit, limit_param = _read_limit(held, extras)
    tools = objects(held.get("tools", []), "tools")
    for name in ("tools", "stop", "stream"):
        if name in held and not held[name]:
            spelling[name] = held[name]
    effort = typed(held, "reasoning_effort", str, "a text")
    if effort == "":
        extras["reasoning_effort"] = effort
    return Request(
        model=text_field(body, "model", "body"),
        messages=tuple(
            _read_message(one, f"messages[{place}]")
            for place, one in enumerate(objects(body.get("messages"), "messages"))
        ),
        tools=tuple(read_tool(one, f"tools[{place}]") for place, one in enumerate(tools)),
        tool_choice=_read_choice(held, extras),
        parallel_tool_calls=typed(held, "parallel_tool_calls", bool, "true or false"),
        output=_read_format(held, extras, spelling),
        reasoning=Reasoning(effort=effort) if effort else None,
        max_tokens=limit,
        token_limit_param=limit_param,
        temperature=typed(held, "temperature", (int, float), "a number"),
        top_p=typed(held, "top_p", (int, float), "a number"),
        stop=_read_stop(held, spelling),
        stream=bool(typed(held, "stream", bool, "true or false")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def _read_limit(
    held: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[int | None, TokenLimitParam]:
    old = typed(held, "max_tokens", int, "a whole number")
    new = typed(held, "max_completion_tokens", int, "a whole number")
    if new is None:
        return old, "max-tokens"
    if old is not None:
        extras["max_tokens"] = old
    return new, "max-completion-tokens"


def _read_stop(held: Mapping[str, Any], spelling: dict[str, Any]) -> tuple[str, ...]:
    stop = held.get("stop", [])
    if isinstance(stop, str):
        spelling["stop"] = "text"
        return (stop,)
    return tuple(listed(stop, "stop"))


def _read_message(data: Mapping[str, Any], where: str) -> Message:
    role = data.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = data.get("content")
    said: dict[str, Any] = {} if role == _ROLES[role] else {"role": role}
    blocks: list[Block] = []
    if content is None:
        said["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        said["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        said["content"] = "parts"
        parts = objects(content, f"{where}.content")
        blocks = [_read_part(one, f"{where}.content[{n}]") for n, one in enumerate(parts)]
    known = {"role", "content"}
    if role == "tool":
        known.add("tool_call_id")
        inner = tuple(one for one in blocks if isinstance(one, (TextBlock, ImageBlock, OtherBlock)))
        blocks = [ToolResultBlock(text_field(data, "tool_call_id", where), inner)]
    if role == "assistant" and data.get("tool_calls"):
        known.add("tool_calls")
        calls = objects(data["tool_calls"], f"{where}.tool_calls")
        blocks += [_read_call(one, f"{where}.tool_calls[{n}]") for n, one in enumerate(calls)]
    extra = rest(data, known)
    if extra:
        said["extra"] = extra
    return Message(_ROLES[role], tuple(blocks), {API: said})


def _read_part(part: Mapping[str, Any], where: str) -> Block:
    kind = text_field(part, "type", where)
    if kind == "text":
        text = text_field(part, "text", where)
        return TextBlock(text, kept(API, rest(part, {"type", "text"})))
    image = part.get("image_url")
    if kind == "image_url":
        url = text_field(checked(image, f"{where}.image_url"), "url", f"{where}.image_url")
        fields = rest(part, {"type", "image_url"})
        if len(part["image_url"]) > 1:
            fields["image_url"] = rest(part["image_url"], {"url"})
        inline = from_data_url(url)
        if inline is not None:
            return ImageBlock(data=inline[1], media_type=inline[0], extra=kept(API, fields))
        if url:
            return ImageBlock(url=url, extra=kept(API, fields))
    return OtherBlock(API, dict(part))


def _read_call(call: Mapping[str, Any], where: str) -> Block:
    if call.get("type", "function") != "function":
        return OtherBlock(CALL, dict(call))
    function = checked(call.get("function"), f"{where}.function")
    raw = text_field(function, "arguments", f"{where}.function")
    fields = rest(call, {"id", "type", "function"})
    if set(function) - {"name", "arguments"}:
        fields["function"] = rest(function, {"name", "arguments"})
    said = {} if "type" in call else {"type": "absent"}
    if not raw:
        said["arguments"] = "empty"
    return ToolUseBlock(
        text_field(call, "id", where),
        text_field(function, "name", f"{where}.function"),
        read_arguments(raw) if raw else {},
        raw,
        kept(API, fields, said),
    )


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps its own fields, and how it was spelled."""
    kind = text_field(tool, "type", where)
    if kind != "function":
        return Tool(kind, extra={f"{API} kind": kind, f"{API} spelling": tool})
    function = checked(tool.get("function"), f"{where}.function")
    name = text_field(function, "name", f"{where}.function")
    fields = rest(function, {"name", "parameters", "description", "strict"})
    fields |= rest(tool, {"type", "function"})
    return Tool(
        name,
        typed(function, "parameters", dict, "a JSON Schema") or {},
        typed(function, "description", str, "a text") or "",
        typed(function, "strict", bool, "true or false"),
        kept(API, fields, tool),
    )


def _read_choice(held: Mapping[str, Any], extras: dict[str, Any]) -> ToolChoice | None:
    choice = held.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice in ("auto", "none", "required"):
            return ToolChoice(choice)  # type: ignore[arg-type]
        raise InputError(
            f"tool_choice: expected auto, none, required or a tool, not {choice!r:.60}"
        )
    function = checked(choice, "tool_choice").get("function")
    if choice.get("type") == "function" and len(choice) == 2:
        name = text_field(checked(function, "tool_choice.function"), "name", "tool_choice.function")
        if function == {"name": name}:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_format(
    held: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    if "response_format" not in held:
        return None
    given = checked(held["response_format"], "response_format")
    output = read_output(given)
    if output is not None:
        spelling["response_format"] = given
    known = {"name", "schema", "description", "strict"}
    inner = given.get("json_schema", {})
    if output is None or set(given) - {"type", "json_schema"} or set(inner) - known:
        extras["response_format"] = given
    return output


def read_output(given: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that holds the answer to JSON, or return None."""
    kind = text_field(given, "type", "response_format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    where = "response_format.json_schema"
    inner = checked(given.get("json_schema"), where)
    return JsonSchema(
        typed(inner, "schema", dict, "a JSON Schema") or {},
        text_field(inner, "name", where),
        typed(inner, "description", str, "a text") or "",
        typed(inner, "strict", bool, "true or false"),
    )
