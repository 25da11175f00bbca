"""OpenAI Responses: read request bodies."""

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
    required_string,
    without,
)
from modelpact.conversation.message import Block, Message, Role, TextBlock
from modelpact.conversation.openai_responses.items import (
    API,
    ResponsesItem,
    meaningful_fields,
    read_item,
)
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.vocabulary.errors import InputError

STRICT: Final = "strict by default"
"""The `extra` field of a tool that leaves `strict` to the API's default."""
_MODELLED: Final = frozenset(
    [
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
        *("text", "reasoning", "max_output_tokens", "temperature", "top_p", "stream"),
    ]
)


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    extras = {name: value for name, value in body.items() if name not in _MODELLED or value is None}
    fields = {name: value for name, value in body.items() if name not in extras}
    spelling: dict[str, Any] = {}
    for name in ("input", "instructions", "tools", "stream"):
        if name in fields and not fields[name]:
            spelling[name] = fields[name]
    tools = read_objects(fields.get("tools", []), "tools")
    return Request(
        model=required_string(body, "model", "body"),
        messages=(*_read_instructions(fields), *_read_input(fields, spelling)),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=_read_choice(fields, extras),
        parallel_tool_calls=optional_bool(fields, "parallel_tool_calls"),
        output=_read_text(fields, extras, spelling),
        reasoning=_read_reasoning(fields, extras),
        max_tokens=optional_int(fields, "max_output_tokens"),
        token_limit_param="max-output-tokens",
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
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
    fields = without(tool, {"type", "name", "parameters", "description", "strict"})
    strict = optional_bool(tool, "strict")
    if strict is None:
        fields[STRICT] = True
    return Tool(
        required_string(tool, "name", where),
        optional_schema(tool, "parameters"),
        optional_string(tool, "description"),
        strict,
        make_extra(API, fields, tool),
    )


def read_output(form: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that makes the response JSON; return None for any other."""
    kind = required_string(form, "type", "text.format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    return JsonSchema(
        optional_schema(form, "schema"),
        required_string(form, "name", "text.format"),
        optional_string(form, "description"),
        optional_bool(form, "strict"),
    )


def _read_instructions(fields: Mapping[str, Any]) -> list[Message]:
    text = optional_string(fields, "instructions")
    return [Message("system", (TextBlock(text),), {API: {"instructions": True}})] if text else []


def _read_input(fields: Mapping[str, Any], spelling: dict[str, Any]) -> list[Message]:
    content = fields.get("input", [])
    if isinstance(content, str):
        spelling.setdefault("input", "text")
        return [Message("user", (TextBlock(content),))] if content else []
    items = read_objects(content, "input")
    return _group_turns([read_item(item, f"input[{index}]") for index, item in enumerate(items)])


def _group_turns(items: list[ResponsesItem]) -> list[Message]:
    """Group items into messages: consecutive items of the assistant are one message."""
    turns: list[tuple[Role, list[Block], list[dict[str, Any]]]] = []
    for role, blocks, spelling in items:
        if role == "assistant" and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
            turns[-1][2].append(spelling)
        else:
            turns.append((role, list(blocks), [spelling]))
    return [
        Message(role, tuple(blocks), {API: _turn_spelling(spellings)})
        for role, blocks, spellings in turns
    ]


def _turn_spelling(items: list[dict[str, Any]]) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for spelling in items:
        extra |= meaningful_fields(spelling.get("extra", {}))
    return {"items": items, "extra": extra} if extra else {"items": items}


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
    if required_string(read_object(choice, "tool_choice"), "type", "tool_choice") == "function":
        name = required_string(choice, "name", "tool_choice")
        if len(choice) == 2:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_text(
    fields: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    """Read the `format` of `text` if it makes the response JSON; the rest stays in `extras`."""
    if "text" not in fields:
        return None
    remaining = dict(read_object(fields["text"], "text"))
    output = None
    if remaining.get("format") is not None:
        form = read_object(remaining["format"], "text.format")
        output = read_output(form)
        if output is not None:
            spelling["format"] = form
            if not set(form) - {"type", "name", "schema", "description", "strict"}:
                del remaining["format"]
    if remaining or not fields["text"]:
        extras["text"] = remaining
    return output


def _read_reasoning(fields: Mapping[str, Any], extras: dict[str, Any]) -> Reasoning | None:
    if "reasoning" not in fields:
        return None
    reasoning = read_object(fields["reasoning"], "reasoning")
    effort = optional_string(reasoning, "effort")
    remaining = without(reasoning, {"effort"}) if effort else dict(reasoning)
    if remaining or not reasoning:
        extras["reasoning"] = remaining
    return Reasoning(effort) if effort else None
