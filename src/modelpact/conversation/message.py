"""Messages: who said what, in blocks."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.vocabulary.errors import InputError, UnknownName

Role = Literal["system", "user", "assistant", "tool"]
ROLES: Final[tuple[Role, ...]] = ("system", "user", "assistant", "tool")


class TextBlock(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """Text. `extra` holds what an API says of the block beside it."""

    text: str
    extra: dict[str, Any] = {}


class ImageBlock(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """An image: by URL, or as base64 data with its media type."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    extra: dict[str, Any] = {}


class ToolUseBlock(msgspec.Struct, frozen=True, tag="tool_use", omit_defaults=True):
    """A call of a tool. `raw` is the arguments' text where an API sent one that differs."""

    id: str
    name: str
    input: Any
    raw: str = ""
    extra: dict[str, Any] = {}


class ToolResultBlock(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """What a tool answered."""

    tool_use_id: str
    content: tuple["TextBlock | ImageBlock | OtherBlock", ...] = ()
    is_error: bool = False
    extra: dict[str, Any] = {}


class ThinkingBlock(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """What the model thought before it answered."""

    thinking: str
    signature: str = ""
    extra: dict[str, Any] = {}


class OtherBlock(msgspec.Struct, frozen=True, tag="other"):
    """A block that only one API has a word for, kept as it stands."""

    api: str
    content: dict[str, Any]


Block = TextBlock | ImageBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | OtherBlock


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `metadata` is for the caller and for how an API spelled the message."""

    role: Role
    content: tuple[Block, ...] = ()
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The text of all text blocks together."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class Conversation(msgspec.Struct, omit_defaults=True):
    """Messages in order. The messages are values; the list may grow."""

    messages: list[Message] = []
    metadata: dict[str, Any] = {}

    def copy(self) -> "Conversation":
        """Return a conversation of its own with the same messages."""
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
_DEEPEST: Final = 100


def read_conversation(data: Any) -> Conversation:
    """Read `{"messages":[{"role","content":[blocks]}]}`; errors name the place."""
    if not isinstance(data, Mapping):
        raise InputError(f"conversation: expected an object, not {type(data).__name__}")
    check_values(data, "conversation")
    for field in data:
        if field not in ("messages", "metadata"):
            raise InputError(f"conversation: no field {field!r:.60}; there are messages, metadata")
    listed = data.get("messages")
    if not isinstance(listed, list):
        raise InputError("conversation.messages: expected a list")
    metadata = _metadata(data, "conversation")
    messages = [_message(one, f"messages[{number}]") for number, one in enumerate(listed)]
    return Conversation(messages, metadata)


def check_values(data: Any, where: str) -> None:
    """Refuse what cannot be written again: endless nesting, and halves of characters."""
    level, depth = [data], 0
    while level:
        if depth > _DEEPEST:
            raise InputError(f"{where}: nested more than {_DEEPEST} deep")
        depth += 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, str):
                try:
                    one.encode()
                except UnicodeEncodeError:
                    raise InputError(f"{where}: a text is not valid Unicode: {one!r:.60}") from None
            elif isinstance(one, Mapping):
                inner += one.keys()
                inner += one.values()
            elif isinstance(one, (list, tuple)):
                inner += one
        level = inner


def _metadata(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{where}.metadata: expected an object")
    return metadata


def _message(data: Any, where: str) -> Message:
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
        blocks = tuple(
            read_block(one, f"{where}.content[{number}]") for number, one in enumerate(content)
        )
    else:
        raise InputError(f"{where}.content: expected a list of blocks")
    return Message(role, blocks, _metadata(data, where))


def read_block(data: Any, where: str) -> Block:
    """Read one block of our own form."""
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
            raise InputError(f"{where}.{field}: a {type(value).__name__} does not belong there")
        values[field] = value
    for field in _REQUIRED[kind]:
        if field not in values:
            raise InputError(f"{where}: a {kind} block needs {field}")
    return _block(kind, values, where)


def _block(kind: str, values: dict[str, Any], where: str) -> Block:
    if kind == "text":
        return TextBlock(**values)
    if kind == "image":
        if bool(values.get("url")) == bool(values.get("data")):
            raise InputError(f"{where}: an image has either url or data")
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
        inner = [read_block(one, f"{where}.content[{n}]") for n, one in enumerate(content)]
    for one in inner:
        if not isinstance(one, (TextBlock, ImageBlock, OtherBlock)):
            raise InputError(f"{where}.content: a tool's result is made of text and images")
    return ToolResultBlock(**{**values, "content": tuple(inner)})


def write_conversation(conversation: Conversation) -> dict[str, Any]:
    """Write a conversation in the form that `read_conversation` reads."""
    data: dict[str, Any] = {
        "messages": [
            {
                "role": message.role,
                "content": [_write_block(block) for block in message.content],
                **({"metadata": _plain(message.metadata)} if message.metadata else {}),
            }
            for message in conversation.messages
        ]
    }
    if conversation.metadata:
        data["metadata"] = _plain(conversation.metadata)
    return data


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(metadata)
    return found


def _write_block(block: Block) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(block)
    if isinstance(block, ToolResultBlock):
        data["content"] = [_write_block(one) for one in block.content]
    return data
