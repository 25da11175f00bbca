"""Messages: a role and blocks of content, independent of any API."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.vocabulary.errors import InputError, UnknownName

Role = Literal["system", "user", "assistant", "tool"]
ROLES: Final[tuple[Role, ...]] = ("system", "user", "assistant", "tool")


class TextBlock(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """Text. `extra` holds fields that only one API has, by the name of the API."""

    text: str
    extra: dict[str, Any] = {}


class ImageBlock(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """An image: by URL, or as base64 data with its media type."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    extra: dict[str, Any] = {}


class ToolUseBlock(msgspec.Struct, frozen=True, tag="tool_use", omit_defaults=True):
    """A tool call. `raw` is the text of the arguments, if an API sent them as text."""

    id: str
    name: str
    input: Any
    raw: str = ""
    extra: dict[str, Any] = {}


class ToolResultBlock(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """The result of a tool call."""

    tool_use_id: str
    content: tuple["TextBlock | ImageBlock | OtherBlock", ...] = ()
    is_error: bool = False
    extra: dict[str, Any] = {}


class ThinkingBlock(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """The thinking of the model before it responded."""

    thinking: str
    signature: str = ""
    extra: dict[str, Any] = {}


class OtherBlock(msgspec.Struct, frozen=True, tag="other"):
    """A block of a kind that only one API has. Its content is not changed."""

    api: str
    content: dict[str, Any]


Block = TextBlock | ImageBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | OtherBlock


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `metadata` is for the caller; readers keep the spelling of an API there too."""

    role: Role
    content: tuple[Block, ...] = ()
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The joined text of all text blocks."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class Conversation(msgspec.Struct, omit_defaults=True):
    """Messages in order. The messages are immutable; the list may grow."""

    messages: list[Message] = []
    metadata: dict[str, Any] = {}

    def copy(self) -> "Conversation":
        """Return a new conversation with the same messages."""
        return Conversation(list(self.messages), dict(self.metadata))


_FIELDS: Final[Mapping[str, Mapping[str, type | tuple[type, ...]]]] = {
    "text": {"text": str, "extra": dict},
    "image": {"url": str, "data": str, "media_type": str, "extra": dict},
    "tool_use": {"id": str, "name": str, "input": object, "raw": str, "extra": dict},
    "tool_result": {"tool_use_id": str, "content": (str, list), "is_error": bool, "extra": dict},
    "thinking": {"thinking": str, "signature": str, "extra": dict},
    "other": {"api": str, "content": dict},
}
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": (),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking",),
    "other": ("api", "content"),
}
_MAX_DEPTH: Final = 100


def read_conversation(data: Any) -> Conversation:
    """Read `{"messages":[{"role","content":[blocks]}]}`; errors name the place."""
    if not isinstance(data, Mapping):
        raise InputError(f"conversation: expected an object, not {type(data).__name__}")
    check_values(data, "conversation")
    for field in data:
        if field not in ("messages", "metadata"):
            raise InputError(f"conversation: no field {field!r:.60}; there are messages, metadata")
    items = data.get("messages")
    if not isinstance(items, list):
        raise InputError("conversation.messages: expected a list")
    metadata = _read_metadata(data, "conversation")
    messages = [_read_message(item, f"messages[{index}]") for index, item in enumerate(items)]
    return Conversation(messages, metadata)


def check_values(data: Any, where: str) -> None:
    """Refuse values that cannot be written as JSON: deep nesting, and strings with surrogates."""
    level, depth = [data], 0
    while level:
        if depth > _MAX_DEPTH:
            raise InputError(f"{where}: nested more than {_MAX_DEPTH} deep")
        depth += 1
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str):
                try:
                    value.encode()
                except UnicodeEncodeError:
                    raise InputError(f"{where}: not valid Unicode: {value!r:.60}") from None
            elif isinstance(value, Mapping):
                inner += value.keys()
                inner += value.values()
            elif isinstance(value, (list, tuple)):
                inner += value
        level = inner


def _read_metadata(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{where}.metadata: expected an object")
    return metadata


def _read_message(data: Any, where: str) -> Message:
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: expected an object, not {type(data).__name__}")
    for field in data:
        if field not in ("role", "content", "metadata"):
            raise InputError(f"{where}: no field {field!r:.60}; there are role, content, metadata")
    role = data.get("role")
    if role not in ROLES:
        raise InputError(f"{where}.role: expected {', '.join(ROLES)}, not {role!r:.60}")
    content = data.get("content", [])
    if isinstance(content, str):
        blocks: tuple[Block, ...] = (TextBlock(content),)
    elif isinstance(content, list):
        blocks = tuple(read_block(block, f"{where}.content[{index}]") for index, block in enumerate(content))
    else:
        raise InputError(f"{where}.content: expected a list of blocks")
    return Message(role, blocks, _read_metadata(data, where))


def read_block(data: Any, where: str) -> Block:
    """Read one block in the form of `write_conversation`."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: expected a block, not {type(data).__name__}")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise UnknownName(f"block type at {where}.type", kind, _FIELDS)
    fields = _FIELDS[kind]
    values: dict[str, Any] = {}
    for field, value in data.items():
        if field == "type":
            continue
        if field not in fields:
            raise InputError(f"{where}: a {kind} block has no {field!r:.60}")
        if not isinstance(value, fields[field]):
            raise InputError(f"{where}.{field}: unexpected {type(value).__name__}")
        values[field] = value
    for field in _REQUIRED[kind]:
        if field not in values:
            raise InputError(f"{where}: a {kind} block needs {field}")
    return _make_block(kind, values, where)


def _make_block(kind: str, values: dict[str, Any], where: str) -> Block:
    if kind == "text":
        return TextBlock(**values)
    if kind == "image":
        if bool(values.get("url")) == bool(values.get("data")):
            raise InputError(f"{where}: an image needs either url or data")
        return ImageBlock(**values)
    if kind == "tool_use":
        return ToolUseBlock(**values)
    if kind == "thinking":
        return ThinkingBlock(**values)
    if kind == "other":
        return OtherBlock(**values)
    content = values.get("content", [])
    if isinstance(content, str):
        inner: list[Block] = [TextBlock(content)]
    else:
        inner = [read_block(part, f"{where}.content[{n}]") for n, part in enumerate(content)]
    for part in inner:
        if not isinstance(part, (TextBlock, ImageBlock, OtherBlock)):
            raise InputError(f"{where}.content: a tool result is made of text and images")
    return ToolResultBlock(**{**values, "content": tuple(inner)})


def write_conversation(conversation: Conversation) -> dict[str, Any]:
    """Write a conversation in the form that `read_conversation` reads."""
    data: dict[str, Any] = {
        "messages": [
            {
                "role": message.role,
                "content": [_write_block(block) for block in message.content],
                **({"metadata": _to_builtins(message.metadata)} if message.metadata else {}),
            }
            for message in conversation.messages
        ]
    }
    if conversation.metadata:
        data["metadata"] = _to_builtins(conversation.metadata)
    return data


def _to_builtins(metadata: dict[str, Any]) -> dict[str, Any]:
    builtins: dict[str, Any] = msgspec.to_builtins(metadata)
    return builtins


def _write_block(block: Block) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(block)
    if isinstance(block, ToolResultBlock):
        data["content"] = [_write_block(part) for part in block.content]
    return data
