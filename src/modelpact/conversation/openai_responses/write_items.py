"""OpenAI Responses: blocks to items."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelpact.conversation.fidelity import Losses
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_common import write_arguments
from modelpact.conversation.openai_responses.items import (
    API,
    ITEM,
    TEXTS,
    read_reasoning,
    usual_text,
)
from modelpact.conversation.reading import data_url, rest, spelled

Placed = tuple[str, Block]
"""A block with its place in the request."""


def write_items(
    role: str, blocks: Sequence[Placed], said: Any, losses: Losses, *, answer: bool = False
) -> Iterator[dict[str, Any]]:
    """Write the items of a message; `said` is how they were spelled, if that still fits them.

    In an `answer` all thinking is told; in a request only what the API gave before.
    """
    for one, held in _grouped(blocks, said):
        if one is not None:
            message = _write_message(role, held, one, losses)
            if message["content"] != [] or one or not held:
                yield message
            continue
        path, block = held[0]
        if answer and isinstance(block, ThinkingBlock):
            item: dict[str, Any] | None = _tell_reasoning(block, path, losses)
        else:
            item = _write_alone(block, path, losses)
        if item is not None:
            yield item


def _grouped(
    blocks: Sequence[Placed], said: Any
) -> Iterator[tuple[Mapping[str, Any] | None, Sequence[Placed]]]:
    """Yield the blocks of each item, with the spelling of a message or None for other items."""
    if fits([block for _, block in blocks], said):
        start = 0
        for one in said:
            end = start + len(one.get("parts", [{}]))
            yield (one if "parts" in one else None), blocks[start:end]
            start = end
        return
    spoken: list[Placed] = []
    for path, block in blocks:
        if _alone(block):
            if spoken:
                yield {}, spoken
            spoken = []
            yield None, [(path, block)]
        else:
            spoken.append((path, block))
    if spoken or not blocks:
        yield {}, spoken


def fits(blocks: Sequence[Block], said: Any) -> bool:
    """Tell whether blocks are still those of the items that were spelled so."""
    if not isinstance(said, list) or not all(isinstance(one, Mapping) for one in said):
        return False
    kinds: list[bool] = []
    for one in said:
        parts = one.get("parts", [])
        if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
            return False
        kinds += [False] * len(parts) if "parts" in one else [True]
    return kinds == [_alone(block) for block in blocks]


def _alone(block: Block) -> bool:
    """Tell whether a block is an item of its own, and no part of a message."""
    if isinstance(block, OtherBlock):
        return block.api == ITEM
    return isinstance(block, (ToolUseBlock, ToolResultBlock, ThinkingBlock))


def _write_message(
    role: str, blocks: Sequence[Placed], said: Mapping[str, Any], losses: Losses
) -> dict[str, Any]:
    spellings = said.get("parts") or [{}] * len(blocks)
    parts = _parts(blocks, spellings, usual_text(role), losses)
    plain = len(parts) == 1 and parts[0].keys() == {"type", "text"} and not spellings[0]
    how = said.get("content", "parts" if said else "text")
    content = parts[0]["text"] if plain and how == "text" else parts
    kind = {"absent": {}, "null": {"type": None}}.get(said.get("type", ""), {"type": "message"})
    named = {"role": said.get("role", role), "content": content}
    return {**kind, **named, **said.get("extra", {})}


def _parts(
    blocks: Sequence[Placed], spellings: Sequence[Any], usual: str, losses: Losses
) -> list[dict[str, Any]]:
    written = [
        _write_part(block, said, usual, path, losses)
        for (path, block), said in zip(blocks, spellings, strict=True)
    ]
    return [part for part in written if part is not None]


def _write_part(
    block: Block, said: Mapping[str, Any], usual: str, path: str, losses: Losses
) -> dict[str, Any] | None:
    idle = said.get("idle", {})
    if isinstance(block, TextBlock):
        fields = losses.own_fields(block.extra, path)
        if is_refusal(block):
            return {"type": "refusal", "refusal": block.text, **idle, **fields}
        kind = said.get("type") if said.get("type") in TEXTS else usual
        return {"type": kind, "text": block.text, **idle, **fields}
    if isinstance(block, ImageBlock):
        url = block.url or data_url(block.media_type, block.data)
        extra, detail = _chat_detail(block.extra)
        fields = losses.own_fields(extra, path)
        return {"type": "input_image", "image_url": url, **idle, **detail, **fields}
    if isinstance(block, OtherBlock) and block.api == API:
        return block.content
    _refuse(block, path, losses)
    return None


def is_refusal(block: TextBlock) -> bool:
    """Tell whether a text is one by which a model says that it will not answer."""
    return bool(spelled(block.extra, "openai-chat").get("part") == "refusal")


def _chat_detail(extra: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Take the detail out of what Chat Completions says of an image: it means the same here."""
    fields = extra.get("openai-chat", {})
    inner = fields.get("image_url")
    if not isinstance(inner, Mapping) or inner.keys() != {"detail"}:
        return extra, {}
    return {**extra, "openai-chat": rest(fields, {"image_url"})}, dict(inner)


