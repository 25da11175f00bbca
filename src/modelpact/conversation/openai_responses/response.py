"""OpenAI Responses: whole answers, read and written."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import checked, objects, rest, spelled, typed
from modelpact.conversation.error_bodies import ApiError, StreamBroken, read_error
from modelpact.conversation.fidelity import Losses, TranslatedBody
from modelpact.conversation.message import (
    Block,
    ImageBlock,
    OtherBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_responses.read_request import API, ITEM, read_item
from modelpact.conversation.openai_responses.write_request import fits, is_refusal, write_items
from modelpact.conversation.response import Response, StopReason
from modelpact.conversation.usage import own_usage, read_responses_usage, write_responses_usage
from modelpact.vocabulary.errors import InputError

_KNOWN: Final = frozenset({"id", "object", "model", "output", "usage"})
_INCOMPLETE: Final[Mapping[str, StopReason]] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
}
_REASONS: Final = {stop: reason for reason, stop in _INCOMPLETE.items()}
_ECHOED: Final[Mapping[str, Any]] = {
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
"""What an answer repeats of its request, and what it says where the request was silent."""
_PREFIXES: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def from_openai_response(body: Any) -> Response:
    """Read a `response`; one that failed, and an error body, raise `StreamBroken`."""
    body = checked(body, "answer")
    if "output" not in body and (said := read_error(body)) is not None:
        raise StreamBroken(said)
    if body.get("status") == "failed":
        raise StreamBroken(read_failure(body))
    if body.get("status") not in (None, "completed", "incomplete"):
        raise InputError(
            f"answer.status: expected completed or incomplete, not {body['status']!r:.40}; "
            "ask without background"
        )
    content: list[Block] = []
    items: list[dict[str, Any]] = []
    for place, item in enumerate(objects(body.get("output"), "answer.output")):
        blocks, said_of = read_output(item, f"answer.output[{place}]")
        content += blocks
        items.append(said_of)
    usage = body.get("usage")
    return Response(
        tuple(content),
        _stop_reason(body, content),
        usage=read_responses_usage(usage, "answer.usage"),
        model=typed(body, "model", str, "a text") or "",
        id=typed(body, "id", str, "a text") or "",
        extra={
            API: {"body": rest(body, _KNOWN), **own_usage(usage, _plain_usage(usage))},
            f"{API} spelling": {"items": items},
        },
    )


def to_openai_response(
    response: Response, *, created: int = 0, asked: Mapping[str, Any] | None = None
) -> TranslatedBody:
    """Write a `response`, and say what it could not say; `asked` is the request's body."""
    losses = Losses(API, "")
    own = losses.own_fields(response.extra, "extra")
    note_stop(response, losses)
    said = spelled(response.extra, API).get("items")
    blocks = [(f"content[{place}]", one) for place, one in enumerate(response.content)]
    output = list(write_items("assistant", blocks, said, losses, answer=True)) if blocks else []
    status, details = write_stop(response)
    if not fits(response.content, said):
        output = [
            complete(one, f"{response.id}_{place}", status if place == len(output) - 1 else "")
            for place, one in enumerate(output)
        ]
    told = own.get("body")
    if told is None:
        told = head(created, asked, status, details)
    elif _stop_reason(told, response.content) != response.stop_reason:
        told = {**told, "status": status, "incomplete_details": details}
    body = {
        "id": response.id,
        "object": "response",
        "model": response.model,
        "output": output,
        "usage": write_responses_usage(response.usage, own.get("usage")),
        **told,
    }
    return TranslatedBody(body, tuple(losses.listed))


def read_output(item: Mapping[str, Any], where: str) -> tuple[list[Block], dict[str, Any]]:
    """Return the blocks of an item of an answer, and how it was spelled."""
    role, blocks, said = read_item(item, where)
    if "parts" in said and role != "assistant":
        raise InputError(f"{where}.role: expected assistant, not {item.get('role')!r:.40}")
    if any(isinstance(one, ToolResultBlock) for one in blocks):
        return [OtherBlock(ITEM, dict(item))], {}
    if any(isinstance(one, ImageBlock) for one in blocks):
        raise InputError(f"{where}.content: an image is no part of an answer")
    return blocks, said


def read_failure(body: Mapping[str, Any]) -> ApiError:
    """Read why a response failed."""
    return read_error({"error": body.get("error")}) or ApiError("the response failed")


def _stop_reason(body: Mapping[str, Any], content: Any) -> StopReason:
    details = body.get("incomplete_details")
    details = {} if details is None else checked(details, "answer.incomplete_details")
    if any(isinstance(one, TextBlock) and is_refusal(one) for one in content):
        return "refusal"
    if body.get("status") == "incomplete":
        return _INCOMPLETE.get(typed(details, "reason", str, "a text") or "", "unknown")
    return "tool_use" if any(_is_call(one) for one in content) else "end"


def _is_call(block: Block) -> bool:
    if isinstance(block, OtherBlock):
        return block.api == ITEM and block.content.get("type") == "custom_tool_call"
    return isinstance(block, ToolUseBlock)


def write_stop(response: Response) -> tuple[str, dict[str, Any] | None]:
    """Return the status of an answer, and why it is incomplete; a refusal in words is complete."""
    reason = _REASONS.get(response.stop_reason)
    worded = any(isinstance(one, TextBlock) and is_refusal(one) for one in response.content)
    if reason is None or (response.stop_reason == "refusal" and worded):
        return "completed", None
    return "incomplete", {"reason": reason}


def note_stop(response: Response, losses: Losses) -> None:
    """Note what the end of an answer cannot say here."""
    if response.stop_sequence:
        losses.lossy("stop_sequence", "this API does not tell which sequence stopped it")
    elif response.stop_reason == "unknown" and API not in response.extra:
        losses.lossy("stop_reason", "this API has no word for an unknown reason")


def head(
    created: int,
    asked: Mapping[str, Any] | None,
    status: str,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what an answer says beside its output; nothing of it is stored."""
    echoed = {
        name: usual if (asked or {}).get(name) is None else (asked or {})[name]
        for name, usual in _ECHOED.items()
    }
    end = {"status": status, "error": None, "incomplete_details": details}
    return {"created_at": created, **end, "store": False, **echoed}


def complete(item: Mapping[str, Any], identity: str, status: str = "") -> dict[str, Any]:
    """Return an item of an answer with all that this API's clients expect of one."""
    kind = str(item.get("type"))
    if kind not in _PREFIXES:
        return dict(item)
    found = {"id": f"{_PREFIXES[kind]}_{identity}", **item}
    if kind == "message":
        content = item["content"]
        if isinstance(content, str):
            content = [{"type": "output_text", "text": content}]
        found["content"] = [_complete_part(one) for one in content]
    if kind != "reasoning":
        found.setdefault("status", status or "completed")
    return found


def _complete_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") != "output_text":
        return dict(part)
    return {"annotations": [], "logprobs": [], **part}


def _plain_usage(usage: Any) -> dict[str, Any]:
    return write_responses_usage(read_responses_usage(usage)) if usage else {}
