"""OpenAI Responses: items, of which inputs and outputs are made, to blocks.

An item is a message with parts, a call, a call's result, reasoning, or something that only this
API has. Ids and the status `completed` are the server's bookkeeping: they are kept for the way
back, and nothing is lost where they are not told.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from modelpact.conversation.message import (
    Block,
    ImageBlock,
    OtherBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_common import RESPONSES, read_arguments
from modelpact.conversation.reading import (
    from_data_url,
    kept,
    objects,
    rest,
    text_field,
    typed,
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


class Item(NamedTuple):
    """What an item says: who says it, its blocks, and how a message was spelled."""

    role: Role
    blocks: list[Block]
    said: dict[str, Any]


def read_item(item: Mapping[str, Any], where: str) -> Item:
    """Read one item of an input or output."""
    kind = None if item.get("type") is None else text_field(item, "type", where)
    if kind == "message" or (kind is None and "role" in item):
        return _read_message(item, where)
    if kind == "function_call":
        return Item("assistant", [_read_call(item, where)], {})
    if kind == "function_call_output" and item.get("call_id") is not None:
        return Item("tool", [_read_result(item, where)], {})
    if kind == "reasoning":
        return Item("assistant", [read_reasoning(item, where)], {})
    if kind is None and "id" not in item:
        raise InputError(f"{where}.type: expected message, function_call or another kind of item")
    back = kind is not None and kind.endswith(("_output", "_response"))
    return Item("tool" if back else "assistant", [OtherBlock(ITEM, dict(item))], {})


def told(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields of an item say beyond the server's bookkeeping."""
    left = rest(fields, {"id", "status"} if fields.get("status") == "completed" else {"id"})
    return {name: value for name, value in left.items() if value is not None and value != []}


def _read_message(item: Mapping[str, Any], where: str) -> Item:
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
    return Item(_ROLES[role], blocks, said)


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
