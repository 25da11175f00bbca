"""OpenAI Responses: read and write whole responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from modelpact.conversation.fidelity import LossRecorder, TranslatedBody
from modelpact.conversation.fields import (
    optional_string,
    read_object,
    read_objects,
    spelling_of,
    token_count,
    token_details,
    without,
)
from modelpact.conversation.message import Block, ImageBlock, OtherBlock, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.openai_responses.items import API, ITEM, is_refusal, read_item, spellings_fit, write_items
from modelpact.conversation.response import ErrorBody, Response, ResponseError, StopReason, Usage, read_error
from modelpact.vocabulary.errors import InputError

_KNOWN: Final = frozenset({"id", "object", "model", "output", "usage"})
_STOP_REASONS: Final[Mapping[str, StopReason]] = {"max_output_tokens": "length", "content_filter": "refusal"}
_INCOMPLETE_REASONS: Final = {stop: reason for reason, stop in _STOP_REASONS.items()}
_REQUEST_FIELDS: Final[Mapping[str, Any]] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
}
"""Fields of the request that a response repeats, and their values if the request has none."""
_ID_PREFIXES: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def read_response(body: Any) -> Response:
    """Read a `response`; a failed one, and an error body, raise `ResponseError`."""
    body = read_object(body, "response")
    if "output" not in body and (error := read_error(body)) is not None:
        raise ResponseError(error)
    if body.get("status") == "failed":
        raise ResponseError(read_failure(body))
    if body.get("status") not in (None, "completed", "incomplete"):
        raise InputError(
            f"response.status: expected completed or incomplete, not {body['status']!r:.40}; "
            "send the request without background"
        )
    content: list[Block] = []
    spellings: list[dict[str, Any]] = []
    for index, item in enumerate(read_objects(body.get("output"), "response.output")):
        blocks, spelling = read_output_item(item, f"response.output[{index}]")
        content += blocks
        spellings.append(spelling)
    usage = read_usage(body.get("usage"), "response.usage")
    own: dict[str, Any] = {"body": without(body, _KNOWN)}
    if body.get("usage") and body["usage"] != write_usage(usage):
        own["usage"] = body["usage"]
    return Response(
        tuple(content),
        _read_stop_reason(body, content),
        usage=usage,
        model=optional_string(body, "model"),
        id=optional_string(body, "id"),
        extra={API: own, f"{API} spelling": {"items": spellings}},
    )


def write_response(
    response: Response, *, created: int = 0, request_body: Mapping[str, Any] | None = None
) -> TranslatedBody:
    """Write a `response`, and report what it cannot express; it repeats fields of its request."""
    losses = LossRecorder(API)
    own = losses.own_fields(response.extra, "extra")
    record_stop_losses(response, losses)
    spellings = spelling_of(response.extra, API).get("items")
    blocks = [(f"content[{index}]", block) for index, block in enumerate(response.content)]
    output: list[dict[str, Any]] = []
    if blocks:
        output = list(write_items("assistant", blocks, spellings, losses, in_response=True))
    status, details = write_status(response)
    if not spellings_fit(response.content, spellings):
        last = len(output) - 1
        output = [
            complete_item(item, f"{response.id}_{index}", status if index == last else "")
            for index, item in enumerate(output)
        ]
    head = own.get("body")
    if head is None:
        head = response_head(created, request_body, status, details)
    elif _read_stop_reason(head, response.content) != response.stop_reason:
        head = {**head, "status": status, "incomplete_details": details}
    body = {
        "id": response.id,
        "object": "response",
        "model": response.model,
        "output": output,
        "usage": write_usage(response.usage, own.get("usage")),
        **head,
    }
    return losses.translated(body)


def read_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage; a missing one counts nothing."""
    if data is None:
        return Usage()
    data = read_object(data, where)
    input = token_details(data, "input_tokens_details", where)
    output = token_details(data, "output_tokens_details", where)
    input_path = f"{where}.input_tokens_details"
    return Usage(
        token_count(data, "input_tokens", where),
        token_count(data, "output_tokens", where),
        token_count(output, "reasoning_tokens", f"{where}.output_tokens_details"),
        token_count(input, "cached_tokens", input_path),
        token_count(input, "cache_write_tokens", input_path),
    )


