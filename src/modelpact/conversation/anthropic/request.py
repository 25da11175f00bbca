"""Anthropic Messages: read and write request bodies."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import (
    CHAT_NEUTRAL,
    CHAT_UNSUPPORTED,
    RESPONSES,
    LossRecorder,
    TranslatedBody,
    translate_responses_extras,
    write_tools,
)
from modelpact.conversation.fields import (
    make_extra,
    message_spelling,
    optional_bool,
    optional_int,
    optional_number,
    optional_schema,
    optional_string,
    read_object,
    read_objects,
    read_strings,
    required_string,
    spelling_of,
    split_body,
    without,
)
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    OtherBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.vocabulary.errors import InputError

API: Final = "anthropic"
CHOICE_MODES: Final = {"auto": "auto", "none": "none", "any": "required", "tool": "tool"}
"""The modes of `ToolChoice`, by this API's names of them."""
_MODELLED: Final = frozenset(
    [
        *("model", "messages", "system", "tools", "tool_choice", "stop_sequences", "max_tokens"),
        *("temperature", "top_p", "top_k", "stream", "thinking", "output_config"),
    ]
)
_ROLES: Final[tuple[Role, ...]] = ("user", "assistant", "system")

DEFAULT_MAX_TOKENS: Final = 4096
"""The token limit of requests from APIs that do not need one; this API does."""
_CHOICE_TYPES: Final = {mode: kind for kind, mode in CHOICE_MODES.items()}
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_UNSUPPORTED: Final = {
    **CHAT_UNSUPPORTED,
    "logprobs": "this API returns no token probabilities",
    "top_logprobs": "this API returns no token probabilities",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {**CHAT_NEUTRAL, "store": (False,)}
"""Values of other APIs that ask for what this API does anyway."""


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    spelled = ("tools", "stop_sequences", "stream")
    fields, extras, spelling = split_body(body, _MODELLED, spelled)
    messages = _read_system(fields["system"], spelling) if "system" in fields else []
    for index, message in enumerate(read_objects(body.get("messages"), "messages")):
        messages += _read_message(message, f"messages[{index}]")
    choice, parallel = _read_choice(fields, extras)
    tools = read_objects(fields.get("tools", []), "tools")
    output, effort = _read_output_config(fields, extras)
    return Request(
        model=required_string(body, "model", "body"),
        messages=tuple(messages),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        output=output,
        reasoning=_read_reasoning(fields, effort),
        max_tokens=optional_int(fields, "max_tokens"),
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
        top_k=optional_int(fields, "top_k"),
        stop=tuple(read_strings(fields.get("stop_sequences", []), "stop_sequences")),
        stream=bool(optional_bool(fields, "stream")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def write_request(request: Request) -> TranslatedBody:
    """Write a request body, and report what it cannot express."""
    losses = LossRecorder(API, request.api)
    body: dict[str, Any] = {"model": request.model}
    system, messages = _split_system(request, losses)
    if system:
        as_text = _is_plain(system) and request.spelling.get("system", "text") == "text"
        body["system"] = system[0]["text"] if as_text else system
    elif losses.same_api and request.spelling.get("system") == "blocks":
        body["system"] = []
    body["messages"] = _write_messages(messages, losses)
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif not losses.same_api:
        body["max_tokens"] = DEFAULT_MAX_TOKENS
        losses.lossy("max_tokens", f"this API needs a limit: {DEFAULT_MAX_TOKENS} is set")
    if tools := write_tools(request.tools, losses, read_tool, _write_tool):
        body["tools"] = tools
    _write_choice(request, body, losses)
    _write_output_config(request, body, losses)
    for name in ("temperature", "top_p", "top_k"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if not losses.same_api and request.temperature is not None and request.temperature > 1:
        losses.unsupported("temperature", "this API takes temperatures from 0 to 1")
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.stream:
        body["stream"] = True
    if losses.same_api:
        empty = {name: value for name, value in request.spelling.items() if not value}
        extras = without(request.extras, {"output_config"} if "output_config" in body else ())
        body = {**extras, **empty, **body}
    else:
        _translate_extras(request, body, losses)
    return losses.translated(body)


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps the fields that only this API has, and the spelling."""
    kind = tool.get("type", "custom")
    name = required_string(tool, "name", where) if kind == "custom" or "name" in tool else ""
    if kind != "custom":
        return Tool(name, extra={f"{API} kind": str(kind), f"{API} spelling": tool})
    if "input_schema" not in tool:
        raise InputError(f"{where}: a tool needs input_schema")
    fields = without(tool, {"name", "type", "description", "input_schema", "strict"})
    return Tool(
        name,
        optional_schema(tool, "input_schema"),
        optional_string(tool, "description"),
        optional_bool(tool, "strict"),
        make_extra(API, fields, tool),
    )


def _read_system(system: Any, spelling: dict[str, Any]) -> list[Message]:
    if isinstance(system, str):
        spelling["system"] = "text"
        return [Message("system", (TextBlock(system),))]
    spelling["system"] = "blocks"
    return [Message("system", tuple(_read_blocks(system, "system")))]


def _read_message(data: Mapping[str, Any], where: str) -> list[Message]:
    """Read a message; tool results become a message of their own."""
    role = data.get("role")
    if role not in _ROLES:
        raise InputError(f"{where}.role: expected user or assistant, not {role!r:.60}")
    content = data.get("content")
    spelling: dict[str, Any] = {}
    if isinstance(content, str):
        spelling["content"] = "text"
        blocks: list[Block] = [TextBlock(content)]
    else:
        blocks = _read_blocks(content, f"{where}.content")
    extra = without(data, {"role", "content"})
    if extra:
        spelling["extra"] = extra
    if role == "system":
        spelling["placed"] = True
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if not results:
        return [Message(role, tuple(others), {API: spelling} if spelling else {})]
    if role != "user":
        raise InputError(f"{where}.content: tool results come from the user")
    if any(isinstance(block, ToolResultBlock) for block in blocks[len(results) :]):
        raise InputError(f"{where}.content: tool results come before everything else")
    messages = [Message("tool", tuple(results), {API: {**spelling, "alone": True}})]
    if others:
        messages.append(Message(role, tuple(others), {API: {"joined": True}}))
    return messages


def _read_blocks(content: Any, where: str) -> list[Block]:
    blocks = read_objects(content, where)
    return [_read_block(block, f"{where}[{index}]") for index, block in enumerate(blocks)]


def _read_block(data: Mapping[str, Any], where: str) -> Block:
    kind = required_string(data, "type", where)
    if kind == "text":
        text = required_string(data, "text", where)
        return TextBlock(text, make_extra(API, without(data, {"type", "text"})))
    if kind == "image":
        return _read_image(data, where)
    if kind == "tool_use":
        if "input" not in data:
            raise InputError(f"{where}: a tool_use block needs input")
        fields = without(data, {"type", "id", "name", "input"})
        call_id, name = required_string(data, "id", where), required_string(data, "name", where)
        return ToolUseBlock(call_id, name, data["input"], extra=make_extra(API, fields))
    if kind == "tool_result":
        return _read_result(data, where)
    if kind == "thinking":
        signature = optional_string(data, "signature")
        known = {"type", "thinking", "signature"} if signature else {"type", "thinking"}
        thinking = required_string(data, "thinking", where)
        return ThinkingBlock(thinking, signature, make_extra(API, without(data, known)))
    return OtherBlock(API, dict(data))


def _read_image(data: Mapping[str, Any], where: str) -> Block:
    source = read_object(data.get("source"), f"{where}.source")
    extra = make_extra(API, without(data, {"type", "source"}))
    kind = required_string(source, "type", f"{where}.source")
    if kind == "url" and set(source) == {"type", "url"}:
        url = required_string(source, "url", f"{where}.source")
        if url:
            return ImageBlock(url=url, extra=extra)
    if kind == "base64" and set(source) == {"type", "media_type", "data"}:
        content = required_string(source, "data", f"{where}.source")
        media_type = required_string(source, "media_type", f"{where}.source")
        if content:
            return ImageBlock(data=content, media_type=media_type, extra=extra)
    return OtherBlock(API, dict(data))


def _read_result(data: Mapping[str, Any], where: str) -> ToolResultBlock:
    content = data.get("content")
    spelling: dict[str, Any] = {}
    blocks: list[Block] = []
    if content is None:
        spelling["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        spelling["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        spelling["content"] = "blocks"
        blocks = _read_blocks(content, f"{where}.content")
    is_error = optional_bool(data, "is_error")
    if "is_error" in data and not is_error:
        spelling["is_error"] = is_error
    inner = tuple(block for block in blocks if isinstance(block, (TextBlock, ImageBlock, OtherBlock)))
    if len(inner) != len(blocks):
        raise InputError(f"{where}.content: no calls, results or thinking in a tool's result")
    fields = without(data, {"type", "tool_use_id", "content", "is_error"})
    call_id = required_string(data, "tool_use_id", where)
    return ToolResultBlock(call_id, inner, bool(is_error), make_extra(API, fields, spelling))


def _read_choice(fields: Mapping[str, Any], extras: dict[str, Any]) -> tuple[ToolChoice | None, bool | None]:
    """Return the choice of tools, and whether tools may be called in parallel."""
    if "tool_choice" not in fields:
        return None, None
    choice = read_object(fields["tool_choice"], "tool_choice")
    mode = CHOICE_MODES.get(required_string(choice, "type", "tool_choice"))
    known = {"type", "disable_parallel_tool_use"} | ({"name"} if mode == "tool" else set())
    serial = optional_bool(choice, "disable_parallel_tool_use")
    if mode is None or set(choice) - known or (serial is None and len(choice) != len(known) - 1):
        extras["tool_choice"] = choice
        return None, None
    name = required_string(choice, "name", "tool_choice") if mode == "tool" else ""
    return ToolChoice(mode, name), None if serial is None else not serial  # type: ignore[arg-type]


def _read_output_config(fields: Mapping[str, Any], extras: dict[str, Any]) -> tuple[JsonSchema | None, str]:
    """Return the schema of the output and the reasoning effort; the rest goes to `extras`."""
    if "output_config" not in fields:
        return None, ""
    config = read_object(fields["output_config"], "output_config")
    remaining, output = dict(config), None
    form = remaining.get("format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        output = JsonSchema(optional_schema(form, "schema"))
        if form.get("schema") is not None and len(form) == 2:
            del remaining["format"]
    effort = optional_string(remaining, "effort")
    if effort:
        del remaining["effort"]
    if remaining or not config:
        extras["output_config"] = remaining
    return output, effort


def _read_reasoning(fields: Mapping[str, Any], effort: str) -> Reasoning | None:
    if "thinking" not in fields:
        return Reasoning(effort) if effort else None
    thinking = read_object(fields["thinking"], "thinking")
    budget = optional_int(thinking, "budget_tokens")
    extra = without(thinking, {"budget_tokens"}) if budget is not None else dict(thinking)
    required_string(thinking, "type", "thinking")
    if budget is not None and extra == {"type": "enabled"}:
        extra = {}
    return Reasoning(effort, budget, extra)


def _split_system(request: Request, losses: LossRecorder) -> tuple[list[dict[str, Any]], list[tuple[str, Message]]]:
    """Return the blocks of the system prompt, and the other messages with their paths."""
    system: list[dict[str, Any]] = []
    messages: list[tuple[str, Message]] = []
    for index, message in enumerate(request.messages):
        where = f"messages[{index}]"
        if message.role != "system" or message_spelling(message.metadata, API).get("placed"):
            messages.append((where, message))
            continue
        if messages:
            losses.lossy(where, "instructions in mid-conversation are moved to its start")
        losses.foreign_fields(message.metadata, where)
        system += _write_blocks(message.content, where, losses)
    return system, messages


def _write_messages(messages: list[tuple[str, Message]], losses: LossRecorder) -> list[dict[str, Any]]:
    """Write messages; tool results that follow each other become one message of the user."""
    written: list[dict[str, Any]] = []
    previous: str | None = None
    for where, message in messages:
        losses.foreign_fields(message.metadata, where)
        spelling = message_spelling(message.metadata, API)
        parts = _write_blocks(message.content, where, losses)
        role = "user" if message.role == "tool" else message.role
        follows = message.role == "tool" and previous == "tool" and not spelling.get("alone")
        if (follows or spelling.get("joined")) and written and previous == "tool":
            written[-1]["content"] = [*written[-1]["content"], *parts]
        else:
            chat_text = message_spelling(message.metadata, "openai-chat").get("content") == "text"
            as_text = _is_plain(parts) and (spelling.get("content") == "text" or chat_text)
            content: Any = parts[0]["text"] if as_text else parts
            written.append({"role": role, "content": content, **spelling.get("extra", {})})
        previous = message.role
    return written


def _is_plain(parts: list[dict[str, Any]]) -> bool:
    """Whether the content is one text that can be written as a string."""
    return len(parts) == 1 and set(parts[0]) == {"type", "text"}


def _write_blocks(blocks: tuple[Block, ...], where: str, losses: LossRecorder) -> list[dict[str, Any]]:
    parts = [_write_block(block, f"{where}.content[{index}]", losses) for index, block in enumerate(blocks)]
    return [part for part in parts if part is not None]


def _write_block(block: Block, path: str, losses: LossRecorder) -> dict[str, Any] | None:
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
        arguments = block.input
        if not losses.same_api and not isinstance(arguments, dict):
            losses.unsupported(path, f"the arguments of {block.name:.60} are not a JSON object")
            arguments = {} if arguments is None else arguments
        fields = losses.own_fields(block.extra, path, ("cache_control",))
        call = {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments}
        return {**call, **fields}
    if isinstance(block, ToolResultBlock):
        return _write_result(block, path, losses)
    if isinstance(block, ThinkingBlock):
        if not block.signature and not losses.same_api:
            losses.lossy(path, "this API accepts earlier thinking only with its own signature")
            return None
        signed = {"signature": block.signature} if block.signature else {}
        fields = losses.own_fields(block.extra, path)
        return {"type": "thinking", "thinking": block.thinking, **signed, **fields}
    if block.api == API:
        return block.content
    losses.unsupported_block(block, path)
    return None


def _write_result(block: ToolResultBlock, path: str, losses: LossRecorder) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    spelling = spelling_of(block.extra, API)
    form = spelling.get("content", "text")
    parts = _write_blocks(block.content, path, losses)
    if parts or form in ("blocks", "text"):
        data["content"] = parts[0]["text"] if _is_plain(parts) and form == "text" else parts
    elif form == "null":
        data["content"] = None
    if block.is_error or "is_error" in spelling:
        data["is_error"] = block.is_error or spelling["is_error"]
    return {**data, **losses.own_fields(block.extra, path, ("cache_control",))}


def _write_tool(tool: Tool, losses: LossRecorder) -> dict[str, Any]:
    data: dict[str, Any] = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None:
        data["strict"] = tool.strict
    return {**data, **losses.own_fields(tool.extra, f"tools.{tool.name}", ("cache_control",))}


def _write_choice(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if choice is None and parallel is not False:
        return
    data: dict[str, Any] = {"type": "auto" if choice is None else _CHOICE_TYPES[choice.mode]}
    if choice is not None and choice.mode == "tool":
        data["name"] = choice.name
    if parallel is not None and (losses.same_api or data["type"] != "none"):
        data["disable_parallel_tool_use"] = not parallel
    body["tool_choice"] = data


def _write_output_config(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    config: dict[str, Any] = {}
    output, reasoning = request.output, request.reasoning
    if isinstance(output, JsonSchema):
        config["format"] = {"type": "json_schema", "schema": _titled(output, losses)}
    elif isinstance(output, JsonObject):
        losses.unsupported("output", "this API has no JSON output without a schema")
    if reasoning is not None:
        if reasoning.effort:
            config["effort"] = reasoning.effort
            if reasoning.effort not in _EFFORTS and not losses.same_api:
                losses.unsupported("reasoning.effort", f"this API has {', '.join(_EFFORTS)}")
        if reasoning.budget_tokens is not None or reasoning.extra:
            thinking: dict[str, Any] = dict(reasoning.extra) or {"type": "enabled"}
            if reasoning.budget_tokens is not None:
                thinking["budget_tokens"] = reasoning.budget_tokens
            body["thinking"] = thinking
    if losses.same_api and isinstance(request.extras.get("output_config"), dict):
        config = {**config, **request.extras["output_config"]}
    if config:
        body["output_config"] = config


def _titled(output: JsonSchema, losses: LossRecorder) -> dict[str, Any]:
    """Return the schema with its name and description inside: they have no place beside it."""
    named = {"title": "" if output.name == "answer" else output.name}
    named["description"] = output.description
    added = {name: text for name, text in named.items() if text}
    lost = [name for name, text in added.items() if output.schema.get(name, text) != text]
    if output.strict is False:
        lost.append("leniency")
    if lost:
        losses.lossy("output", f"in this API, a schema has no {' or '.join(lost)} beside its own")
    return {**added, **output.schema}


def _translate_extras(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    if request.api == RESPONSES:
        translated = translate_responses_extras(request.extras, losses, {"user": "user"})
        body |= {"metadata": {"user_id": translated["user"]}} if translated else {}
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
