"""OpenAI Chat Completions: read and write whole responses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from modelpact.conversation.fidelity import LossRecorder, TranslatedBody
from modelpact.conversation.fields import (
    optional_field,
    optional_string,
    read_object,
    read_objects,
    spelling_of,
    token_count,
    token_details,
    without,
)
from modelpact.conversation.message import Block, Message, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.request import API, CALL, read_request, write_request
from modelpact.conversation.request import Request
from modelpact.conversation.response import REFUSED, ErrorBody, Response, ResponseError, StopReason, Usage, read_error
from modelpact.vocabulary.errors import InputError

_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_FINISH_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "unknown": "stop",
}
REASONING: Final = ("reasoning_content", "reasoning")
"""Fields in which compatible servers send the thinking; the first is the usual one."""
_KNOWN: Final = frozenset({"id", "object", "model", "choices", "usage"})


def read_response(body: Any) -> Response:
    """Read a `chat.completion` with one choice; an error body raises `ResponseError`."""
    body = read_object(body, "response")
    if "choices" not in body and (error := read_error(body)) is not None:
        raise ResponseError(error)
    choice = _only_choice(read_objects(body.get("choices"), "response.choices"))
    message = read_object(choice.get("message"), "response.choices[0].message")
    content, own = read_message(message)
    usage = read_usage(body.get("usage"), "response.usage")
    reason = optional_field(choice, "finish_reason", str, "a string")
    extra = response_extra(
        without(body, _KNOWN),
        without(choice, {"index", "message", "finish_reason"}),
        own,
        body.get("usage"),
        reason,
        content,
    )
    return Response(
        content,
        read_stop_reason(reason, content),
        read_stop_sequence(choice),
        usage,
        optional_string(body, "model"),
        optional_string(body, "id"),
        extra,
    )


def write_response(
    response: Response,
    *,
    created: int = 0,
    request_body: Mapping[str, Any] | None = None,  # noqa: ARG001
) -> TranslatedBody:
    """Write a `chat.completion`, and report what it cannot express.

    Responses of this API carry no fields of their request.
    """
    losses = LossRecorder(API)
    own = losses.own_fields(response.extra, "extra")
    message = _write_message(response, own.get("message", {}), losses)
    body = {
        "id": response.id,
        "object": "chat.completion",
        "created": created,
        "model": response.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": write_stop_reason(response, own),
                "logprobs": None,
                **own.get("choice", {}),
            }
        ],
        "usage": write_usage(response.usage, own.get("usage")),
        **own.get("body", {}),
    }
    record_stop_losses(response, losses)
    return losses.translated(body)


def write_openai_error(error: ErrorBody) -> dict[str, Any]:
    """Write an error body as OpenAI does; fields that are not known are null."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind or "api_error",
            "param": error.param or None,
            "code": error.code or None,
        }
    }


