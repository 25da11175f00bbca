"""Anthropic Messages: whole answers, read and written."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.anthropic.read_request import API, from_anthropic
from modelpact.conversation.anthropic.write_request import to_anthropic
from modelpact.conversation.body_reader import checked, objects, rest, typed
from modelpact.conversation.error_bodies import StreamBroken, read_error
from modelpact.conversation.fidelity import Losses, TranslatedBody
from modelpact.conversation.message import Block, Message, ThinkingBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response
from modelpact.conversation.usage import (
    ANTHROPIC_STOPS,
    TO_ANTHROPIC_STOPS,
    own_usage,
    read_anthropic_usage,
    write_anthropic_usage,
)
from modelpact.vocabulary.errors import InputError

KNOWN: Final = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
)


def from_anthropic_answer(body: Any) -> Response:
    """Read a `message`; an error body raises `StreamBroken`."""
    body = checked(body, "answer")
    if body.get("type") == "error" and (said := read_error(body)) is not None:
        raise StreamBroken(said)
    content = read_blocks(body.get("content"), "answer.content")
    usage = read_anthropic_usage(body.get("usage"), "answer.usage")
    reason = typed(body, "stop_reason", str, "a text")
    return Response(
        content,
        ANTHROPIC_STOPS.get(reason or "", "unknown"),
        typed(body, "stop_sequence", str, "a text") or "",
        usage,
        typed(body, "model", str, "a text") or "",
        typed(body, "id", str, "a text") or "",
        own_fields(rest(body, KNOWN), body.get("usage"), reason),
    )


def to_anthropic_answer(response: Response) -> TranslatedBody:
    """Write a `message`, and say what it could not say."""
    losses = Losses(API, "")
    own = losses.own_fields(response.extra, "extra")
    body = {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": write_blocks(response.content, losses),
        "stop_reason": write_stop(response, own),
        "stop_sequence": response.stop_sequence or None,
        "usage": write_anthropic_usage(response.usage, own.get("usage")),
        **own.get("body", {}),
    }
    note_stop(response, losses)
    return TranslatedBody(body, tuple(losses.listed))


def read_blocks(content: Any, where: str) -> tuple[Block, ...]:
    """Read the blocks of an answer; errors name the place."""
    blocks = [_unsigned(one) for one in objects(content, where)]
    message = {"role": "assistant", "content": blocks}
    try:
        return from_anthropic({"model": "", "messages": [message]}).messages[0].content
    except InputError as error:
        told = str(error).removeprefix("messages[0].content")
        raise InputError(f"{where}{told}") from None


def _unsigned(block: dict[str, Any]) -> dict[str, Any]:
    """Return a thinking without the signature that it does not have."""
    if block.get("type") == "thinking" and block.get("signature") == "":
        return rest(block, {"signature"})
    return block


def write_blocks(blocks: tuple[Block, ...], losses: Losses) -> list[dict[str, Any]]:
    """Write the blocks of an answer, and note what they could not say."""
    written: list[dict[str, Any]] = []
    for place, block in enumerate(blocks):
        if isinstance(block, ThinkingBlock) and not block.signature:
            fields = losses.own_fields(block.extra, f"content[{place}]")
            thought = {"type": "thinking", "thinking": block.thinking, "signature": ""}
            written.append({**thought, **fields})
            continue
        carried = to_anthropic(Request("", (Message("assistant", (block,)),), max_tokens=1))
        for loss in carried.losses:
            (losses.unsupported if loss.fidelity == "unsupported" else losses.lossy)(
                f"content[{place}]{loss.path.removeprefix('messages[0].content[0]')}", loss.what
            )
        written += carried.body["messages"][0]["content"]
    return written


def own_fields(body: Mapping[str, Any], usage: Any, reason: str | None) -> dict[str, Any]:
    """Return the `extra` of an answer: what only this API says, where it says anything."""
    plain = write_anthropic_usage(read_anthropic_usage(usage)) if usage else {}
    found = {**({"body": dict(body)} if body else {}), **own_usage(usage, plain)}
    if reason != TO_ANTHROPIC_STOPS[ANTHROPIC_STOPS.get(reason or "", "unknown")]:
        found["stop_reason"] = reason
    return {API: found} if found else {}


def write_stop(response: Response, own: Mapping[str, Any]) -> Any:
    """Return the stop reason, as the API gave it if that still holds."""
    given = own.get("stop_reason", "")
    if given != "" and ANTHROPIC_STOPS.get(given or "", "unknown") == response.stop_reason:
        return given
    return TO_ANTHROPIC_STOPS[response.stop_reason]


def note_stop(response: Response, losses: Losses) -> None:
    """Note what the end of an answer cannot say here."""
    if response.stop_reason == "unknown" and API not in response.extra:
        losses.lossy("stop_reason", "this API has no word for an unknown reason")
