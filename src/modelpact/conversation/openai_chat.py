"""OpenAI Chat Completions: request bodies to requests and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from modelpact.conversation.fidelity import Carried, Losses
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
from modelpact.conversation.reading import (
    checked,
    data_url,
    from_data_url,
    listed,
    objects,
    rest,
    text_field,
)
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.vocabulary.errors import InputError

API: Final = "openai-chat"
_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_MODELLED: Final = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stream",
    ]
)
_UNSUPPORTED_ELSEWHERE: Final = {
    "container": "a container of the other API",
    "mcp_servers": "servers that the other API calls by itself",
}


def from_openai_chat(body: Any) -> Request:
    """Read a request body; what only this API can say is kept in `extras`."""
    body = checked(body, "body")
    messages = objects(body.get("messages"), "messages")
    spelling: dict[str, Any] = {}
    extras = {key: value for key, value in body.items() if key not in _MODELLED or value is None}
    held = {key: value for key, value in body.items() if key not in extras}
    limit_param = "max_completion_tokens" if "max_completion_tokens" in held else "max_tokens"
    if limit_param == "max_completion_tokens" and "max_tokens" in held:
        extras["max_tokens"] = held["max_tokens"]
    stop = held.get("stop", ())
    if isinstance(stop, str):
        stop, spelling["stop"] = (stop,), "text"
    if held.get("stream") is False:
        spelling["stream"] = False
    if "tools" in held and not held["tools"]:
        spelling["tools"] = []
    choice = held.get("tool_choice")
    tool_choice = _read_choice(choice) if "tool_choice" in held else None
    if "tool_choice" in held and tool_choice is None:
        extras["tool_choice"] = choice
    output = None
    if "response_format" in held:
        output = _read_output(held["response_format"])
        if output is None:
            extras["response_format"] = held["response_format"]
    effort = held.get("reasoning_effort")
    return Request(
        model=text_field(body, "model", "body"),
        messages=tuple(
            _read_message(one, f"messages[{place}]") for place, one in enumerate(messages)
        ),
        tools=tuple(_read_tool(one) for one in objects(held.get("tools", []), "tools")),
        tool_choice=tool_choice,
        parallel_tool_calls=held.get("parallel_tool_calls"),
        output=output,
        reasoning=None if effort is None else Reasoning(effort=effort),
        max_tokens=held.get(limit_param),
        token_limit_param=limit_param.replace("_", "-"),  # type: ignore[arg-type]
        temperature=held.get("temperature"),
        top_p=held.get("top_p"),
        stop=tuple(listed(stop, "stop")),
        stream=bool(held.get("stream", False)),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def _read_message(data: Mapping[str, Any], where: str) -> Message:
    role = data.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = data.get("content")
    spelled: dict[str, Any] = {}
    if role != _ROLES[role]:
        spelled["role"] = role
    if "content" not in data or content is None:
        spelled["content"] = "null" if "content" in data else "absent"
        blocks: list[Block] = []
    elif isinstance(content, str):
        spelled["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        spelled["content"] = "parts"
        blocks = [_read_part(one, where) for one in objects(content, f"{where}.content")]
    known = {"role", "content"}
    if role == "tool":
        known.add("tool_call_id")
        inner = tuple(one for one in blocks if isinstance(one, (TextBlock, ImageBlock, OtherBlock)))
        blocks = [ToolResultBlock(text_field(data, "tool_call_id", where), inner)]
    if role == "assistant" and data.get("tool_calls"):
        known.add("tool_calls")
        calls = objects(data["tool_calls"], f"{where}.tool_calls")
        blocks += [_read_call(one, where) for one in calls]
    extra = rest(data, known)
    if extra:
        spelled["extra"] = extra
    return Message(_ROLES[role], tuple(blocks), {API: spelled} if spelled else {})  # type: ignore[arg-type]


def _read_part(part: Mapping[str, Any], where: str) -> Block:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return TextBlock(part["text"], rest(part, {"type", "text"}))
    image = part.get("image_url")
    if kind == "image_url" and isinstance(image, Mapping) and isinstance(image.get("url"), str):
        extra = rest(image, {"url"})
        beside = rest(part, {"type", "image_url"})
        if beside:
            extra["part"] = beside
        inline = from_data_url(image["url"])
        if inline is not None:
            return ImageBlock(data=inline[1], media_type=inline[0], extra=extra)
        return ImageBlock(url=image["url"], extra=extra)
    if not isinstance(kind, str):
        raise InputError(f"{where}.content: a part needs a type")
    return OtherBlock(API, dict(part))


def _read_call(call: Mapping[str, Any], where: str) -> Block:
    function = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(function, Mapping):
        return OtherBlock(API, dict(call))
    raw = text_field(function, "arguments", f"{where}.tool_calls")
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        parsed = None
    return ToolUseBlock(
        text_field(call, "id", f"{where}.tool_calls"),
        text_field(function, "name", f"{where}.tool_calls"),
        parsed,
        raw,
        rest(call, {"id", "type", "function"}),
    )


def _read_tool(tool: Mapping[str, Any]) -> Tool:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        return Tool(str(tool.get("type", "")), extra={API: dict(tool)})
    return Tool(
        text_field(function, "name", "tools"),
        function.get("parameters") or {},
        function.get("description") or "",
        function.get("strict"),
        _tool_extra(function),
    )


def _tool_extra(function: Mapping[str, Any]) -> dict[str, Any]:
    extra = rest(function, {"name", "parameters", "description", "strict"})
    for key in ("parameters", "description", "strict"):
        if key in function and not function[key] and function[key] is not False:
            extra[key] = function[key]
    return extra


def _read_choice(choice: Any) -> ToolChoice | None:
    if choice in ("auto", "none", "required"):
        return ToolChoice(choice)
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        function = choice.get("function")
        if isinstance(function, Mapping) and set(function) == {"name"} and len(choice) == 2:
            return ToolChoice("tool", str(function["name"]))
    return None


def _read_output(given: Any) -> JsonObject | JsonSchema | None:
    if not isinstance(given, Mapping):
        return None
    if dict(given) == {"type": "json_object"}:
        return JsonObject()
    inner = given.get("json_schema")
    if given.get("type") == "json_schema" and isinstance(inner, Mapping) and len(given) == 2:
        known = {"name", "schema", "strict", "description"}
        schema = inner.get("schema")
        plain = all(inner.get(key) is not None for key in inner)
        if set(inner) <= known and isinstance(schema, dict) and "name" in inner and plain:
            return JsonSchema(
                schema, inner["name"], inner.get("description", ""), inner.get("strict")
            )
    return None


def to_openai_chat(request: Request) -> Carried:
    """Write a request body, and say what it could not say."""
    losses = Losses()
    own = request.api == API
    body: dict[str, Any] = {"model": request.model, "messages": []}
    for place, message in enumerate(request.messages):
        body["messages"].extend(_write_message(message, f"messages[{place}]", losses))
    if request.tools:
        body["tools"] = [_write_tool(tool, losses) for tool in request.tools]
    elif own and "tools" in request.spelling:
        body["tools"] = request.spelling["tools"]
    if request.tool_choice is not None:
        body["tool_choice"] = _write_choice(request.tool_choice)
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output is not None:
        body["response_format"] = _write_output(request.output)
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
        plain = own and request.spelling.get("stop") == "text" and len(request.stop) == 1
        body["stop"] = request.stop[0] if plain else list(request.stop)
        if len(request.stop) > 4 and not own:
            losses.unsupported("stop", "this API takes at most four stop sequences")
    if request.stream or (own and "stream" in request.spelling):
        body["stream"] = request.stream
    if own:
        body |= {key: value for key, value in request.extras.items() if key not in body}
    else:
        _carry_extras(request, body, losses)
    return Carried(body, tuple(losses.listed))


def _carry_extras(request: Request, body: dict[str, Any], losses: Losses) -> None:
    for name, value in request.extras.items():
        if name == "metadata" and isinstance(value, Mapping) and set(value) == {"user_id"}:
            body["user"] = value["user_id"]
        elif name in _UNSUPPORTED_ELSEWHERE:
            losses.unsupported(name, _UNSUPPORTED_ELSEWHERE[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")


def _write_reasoning(request: Request, body: dict[str, Any], losses: Losses) -> None:
    reasoning = request.reasoning
    if reasoning is None:
        return
    if reasoning.effort:
        body["reasoning_effort"] = reasoning.effort
    if reasoning.budget_tokens is not None:
        losses.lossy("reasoning.budget_tokens", "this API has levels of effort, not a budget")
    for name in reasoning.extra:
        losses.lossy(f"reasoning.{name}", "this API has no such setting")


def _write_message(message: Message, where: str, losses: Losses) -> Iterator[dict[str, Any]]:
    spelled = message.metadata.get(API, {})
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for block in results:
        content = _write_content(block.content, spelled, where, losses)
        if block.is_error:
            losses.lossy(where, "that the tool failed can only be told in its text")
        for name in rest(block.extra, {"content", "is_error"}):
            losses.lossy(where, f"a tool's result has no {name} here")
        extra = spelled.get("extra", {})
        yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": content, **extra}
    others = [block for block in message.content if not isinstance(block, ToolResultBlock)]
    if not results or others:
        yield _write_plain(message, others, {} if results else spelled, where, losses)


def _write_plain(
    message: Message,
    blocks: Sequence[Block],
    spelled: Mapping[str, Any],
    where: str,
    losses: Losses,
) -> dict[str, Any]:
    role = "user" if message.role == "tool" else message.role
    data: dict[str, Any] = {"role": spelled.get("role", role)}
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    calls_other = [
        block for block in blocks if isinstance(block, OtherBlock) and "function" in block.content
    ]
    said = [block for block in blocks if block not in calls and block not in calls_other]
    how = spelled.get("content")
    if said:
        data["content"] = _write_content(tuple(said), spelled, where, losses)
    elif how == "null" or (calls and how != "absent"):
        data["content"] = None
    elif how != "absent":
        data["content"] = "" if how == "text" else []
    if calls or calls_other:
        data["tool_calls"] = [_write_call(block) for block in calls]
        data["tool_calls"] += [block.content for block in calls_other]
    return {**data, **spelled.get("extra", {})}


def _write_content(
    blocks: tuple[Block, ...], spelled: Mapping[str, Any], where: str, losses: Losses
) -> Any:
    parts = [part for block in blocks if (part := _write_part(block, where, losses)) is not None]
    plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
    if not parts:
        return "" if spelled.get("content", "text") == "text" else []
    if plain and spelled.get("content", "text") == "text":
        return parts[0]["text"]
    return parts


def _write_part(block: Block, where: str, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        for name in ("cache_control", "citations"):
            if name in block.extra:
                losses.lossy(f"{where}.content", f"a text part has no {name} here")
        extra = rest(block.extra, {"cache_control", "citations"})
        return {"type": "text", "text": block.text, **extra}
    if isinstance(block, ImageBlock):
        url = block.url or data_url(block.media_type, block.data)
        extra = rest(block.extra, {"part", "cache_control"})
        if "cache_control" in block.extra:
            losses.lossy(f"{where}.content", "an image has no cache_control here")
        return {
            "type": "image_url",
            "image_url": {"url": url, **extra},
            **block.extra.get("part", {}),
        }
    if isinstance(block, ThinkingBlock):
        losses.lossy(f"{where}.content", "earlier thinking cannot be sent back")
        return None
    if isinstance(block, OtherBlock) and block.api == API:
        return block.content
    losses.unsupported(f"{where}.content", f"a {_kind(block)} block has no place here")
    return None


def _kind(block: Block) -> str:
    if isinstance(block, OtherBlock):
        return str(block.content.get("type", "foreign"))
    return type(block).__name__.removesuffix("Block").lower()


def _write_call(block: ToolUseBlock) -> dict[str, Any]:
    arguments = block.raw or json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
    return {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": arguments},
        **rest(block.extra, {"cache_control", "caller"}),
    }


def _write_tool(tool: Tool, losses: Losses) -> dict[str, Any]:
    if API in tool.extra:
        raw: dict[str, Any] = tool.extra[API]
        return raw
    if "anthropic" in tool.extra:
        losses.unsupported(f"tools.{tool.name}", "a tool that the other API runs by itself")
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    for name in ("cache_control", "input_examples", "defer_loading"):
        if name in tool.extra:
            losses.lossy(f"tools.{tool.name}", f"a tool has no {name} here")
    hidden = {"anthropic", "cache_control", "input_examples", "defer_loading"}
    return {"type": "function", "function": {**function, **rest(tool.extra, hidden)}}


def _write_choice(choice: ToolChoice) -> Any:
    if choice.mode == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode


def _write_output(output: JsonObject | JsonSchema) -> dict[str, Any]:
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if output.description:
        schema["description"] = output.description
    if output.strict is not None:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": schema}
