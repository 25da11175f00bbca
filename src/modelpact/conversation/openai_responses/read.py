"""OpenAI Responses: request bodies to requests."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.message import Block, Message, Role, TextBlock
from modelpact.conversation.openai_responses.items import API, Item, read_item, told
from modelpact.conversation.reading import checked, kept, objects, rest, text_field, typed
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
"""The name under which a tool says that its strictness was left to the API."""
_MODELLED: Final = frozenset(
    [
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
        *("text", "reasoning", "max_output_tokens", "temperature", "top_p", "stream"),
    ]
)


def from_openai_responses(body: Any) -> Request:
    """Read a request body; what only this API can say is kept in `extras`."""
    body = checked(body, "body")
    extras = {key: value for key, value in body.items() if key not in _MODELLED or value is None}
    held = {key: value for key, value in body.items() if key not in extras}
    spelling: dict[str, Any] = {}
    for name in ("input", "instructions", "tools", "stream"):
        if name in held and not held[name]:
            spelling[name] = held[name]
    tools = objects(held.get("tools", []), "tools")
    return Request(
        model=text_field(body, "model", "body"),
        messages=(*_read_instructions(held), *_read_input(held, spelling)),
        tools=tuple(read_tool(one, f"tools[{place}]") for place, one in enumerate(tools)),
        tool_choice=_read_choice(held, extras),
        parallel_tool_calls=typed(held, "parallel_tool_calls", bool, "true or false"),
        output=_read_text(held, extras, spelling),
        reasoning=_read_effort(held, extras),
        max_tokens=typed(held, "max_output_tokens", int, "a whole number"),
        token_limit_param="max-output-tokens",
        temperature=typed(held, "temperature", (int, float), "a number"),
        top_p=typed(held, "top_p", (int, float), "a number"),
        stream=bool(typed(held, "stream", bool, "true or false")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def _read_instructions(held: Mapping[str, Any]) -> list[Message]:
    given = typed(held, "instructions", str, "a text")
    return [Message("system", (TextBlock(given),), {API: {"instructions": True}})] if given else []


def _read_input(held: Mapping[str, Any], spelling: dict[str, Any]) -> list[Message]:
    given = held.get("input", [])
    if isinstance(given, str):
        spelling.setdefault("input", "text")
        return [Message("user", (TextBlock(given),))] if given else []
    listed = objects(given, "input")
    return read_turns([read_item(one, f"input[{place}]") for place, one in enumerate(listed)])


def read_turns(items: list[Item]) -> list[Message]:
    """Put items together to messages: what the model says in one turn is one message."""
    turns: list[tuple[Role, list[Block], list[dict[str, Any]]]] = []
    for role, blocks, said in items:
        if role == "assistant" and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
            turns[-1][2].append(said)
        else:
            turns.append((role, list(blocks), [said]))
    return [Message(role, tuple(blocks), {API: _said(said)}) for role, blocks, said in turns]


def _said(items: list[dict[str, Any]]) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for one in items:
        extra |= told(one.get("extra", {}))
    return {"items": items, "extra": extra} if extra else {"items": items}


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps its own fields, and how it was spelled."""
    kind = text_field(tool, "type", where)
    if kind != "function":
        return Tool(kind, extra={f"{API} kind": kind, f"{API} spelling": tool})
    fields = rest(tool, {"type", "name", "parameters", "description", "strict"})
    strict = typed(tool, "strict", bool, "true or false")
    if strict is None:
        fields[STRICT] = True
    return Tool(
        text_field(tool, "name", where),
        typed(tool, "parameters", dict, "a JSON Schema") or {},
        typed(tool, "description", str, "a text") or "",
        strict,
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
    if text_field(checked(choice, "tool_choice"), "type", "tool_choice") == "function":
        name = text_field(choice, "name", "tool_choice")
        if len(choice) == 2:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_text(
    held: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    """Read `text`: its format where it holds the answer to JSON; the rest stays in `extras`."""
    if "text" not in held:
        return None
    left = dict(checked(held["text"], "text"))
    output = None
    if left.get("format") is not None:
        given = checked(left["format"], "text.format")
        output = read_output(given)
        if output is not None:
            spelling["format"] = given
            if not set(given) - {"type", "name", "schema", "description", "strict"}:
                del left["format"]
    if left or not held["text"]:
        extras["text"] = left
    return output


def read_output(given: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that holds the answer to JSON, or return None."""
    kind = text_field(given, "type", "text.format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    return JsonSchema(
        typed(given, "schema", dict, "a JSON Schema") or {},
        text_field(given, "name", "text.format"),
        typed(given, "description", str, "a text") or "",
        typed(given, "strict", bool, "true or false"),
    )


def _read_effort(held: Mapping[str, Any], extras: dict[str, Any]) -> Reasoning | None:
    if "reasoning" not in held:
        return None
    given = checked(held["reasoning"], "reasoning")
    effort = typed(given, "effort", str, "a text")
    left = rest(given, {"effort"}) if effort else dict(given)
    if left or not given:
        extras["reasoning"] = left
    return Reasoning(effort) if effort else None
