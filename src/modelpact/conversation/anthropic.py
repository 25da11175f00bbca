"""Anthropic Messages: request bodies to requests and back."""

import json
from collections.abc import Mapping
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
from modelpact.conversation.reading import checked, listed, objects, rest, text_field
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.vocabulary.errors import InputError

API: Final = "anthropic"
DEFAULT_MAX_TOKENS: Final = 4096
_MODELLED: Final = frozenset(
    [
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "stop_sequences",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stream",
        "thinking",
        "output_config",
    ]
)
_MODES: Final = {"auto": "auto", "none": "none", "any": "required", "tool": "tool"}
_WIRE_MODES: Final = {mode: wire for wire, mode in _MODES.items()}
_UNSUPPORTED_ELSEWHERE: Final = {
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
}
"""Values that say what this API does anyway."""


def from_anthropic(body: Any) -> Request:
    """Read a request body; what only this API can say is kept in `extras`."""
    body = checked(body, "body")
    extras = {key: value for key, value in body.items() if key not in _MODELLED or value is None}
    held = {key: value for key, value in body.items() if key not in extras}
    spelling: dict[str, Any] = {}
    messages = _read_system(held.get("system"), spelling) if "system" in held else []
    for place, one in enumerate(objects(body.get("messages"), "messages")):
        messages += _read_message(one, f"messages[{place}]")
    choice, parallel = _read_choice(held, extras, spelling)
    output, reasoning = _read_config(held, extras)
    if held.get("stream") is False:
        spelling["stream"] = False
    for name in ("tools", "stop_sequences"):
        if held.get(name) == []:
            spelling[name] = []
    return Request(
        model=text_field(body, "model", "body"),
        messages=tuple(messages),
        tools=tuple(_read_tool(one) for one in objects(held.get("tools", []), "tools")),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        output=output,
        reasoning=reasoning,
        max_tokens=held.get("max_tokens"),
        temperature=held.get("temperature"),
        top_p=held.get("top_p"),
        top_k=held.get("top_k"),
        stop=tuple(listed(held.get("stop_sequences", []), "stop_sequences")),
        stream=bool(held.get("stream", False)),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def _read_system(system: Any, spelling: dict[str, Any]) -> list[Message]:
    if isinstance(system, str):
        spelling["system"] = "text"
        return [Message("system", (TextBlock(system),))]
    blocks = tuple(_read_block(one, "system") for one in objects(system, "system"))
    spelling["system"] = "blocks"
    return [Message("system", blocks)]


def _read_message(data: Mapping[str, Any], where: str) -> list[Message]:
    role = data.get("role")
    if role not in ("user", "assistant", "system"):
        raise InputError(f"{where}.role: expected user or assistant, not {role!r:.60}")
    content = data.get("content")
    spelled: dict[str, Any] = {}
    if isinstance(content, str):
        spelled["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        blocks = [_read_block(one, where) for one in objects(content, f"{where}.content")]
    extra = rest(data, {"role", "content"})
    if extra:
        spelled["extra"] = extra
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if results and others and blocks != [*results, *others]:
        raise InputError(f"{where}.content: tool results come before everything else")
    metadata = {API: spelled} if spelled else {}
    if not results:
        return [Message(role, tuple(others), metadata)]
    found = [Message("tool", tuple(results), metadata)]
    if others:
        found.append(Message(role, tuple(others), {API: {"joined": True}}))
    return found


def _read_block(data: Mapping[str, Any], where: str) -> Block:
    kind = data.get("type")
    if kind == "text":
        return TextBlock(text_field(data, "text", where), rest(data, {"type", "text"}))
    if kind == "image" and isinstance(data.get("source"), Mapping):
        source, extra = data["source"], rest(data, {"type", "source"})
        if source.get("type") == "url" and set(source) == {"type", "url"}:
            return ImageBlock(url=str(source["url"]), extra=extra)
        if source.get("type") == "base64" and set(source) == {"type", "media_type", "data"}:
            return ImageBlock(
                data=str(source["data"]), media_type=str(source["media_type"]), extra=extra
            )
    if kind == "tool_use":
        extra = rest(data, {"type", "id", "name", "input"})
        identity = text_field(data, "id", where)
        name = text_field(data, "name", where)
        return ToolUseBlock(identity, name, data.get("input"), extra=extra)
    if kind == "tool_result":
        return _read_result(data, where)
    if kind == "thinking":
        extra = rest(data, {"type", "thinking", "signature"})
        thought = text_field(data, "thinking", where)
        return ThinkingBlock(thought, str(data.get("signature", "")), extra)
    if not isinstance(kind, str):
        raise InputError(f"{where}.content: a block needs a type")
    return OtherBlock(API, dict(data))


def _read_result(data: Mapping[str, Any], where: str) -> ToolResultBlock:
    extra = rest(data, {"type", "tool_use_id", "content", "is_error"})
    content = data.get("content")
    inner: list[Block] = []
    if isinstance(content, str):
        inner, extra["content"] = [TextBlock(content)], "text"
    elif content is not None:
        inner = [_read_block(one, where) for one in objects(content, f"{where}.content")]
    elif "content" in data:
        extra["content"] = "null"
    else:
        extra["content"] = "absent"
    if data.get("is_error") is False:
        extra["is_error"] = False
    return ToolResultBlock(
        text_field(data, "tool_use_id", where),
        tuple(one for one in inner if isinstance(one, (TextBlock, ImageBlock, OtherBlock))),
        bool(data.get("is_error", False)),
        extra,
    )


def _read_tool(data: Mapping[str, Any]) -> Tool:
    if data.get("type", "custom") != "custom" or not isinstance(data.get("input_schema"), dict):
        return Tool(str(data.get("name", "")), extra={API: dict(data)})
    known = {"name", "description", "input_schema", "strict"}
    return Tool(
        text_field(data, "name", "tools"),
        data["input_schema"],
        str(data.get("description", "")),
        data.get("strict"),
        rest(data, known),
    )


def _read_choice(
    held: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> tuple[ToolChoice | None, bool | None]:
    if "tool_choice" not in held:
        return None, None
    given = checked(held["tool_choice"], "tool_choice")
    mode = _MODES.get(str(given.get("type")))
    if mode is None or set(given) - {"type", "name", "disable_parallel_tool_use"}:
        extras["tool_choice"] = given
        return None, None
    parallel = None
    if "disable_parallel_tool_use" in given:
        parallel = not given["disable_parallel_tool_use"]
    if mode == "auto" and parallel is False:
        spelling["tool_choice"] = "auto"
        return None, False
    return ToolChoice(mode, str(given.get("name", ""))), parallel  # type: ignore[arg-type]


def _read_config(
    held: Mapping[str, Any], extras: dict[str, Any]
) -> tuple[JsonSchema | None, Reasoning | None]:
    output, effort, budget = None, "", None
    config = held.get("output_config")
    if isinstance(config, Mapping):
        left = dict(config)
        form = left.get("format")
        if isinstance(form, Mapping) and form.get("type") == "json_schema" and len(form) == 2:
            output = JsonSchema(dict(form.get("schema") or {}))
            del left["format"]
        if isinstance(left.get("effort"), str):
            effort = left.pop("effort")
        if left or not config:
            extras["output_config"] = left
    thinking = held.get("thinking")
    extra: dict[str, Any] = {}
    if isinstance(thinking, Mapping):
        budget = thinking.get("budget_tokens")
        extra = rest(thinking, {"budget_tokens"})
        if extra == {"type": "enabled"} and budget is not None:
            extra = {}
    if not effort and not extra and budget is None:
        return output, None
    return output, Reasoning(effort, budget, extra)


def to_anthropic(request: Request) -> Carried:
    """Write a request body, and say what it could not say."""
    losses = Losses()
    own = request.api == API
    body: dict[str, Any] = {"model": request.model}
    system, spoken = _split_system(request, losses)
    if system:
        plain = len(system) == 1 and set(system[0]) == {"type", "text"}
        as_text = plain and request.spelling.get("system", "text") == "text"
        body["system"] = system[0]["text"] if as_text else system
    elif own and "system" in request.spelling:
        body["system"] = []
    body["messages"] = _write_messages(spoken, losses)
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif not own:
        body["max_tokens"] = DEFAULT_MAX_TOKENS
        losses.lossy("max_tokens", f"this API needs a limit: {DEFAULT_MAX_TOKENS} was set")
    if request.tools or (own and "tools" in request.spelling):
        body["tools"] = [_write_tool(tool, losses) for tool in request.tools]
    _write_choice(request, body)
    _write_config(request, body, losses)
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    if not own and request.temperature is not None and request.temperature > 1:
        losses.unsupported("temperature", "this API takes temperatures from 0 to 1")
    if request.stop or (own and "stop_sequences" in request.spelling):
        body["stop_sequences"] = list(request.stop)
    if request.stream or (own and "stream" in request.spelling):
        body["stream"] = request.stream
    if own:
        for name, value in request.extras.items():
            if name == "output_config" and name in body and isinstance(value, Mapping):
                body[name] = {**value, **body[name]}
            else:
                body.setdefault(name, value)
    else:
        _carry_extras(request, body, losses)
    return Carried(body, tuple(losses.listed))


def _split_system(
    request: Request, losses: Losses
) -> tuple[list[dict[str, Any]], list[tuple[str, Message]]]:
    system: list[dict[str, Any]] = []
    spoken: list[tuple[str, Message]] = []
    for place, message in enumerate(request.messages):
        where = f"messages[{place}]"
        if message.role != "system":
            spoken.append((where, message))
            continue
        if spoken:
            losses.lossy(where, "instructions in mid-conversation were moved to its start")
        _note_foreign(message, where, losses)
        system += [part for block in message.content if (part := _write(block, where, losses))]
    return system, spoken


def _write_messages(spoken: list[tuple[str, Message]], losses: Losses) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    before: str | None = None
    for where, message in spoken:
        _note_foreign(message, where, losses)
        spelled = message.metadata.get(API, {})
        parts = [part for block in message.content if (part := _write(block, where, losses))]
        role = "user" if message.role == "tool" else message.role
        joins = (message.role == "tool" and before == "tool") or spelled.get("joined")
        if joins and written and written[-1]["role"] == "user":
            written[-1]["content"] = [*written[-1]["content"], *parts]
        else:
            foreign = message.metadata.get("openai-chat", {}).get("content") == "text"
            plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
            as_text = plain and (spelled.get("content") == "text" or foreign)
            content: Any = parts[0]["text"] if as_text else parts
            written.append({"role": role, "content": content, **spelled.get("extra", {})})
        before = message.role
    return written


def _note_foreign(message: Message, where: str, losses: Losses) -> None:
    for name, value in message.metadata.get("openai-chat", {}).get("extra", {}).items():
        if value is not None and value != []:
            losses.lossy(f"{where}.{name}", "a message has no such field here")


def _write(block: Block, where: str, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text, **block.extra}
    if isinstance(block, ImageBlock):
        source = (
            {"type": "url", "url": block.url}
            if block.url
            else {"type": "base64", "media_type": block.media_type, "data": block.data}
        )
        for name in ("detail", "part"):
            if name in block.extra:
                losses.lossy(f"{where}.content", f"an image has no {name} here")
        return {"type": "image", "source": source, **rest(block.extra, {"detail", "part"})}
    if isinstance(block, ToolUseBlock):
        given = block.input
        if block.raw and given is None and block.raw != "null":
            losses.unsupported(f"{where}.content", f"the arguments of {block.name} are not JSON")
            given = {}
        return {
            "type": "tool_use",
            "id": block.id,
            "name": block.name,
            "input": given,
            **block.extra,
        }
    if isinstance(block, ToolResultBlock):
        return _write_result(block, where, losses)
    if isinstance(block, ThinkingBlock):
        signed = {"signature": block.signature} if block.signature else {}
        return {"type": "thinking", "thinking": block.thinking, **signed, **block.extra}
    if block.api == API:
        return block.content
    kind = block.content.get("type", "foreign")
    losses.unsupported(f"{where}.content", f"a {kind} part has no place here")
    return None


def _write_result(block: ToolResultBlock, where: str, losses: Losses) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    how = block.extra.get("content", "text")
    parts = [part for one in block.content if (part := _write(one, where, losses)) is not None]
    if how == "null":
        data["content"] = None
    elif how != "absent" or parts:
        plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
        keep_text = "content" in block.extra or block.extra == {}
        data["content"] = parts[0]["text"] if plain and how == "text" and keep_text else parts
    if block.is_error or "is_error" in block.extra:
        data["is_error"] = block.is_error
    return {**data, **rest(block.extra, {"content", "is_error"})}


def _write_tool(tool: Tool, losses: Losses) -> dict[str, Any]:
    if API in tool.extra:
        raw: dict[str, Any] = tool.extra[API]
        return raw
    if "openai-chat" in tool.extra:
        losses.unsupported(f"tools.{tool.name}", "a kind of tool that this API does not have")
    data: dict[str, Any] = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None:
        data["strict"] = tool.strict
    return {**data, **rest(tool.extra, {"openai-chat", "parameters", "description", "strict"})}


def _write_choice(request: Request, body: dict[str, Any]) -> None:
    choice = request.tool_choice
    if choice is None and request.parallel_tool_calls is not False:
        return
    data: dict[str, Any] = {"type": "auto" if choice is None else _WIRE_MODES[choice.mode]}
    if choice is not None and choice.mode == "tool":
        data["name"] = choice.name
    if request.parallel_tool_calls is not None and data["type"] != "none":
        data["disable_parallel_tool_use"] = not request.parallel_tool_calls
    body["tool_choice"] = data


def _write_config(request: Request, body: dict[str, Any], losses: Losses) -> None:
    config: dict[str, Any] = {}
    output, reasoning = request.output, request.reasoning
    if isinstance(output, JsonSchema):
        config["format"] = {"type": "json_schema", "schema": output.schema}
        if output.name != "answer" or output.description or output.strict is False:
            losses.lossy("response_format", "a schema has no name, description or leniency here")
    elif isinstance(output, JsonObject):
        losses.unsupported("response_format", "this API holds to a schema or to nothing")
    if reasoning is not None:
        if reasoning.effort:
            config["effort"] = reasoning.effort
        if reasoning.budget_tokens is not None or reasoning.extra:
            thinking: dict[str, Any] = dict(reasoning.extra) or {"type": "enabled"}
            if reasoning.budget_tokens is not None:
                thinking["budget_tokens"] = reasoning.budget_tokens
            body["thinking"] = thinking
    if config:
        body["output_config"] = config


def _carry_extras(request: Request, body: dict[str, Any], losses: Losses) -> None:
    for name, value in request.extras.items():
        if name == "user" and isinstance(value, str):
            body["metadata"] = {"user_id": value}
        elif value is None or value in _NEUTRAL.get(name, ()):
            continue
        elif name in _UNSUPPORTED_ELSEWHERE:
            losses.unsupported(name, _UNSUPPORTED_ELSEWHERE[name])
        else:
            shown = json.dumps(value, default=str)[:40]
            losses.lossy(name, f"only {request.api or 'another API'} has this field ({shown})")