def write_usage(usage: Usage, original: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; the original is repeated if it counts the same, since it may say more."""
    if original is not None and read_usage(original) == usage:
        return dict(original)
    input = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        "input_tokens": usage.input,
        "input_tokens_details": input,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def read_output_item(item: Mapping[str, Any], where: str) -> tuple[list[Block], dict[str, Any]]:
    """Return the blocks of an item of a response, and its spelling."""
    role, blocks, spelling = read_item(item, where)
    if "parts" in spelling and role != "assistant":
        raise InputError(f"{where}.role: expected assistant, not {item.get('role')!r:.40}")
    if any(isinstance(block, ToolResultBlock) for block in blocks):
        return [OtherBlock(ITEM, dict(item))], {}
    if any(isinstance(block, ImageBlock) for block in blocks):
        raise InputError(f"{where}.content: an image is not part of a response")
    return blocks, spelling


def read_failure(body: Mapping[str, Any]) -> ErrorBody:
    """Read why a response failed."""
    return read_error({"error": body.get("error")}) or ErrorBody("the response failed")


def write_status(response: Response) -> tuple[str, dict[str, Any] | None]:
    """Return the status of a response and why it is incomplete; a refusal in words is complete."""
    reason = _INCOMPLETE_REASONS.get(response.stop_reason)
    if reason is None or (response.stop_reason == "refusal" and _has_refusal(response.content)):
        return "completed", None
    return "incomplete", {"reason": reason}


def record_stop_losses(response: Response, losses: LossRecorder) -> None:
    """Record what the end of a response cannot express."""
    if response.stop_sequence:
        losses.lossy("stop_sequence", "this API does not report which sequence stopped the model")
    elif response.stop_reason == "unknown" and API not in response.extra:
        losses.lossy("stop_reason", "this API has no word for an unknown reason")


def response_head(
    created: int, request_body: Mapping[str, Any] | None, status: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields of a response beside its output; nothing of it is stored."""
    request_body = request_body or {}
    repeated = {
        name: default if request_body.get(name) is None else request_body[name]
        for name, default in _REQUEST_FIELDS.items()
    }
    end = {"status": status, "error": None, "incomplete_details": details}
    return {"created_at": created, **end, "store": False, **repeated}


def complete_item(item: Mapping[str, Any], suffix: str, status: str = "") -> dict[str, Any]:
    """Return an item of a response with the fields that clients of this API rely on.

    `suffix` makes its id unique.
    """
    kind = str(item.get("type"))
    if kind not in _ID_PREFIXES:
        return dict(item)
    completed = {"id": f"{_ID_PREFIXES[kind]}_{suffix}", **item}
    if kind == "message":
        content = item["content"]
        if isinstance(content, str):
            content = [{"type": "output_text", "text": content}]
        completed["content"] = [_complete_part(part) for part in content]
    if kind != "reasoning":
        completed.setdefault("status", status or "completed")
    return completed


def _complete_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") != "output_text":
        return dict(part)
    return {"annotations": [], "logprobs": [], **part}


def _read_stop_reason(body: Mapping[str, Any], content: Sequence[Block]) -> StopReason:
    details = body.get("incomplete_details")
    details = {} if details is None else read_object(details, "response.incomplete_details")
    if _has_refusal(content):
        return "refusal"
    if body.get("status") == "incomplete":
        return _STOP_REASONS.get(optional_string(details, "reason"), "unknown")
    return "tool_use" if any(_is_call(block) for block in content) else "end"


def _has_refusal(content: Sequence[Block]) -> bool:
    return any(isinstance(block, TextBlock) and is_refusal(block) for block in content)


def _is_call(block: Block) -> bool:
    if isinstance(block, OtherBlock):
        return block.api == ITEM and block.content.get("type") == "custom_tool_call"
    return isinstance(block, ToolUseBlock)
