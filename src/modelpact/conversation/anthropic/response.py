"""Anthropic Messages: read and write whole responses."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.anthropic.request import API, read_request, write_request
from modelpact.conversation.fidelity import LossRecorder, TranslatedBody
from modelpact.conversation.fields import (
    optional_field,
    optional_string,
    read_object,
    read_objects,
    token_count,
    token_details,
    without,
)
from modelpact.conversation.message import Block, Message, ThinkingBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import ErrorBody, Response, ResponseError, StopReason, Usage, read_error
from modelpact.vocabulary.errors import InputError

KNOWN: Final = frozenset({"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"})
"""The fields of a response that `Response` models."""
_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
}
_WRITTEN_STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "end_turn",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "unknown": "end_turn",
}

_ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def read_response(body: Any) -> Response:
    """Read a `message`; an error body raises `ResponseError`."""
    body = read_object(body, "response")
    if body.get("type") == "error" and (error := read_error(body)) is not None:
        raise ResponseError(error)
    content = read_blocks(body.get("content"), "response.content")
    usage = read_usage(body.get("usage"), "response.usage")
    reason = optional_field(body, "stop_reason", str, "a string")
    return Response(
        content,
        read_stop_reason(reason),
        optional_string(body, "stop_sequence"),
        usage,
        optional_string(body, "model"),
        optional_string(body, "id"),
        response_extra(without(body, KNOWN), body.get("usage"), reason),
    )


def write_response(
    response: Response,
    *,
    created: int = 0,  # noqa: ARG001
    request_body: Mapping[str, Any] | None = None,  # noqa: ARG001
) -> TranslatedBody:
    """Write a `message`, and report what it cannot express.

    Responses of this API carry neither a date nor fields of their request.
    """
    losses = LossRecorder(API)
    own = losses.own_fields(response.extra, "extra")
    body = {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": write_blocks(response.content, losses),
        "stop_reason": write_stop_reason(response, own),
        "stop_sequence": response.stop_sequence or None,
        "usage": write_usage(response.usage, own.get("usage")),
        **own.get("body", {}),
    }
    record_stop_losses(response, losses)
    return losses.translated(body)


def write_anthropic_error(error: ErrorBody, status: int) -> dict[str, Any]:
    """Write an error body as Anthropic does: the status decides the type."""
    kind = _ERROR_TYPES.get(status)
    if kind is None:
        kind = "invalid_request_error" if status < 500 else "api_error"
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def read_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage; a missing one counts nothing.

    `input_tokens` excludes cache reads and writes in this API; `Usage.input` includes them.
    """
    if data is None:
        return Usage()
    data = read_object(data, where)
    cache_read = token_count(data, "cache_read_input_tokens", where)
    cache_write = token_count(data, "cache_creation_input_tokens", where)
    output = token_details(data, "output_tokens_details", where)
    return Usage(
        token_count(data, "input_tokens", where) + cache_read + cache_write,
        token_count(data, "output_tokens", where),
        token_count(output, "thinking_tokens", f"{where}.output_tokens_details"),
        cache_read,
        cache_write,
    )


def write_usage(usage: Usage, original: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; the original is repeated if it counts the same, since it may say more."""
    if original is not None and read_usage(original) == usage:
        return dict(original)
    data: dict[str, Any] = {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        data["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return data


def read_blocks(content: Any, where: str) -> tuple[Block, ...]:
    """Read the blocks of a response; errors name the place."""
    blocks = [_without_empty_signature(block) for block in read_objects(content, where)]
    message = {"role": "assistant", "content": blocks}
    try:
        return read_request({"model": "", "messages": [message]}).messages[0].content
    except InputError as error:
        detail = str(error).removeprefix("messages[0].content")
        raise InputError(f"{where}{detail}") from None


def write_blocks(blocks: tuple[Block, ...], losses: LossRecorder) -> list[dict[str, Any]]:
    """Write the blocks of a response, and record what they cannot express."""
    written: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        path = f"content[{index}]"
        if isinstance(block, ThinkingBlock) and not block.signature:
            fields = losses.own_fields(block.extra, path)
            thinking = {"type": "thinking", "thinking": block.thinking, "signature": ""}
            written.append({**thinking, **fields})
            continue
        carrier = write_request(Request("", (Message("assistant", (block,)),), max_tokens=1))
        losses.add(carrier.losses, "messages[0].content[0]", path)
        written += carrier.body["messages"][0]["content"]
    return written


def response_extra(body: Mapping[str, Any], usage: Any, reason: str | None) -> dict[str, Any]:
    """Return the `extra` of a response: what only this API expresses, if there is anything."""
    own: dict[str, Any] = {"body": dict(body)} if body else {}
    if usage and usage != write_usage(read_usage(usage)):
        own["usage"] = usage
    if reason != _WRITTEN_STOP_REASONS[read_stop_reason(reason)]:
        own["stop_reason"] = reason
    return {API: own} if own else {}


def read_stop_reason(reason: str | None) -> StopReason:
    """Return why the model stopped."""
    return _STOP_REASONS.get(reason or "", "unknown")


def write_stop_reason(response: Response, own: Mapping[str, Any]) -> Any:
    """Return the stop reason: the API's own word for it, if that still means the same."""
    original = own.get("stop_reason", "")
    if original != "" and read_stop_reason(original) == response.stop_reason:
        return original
    return _WRITTEN_STOP_REASONS[response.stop_reason]


def record_stop_losses(response: Response, losses: LossRecorder) -> None:
    """Record what the end of a response cannot express."""
    if response.stop_reason == "unknown" and API not in response.extra:
        losses.lossy("stop_reason", "this API has no word for an unknown reason")


def _without_empty_signature(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "thinking" and block.get("signature") == "":
        return without(block, {"signature"})
    return block
