"""OpenAI Chat Completions: read request bodies."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fields import (
    make_extra,
    optional_bool,
    optional_field,
    optional_int,
    optional_number,
    optional_schema,
    optional_string,
    parse_data_url,
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
"""The `api` of an `OtherBlock` that is a tool call of a kind that only this API has."""

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


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    extras = {name: value for name, value in body.items() if name not in _MODELLED or value is None}
    fields = {name: value for name, value in body.items() if name not in extras}
    spelling: dict[str, Any] = {}
    limit, limit_param = _read_limit(fields, extras)
    tools = read_objects(fields.get("tools", []), "tools")
    for name in ("tools", "stop", "stream"):
        if name in fields and not fields[name]:
            spelling[name] = fields[name]
    effort = optional_field(fields, "reasoning_effort", str, "a string")
    if effort == "":
        extras["reasoning_effort"] = effort
    return Request(
        model=required_string(body, "model", "body"),
        messages=tuple(
            _read_message(message, f"messages[{index}]")
            for index, message in enumerate(read_objects(body.get("messages"), "messages"))
        ),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=_read_choice(fields, extras),
        parallel_tool_calls=optional_bool(fields, "parallel_tool_calls"),
        output=_read_format(fields, extras, spelling),
        reasoning=Reasoning(effort=effort) if effort else None,
        max_tokens=limit,
        token_limit_param=limit_param,
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
        stop=_read_stop(fields, spelling),
        stream=bool(optional_bool(fields, "stream")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps the fields that only this API has, and the spelling."""
    kind = required_string(tool, "type", where)
    if kind != "function":
        return Tool(kind, extra={f"{API} kind": kind, f"{API} spelling": tool})
    function = read_object(tool.get("function"), f"{where}.function")
    name = required_string(function, "name", f"{where}.function")
    fields = without(function, {"name", "parameters", "description", "strict"})
    fields |= without(tool, {"type", "function"})
    return Tool(
        name,
        optional_schema(function, "parameters"),
        optional_string(function, "description"),
        optional_bool(function, "strict"),
        make_extra(API, fields, tool),
    )


def read_output(response_format: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that makes the response JSON; return None for any other."""
    kind = required_string(response_format, "type", "response_format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    where = "response_format.json_schema"
    inner = read_object(response_format.get("json_schema"), where)
    return JsonSchema(
        optional_schema(inner, "schema"),
        required_string(inner, "name", where),
        optional_string(inner, "description"),
        optional_bool(inner, "strict"),
    )


def _read_limit(
    fields: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[int | None, TokenLimitParam]:
    """Return the token limit and the field that set it; the newer of the two fields wins."""
    max_tokens = optional_int(fields, "max_tokens")
    max_completion_tokens = optional_int(fields, "max_completion_tokens")
    if max_completion_tokens is None:
        return max_tokens, "max-tokens"
    if max_tokens is not None:
        extras["max_tokens"] = max_tokens
    return max_completion_tokens, "max-completion-tokens"


def _read_stop(fields: Mapping[str, Any], spelling: dict[str, Any]) -> tuple[str, ...]:
    stop = fields.get("stop", [])
    if isinstance(stop, str):
        spelling["stop"] = "text"
        return (stop,)
    return tuple(read_strings(stop, "stop"))


def _read_message(data: Mapping[str, Any], where: str) -> Message:
    role = data.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = data.get("content")
    spelling: dict[str, Any] = {} if role == _ROLES[role] else {"role": role}
    blocks: list[Block] = []
    if content is None:
        spelling["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        spelling["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        spelling["content"] = "parts"
        parts = read_objects(content, f"{where}.content")
        blocks = [_read_part(part, f"{where}.content[{index}]") for index, part in enumerate(parts)]
    known = {"role", "content"}
    if role == "tool":
        known.add("tool_call_id")
        inner = tuple(
            block for block in blocks if isinstance(block, (TextBlock, ImageBlock, OtherBlock))
        )
        blocks = [ToolResultBlock(required_string(data, "tool_call_id", where), inner)]
    if role == "assistant" and data.get("tool_calls"):
        known.add("tool_calls")
        calls = read_objects(data["tool_calls"], f"{where}.tool_calls")
        blocks += [
            _read_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    extra = without(data, known)
    if extra:
        spelling["extra"] = extra
    return Message(_ROLES[role], tuple(blocks), {API: spelling})


def _read_part(part: Mapping[str, Any], where: str) -> Block:
    kind = required_string(part, "type", where)
    if kind == "text":
        text = required_string(part, "text", where)
        return TextBlock(text, make_extra(API, without(part, {"type", "text"})))
    image = part.get("image_url")
    if kind == "image_url":
        url = required_string(read_object(image, f"{where}.image_url"), "url", f"{where}.image_url")
        fields = without(part, {"type", "image_url"})
        if len(part["image_url"]) > 1:
            fields["image_url"] = without(part["image_url"], {"url"})
        inline = parse_data_url(url)
        if inline is not None:
            return ImageBlock(data=inline[1], media_type=inline[0], extra=make_extra(API, fields))
        if url:
            return ImageBlock(url=url, extra=make_extra(API, fields))
    return OtherBlock(API, dict(part))


def _read_call(call: Mapping[str, Any], where: str) -> Block:
    if call.get("type", "function") != "function":
        return OtherBlock(CALL, dict(call))
    function = read_object(call.get("function"), f"{where}.function")
    raw = required_string(function, "arguments", f"{where}.function")
    fields = without(call, {"id", "type", "function"})
    if set(function) - {"name", "arguments"}:
        fields["function"] = without(function, {"name", "arguments"})
    spelling = {} if "type" in call else {"type": "absent"}
    if not raw:
        spelling["arguments"] = "empty"
    return ToolUseBlock(
        required_string(call, "id", where),
        required_string(function, "name", f"{where}.function"),
        read_arguments(raw) if raw else {},
        raw,
        make_extra(API, fields, spelling),
    )


def _read_choice(fields: Mapping[str, Any], extras: dict[str, Any]) -> ToolChoice | None:
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice in ("auto", "none", "required"):
            return ToolChoice(choice)  # type: ignore[arg-type]
        raise InputError(
            f"tool_choice: expected auto, none, required or a tool, not {choice!r:.60}"
        )
    function = read_object(choice, "tool_choice").get("function")
    if choice.get("type") == "function" and len(choice) == 2:
        name = required_string(
            read_object(function, "tool_choice.function"), "name", "tool_choice.function"
        )
        if function == {"name": name}:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_format(
    fields: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    if "response_format" not in fields:
        return None
    response_format = read_object(fields["response_format"], "response_format")
    output = read_output(response_format)
    if output is not None:
        spelling["response_format"] = response_format
    known = {"name", "schema", "description", "strict"}
    inner = response_format.get("json_schema", {})
    if output is None or set(response_format) - {"type", "json_schema"} or set(inner) - known:
        extras["response_format"] = response_format
    return output
