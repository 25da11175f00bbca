"""Items of the OpenAI Responses API, read to blocks and written from blocks.

Inputs and outputs are lists of items. An item is a message with parts, a tool call, the result of
a call, reasoning, or something that only this API has. Ids and the status `completed` are the
server's bookkeeping: they are kept so that the same body can be written again, and leaving them out
for another API is no loss.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from modelpact.conversation.fidelity import RESPONSES, LossRecorder
from modelpact.conversation.fields import (
    make_extra,
    optional_field,
    parse_data_url,
    read_arguments,
    read_objects,
    required_string,
    spelling_of,
    without,
    write_arguments,
    write_data_url,
)
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
from modelpact.conversation.response import REFUSED
from modelpact.vocabulary.errors import InputError

API: Final = RESPONSES
ITEM: Final = "openai-responses item"
"""The `api` of an `OtherBlock` that is an item of a kind that only this API has."""

PathAndBlock = tuple[str, Block]
"""A block and its place in the request."""

_TEXT_TYPES: Final = ("input_text", "output_text")
_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


class ResponsesItem(NamedTuple):
    """What was read from an item: its role, its blocks, and the spelling of a message."""

    role: Role
    blocks: list[Block]
    spelling: dict[str, Any]


# Reading.


def read_item(item: Mapping[str, Any], where: str) -> ResponsesItem:
    """Read one item of an input or output."""
    kind = None if item.get("type") is None else required_string(item, "type", where)
    if kind == "message" or (kind is None and "role" in item):
        return _read_message(item, where)
    if kind == "function_call":
        return ResponsesItem("assistant", [_read_call(item, where)], {})
    if kind == "function_call_output" and item.get("call_id") is not None:
        return ResponsesItem("tool", [_read_result(item, where)], {})
    if kind == "reasoning":
        return ResponsesItem("assistant", [_read_reasoning(item, where)], {})
    if kind is None and "id" not in item:
        raise InputError(f"{where}.type: expected message, function_call or another kind of item")
    is_result = kind is not None and kind.endswith(("_output", "_response"))
    block = OtherBlock(ITEM, dict(item))
    return ResponsesItem("tool" if is_result else "assistant", [block], {})


def meaningful_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item without empty ones and without the server's bookkeeping."""
    bookkeeping = {"id", "status"} if fields.get("status") == "completed" else {"id"}
    return {
        name: value for name, value in fields.items() if name not in bookkeeping and value is not None and value != []
    }


