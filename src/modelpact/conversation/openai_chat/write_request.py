"""OpenAI Chat Completions: requests to request bodies, and what they cannot say."""

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
from modelpact.conversation.openai_chat.read_request import API, CALL, read_output, read_tool
from modelpact.conversation.openai_shared import RESPONSES, SHARED, leave_responses, write_arguments
from modelpact.conversation.request import JsonObject, JsonSchema, Request, Tool, ToolChoice

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
_UNSUPPORTED: Final = {
    "container": "a container of the other API",
    "mcp_servers": "servers that the other API calls by itself",
    "tool_choice": "a choice of tools that this API does not have",
    "output_config": "a format that this API does not have",
}

_OF_RESPONSES: Final = {**{name: name for name in SHARED}, "text.verbosity": "verbosity"}


def to_openai_chat(request: Request) -> TranslatedBody:
    """Write a request body, and say what it could not say."""
    losses = Losses(API, request.api)
    body: dict[str, Any] = {"model": request.model, "messages": []}
    for place, message in enumerate(request.messages):
        body["messages"].extend(_write_message(message, f"messages[{place}]", losses))
    if request.messages and request.messages[-1].role == "assistant" and request.api == "anthropic":
        where = f"messages[{len(request.messages) - 1}]"
        losses.lossy(where, "a begun answer is not continued here, only answered")
    tools = [one for tool in request.tools if (one := _write_tool(tool, losses)) is not None]
    if tools:
        body["tools"] = tools
    if request.tool_choice is not None:
        body["tool_choice"] = _write_choice(request.tool_choice)
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output is not None:
        body["response_format"] = _write_output(request.output, request, losses)
    _write_reasoning(request, body, losses)
    if request.max_tokens is not None:
        completion = request.token_limit_param == "max-completion-tokens"
        body["max_completion_tokens" if completion else "max_tokens"] = request.max_tokens
    for name in ("temperature", "top_p"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if request.top_k is not None:
        losses.lossy("top_k", "this API cannot limit sampling to the top k tokens")
    if request.stop:
        plain = losses.own and request.spelling.get("stop") == "text" and len(request.stop) == 1
        body["stop"] = request.stop[0] if plain else list(request.stop)
        if len(request.stop) > 4 and not losses.own:
            losses.unsupported("stop", "this API takes at most four stop sequences")
    if request.stream:
        body["stream"] = True
    if losses.own:
        empty = {name: value for name, value in request.spelling.items() if not value}
        body = {**request.extras, **empty, **body}
    else:
        _carry_extras(request, body, losses)
    return TranslatedBody(body, tuple(losses.listed))


def _carry_extras(request: Request, body: dict[str, Any], losses: Losses) -> None:
    if request.api == RESPONSES:
        body |= leave_responses(request.extras, losses, _OF_RESPONSES)
        return
    for name, value in request.extras.items():
        if name == "metadata" and isinstance(value, Mapping) and "user_id" in value:
            if value["user_id"] is not None:
                body["user"] = value["user_id"]
            for other in rest(value, {"user_id"}):
                losses.lossy(f"metadata.{other}", f"only {request.api} has this field")
        elif value is None:
            continue
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")


def _write_reasoning(request: Request, body: dict[str, Any], losses: Losses) -> None:
    reasoning = request.reasoning
    if reasoning is None:
        return
    if reasoning.effort:
        body["reasoning_effort"] = reasoning.effort
        if reasoning.effort not in _EFFORTS and not losses.own:
            losses.unsupported("reasoning.effort", f"this API has {', '.join(_EFFORTS)}")
    if reasoning.budget_tokens is not None:
        losses.lossy("reasoning.budget_tokens", "this API has levels of effort, not a budget")
    for name in reasoning.extra:
        losses.lossy(f"reasoning.{name}", "this API has no such setting")


def _write_message(message: Message, where: str, losses: Losses) -> Iterator[dict[str, Any]]:
    said = said_by(message.metadata, API)
    losses.note_message(message.metadata, where)
    others: list[tuple[str, Block]] = []
    results = False
    for place, block in enumerate(message.content):
        path = f"{where}.content[{place}]"
        if isinstance(block, ToolResultBlock):
            results = True
            yield {**_write_result(block, said, path, losses), **said.get("extra", {})}
        else:
            others.append((path, block))
    if not results or others:
        role = "user" if message.role == "tool" else message.role
        yield _write_plain(role, others, {} if results else said, losses)


def _write_result(
    block: ToolResultBlock, said: Mapping[str, Any], path: str, losses: Losses
) -> dict[str, Any]:
    if block.is_error:
        losses.lossy(f"{path}.is_error", "that the tool failed can only be told in its text")
    fields = losses.own_fields(block.extra, path)
    inner = [(f"{path}.content[{place}]", one) for place, one in enumerate(block.content)]
    if not losses.own:
        for where, one in inner:
            if isinstance(one, ImageBlock):
                losses.unsupported(where, "a tool's result is text here")
        inner = [(where, one) for where, one in inner if not isinstance(one, ImageBlock)]
    data = {"role": "tool", "tool_call_id": block.tool_use_id}
    return {**data, **_content(inner, said.get("content"), "", losses), **fields}


def _write_plain(
    role: str, blocks: Sequence[tuple[str, Block]], said: Mapping[str, Any], losses: Losses
) -> dict[str, Any]:
    data: dict[str, Any] = {"role": said.get("role", role)}
    calls: list[dict[str, Any]] = []
    spoken: list[tuple[str, Block]] = []
    for path, block in blocks:
        if isinstance(block, ToolUseBlock):
            calls.append(_write_call(block, path, losses))
        elif isinstance(block, OtherBlock) and block.api == CALL:
            calls.append(block.content)
        else:
            if calls and isinstance(block, TextBlock):
                losses.lossy(path, "text after a tool call is moved before it")
            spoken.append((path, block))
    data |= _content(spoken, said.get("content"), None if calls else "", losses)
    if calls:
        data["tool_calls"] = calls
    return {**data, **said.get("extra", {})}


def _content(
    blocks: Sequence[tuple[str, Block]], how: str | None, empty: str | None, losses: Losses
) -> dict[str, Any]:
    """Return the `content` field as it was spelled, or as is usual; none where it was absent."""
    parts = [part for path, one in blocks if (part := _write_part(one, path, losses)) is not None]
    if not parts:
        if how == "absent":
            return {}
        return {"content": {"text": "", "parts": [], "null": None}.get(how or "", empty)}
    plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
    return {"content": parts[0]["text"] if plain and how != "parts" else parts}


def _write_part(block: Block, path: str, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text, **losses.own_fields(block.extra, path)}
    if isinstance(block, ImageBlock):
        url = block.url or data_url(block.media_type, block.data)
        shared = ("detail",) if RESPONSES in block.extra else ()
        fields = losses.own_fields(block.extra, path, shared)
        inner = fields.pop("image_url", {})
        if shared and "detail" in fields:
            inner = {"detail": fields.pop("detail"), **inner}
        return {"type": "image_url", "image_url": {"url": url, **inner}, **fields}
    if isinstance(block, ThinkingBlock):
        losses.lossy(path, "earlier thinking cannot be sent back")
        return None
    if isinstance(block, OtherBlock) and block.api == API:
        return block.content
    kind = str(block.content.get("type")) if isinstance(block, OtherBlock) else "foreign"
    losses.unsupported(path, f"a {kind:.60} block has no place here")
    return None


def _write_call(block: ToolUseBlock, path: str, losses: Losses) -> dict[str, Any]:
    said = spelled(block.extra, API)
    arguments = block.raw
    if not arguments and "arguments" not in said:
        arguments = write_arguments(block.input, path)
    fields = losses.own_fields(block.extra, path)
    inner = fields.pop("function", {})
    kind = {} if said.get("type") == "absent" else {"type": "function"}
    function = {"name": block.name, "arguments": arguments, **inner}
    return {"id": block.id, **kind, "function": function, **fields}


def _write_tool(tool: Tool, losses: Losses) -> dict[str, Any] | None:
    original: dict[str, Any] = spelled(tool.extra, API)
    if original and read_tool(original, "tools") == tool:
        return original
    path = f"tools.{tool.name}"
    if tool.builtin:
        losses.unsupported(path, f"{tool.builtin:.60} is a tool that only the other API has")
        return None
    fields = losses.own_fields(rest(tool.extra, {API}), path)
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": {**function, **fields}}


def _write_choice(choice: ToolChoice) -> Any:
    if choice.mode == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode


def _write_output(
    output: JsonObject | JsonSchema, request: Request, losses: Losses
) -> dict[str, Any]:
    original: dict[str, Any] | None = request.spelling.get("response_format")
    if losses.own and original and read_output(original) == output:
        return original
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if output.description:
        schema["description"] = output.description
    if output.strict is not None:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": schema}