def read_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage; a missing one counts nothing."""
    if data is None:
        return Usage()
    data = read_object(data, where)
    prompt = token_details(data, "prompt_tokens_details", where)
    completion = token_details(data, "completion_tokens_details", where)
    prompt_path = f"{where}.prompt_tokens_details"
    cached = token_count(prompt, "cached_tokens", prompt_path)
    return Usage(
        token_count(data, "prompt_tokens", where),
        token_count(data, "completion_tokens", where),
        token_count(completion, "reasoning_tokens", f"{where}.completion_tokens_details"),
        cached or token_count(data, "prompt_cache_hit_tokens", where),
        token_count(prompt, "cache_write_tokens", prompt_path),
    )


def write_usage(usage: Usage, original: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; the original is repeated if it counts the same, since it may say more."""
    if original is not None and read_usage(original) == usage:
        return dict(original)
    prompt = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        prompt["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": prompt,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def read_message(message: Mapping[str, Any]) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """Return the blocks of a response's message, and what else the message expresses."""
    plain = {**message, "role": "assistant"}
    thinking: list[Block] = []
    for field in REASONING:
        text = optional_string(message, field)
        if text and not thinking:
            field_spelling = {f"{API} spelling": {"field": field}} if field != REASONING[0] else {}
            thinking.append(ThinkingBlock(text, extra=field_spelling))
            del plain[field]
    try:
        read = read_request({"model": "", "messages": [plain]}).messages[0]
    except InputError as error:
        detail = str(error).removeprefix("messages[0].")
        raise InputError(f"response.choices[0].message.{detail}") from None
    spelling = dict(read.metadata[API])
    blocks = [block for block in read.content if block != TextBlock("")]
    refusal = optional_string(message, "refusal")
    if refusal:
        blocks.insert(_first_call(blocks), TextBlock(refusal, REFUSED))
        spelling["extra"] = without(spelling["extra"], {"refusal"})
    has_calls = _first_call(blocks) < len(blocks)
    usual_form = "text" if _has_text(blocks) or not has_calls else "null"
    if spelling.get("content") == usual_form:
        del spelling["content"]
    return (*thinking, *blocks), {name: value for name, value in spelling.items() if value}


def response_extra(
    body: Mapping[str, Any],
    choice: Mapping[str, Any],
    message: Mapping[str, Any],
    usage: Any,
    reason: str | None,
    content: tuple[Block, ...],
) -> dict[str, Any]:
    """Return the `extra` of a response: what only this API expresses, if there is anything."""
    own: dict[str, Any] = {"body": dict(body)} if body else {}
    if without(choice, {"logprobs"}) or choice.get("logprobs"):
        own["choice"] = dict(choice)
    if message:
        own["message"] = dict(message)
    if usage and usage != write_usage(read_usage(usage)):
        own["usage"] = usage
    if reason != _usual_finish_reason(read_stop_reason(reason, content), content):
        own["finish_reason"] = reason
    return {API: own} if own else {}


def read_stop_reason(reason: str | None, content: tuple[Block, ...]) -> StopReason:
    """Return why the model stopped: a refusal is one, whatever the finish reason."""
    if any(isinstance(block, TextBlock) and block.extra == REFUSED for block in content):
        return "refusal"
    return _STOP_REASONS.get(reason or "", "unknown")


def read_stop_sequence(choice: Mapping[str, Any]) -> str:
    """Return the sequence that stopped the model, which only some compatible servers report."""
    sequence = choice.get("stop_reason")
    if isinstance(sequence, str) and choice.get("finish_reason") == "stop":
        return sequence
    return ""


def write_stop_reason(response: Response, own: Mapping[str, Any]) -> Any:
    """Return the finish reason: the API's own word for it, if that still means the same."""
    original = own.get("finish_reason", "")
    if original != "" and read_stop_reason(original, response.content) == response.stop_reason:
        return original
    return _usual_finish_reason(response.stop_reason, response.content)


def record_stop_losses(response: Response, losses: LossRecorder) -> None:
    """Record what the end of a response cannot express."""
    if response.stop_sequence:
        losses.lossy("stop_sequence", "this API does not report which sequence stopped the model")
    elif response.stop_reason == "unknown":
        losses.lossy("stop_reason", "this API has no word for an unknown reason")


def record_thinking_losses(block: ThinkingBlock, losses: LossRecorder) -> None:
    """Record what a thinking block cannot express."""
    if block.signature:
        losses.lossy("thinking.signature", "this API has no signed thinking")
    losses.own_fields(block.extra, "thinking")


def _usual_finish_reason(reason: StopReason, content: tuple[Block, ...]) -> str:
    if reason == "refusal" and read_stop_reason("stop", content) == "refusal":
        return "stop"
    return _FINISH_REASONS[reason]


def _write_message(response: Response, spelling: Mapping[str, Any], losses: LossRecorder) -> dict[str, Any]:
    thinking = [block for block in response.content if isinstance(block, ThinkingBlock)]
    refusals = [block for block in response.content if isinstance(block, TextBlock) and block.extra == REFUSED]
    others = tuple(block for block in response.content if block not in thinking and block not in refusals)
    for block in thinking:
        record_thinking_losses(block, losses)
    carrier = Request("", (Message("assistant", others, {API: dict(spelling)}),), api=API)
    written = write_request(carrier)
    losses.add(written.losses, "messages[0].", "")
    message: dict[str, Any] = written.body["messages"][0]
    message["refusal"] = "".join(block.text for block in refusals) or None
    if refusals and not _has_text(others) and "content" not in spelling:
        message["content"] = None
    if text := "".join(block.thinking for block in thinking):
        field = spelling_of(thinking[0].extra, API).get("field", REASONING[0])
        message[field] = text
    return message


def _only_choice(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if len(choices) != 1:
        raise InputError(f"response.choices: expected one choice, not {len(choices)}; request n = 1")
    return choices[0]


def _first_call(blocks: Sequence[Block]) -> int:
    """Return the index of the first tool call, or the number of blocks."""
    for index, block in enumerate(blocks):
        if isinstance(block, ToolUseBlock) or (isinstance(block, OtherBlock) and block.api == CALL):
            return index
    return len(blocks)


def _has_text(blocks: Iterable[Block]) -> bool:
    return any(isinstance(block, TextBlock) and block.extra != REFUSED for block in blocks)