def _read_message(item: Mapping[str, Any], where: str) -> ResponsesItem:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = item.get("content")
    spelling: dict[str, Any] = {"parts": [{}]}
    if isinstance(content, str):
        spelling["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        blocks, spelling["parts"] = _read_parts(content, _usual_text_type(role), f"{where}.content")
    if role != _ROLES[role]:
        spelling["role"] = role
    if item.get("type") is None:
        spelling["type"] = "null" if "type" in item else "absent"
    if extra := without(item, {"type", "role", "content"}):
        spelling["extra"] = extra
    return ResponsesItem(_ROLES[role], blocks, spelling)


def _usual_text_type(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _read_parts(content: Any, text_type: str, where: str) -> tuple[list[Block], list[dict[str, Any]]]:
    """Return the blocks of parts, and the spelling of each."""
    parts = [
        _read_part(part, text_type, f"{where}[{index}]") for index, part in enumerate(read_objects(content, where))
    ]
    return [block for block, _ in parts], [spelling for _, spelling in parts]


def _read_part(part: Mapping[str, Any], text_type: str, where: str) -> tuple[Block, dict[str, Any]]:
    kind = required_string(part, "type", where)
    if kind in _TEXT_TYPES:
        text = required_string(part, "text", where)
        fields, spelling = _split_fields(without(part, {"type", "text"}))
        if kind != text_type:
            spelling["type"] = kind
        return TextBlock(text, make_extra(API, fields)), spelling
    if kind == "refusal":
        text = required_string(part, "refusal", where)
        fields, spelling = _split_fields(without(part, {"type", "refusal"}))
        return TextBlock(text, {**make_extra(API, fields), **REFUSED}), spelling
    if kind == "input_image" and part.get("image_url") and part.get("file_id") is None:
        url = required_string(part, "image_url", where)
        fields, spelling = _split_fields(without(part, {"type", "image_url"}))
        extra = make_extra(API, fields)
        inline = parse_data_url(url)
        if inline is None:
            return ImageBlock(url=url, extra=extra), spelling
        return ImageBlock(data=inline[1], media_type=inline[0], extra=extra), spelling
    return OtherBlock(API, dict(part)), {}


def _split_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that mean something, and a spelling that holds the others."""
    idle = {
        name: value
        for name, value in fields.items()
        if value is None or value == [] or (name == "detail" and value == "auto")
    }
    return without(fields, idle), {"idle": idle} if idle else {}


def _read_call(item: Mapping[str, Any], where: str) -> ToolUseBlock:
    raw = required_string(item, "arguments", where)
    fields = without(item, {"type", "call_id", "name", "arguments"})
    spelling: dict[str, Any] = {"fields": fields} if fields else {}
    if not raw:
        spelling["arguments"] = "empty"
    return ToolUseBlock(
        required_string(item, "call_id", where),
        required_string(item, "name", where),
        read_arguments(raw) if raw else {},
        raw,
        make_extra(API, meaningful_fields(fields), spelling),
    )


def _read_result(item: Mapping[str, Any], where: str) -> ToolResultBlock:
    output = item.get("output")
    fields = without(item, {"type", "call_id", "output"})
    spelling: dict[str, Any] = {"fields": fields} if fields else {}
    if isinstance(output, str):
        blocks: list[Any] = [TextBlock(output)]
    else:
        parts, spelling["parts"] = _read_parts(output, "input_text", f"{where}.output")
        blocks = list(parts)
    call_id = required_string(item, "call_id", where)
    extra = make_extra(API, meaningful_fields(fields), spelling)
    return ToolResultBlock(call_id, tuple(blocks), extra=extra)


def _read_reasoning(item: Mapping[str, Any], where: str) -> ThinkingBlock:
    """Read reasoning: its summary, or else its text; the whole item is kept as the spelling."""
    text = "\n\n".join(_reasoning_texts(item, where))
    fields = without(item, {"type", "summary", "content"})
    return ThinkingBlock(text, extra=make_extra(API, meaningful_fields(fields), dict(item)))


def _reasoning_texts(item: Mapping[str, Any], where: str) -> list[str]:
    for name in ("summary", "content"):
        value = optional_field(item, name, list, "a list")
        parts = read_objects(value or [], f"{where}.{name}")
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        if texts:
            return texts
    return []


# Writing.


def write_items(
    role: str, blocks: Sequence[PathAndBlock], spellings: Any, losses: LossRecorder, *, in_response: bool = False
) -> Iterator[dict[str, Any]]:
    """Write a message as items; `spellings` are those of its items, used if they still fit.

    A response has all of the thinking; a request only what this API itself sent before.
    """
    for spelling, group in _group(blocks, spellings):
        if spelling is not None:
            message = _write_message(role, group, spelling, losses)
            if message["content"] != [] or spelling or not group:
                yield message
            continue
        path, block = group[0]
        if in_response and isinstance(block, ThinkingBlock):
            item: dict[str, Any] | None = _write_response_reasoning(block, path, losses)
        else:
            item = _write_single(block, path, losses)
        if item is not None:
            yield item


def spellings_fit(blocks: Sequence[Block], spellings: Any) -> bool:
    """Whether the spellings of items still belong to these blocks."""
    if not isinstance(spellings, list) or not all(isinstance(item, Mapping) for item in spellings):
        return False
    kinds: list[bool] = []
    for spelling in spellings:
        parts = spelling.get("parts", [])
        if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
            return False
        kinds += [False] * len(parts) if "parts" in spelling else [True]
    return kinds == [_is_item(block) for block in blocks]


def is_refusal(block: TextBlock) -> bool:
    """Whether the model refuses to respond with this text."""
    return bool(spelling_of(block.extra, "openai-chat").get("part") == "refusal")


def _group(
    blocks: Sequence[PathAndBlock], spellings: Any
) -> Iterator[tuple[Mapping[str, Any] | None, Sequence[PathAndBlock]]]:
    """Yield the blocks of each item, with the spelling of a message or None for other items."""
    if spellings_fit([block for _, block in blocks], spellings):
        start = 0
        for spelling in spellings:
            end = start + len(spelling.get("parts", [{}]))
            yield (spelling if "parts" in spelling else None), blocks[start:end]
            start = end
        return
    parts: list[PathAndBlock] = []
    for path, block in blocks:
        if _is_item(block):
            if parts:
                yield {}, parts
            parts = []
            yield None, [(path, block)]
        else:
            parts.append((path, block))
    if parts or not blocks:
        yield {}, parts


def _is_item(block: Block) -> bool:
    """Whether a block is an item of its own, and not a part of a message."""
    if isinstance(block, OtherBlock):
        return block.api == ITEM
    return isinstance(block, (ToolUseBlock, ToolResultBlock, ThinkingBlock))


def _write_message(
    role: str, blocks: Sequence[PathAndBlock], spelling: Mapping[str, Any], losses: LossRecorder
) -> dict[str, Any]:
    spellings = spelling.get("parts") or [{}] * len(blocks)
    parts = _write_parts(blocks, spellings, _usual_text_type(role), losses)
    plain = _is_plain(parts) and not spellings[0]
    form = spelling.get("content", "parts" if spelling else "text")
    content = parts[0]["text"] if plain and form == "text" else parts
    kinds: dict[str, dict[str, Any]] = {"absent": {}, "null": {"type": None}}
    kind = kinds.get(spelling.get("type", ""), {"type": "message"})
    message = {"role": spelling.get("role", role), "content": content}
    return {**kind, **message, **spelling.get("extra", {})}


def _write_parts(
    blocks: Sequence[PathAndBlock], spellings: Sequence[Any], text_type: str, losses: LossRecorder
) -> list[dict[str, Any]]:
    parts = [
        _write_part(block, spelling, text_type, path, losses)
        for (path, block), spelling in zip(blocks, spellings, strict=True)
    ]
    return [part for part in parts if part is not None]


def _is_plain(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the parts are one text that can be written as a string."""
    return len(parts) == 1 and parts[0].keys() == {"type", "text"}


def _write_part(
    block: Block, spelling: Mapping[str, Any], text_type: str, path: str, losses: LossRecorder
) -> dict[str, Any] | None:
    idle = spelling.get("idle", {})
    if isinstance(block, TextBlock):
        fields = losses.own_fields(block.extra, path)
        if is_refusal(block):
            return {"type": "refusal", "refusal": block.text, **idle, **fields}
        kind = spelling.get("type") if spelling.get("type") in _TEXT_TYPES else text_type
        return {"type": kind, "text": block.text, **idle, **fields}
    if isinstance(block, ImageBlock):
        url = block.url or write_data_url(block.media_type, block.data)
        extra, detail = _take_chat_detail(block.extra)
        fields = losses.own_fields(extra, path)
        return {"type": "input_image", "image_url": url, **idle, **detail, **fields}
    if isinstance(block, OtherBlock) and block.api == API:
        return block.content
    losses.unsupported_block(block, path)
    return None


def _take_chat_detail(extra: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Take the `detail` of an image out of the Chat Completions fields: it means the same here."""
    fields = extra.get("openai-chat", {})
    inner = fields.get("image_url")
    if not isinstance(inner, Mapping) or inner.keys() != {"detail"}:
        return extra, {}
    return {**extra, "openai-chat": without(fields, {"image_url"})}, dict(inner)


def _write_single(block: Block, path: str, losses: LossRecorder) -> dict[str, Any] | None:
    """Write a block that is an item of its own."""
    if isinstance(block, ToolUseBlock):
        return _write_call(block, path, losses)
    if isinstance(block, ToolResultBlock):
        return _write_result(block, path, losses)
    if isinstance(block, ThinkingBlock):
        return _write_request_reasoning(block, path, losses)
    if isinstance(block, OtherBlock) and block.api == ITEM:
        return block.content
    losses.unsupported_block(block, path)
    return None


def _write_call(block: ToolUseBlock, path: str, losses: LossRecorder) -> dict[str, Any]:
    spelling = spelling_of(block.extra, API)
    arguments = block.raw
    if not arguments and "arguments" not in spelling:
        arguments = write_arguments(block.input, path)
    call = {"type": "function_call", "call_id": block.id, "name": block.name}
    fields = losses.own_fields(block.extra, path)
    return {**call, "arguments": arguments, **spelling.get("fields", {}), **fields}


def _write_result(block: ToolResultBlock, path: str, losses: LossRecorder) -> dict[str, Any]:
    if block.is_error:
        losses.lossy(f"{path}.is_error", "this API has no mark for a failed tool; say it in the text")
    spelling = spelling_of(block.extra, API)
    inner = [(f"{path}.content[{index}]", part) for index, part in enumerate(block.content)]
    spellings = spelling.get("parts", [])
    if len(spellings) != len(inner):
        spellings = [{}] * len(inner)
    parts = _write_parts(inner, spellings, "input_text", losses)
    output: Any = parts
    if "parts" not in spelling and (_is_plain(parts) or not parts):
        output = parts[0]["text"] if parts else ""
    result = {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}
    return {**result, **spelling.get("fields", {}), **losses.own_fields(block.extra, path)}


def _write_request_reasoning(block: ThinkingBlock, path: str, losses: LossRecorder) -> dict[str, Any] | None:
    """Write reasoning that this API sent; unless it is stored there, it must be encrypted."""
    original = spelling_of(block.extra, API)
    if original and (losses.same_api or original.get("encrypted_content")):
        return _reasoning_item(block, original, path)
    losses.lossy(path, "this API accepts earlier thinking only as it encrypted it")
    return None


def _write_response_reasoning(block: ThinkingBlock, path: str, losses: LossRecorder) -> dict[str, Any]:
    if block.signature:
        losses.lossy(f"{path}.signature", "this API has no signed thinking")
    fields = losses.own_fields(block.extra, path)
    return {**_reasoning_item(block, spelling_of(block.extra, API), path), **fields}


def _reasoning_item(block: ThinkingBlock, original: Mapping[str, Any], path: str) -> dict[str, Any]:
    if original and _read_reasoning(original, path).thinking == block.thinking:
        return dict(original)
    summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    return {**without(original, {"content"}), "type": "reasoning", "summary": summary}
