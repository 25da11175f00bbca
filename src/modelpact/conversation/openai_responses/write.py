"""OpenAI Responses: requests to request bodies, and what they cannot say."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import Carried, Losses
from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.openai_common import SHARED
from modelpact.conversation.openai_responses.items import API
from modelpact.conversation.openai_responses.read import STRICT, read_output, read_tool
from modelpact.conversation.openai_responses.write_items import write_items
from modelpact.conversation.reading import rest, said_by, spelled
from modelpact.conversation.request import JsonObject, JsonSchema, Request, Tool, ToolChoice

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


def to_openai_responses(request: Request) -> Carried:
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
    if losses.own:
        empty = {name: value for name, value in request.spelling.items() if not value}
        body = {**rest(request.extras, {"text", "reasoning"}), **empty, **body}
    else:
        _stay_stateless(request, body)
        _carry_extras(request, body, losses)
    return Carried(body, tuple(losses.listed))


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
        items += _write_message(message, f"messages[{place}]", losses)
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


def _write_message(message: Message, where: str, losses: Losses) -> list[dict[str, Any]]:
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


def _write_reasoning(request: Request, body: dict[str, Any], losses: Losses) -> None:
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
