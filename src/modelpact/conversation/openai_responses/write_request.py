"""OpenAI Responses: write request bodies, and report what the API cannot express."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import LossRecorder, TranslatedBody
from modelpact.conversation.fields import (
    message_spelling,
    spelling_of,
    without,
)
from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.openai_responses.items import API, write_items
from modelpact.conversation.openai_responses.read_request import STRICT, read_output, read_tool
from modelpact.conversation.openai_shared import CHAT_NEUTRAL, CHAT_UNSUPPORTED, SHARED
from modelpact.conversation.request import JsonObject, JsonSchema, Request, Tool, ToolChoice

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
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    **CHAT_NEUTRAL,
    "top_logprobs": (0,),
    "logit_bias": ({},),
}
"""Values of other APIs that ask for what this API does anyway."""


def write_request(request: Request) -> TranslatedBody:
    """Write a request body, and report what it cannot express."""
    losses = LossRecorder(API, request.api)
    body: dict[str, Any] = {"model": request.model}
    _write_input(request, body, losses)
    tools = [data for tool in request.tools if (data := _write_tool(tool, losses)) is not None]
    if tools:
        body["tools"] = tools
    if request.tool_choice is not None:
        body["tool_choice"] = _write_choice(request.tool_choice)
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


def _write_tool(tool: Tool, losses: LossRecorder) -> dict[str, Any] | None:
    original: dict[str, Any] = spelling_of(tool.extra, API)
    if original and read_tool(original, "tools") == tool:
        return original
    path = f"tools.{tool.name}"
    if tool.builtin:
        losses.unsupported(path, f"only another API has the tool {tool.builtin:.60}")
        return None
    fields = without(losses.own_fields(tool.extra, path), {STRICT})
    data: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None or STRICT not in tool.extra.get(API, {}):
        # In this API tools are strict by default; in the others they are not.
        data["strict"] = bool(tool.strict)
    return {**data, **fields}


def _write_choice(choice: ToolChoice) -> Any:
    return {"type": "function", "name": choice.name} if choice.mode == "tool" else choice.mode


def _write_text(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    text: dict[str, Any] = {}
    if losses.same_api and "text" in request.extras:
        body["text"] = text = dict(request.extras["text"] or {})
        if request.extras["text"] is None:
            body["text"] = None
    if request.output is not None:
        text["format"] = _write_output(request.output, request, losses)
        body["text"] = text


def _write_output(
    output: JsonObject | JsonSchema, request: Request, losses: LossRecorder
) -> dict[str, Any]:
    original: dict[str, Any] | None = request.spelling.get("format")
    if losses.same_api and original and read_output(original) == output:
        return original
    if isinstance(output, JsonObject):
        return {"type": "json_object"}
    data: dict[str, Any] = {"type": "json_schema", "name": output.name, "schema": output.schema}
    if output.description:
        data["description"] = output.description
    if output.strict is not None:
        data["strict"] = output.strict
    return data


def _write_reasoning(request: Request, body: dict[str, Any], losses: LossRecorder) -> None:
    reasoning = request.reasoning
    if losses.same_api and "reasoning" in request.extras:
        body["reasoning"] = request.extras["reasoning"]
    if reasoning is None:
        return
    if reasoning.effort:
        body["reasoning"] = {**(body.get("reasoning") or {}), "effort": reasoning.effort}
        if reasoning.effort not in _EFFORTS and not losses.same_api:
            losses.unsupported("reasoning.effort", f"this API has {', '.join(_EFFORTS)}")
    if reasoning.budget_tokens is not None:
        losses.lossy("reasoning.budget_tokens", "this API has levels of effort, not a budget")
    for name in reasoning.extra:
        losses.lossy(f"reasoning.{name}", "this API has no such setting")


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
            if value["user_id"] is not None:
                body["user"] = value["user_id"]
            for other in without(value, {"user_id"}):
                losses.lossy(f"metadata.{other}", f"only {request.api} has this field")
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        else:
            losses.lossy(name, f"only {request.api or 'another API'} has this field")
