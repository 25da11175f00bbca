"""OpenAI Chat Completions: read and write request bodies."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from modelpact.conversation.fidelity import (
    RESPONSES,
    SHARED,
    LossRecorder,
    TranslatedBody,
    translate_responses_extras,
    write_tools,
)
from modelpact.conversation.fields import (
    make_extra,
    message_spelling,
    optional_bool,
    optional_field,
    optional_int,
    optional_number,
    optional_schema,
    optional_string,
    parse_data_url,
    read_arguments,
    read_object,
    read_objects,
    read_strings,
    required_string,
    spelling_of,
    split_body,
    without,
    write_arguments,
    write_data_url,
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
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, TokenLimitParam, Tool, ToolChoice
from modelpact.vocabulary.errors import InputError

API: Final = "openai-chat"
CALL: Final = "openai-chat tool call"
"""The `api` of an `OtherBlock` that is a tool call of a kind that only this API has."""

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_MODELLED: Final = frozenset(
    [
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
        *("reasoning_effort", "stop", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "stream"),
    ]
)

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
_UNSUPPORTED: Final = {
    "container": "this API has no containers",
    "mcp_servers": "this API does not call MCP servers this way",
    "tool_choice": "this API does not have this choice of tools",
    "output_config": "this API does not have this format",
}
_FROM_RESPONSES: Final = {**{name: name for name in SHARED}, "text.verbosity": "verbosity"}
"""Fields of the Responses API that mean the same here, and their names here."""


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    fields, extras, spelling = split_body(body, _MODELLED, ("tools", "stop", "stream"))
    limit, limit_param = _read_limit(fields, extras)
    tools = read_objects(fields.get("tools", []), "tools")
    effort = optional_field(fields, "reasoning_effort", str, "a string")
    if effort == "":
        extras["reasoning_effort"] = effort
    return Request(
        model=required_string(body, "model", "body"),
        messages=tuple(
            _read_message(message, f"messages[{index}]")
            for index, message in enumerate(read_objects(body.get("messages"), "messages"))
        ),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=_read_choice(fields, extras),
        parallel_tool_calls=optional_bool(fields, "parallel_tool_calls"),
        output=_read_format(fields, extras, spelling),
        reasoning=Reasoning(effort=effort) if effort else None,
        max_tokens=limit,
        token_limit_param=limit_param,
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
        stop=_read_stop(fields, spelling),
        stream=bool(optional_bool(fields, "stream")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def write_request(request: Request) -> TranslatedBody:
    """Write a request body, and report what it cannot express."""
    losses = LossRecorder(API, request.api)
    body: dict[str, Any] = {"model": request.model, "messages": []}
    for index, message in enumerate(request.messages):
        body["messages"].extend(_write_message(message, f"messages[{index}]", losses))
    if request.messages and request.messages[-1].role == "assistant" and request.api == "anthropic":
        where = f"messages[{len(request.messages) - 1}]"
        losses.lossy(where, "this API does not continue a response that has begun")
    if tools := write_tools(request.tools, losses, read_tool, _write_tool):
        body["tools"] = tools
    if request.tool_choice is not None:
        body["tool_choice"] = _write_choice(request.tool_choice)
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output is not None:
        body["response_format"] = _write_output(request.output, request, losses)
    if request.reasoning is not None:
        if request.reasoning.effort:
            body["reasoning_effort"] = request.reasoning.effort
        record_reasoning_losses(request.reasoning, _EFFORTS, losses)
    if request.max_tokens is not None:
        completion = request.token_limit_param == "max-completion-tokens"
        body["max_completion_tokens" if completion else "max_tokens"] = request.max_tokens
    for name in ("temperature", "top_p"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if request.top_k is not None:
        losses.lossy("top_k", "this API cannot limit sampling to the top k tokens")
    if request.stop:
        as_text = request.spelling.get("stop") == "text" and len(request.stop) == 1
        body["stop"] = request.stop[0] if losses.same_api and as_text else list(request.stop)
        if len(request.stop) > 4 and not losses.same_api:
            losses.unsupported("stop", "this API takes at most four stop sequences")
    if request.stream:
        body["stream"] = True
    if losses.same_api:
        empty = {name: value for name, value in request.spelling.items() if not value}
        body = {**request.extras, **empty, **body}
    else:
        _translate_extras(request, body, losses)
    return losses.translated(body)


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps the fields that only this API has, and the spelling."""
    kind = required_string(tool, "type", where)
    if kind != "function":
        return Tool(kind, extra={f"{API} kind": kind, f"{API} spelling": tool})
    function = read_object(tool.get("function"), f"{where}.function")
    name = required_string(function, "name", f"{where}.function")
    fields = without(function, {"name", "parameters", "description", "strict"})
    fields |= without(tool, {"type", "function"})
    return Tool(
        name,
        optional_schema(function, "parameters"),
        optional_string(function, "description"),
        optional_bool(function, "strict"),
        make_extra(API, fields, tool),
    )


