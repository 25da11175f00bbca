"""OpenAI Responses: read and write request bodies."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import (
    CHAT_NEUTRAL,
    CHAT_UNSUPPORTED,
    SHARED,
    LossRecorder,
    TranslatedBody,
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
    required_string,
    split_body,
    without,
)
from modelpact.conversation.message import Block, Message, Role, TextBlock
from modelpact.conversation.openai_chat.request import (
    read_choice_mode,
    read_json_schema,
    record_reasoning_losses,
    translate_user,
    write_json_schema,
)
from modelpact.conversation.openai_responses.items import API, ResponsesItem, meaningful_fields, read_item, write_items
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice

STRICT: Final = "strict by default"
"""The `extra` field of a tool that leaves `strict` to the API's default."""
_MODELLED: Final = frozenset(
    [
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
        *("text", "reasoning", "max_output_tokens", "temperature", "top_p", "stream"),
    ]
)

_ENCRYPTED: Final = "reasoning.encrypted_content"
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_UNSUPPORTED: Final = {
    **CHAT_UNSUPPORTED,
    "logprobs": "token probabilities are not translated back",
    "top_logprobs": "token probabilities are not translated back",
    "container": "this API has no containers",
    "mcp_servers": "this API does not call MCP servers this way",
    "output_config": "this API does not have this format",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {**CHAT_NEUTRAL, "top_logprobs": (0,), "logit_bias": ({},)}
"""Values of other APIs that ask for what this API does anyway."""


def read_request(body: Any) -> Request:
    """Read a request body; fields that only this API has are kept in `extras`."""
    body = read_object(body, "body")
    spelled = ("input", "instructions", "tools", "stream")
    fields, extras, spelling = split_body(body, _MODELLED, spelled)
    tools = read_objects(fields.get("tools", []), "tools")
    return Request(
        model=required_string(body, "model", "body"),
        messages=(*_read_instructions(fields), *_read_input(fields, spelling)),
        tools=tuple(read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        tool_choice=_read_choice(fields, extras),
        parallel_tool_calls=optional_bool(fields, "parallel_tool_calls"),
        output=_read_text(fields, extras, spelling),
        reasoning=_read_reasoning(fields, extras),
        max_tokens=optional_int(fields, "max_output_tokens"),
        token_limit_param="max-output-tokens",
        temperature=optional_number(fields, "temperature"),
        top_p=optional_number(fields, "top_p"),
        stream=bool(optional_bool(fields, "stream")),
        api=API,
        extras=extras,
        spelling=spelling,
    )


def write_request(request: Request) -> TranslatedBody:
    """Write a request body, and report what it cannot express."""
    losses = LossRecorder(API, request.api)
    body: dict[str, Any] = {"model": request.model}
    _write_input(request, body, losses)
    if tools := write_tools(request.tools, losses, read_tool, _write_tool):
        body["tools"] = tools
    if request.tool_choice is not None:
        choice = request.tool_choice
        named = {"type": "function", "name": choice.name}
        body["tool_choice"] = named if choice.mode == "tool" else choice.mode
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    _write_text(request, body, losses)
    _write_reasoning(request, body, losses)
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
    if losses.same_api:
        empty = {name: value for name, value in request.spelling.items() if not value}
        body = {**without(request.extras, {"text", "reasoning"}), **empty, **body}
    else:
        _stay_stateless(request, body)
        _translate_extras(request, body, losses)
    return losses.translated(body)


def read_tool(tool: Mapping[str, Any], where: str) -> Tool:
    """Read a tool; `extra` keeps the fields that only this API has, and the spelling."""
    kind = required_string(tool, "type", where)
    if kind != "function":
        return Tool(kind, extra={f"{API} kind": kind, f"{API} spelling": tool})
    fields = without(tool, {"type", "name", "parameters", "description", "strict"})
    strict = optional_bool(tool, "strict")
    if strict is None:
        fields[STRICT] = True
    return Tool(
        required_string(tool, "name", where),
        optional_schema(tool, "parameters"),
        optional_string(tool, "description"),
        strict,
        make_extra(API, fields, tool),
    )


def read_output(form: Mapping[str, Any]) -> JsonObject | JsonSchema | None:
    """Read a format that makes the response JSON; return None for any other."""
    kind = required_string(form, "type", "text.format")
    if kind == "json_object":
        return JsonObject()
    if kind != "json_schema":
        return None
    return read_json_schema(form, "text.format")


def _read_instructions(fields: Mapping[str, Any]) -> list[Message]:
    text = optional_string(fields, "instructions")
    return [Message("system", (TextBlock(text),), {API: {"instructions": True}})] if text else []


def _read_input(fields: Mapping[str, Any], spelling: dict[str, Any]) -> list[Message]:
    content = fields.get("input", [])
    if isinstance(content, str):
        spelling.setdefault("input", "text")
        return [Message("user", (TextBlock(content),))] if content else []
    items = read_objects(content, "input")
    return _group_turns([read_item(item, f"input[{index}]") for index, item in enumerate(items)])


def _group_turns(items: list[ResponsesItem]) -> list[Message]:
    """Group items into messages: consecutive items of the assistant are one message."""
    turns: list[tuple[Role, list[Block], list[dict[str, Any]]]] = []
    for role, blocks, spelling in items:
        if role == "assistant" and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
            turns[-1][2].append(spelling)
        else:
            turns.append((role, list(blocks), [spelling]))
    return [Message(role, tuple(blocks), {API: _turn_spelling(spellings)}) for role, blocks, spellings in turns]


def _turn_spelling(items: list[dict[str, Any]]) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for spelling in items:
        extra |= meaningful_fields(spelling.get("extra", {}))
    return {"items": items, "extra": extra} if extra else {"items": items}


def _read_choice(fields: Mapping[str, Any], extras: dict[str, Any]) -> ToolChoice | None:
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return read_choice_mode(choice)
    if required_string(read_object(choice, "tool_choice"), "type", "tool_choice") == "function":
        name = required_string(choice, "name", "tool_choice")
        if len(choice) == 2:
            return ToolChoice("tool", name)
    extras["tool_choice"] = choice
    return None


def _read_text(
    fields: Mapping[str, Any], extras: dict[str, Any], spelling: dict[str, Any]
) -> JsonObject | JsonSchema | None:
    """Read the `format` of `text` if it makes the response JSON; the rest stays in `extras`."""
    if "text" not in fields:
        return None
    remaining = dict(read_object(fields["text"], "text"))
    output = None
    if remaining.get("format") is not None:
        form = read_object(remaining["format"], "text.format")
        output = read_output(form)
        if output is not None:
            spelling["format"] = form
            if not set(form) - {"type", "name", "schema", "description", "strict"}:
                del remaining["format"]
    if remaining or not fields["text"]:
        extras["text"] = remaining
    return output


def _read_reasoning(fields: Mapping[str, Any], extras: dict[str, Any]) -> Reasoning | None:
    if "reasoning" not in fields:
        return None
    reasoning = read_object(fields["reasoning"], "reasoning")
    effort = optional_string(reasoning, "effort")
    remaining = without(reasoning, {"effort"}) if effort else dict(reasoning)
    if remaining or not reasoning:
        extras["reasoning"] = remaining
    return Reasoning(effort) if effort else None


def _stay_stateless(request: Request, body: dict[str, Any]) -> None:
    """Ask the server to store nothing, as in other APIs, and to return the reasoning encrypted."""
    body["store"] = request.extras.get("store") is True
    if request.reasoning is not None:
        body["include"] = [_ENCRYPTED]


def _write_input(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    messages = list(enumerate(request.messages))
    if messages and _are_instructions(messages[0][1], losses):
        body["instructions"] = messages.pop(0)[1].text
    if losses.same_api and request.spelling.get("input") == "text" and len(messages) == 1:
        (block,) = messages[0][1].content or (None,)
        if messages[0][1].role == "user" and isinstance(block, TextBlock) and not block.extra:
            body["input"] = block.text
            return
    items: list[dict[str, Any]] = []
    for index, message in messages:
        items += _write_message(message, f"messages[{index}]", losses)
    if items or not losses.same_api:
        body["input"] = items
    if messages and messages[-1][1].role == "assistant" and request.api == "anthropic":
        where = f"messages[{messages[-1][0]}]"
        losses.lossy(where, "this API does not continue a response that has begun")


def _are_instructions(message: Message, losses: LossRecorder) -> bool:
    """Whether a message came as instructions, or can be sent as instructions."""
    if message.role != "system" or len(message.content) != 1:
        return False
    block = message.content[0]
    plain = isinstance(block, TextBlock) and not block.extra and bool(block.text)
    if losses.same_api:
        return plain and bool(message_spelling(message.metadata, API).get("instructions"))
    return plain and not any(
        message_spelling(message.metadata, api).get("extra") for api in ("openai-chat", "anthropic")
    )


def _write_message(message: Message, where: str, losses: LossRecorder) -> list[dict[str, Any]]:
    losses.foreign_fields(message.metadata, where)
    spellings = message_spelling(message.metadata, API).get("items")
    role = "user" if message.role == "tool" else message.role
    blocks = [(f"{where}.content[{index}]", block) for index, block in enumerate(message.content)]
    return list(write_items(role, blocks, spellings, losses))


def _write_tool(tool: Tool, losses: LossRecorder) -> dict[str, Any]:
    fields = without(losses.own_fields(tool.extra, f"tools.{tool.name}"), {STRICT})
    data: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None or STRICT not in tool.extra.get(API, {}):
        # In this API tools are strict by default; in the others they are not.
        data["strict"] = bool(tool.strict)
    return {**data, **fields}


def _write_text(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    text: dict[str, Any] = {}
    if losses.same_api and "text" in request.extras:
        body["text"] = text = dict(request.extras["text"] or {})
        if request.extras["text"] is None:
            body["text"] = None
    if request.output is not None:
        text["format"] = _write_output(request.output, request, losses)
        body["text"] = text


def _write_output(output: JsonObject | JsonSchema, request: Request, losses: LossRecorder) -> dict[str, Any]:
    original: dict[str, Any] | None = request.spelling.get("format")
    if losses.same_api and original and read_output(original) == output:
        return original
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    return {"type": "json_schema", **write_json_schema(output)}


def _write_reasoning(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    reasoning = request.reasoning
    if losses.same_api and "reasoning" in request.extras:
        body["reasoning"] = request.extras["reasoning"]
    if reasoning is None:
        return
    if reasoning.effort:
        body["reasoning"] = {**(body.get("reasoning") or {}), "effort": reasoning.effort}
    record_reasoning_losses(reasoning, _EFFORTS, losses)


def _translate_extras(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    chat = request.api == "openai-chat"
    for name, value in request.extras.items():
        if value is None or value in _NEUTRAL.get(name, ()) or name == "store":
            continue
        if chat and name in SHARED:
            body[name] = value
        elif chat and name == "verbosity":
            body["text"] = {**body.get("text", {}), "verbosity": value}
        elif name == "metadata" and isinstance(value, Mapping) and "user_id" in value:
            translate_user(value, request.api, body, losses)
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")
