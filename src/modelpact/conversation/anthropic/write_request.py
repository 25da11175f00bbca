"""Anthropic Messages: requests to request bodies, and what they cannot say."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.anthropic.read_request import API, MODES, read_tool
from modelpact.conversation.body_reader import rest, said_by, spelled
from modelpact.conversation.fidelity import Losses, TranslatedBody
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_shared import RESPONSES, leave_responses
from modelpact.conversation.request import JsonObject, JsonSchema, Request, Tool

DEFAULT_MAX_TOKENS: Final = 4096
_WIRE_MODES: Final = {mode: wire for wire, mode in MODES.items()}
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_UNSUPPORTED: Final = {
    "n": "this API gives one answer",
    "logprobs": "this API gives no token probabilities",
    "top_logprobs": "this API gives no token probabilities",
    "modalities": "this API answers with text",
    "audio": "this API answers with text",
    "web_search_options": "web search is a tool of its own here",
    "functions": "functions in the old form",
    "function_call": "functions in the old form",
    "tool_choice": "a choice of tools that this API does not have",
    "response_format": "a format that this API does not have",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "store": (False,),
    "stream_options": ({}, {"include_usage": True}, {"include_usage": False}),
}
"""Values that say what this API does anyway."""


def to_anthropic(request: Request) -> TranslatedBody:
    """Write a request body, and say what it could not say."""
    losses = Losses(API, request.api)
    body: dict[str, Any] = {"model": request.model}
    system, spoken = _split_system(request, losses)
    if system:
        plain = len(system) == 1 and set(system[0]) == {"type", "text"}
        as_text = plain and request.spelling.get("system", "text") == "text"
        body["system"] = system[0]["text"] if as_text else system
    elif losses.own and request.spelling.get("system") == "blocks":
        body["system"] = []
    body["messages"] = _write_messages(spoken, losses)
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif not losses.own:
        body["max_tokens"] = DEFAULT_MAX_TOKENS
        losses.lossy("max_tokens", f"this API needs a limit: {DEFAULT_MAX_TOKENS} was set")
    tools = [one for tool in request.tools if (one := _write_tool(tool, losses)) is not None]
    if tools:
        body["tools"] = tools
    _write_choice(request, body, losses)
    _write_config(request, body, losses)
    for name in ("temperature", "top_p", "top_k"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if not losses.own and request.temperature is not None and request.temperature > 1:
        losses.unsupported("temperature", "this API takes temperatures from 0 to 1")
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.stream:
        body["stream"] = True
    if losses.own:
        empty = {name: value for name, value in request.spelling.items() if not value}
        extras = rest(request.extras, {"output_config"} if "output_config" in body else ())
        body = {**extras, **empty, **body}
    else:
        _carry_extras(request, body, losses)
    return TranslatedBody(body, tuple(losses.listed))


def _split_system(
    request: Request, losses: Losses
) -> tuple[list[dict[str, Any]], list[tuple[str, Message]]]:
    system: list[dict[str, Any]] = []
    spoken: list[tuple[str, Message]] = []
    for place, message in enumerate(request.messages):
        where = f"messages[{place}]"
        if message.role != "system" or said_by(message.metadata, API).get("placed"):
            spoken.append((where, message))
            continue
        if spoken:
            losses.lossy(where, "instructions in mid-conversation were moved to its start")
        losses.note_message(message.metadata, where)
        system += _parts(message.content, where, losses)
    return system, spoken


def _write_messages(spoken: list[tuple[str, Message]], losses: Losses) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    before: str | None = None
    for where, message in spoken:
        losses.note_message(message.metadata, where)
        said = said_by(message.metadata, API)
        parts = _parts(message.content, where, losses)
        role = "user" if message.role == "tool" else message.role
        follows = message.role == "tool" and before == "tool" and not said.get("alone")
        if (follows or said.get("joined")) and written and before == "tool":
            written[-1]["content"] = [*written[-1]["content"], *parts]
        else:
            foreign = said_by(message.metadata, "openai-chat").get("content") == "text"
            plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
            as_text = plain and (said.get("content") == "text" or foreign)
            content: Any = parts[0]["text"] if as_text else parts
            written.append({"role": role, "content": content, **said.get("extra", {})})
        before = message.role
    return written


def _parts(blocks: tuple[Block, ...], where: str, losses: Losses) -> list[dict[str, Any]]:
    parts = [_write(one, f"{where}.content[{n}]", losses) for n, one in enumerate(blocks)]
    return [part for part in parts if part is not None]


def _write(block: Block, path: str, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        fields = losses.own_fields(block.extra, path, ("cache_control",))
        return {"type": "text", "text": block.text, **fields}
    if isinstance(block, ImageBlock):
        source = (
            {"type": "url", "url": block.url}
            if block.url
            else {"type": "base64", "media_type": block.media_type, "data": block.data}
        )
        fields = losses.own_fields(block.extra, path, ("cache_control",))
        return {"type": "image", "source": source, **fields}
    if isinstance(block, ToolUseBlock):
        given = block.input
        if not losses.own and not isinstance(given, dict):
            losses.unsupported(path, f"the arguments of {block.name:.60} are not a JSON object")
            given = {} if given is None else given
        fields = losses.own_fields(block.extra, path, ("cache_control",))
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": given, **fields}
    if isinstance(block, ToolResultBlock):
        return _write_result(block, path, losses)
    if isinstance(block, ThinkingBlock):
        if not block.signature and not losses.own:
            losses.lossy(path, "earlier thinking can be sent back only as this API signed it")
            return None
        signed = {"signature": block.signature} if block.signature else {}
        fields = losses.own_fields(block.extra, path)
        return {"type": "thinking", "thinking": block.thinking, **signed, **fields}
    if block.api == API:
        return block.content
    kind = str(block.content.get("type", "foreign"))
    losses.unsupported(path, f"a {kind:.60} part has no place here")
    return None


def _write_result(block: ToolResultBlock, path: str, losses: Losses) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    said = spelled(block.extra, API)
    how = said.get("content", "text")
    parts = _parts(block.content, path, losses)
    if parts or how in ("blocks", "text"):
        plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
        data["content"] = parts[0]["text"] if plain and how == "text" else parts
    elif how == "null":
        data["content"] = None
    if block.is_error or "is_error" in said:
        data["is_error"] = block.is_error or said["is_error"]
    return {**data, **losses.own_fields(block.extra, path, ("cache_control",))}


def _write_tool(tool: Tool, losses: Losses) -> dict[str, Any] | None:
    original: dict[str, Any] = spelled(tool.extra, API)
    if original and read_tool(original, "tools") == tool:
        return original
    path = f"tools.{tool.name}"
    if tool.builtin:
        losses.unsupported(path, f"{tool.builtin:.60} is a tool that only the other API has")
        return None
    data: dict[str, Any] = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None:
        data["strict"] = tool.strict
    return {**data, **losses.own_fields(tool.extra, path, ("cache_control",))}


def _write_choice(request: Request, body: dict[str, Any], losses: Losses) -> None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if choice is None and parallel is not False:
        return
    data: dict[str, Any] = {"type": "auto" if choice is None else _WIRE_MODES[choice.mode]}
    if choice is not None and choice.mode == "tool":
        data["name"] = choice.name
    if parallel is not None and (losses.own or data["type"] != "none"):
        data["disable_parallel_tool_use"] = not parallel
    body["tool_choice"] = data


def _write_config(request: Request, body: dict[str, Any], losses: Losses) -> None:
    config: dict[str, Any] = {}
    output, reasoning = request.output, request.reasoning
    if isinstance(output, JsonSchema):
        config["format"] = {"type": "json_schema", "schema": _titled(output, losses)}
    elif isinstance(output, JsonObject):
        losses.unsupported("output", "this API holds to a schema or to nothing")
    if reasoning is not None:
        if reasoning.effort:
            config["effort"] = reasoning.effort
            if reasoning.effort not in _EFFORTS and not losses.own:
                losses.unsupported("reasoning.effort", f"this API has {', '.join(_EFFORTS)}")
        if reasoning.budget_tokens is not None or reasoning.extra:
            thinking: dict[str, Any] = dict(reasoning.extra) or {"type": "enabled"}
            if reasoning.budget_tokens is not None:
                thinking["budget_tokens"] = reasoning.budget_tokens
            body["thinking"] = thinking
    if losses.own and isinstance(request.extras.get("output_config"), dict):
        config = {**config, **request.extras["output_config"]}
    if config:
        body["output_config"] = config


def _titled(output: JsonSchema, losses: Losses) -> dict[str, Any]:
    """Return a schema that says its name and description itself: they have no place beside it."""
    said = {"title": "" if output.name == "answer" else output.name}
    said["description"] = output.description
    given = {name: text for name, text in said.items() if text}
    lost = [name for name, text in given.items() if output.schema.get(name, text) != text]
    if output.strict is False:
        lost.append("leniency")
    if lost:
        losses.lossy("output", f"a schema has no {' or '.join(lost)} beside its own here")
    return {**given, **output.schema}


def _carry_extras(request: Request, body: dict[str, Any], losses: Losses) -> None:
    if request.api == RESPONSES:
        found = leave_responses(request.extras, losses, {"user": "user"})
        body |= {"metadata": {"user_id": found["user"]}} if found else {}
        return
    for name, value in request.extras.items():
        if name == "user" and isinstance(value, str):
            body["metadata"] = {"user_id": value}
        elif value is None or value in _NEUTRAL.get(name, ()):
            continue
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")