def read_output(response_format: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that makes the response JSON; return None for any other."""
    kind = required_string(response_format, "type", "response_format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    where = "response_format.json_schema"
    return read_json_schema(read_object(response_format.get("json_schema"), where), where)


def read_json_schema(data: Mapping[str, Any], where: str) -> JsonSchema:
    """Read the schema of an output with its name, as both APIs of OpenAI have it."""
    return JsonSchema(
        optional_schema(data, "schema"),
        required_string(data, "name", where),
        optional_string(data, "description"),
        optional_bool(data, "strict"),
    )


def read_choice_mode(mode: str) -> ToolChoice:
    """Read a choice of tools that is a word, as in both APIs of OpenAI."""
    if mode in ("auto", "none", "required"):
        return ToolChoice(mode)  # type: ignore[arg-type]
    raise InputError(f"tool_choice: expected auto, none, required or a tool, not {mode!r:.60}")


def record_reasoning_losses(reasoning: Reasoning, efforts: Collection[str], losses: LossRecorder) -> None:
    """Record what a setting of reasoning cannot express in an API with these levels of effort."""
    if reasoning.effort and reasoning.effort not in efforts and not losses.same_api:
        losses.unsupported("reasoning.effort", f"this API has {', '.join(efforts)}")
    if reasoning.budget_tokens is not None:
        losses.lossy("reasoning.budget_tokens", "this API has levels of effort, not a budget")
    for name in reasoning.extra:
        losses.lossy(f"reasoning.{name}", "this API has no such setting")


def write_json_schema(output: JsonSchema) -> dict[str, Any]:
    """Write the schema of an output with its name."""
    data: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if output.description:
        data["description"] = output.description
    if output.strict is not None:
        data["strict"] = output.strict
    return data


def translate_user(metadata: Mapping[str, Any], api: str, body: dict[str, Any], losses: LossRecorder) -> None:
    """Translate the `metadata` of the Anthropic API, of which only the user has a name here."""
    if metadata["user_id"] is not None:
        body["user"] = metadata["user_id"]
    for name in without(metadata, {"user_id"}):
        losses.lossy(f"metadata.{name}", f"only {api} has this field")


def _read_limit(fields: Mapping[str, Any], extras: dict[str, Any]) -> tuple[int | None, TokenLimitParam]:
    """Return the token limit and the field that set it; the newer of the two fields wins."""
    max_tokens = optional_int(fields, "max_tokens")
    max_completion_tokens = optional_int(fields, "max_completion_tokens")
    if max_completion_tokens is None:
        return max_tokens, "max-tokens"
    if max_tokens is not None:
        extras["max_tokens"] = max_tokens
    return max_completion_tokens, "max-completion-tokens"


def _read_stop(fields: Mapping[str, Any], spelling: dict[str, Any]) -> tuple[str, ...]:
    stop = fields.get("stop", [])
    if isinstance(stop, str):
        spelling["stop"] = "text"
        return (stop,)
    return tuple(read_strings(stop, "stop"))


def _read_message(data: Mapping[str, Any], where: str) -> Message:
    role = data.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}.role: expected {', '.join(_ROLES)}, not {role!r:.60}")
    content = data.get("content")
    spelling: dict[str, Any] = {} if role == _ROLES[role] else {"role": role}
    blocks: list[Block] = []
    if content is None:
        spelling["content"] = "null" if "content" in data else "absent"
    elif isinstance(content, str):
        spelling["content"] = "text"
        blocks = [TextBlock(content)]
    else:
        spelling["content"] = "parts"
        parts = read_objects(content, f"{where}.content")
        blocks = [_read_part(part, f"{where}.content[{index}]") for index, part in enumerate(parts)]
    known = {"role", "content"}
    if role == "tool":
        known.add("tool_call_id")
        inner = tuple(block for block in blocks if isinstance(block, (TextBlock, ImageBlock, OtherBlock)))
        blocks = [ToolResultBlock(required_string(data, "tool_call_id", where), inner)]
    if role == "assistant" and data.get("tool_calls"):
        known.add("tool_calls")
        calls = read_objects(data["tool_calls"], f"{where}.tool_calls")
        blocks += [_read_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)]
    extra = without(data, known)
    if extra:
        spelling["extra"] = extra
    return Message(_ROLES[role], tuple(blocks), {API: spelling})


def _read_part(part: Mapping[str, Any], where: str) -> Block:
    kind = required_string(part, "type", where)
    if kind == "text":
        text = required_string(part, "text", where)
        return TextBlock(text, make_extra(API, without(part, {"type", "text"})))
    image = part.get("image_url")
    if kind == "image_url":
        url = required_string(read_object(image, f"{where}.image_url"), "url", f"{where}.image_url")
        fields = without(part, {"type", "image_url"})
        if len(part["image_url"]) > 1:
            fields["image_url"] = without(part["image_url"], {"url"})
        inline = parse_data_url(url)
        if inline is not None:
            return ImageBlock(data=inline[1], media_type=inline[0], extra=make_extra(API, fields))
        if url:
            return ImageBlock(url=url, extra=make_extra(API, fields))
    return OtherBlock(API, dict(part))


def _read_call(call: Mapping[str, Any], where: str) -> Block:
    if call.get("type", "function") != "function":
        return OtherBlock(CALL, dict(call))
    function = read_object(call.get("function"), f"{where}.function")
    raw = required_string(function, "arguments", f"{where}.function")
    fields = without(call, {"id", "type", "function"})
    if set(function) - {"name", "arguments"}:
        fields["function"] = without(function, {"name", "arguments"})
    spelling = {} if "type" in call else {"type": "absent"}
    if not raw:
        spelling["arguments"] = "empty"
    return ToolUseBlock(
        required_string(call, "id", where),
        required_string(function, "name", f"{where}.function"),
        read_arguments(raw) if raw else {},
        raw,
        make_extra(API, fields, spelling),
    )


def _read_choice(fields: Mapping[str, Any], extras: dict[str, Any]) -> ToolChoice | None:
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return read_choice_mode(choice)
    function = read_object(choice, "tool_choice").get("function")
    if choice.get("type") == "function" and len(choice) == 2:
        name = required_string(read_object(function, "tool_choice.function"), "name", "tool_choice.function")
        if function == {"name": name}:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_format(
    fields: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    if "response_format" not in fields:
        return None
    response_format = read_object(fields["response_format"], "response_format")
    output = read_output(response_format)
    if output is not None:
        spelling["response_format"] = response_format
    known = {"name", "schema", "description", "strict"}
    inner = response_format.get("json_schema", {})
    if output is None or set(response_format) - {"type", "json_schema"} or set(inner) - known:
        extras["response_format"] = response_format
    return output


def _translate_extras(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    if request.api == RESPONSES:
        body |= translate_responses_extras(request.extras, losses, _FROM_RESPONSES)
        return
    for name, value in request.extras.items():
        if name == "metadata" and isinstance(value, Mapping) and "user_id" in value:
            translate_user(value, request.api, body, losses)
        elif value is None:
            continue
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")


def _write_message(message: Message, where: str, losses: LossRecorder) -> Iterator[dict[str, Any]]:
    """Write a message; each tool result becomes a message of its own."""
    spelling = message_spelling(message.metadata, API)
    losses.foreign_fields(message.metadata, where)
    others: list[tuple[str, Block]] = []
    has_results = False
    for index, block in enumerate(message.content):
        path = f"{where}.content[{index}]"
        if isinstance(block, ToolResultBlock):
            has_results = True
            yield {**_write_result(block, spelling, path, losses), **spelling.get("extra", {})}
        else:
            others.append((path, block))
    if not has_results or others:
        role = "user" if message.role == "tool" else message.role
        yield _write_plain(role, others, {} if has_results else spelling, losses)


def _write_result(
    block: ToolResultBlock, spelling: Mapping[str, Any], path: str, losses: LossRecorder
) -> dict[str, Any]:
    if block.is_error:
        losses.lossy(f"{path}.is_error", "this API has no mark for a failed tool; say it in the text")
    fields = losses.own_fields(block.extra, path)
    inner: list[tuple[str, Block]] = []
    for index, part in enumerate(block.content):
        where = f"{path}.content[{index}]"
        if isinstance(part, ImageBlock) and not losses.same_api:
            losses.unsupported(where, "in this API, a tool's result is text")
        else:
            inner.append((where, part))
    data = {"role": "tool", "tool_call_id": block.tool_use_id}
    return {**data, **_content(inner, spelling.get("content"), "", losses), **fields}


def _write_plain(
    role: str, blocks: Sequence[tuple[str, Block]], spelling: Mapping[str, Any], losses: LossRecorder
) -> dict[str, Any]:
    data: dict[str, Any] = {"role": spelling.get("role", role)}
    calls: list[dict[str, Any]] = []
    content: list[tuple[str, Block]] = []
    for path, block in blocks:
        if isinstance(block, ToolUseBlock):
            calls.append(_write_call(block, path, losses))
        elif isinstance(block, OtherBlock) and block.api == CALL:
            calls.append(block.content)
        else:
            if calls and isinstance(block, TextBlock):
                losses.lossy(path, "text after a tool call is moved before the call")
            content.append((path, block))
    data |= _content(content, spelling.get("content"), None if calls else "", losses)
    if calls:
        data["tool_calls"] = calls
    return {**data, **spelling.get("extra", {})}


def _content(
    blocks: Sequence[tuple[str, Block]], form: str | None, empty: str | None, losses: LossRecorder
) -> dict[str, Any]:
    """Return the `content` field in the form that it had, or in the usual one."""
    parts = [part for path, block in blocks if (part := _write_part(block, path, losses)) is not None]
    if not parts:
        if form == "absent":
            return {}
        return {"content": {"text": "", "parts": [], "null": None}.get(form or "", empty)}
    plain = len(parts) == 1 and set(parts[0]) == {"type", "text"}
    return {"content": parts[0]["text"] if plain and form != "parts" else parts}


def _write_part(block: Block, path: str, losses: LossRecorder) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text, **losses.own_fields(block.extra, path)}
    if isinstance(block, ImageBlock):
        url = block.url or write_data_url(block.media_type, block.data)
        shared = ("detail",) if RESPONSES in block.extra else ()
        fields = losses.own_fields(block.extra, path, shared)
        inner = fields.pop("image_url", {})
        if shared and "detail" in fields:
            inner = {"detail": fields.pop("detail"), **inner}
        return {"type": "image_url", "image_url": {"url": url, **inner}, **fields}
    if isinstance(block, ThinkingBlock):
        losses.lossy(path, "this API does not accept earlier thinking")
        return None
    if isinstance(block, OtherBlock) and block.api == API:
        return block.content
    losses.unsupported_block(block, path)
    return None


def _write_call(block: ToolUseBlock, path: str, losses: LossRecorder) -> dict[str, Any]:
    spelling = spelling_of(block.extra, API)
    arguments = block.raw
    if not arguments and "arguments" not in spelling:
        arguments = write_arguments(block.input, path)
    fields = losses.own_fields(block.extra, path)
    inner = fields.pop("function", {})
    kind = {} if spelling.get("type") == "absent" else {"type": "function"}
    function = {"name": block.name, "arguments": arguments, **inner}
    return {"id": block.id, **kind, "function": function, **fields}


def _write_tool(tool: Tool, losses: LossRecorder) -> dict[str, Any]:
    fields = losses.own_fields(without(tool.extra, {API}), f"tools.{tool.name}")
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


def _write_output(output: JsonObject | JsonSchema, request: Request, losses: LossRecorder) -> dict[str, Any]:
    original: dict[str, Any] | None = request.spelling.get("response_format")
    if losses.same_api and original and read_output(original) == output:
        return original
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": write_json_schema(output)}
