"""OpenAI Responses: items, of which inputs and outputs are made, to blocks.

An item is a message with parts, a call, a call's result, reasoning, or something that only this
API has. Ids and the status `completed` are the server's bookkeeping: they are kept for the way
back, and nothing is lost where they are not told.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from modelpact.conversation.body_reader import (
    checked,
    from_data_url,
    kept,
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
from modelpact.conversation.openai_shared import RESPONSES, read_arguments
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.conversation.response import REFUSED
from modelpact.vocabulary.errors import InputError

API: Final = RESPONSES
ITEM: Final = "openai-responses item"
"""The `api` of a block that is an item of a kind that only this API has."""
TEXTS: Final = ("input_text", "output_text")

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


class ResponsesItem(NamedTuple):
    """What an item says: who says it, its blocks, and how a message was spelled."""

    role: Role
    blocks: list[Block]
    said: dict[str, Any]


def read_item(item: Mapping[str, Any], where: str) -> ResponsesItem:
    """Read one item of an input or output."""
    kind = None if item.get("type") is None else text_field(item, "type", where)
    if kind == "message" or (kind is None and "role" in item):
        return _read_message(item, where)
    if kind == "function_call":
        return ResponsesItem("assistant", [_read_call(item, where)], {})
    if kind == "function_call_output" and item.get("call_id") is not None:
        return ResponsesItem("tool", [_read_result(item, where)], {})
    if kind == "reasoning":
        return ResponsesItem("assistant", [read_reasoning(item, where)], {})
    if kind is None and "id" not in item:
        raise InputError(f"{where}.type: expected message, function_call or another kind of item")
    back = kind is not None and kind.endswith(("_output", "_response"))
    return ResponsesItem("tool" if back else "assistant", [OtherBlock(ITEM, dict(item))], {})


def told(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields of an item say beyond the server's bookkeeping."""
    left = rest(fields, {"id", "status"} if fields.get("status") == "completed" else {"id"})
    return {name: value for name, value in left.items() if value is not None and value != []}


def _read_message(item: Mapping[str, Any], where: str) -> ResponsesItem:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = item.get("content")
    said: dict[str, Any] = {"parts": [{}]}
    if isinstance(content, str):
        said["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        parts = [
            _read_part(one, usual_text(role), f"{where}.content[{place}]")
            for place, one in enumerate(objects(content, f"{where}.content"))
        ]
        blocks = [block for block, _ in parts]
        said["parts"] = [spelling for _, spelling in parts]
    if role != _ROLES[role]:
        said["role"] = role
    if item.get("type") is None:
        said["type"] = "null" if "type" in item else "absent"
    if extra := rest(item, {"type", "role", "content"}):
        said["extra"] = extra
    return ResponsesItem(_ROLES[role], blocks, said)


def usual_text(role: str) -> str:
    """Return the usual type of a text that a role says."""
    return "output_text" if role == "assistant" else "input_text"


def _read_part(part: Mapping[str, Any], usual: str, where: str) -> tuple[Block, dict[str, Any]]:
    """Read a part of a message; what goes without saying elsewhere is its spelling."""
    kind = text_field(part, "type", where)
    if kind in TEXTS:
        text = text_field(part, "text", where)
        fields, said = _split(rest(part, {"type", "text"}))
        if kind != usual:
            said["type"] = kind
        return TextBlock(text, kept(API, fields)), said
    if kind == "refusal":
        text = text_field(part, "refusal", where)
        fields, said = _split(rest(part, {"type", "refusal"}))
        return TextBlock(text, {**kept(API, fields), **REFUSED}), said
    if kind == "input_image" and part.get("image_url") and part.get("file_id") is None:
        url = text_field(part, "image_url", where)
        fields, said = _split(rest(part, {"type", "image_url"}))
        inline = from_data_url(url)
        if inline is None:
            return ImageBlock(url=url, extra=kept(API, fields)), said
        image = ImageBlock(data=inline[1], media_type=inline[0], extra=kept(API, fields))
        return image, said
    return OtherBlock(API, dict(part)), {}


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a part that say something, and a spelling with those that do not."""
    idle = {
        name: value
        for name, value in fields.items()
        if value is None or value == [] or (name == "detail" and value == "auto")
    }
    return rest(fields, idle), {"idle": idle} if idle else {}


def _read_call(item: Mapping[str, Any], where: str) -> ToolUseBlock:
    raw = text_field(item, "arguments", where)
    fields = rest(item, {"type", "call_id", "name", "arguments"})
    said: dict[str, Any] = {"fields": fields} if fields else {}
    if not raw:
        said["arguments"] = "empty"
    return ToolUseBlock(
        text_field(item, "call_id", where),
        text_field(item, "name", where),
        read_arguments(raw) if raw else {},
        raw,
        kept(API, told(fields), said),
    )


def _read_result(item: Mapping[str, Any], where: str) -> ToolResultBlock:
    output = item.get("output")
    fields = rest(item, {"type", "call_id", "output"})
    said: dict[str, Any] = {"fields": fields} if fields else {}
    if isinstance(output, str):
        inner: list[Any] = [TextBlock(output)]
    else:
        parts = [
            _read_part(one, "input_text", f"{where}.output[{place}]")
            for place, one in enumerate(objects(output, f"{where}.output"))
        ]
        inner = [block for block, _ in parts]
        said["parts"] = [spelling for _, spelling in parts]
    identity = text_field(item, "call_id", where)
    return ToolResultBlock(identity, tuple(inner), extra=kept(API, told(fields), said))


def read_reasoning(item: Mapping[str, Any], where: str) -> ThinkingBlock:
    """Read reasoning: its summary, or else its text; all of it is kept for the way back."""
    text = "\n\n".join(reasoning_texts(item, where))
    fields = rest(item, {"type", "summary", "content"})
    return ThinkingBlock(text, extra=kept(API, told(fields), dict(item)))


def reasoning_texts(item: Mapping[str, Any], where: str) -> list[str]:
    """Return the pieces of reasoning that are shown."""
    for name in ("summary", "content"):
        given = typed(item, name, list, "a list")
        parts = objects(given or [], f"{where}.{name}")
        texts = [one["text"] for one in parts if isinstance(one.get("text"), str)]
        if texts:
            return texts
    return []


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


def read_turns(items: list[ResponsesItem]) -> list[Message]:
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
