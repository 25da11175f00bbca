"""OpenAI Responses: blocks to items."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from modelpact.conversation.body_reader import data_url, rest, said_by, spelled
from modelpact.conversation.fidelity import Losses, TranslatedBody
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_responses.read_request import (
    API,
    ITEM,
    STRICT,
    TEXTS,
    read_output,
    read_reasoning,
    read_tool,
    usual_text,
)
from modelpact.conversation.openai_shared import SHARED, write_arguments
from modelpact.conversation.request import JsonObject, JsonSchema, Request, Tool, ToolChoice

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


ENCRYPTED: Final = "reasoning.encrypted_content"
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_UNSUPPORTED: Final = {
    "n": "this API gives one answer",
    "logprobs": "token probabilities are not carried back",
    "top_logprobs": "token probabilities are not carried back",
    "modalities": "this API answers with text",
    "audio": "this API answers with text",
    "web_search_options": "web search is a tool of its own here",
    "functions": "functions in the old form",
    "function_call": "functions in the old form",
    "tool_choice": "a choice of tools that this API does not have",
    "response_format": "a format that this API does not have",
    "container": "a container of the other API",
    "mcp_servers": "servers that the other API calls by itself",
    "output_config": "a format that this API does not have",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "stream_options": ({}, {"include_usage": True}, {"include_usage": False}),
}
"""Values that say what this API does anyway: its streams always tell the usage."""


def to_openai_responses(request: Request) -> TranslatedBody:
    """Write a request body, and say what it could not say."""
    losses = Losses(API, request.api)
    body: dict[str, Any] = {"model": request.model}
    _write_input(request, body, losses)
    tools = [one for tool in request.tools if (one := _write_tool(tool, losses)) is not None]
    if tools:
        body["tools"] = tools
    if request.tool_choice is not None:
        body["tool_choice"] = _write_choice(request.tool_choice)
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    _write_text(request, body, losses)
    _write_write_reasoning(request, body, losses)
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    for name in ("temperature", "top_p"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if request.top_k is not None:
        losses.lossy("top_k", "this API cannot limit sampling to the top k tokens")
    if request.stop:
        losses.unsupported("stop", "this API has no stop sequences")
    if request.stream:
        body["stream"] = True
    if losses.own:
        empty = {name: value for name, value in request.spelling.items() if not value}
        body = {**rest(request.extras, {"text", "reasoning"}), **empty, **body}
    else:
        _stay_stateless(request, body)
        _carry_extras(request, body, losses)
    return TranslatedBody(body, tuple(losses.listed))


def _stay_stateless(request: Request, body: dict[str, Any]) -> None:
    """Ask for nothing to be stored, as elsewhere; reasoning is handed over, encrypted, instead."""
    body["store"] = request.extras.get("store") is True
    if request.reasoning is not None:
        body["include"] = [ENCRYPTED]


def _write_input(request: Request, body: dict[str, Any], losses: Losses) -> None:
    messages = list(enumerate(request.messages))
    if messages and _are_instructions(messages[0][1], losses):
        body["instructions"] = messages.pop(0)[1].text
    if losses.own and request.spelling.get("input") == "text" and len(messages) == 1:
        (block,) = messages[0][1].content or (None,)
        if messages[0][1].role == "user" and isinstance(block, TextBlock) and not block.extra:
            body["input"] = block.text
            return
    items: list[dict[str, Any]] = []
    for place, message in messages:
        items += _write_write_message(message, f"messages[{place}]", losses)
    if items or not losses.own:
        body["input"] = items
    if messages and messages[-1][1].role == "assistant" and request.api == "anthropic":
        where = f"messages[{messages[-1][0]}]"
        losses.lossy(where, "a begun answer is not continued here, only answered")


def _are_instructions(message: Message, losses: Losses) -> bool:
    """Tell whether a message came as instructions, or can go as such."""
    if message.role != "system" or len(message.content) != 1:
        return False
    block = message.content[0]
    plain = isinstance(block, TextBlock) and not block.extra and bool(block.text)
    if losses.own:
        return plain and bool(said_by(message.metadata, API).get("instructions"))
    return plain and not any(
        said_by(message.metadata, api).get("extra") for api in ("openai-chat", "anthropic")
    )


def _write_write_message(message: Message, where: str, losses: Losses) -> list[dict[str, Any]]:
    losses.note_message(message.metadata, where)
    said = said_by(message.metadata, API).get("items")
    role = "user" if message.role == "tool" else message.role
    blocks = [(f"{where}.content[{place}]", one) for place, one in enumerate(message.content)]
    return list(write_items(role, blocks, said, losses))


def _write_tool(tool: Tool, losses: Losses) -> dict[str, Any] | None:
    original: dict[str, Any] = spelled(tool.extra, API)
    if original and read_tool(original, "tools") == tool:
        return original
    path = f"tools.{tool.name}"
    if tool.builtin:
        losses.unsupported(path, f"{tool.builtin:.60} is a tool that only the other API has")
        return None
    fields = rest(losses.own_fields(tool.extra, path), {STRICT})
    data: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None or STRICT not in tool.extra.get(API, {}):
        # Tools are strict here unless they say otherwise; elsewhere it is the other way round.
        data["strict"] = bool(tool.strict)
    return {**data, **fields}


def _write_choice(choice: ToolChoice) -> Any:
    return {"type": "function", "name": choice.name} if choice.mode == "tool" else choice.mode


def _write_text(request: Request, body: dict[str, Any], losses: Losses) -> None:
    text: dict[str, Any] = {}
    if losses.own and "text" in request.extras:
        body["text"] = text = dict(request.extras["text"] or {})
        if request.extras["text"] is None:
            body["text"] = None
    if request.output is not None:
        text["format"] = _write_output(request.output, request, losses)
        body["text"] = text


def _write_output(
    output: JsonObject | JsonSchema, request: Request, losses: Losses
) -> dict[str, Any]:
    original: dict[str, Any] | None = request.spelling.get("format")
    if losses.own and original and read_output(original) == output:
        return original
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    data: dict[str, Any] = {"type": "json_schema", "name": output.name, "schema": output.schema}
    if output.description:
        data["description"] = output.description
    if output.strict is not None:
        data["strict"] = output.strict
    return data


def _write_write_reasoning(request: Request, body: dict[str, Any], losses: Losses) -> None:
    reasoning = request.reasoning
    if losses.own and "reasoning" in request.extras:
        body["reasoning"] = request.extras["reasoning"]
    if reasoning is None:
        return
    if reasoning.effort:
        body["reasoning"] = {**(body.get("reasoning") or {}), "effort": reasoning.effort}
        if reasoning.effort not in _EFFORTS and not losses.own:
            losses.unsupported("reasoning.effort", f"this API has {', '.join(_EFFORTS)}")
    if reasoning.budget_tokens is not None:
        losses.lossy("reasoning.budget_tokens", "this API has levels of effort, not a budget")
    for name in reasoning.extra:
        losses.lossy(f"reasoning.{name}", "this API has no such setting")


def _carry_extras(request: Request, body: dict[str, Any], losses: Losses) -> None:
    chat = request.api == "openai-chat"
    for name, value in request.extras.items():
        if value is None or value in _NEUTRAL.get(name, ()) or name == "store":
            continue
        if chat and name in SHARED:
            body[name] = value
        elif chat and name == "verbosity":
            body["text"] = {**body.get("text", {}), "verbosity": value}
        elif name == "metadata" and isinstance(value, Mapping) and "user_id" in value:
            if value["user_id"] is not None:
                body["user"] = value["user_id"]
            for other in rest(value, {"user_id"}):
                losses.lossy(f"metadata.{other}", f"only {request.api} has this field")
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")