def _write_alone(block: Block, path: str, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, ToolUseBlock):
        return _write_call(block, path, losses)
    if isinstance(block, ToolResultBlock):
        return _write_result(block, path, losses)
    if isinstance(block, ThinkingBlock):
        return _write_reasoning(block, path, losses)
    if isinstance(block, OtherBlock) and block.api == ITEM:
        return block.content
    _refuse(block, path, losses)
    return None


def _refuse(block: Block, path: str, losses: Losses) -> None:
    kind = str(block.content.get("type")) if isinstance(block, OtherBlock) else "foreign"
    losses.unsupported(path, f"a {kind:.60} block has no place here")


def _write_call(block: ToolUseBlock, path: str, losses: Losses) -> dict[str, Any]:
    said = spelled(block.extra, API)
    arguments = block.raw
    if not arguments and "arguments" not in said:
        arguments = write_arguments(block.input, path)
    call = {"type": "function_call", "call_id": block.id, "name": block.name}
    fields = losses.own_fields(block.extra, path)
    return {**call, "arguments": arguments, **said.get("fields", {}), **fields}


def _write_result(block: ToolResultBlock, path: str, losses: Losses) -> dict[str, Any]:
    if block.is_error:
        losses.lossy(f"{path}.is_error", "that the tool failed can only be told in its text")
    said = spelled(block.extra, API)
    inner = [(f"{path}.content[{place}]", one) for place, one in enumerate(block.content)]
    spellings = said.get("parts", [])
    fitting = len(spellings) == len(inner)
    parts = _parts(inner, spellings if fitting else [{}] * len(inner), "input_text", losses)
    plain = len(parts) == 1 and parts[0].keys() == {"type", "text"}
    output: Any = parts
    if "parts" not in said and (plain or not parts):
        output = parts[0]["text"] if parts else ""
    result = {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}
    return {**result, **said.get("fields", {}), **losses.own_fields(block.extra, path)}


def _write_reasoning(block: ThinkingBlock, path: str, losses: Losses) -> dict[str, Any] | None:
    """Write reasoning that this API gave; what is not stored there must be in it, encrypted."""
    original = spelled(block.extra, API)
    if original and (losses.own or original.get("encrypted_content")):
        return _reasoning(block, original, path)
    losses.lossy(path, "earlier thinking can be sent back only as this API encrypted it")
    return None


def _tell_reasoning(block: ThinkingBlock, path: str, losses: Losses) -> dict[str, Any]:
    if block.signature:
        losses.lossy(f"{path}.signature", "this API has no signed thinking")
    fields = losses.own_fields(block.extra, path)
    return {**_reasoning(block, spelled(block.extra, API), path), **fields}


def _reasoning(block: ThinkingBlock, original: Mapping[str, Any], path: str) -> dict[str, Any]:
    if original and read_reasoning(original, path).thinking == block.thinking:
        return dict(original)
    summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    return {**rest(original, {"content"}), "type": "reasoning", "summary": summary}
