"""OpenAI Chat Completions: whole answers, read and written."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import checked, objects, rest, spelled, typed
from modelpact.conversation.error_bodies import StreamBroken, read_error
from modelpact.conversation.fidelity import Losses, TranslatedBody
from modelpact.conversation.message import (
    Block,
    Message,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from modelpact.conversation.openai_chat.read_request import API, CALL, from_openai_chat
from modelpact.conversation.openai_chat.write_request import to_openai_chat
from modelpact.conversation.request import Request
from modelpact.conversation.response import REFUSED, Response, StopReason
from modelpact.conversation.usage import (
    OPENAI_STOPS,
    TO_OPENAI_STOPS,
    own_usage,
    read_openai_usage,
    write_openai_usage,
)
from modelpact.vocabulary.errors import InputError

REASONING: Final = ("reasoning_content", "reasoning")
"""The fields in which compatible servers tell what the model thought; the first is the usual."""
_KNOWN: Final = frozenset({"id", "object", "model", "choices", "usage"})


def from_openai_answer(body: Any) -> Response:
    """Read a `chat.completion` with one choice; an error body raises `StreamBroken`."""
    body = checked(body, "answer")
    if "choices" not in body and (said := read_error(body)) is not None:
        raise StreamBroken(said)
    choice = _only(objects(body.get("choices"), "answer.choices"))
    message = checked(choice.get("message"), "answer.choices[0].message")
    content, own = read_message(message)
    usage = read_openai_usage(body.get("usage"), "answer.usage")
    reason = typed(choice, "finish_reason", str, "a text")
    extra = own_fields(
        rest(body, _KNOWN),
        rest(choice, {"index", "message", "finish_reason"}),
        own,
        body.get("usage"),
        reason,
        content,
    )
    return Response(
        content,
        stop_reason(reason, content),
        stop_sequence(choice),
        usage,
        typed(body, "model", str, "a text") or "",
        typed(body, "id", str, "a text") or "",
        extra,
    )


def to_openai_answer(response: Response, *, created: int = 0) -> TranslatedBody:
    """Write a `chat.completion`, and say what it could not say."""
    losses = Losses(API, "")
    own = losses.own_fields(response.extra, "extra")
    top, choice = own.get("body", {}), own.get("choice", {})
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
                "finish_reason": write_stop(response, own),
                "logprobs": None,
                **choice,
            }
        ],
        "usage": write_openai_usage(response.usage, own.get("usage")),
        **top,
    }
    note_stop(response, losses)
    return TranslatedBody(body, tuple(losses.listed))


def read_message(message: Mapping[str, Any]) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """Return the blocks of an answer's message, and what it says beside them."""
    plain = {**message, "role": "assistant"}
    thought: list[Block] = []
    for field in REASONING:
        said = typed(message, field, str, "a text")
        if said and not thought:
            spelling = {f"{API} spelling": {"field": field}} if field != REASONING[0] else {}
            thought.append(ThinkingBlock(said, extra=spelling))
            del plain[field]
    try:
        read = from_openai_chat({"model": "", "messages": [plain]}).messages[0]
    except InputError as error:
        told = str(error).removeprefix("messages[0].")
        raise InputError(f"answer.choices[0].message.{told}") from None
    said = dict(read.metadata[API])
    blocks = [one for one in read.content if one != TextBlock("")]
    refusal = typed(message, "refusal", str, "a text")
    if refusal:
        blocks.insert(_calls_from(blocks), TextBlock(refusal, REFUSED))
        said["extra"] = rest(said["extra"], {"refusal"})
    usual = "text" if _spoken(blocks) or not _calls(blocks) else "null"
    if said.get("content") == usual:
        del said["content"]
    return (*thought, *blocks), {name: value for name, value in said.items() if value}


def own_fields(
    body: Mapping[str, Any],
    choice: Mapping[str, Any],
    message: Mapping[str, Any],
    usage: Any,
    reason: str | None,
    content: tuple[Block, ...],
) -> dict[str, Any]:
    """Return the `extra` of an answer: what only this API says, where it says anything."""
    plain = write_openai_usage(read_openai_usage(usage)) if usage else {}
    found: dict[str, Any] = {
        **({"body": dict(body)} if body else {}),
        **(
            {"choice": dict(choice)} if rest(choice, {"logprobs"}) or choice.get("logprobs") else {}
        ),
        **({"message": dict(message)} if message else {}),
        **own_usage(usage, plain),
    }
    if reason != _usual_stop(stop_reason(reason, content), content):
        found["finish_reason"] = reason
    return {API: found} if found else {}


def stop_reason(reason: str | None, content: tuple[Block, ...]) -> StopReason:
    """Return why the model stopped: a refusal is one whatever the reason that goes with it."""
    if any(isinstance(one, TextBlock) and one.extra == REFUSED for one in content):
        return "refusal"
    return OPENAI_STOPS.get(reason or "", "unknown")


def stop_sequence(choice: Mapping[str, Any]) -> str:
    """Return the text that stopped the model, which only some compatible servers tell."""
    found = choice.get("stop_reason")
    return found if isinstance(found, str) and choice.get("finish_reason") == "stop" else ""


def write_stop(response: Response, own: Mapping[str, Any]) -> Any:
    """Return the finish reason, as the API gave it if that still holds."""
    given = own.get("finish_reason", "")
    if given != "" and stop_reason(given, response.content) == response.stop_reason:
        return given
    return _usual_stop(response.stop_reason, response.content)


def note_stop(response: Response, losses: Losses) -> None:
    """Note what the end of an answer cannot say here."""
    if response.stop_sequence:
        losses.lossy("stop_sequence", "this API does not tell which sequence stopped it")
    elif response.stop_reason == "unknown":
        losses.lossy("stop_reason", "this API has no word for an unknown reason")


def _usual_stop(reason: StopReason, content: tuple[Block, ...]) -> str:
    if reason == "refusal" and stop_reason("stop", content) == "refusal":
        return "stop"
    return TO_OPENAI_STOPS[reason]


def _write_message(response: Response, said: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    thought = [one for one in response.content if isinstance(one, ThinkingBlock)]
    refused = [
        one for one in response.content if isinstance(one, TextBlock) and one.extra == REFUSED
    ]
    left = tuple(one for one in response.content if one not in thought and one not in refused)
    for one in thought:
        note_thinking(one, losses)
    carried = to_openai_chat(Request("", (Message("assistant", left, {API: dict(said)}),), api=API))
    for loss in carried.losses:
        (losses.unsupported if loss.fidelity == "unsupported" else losses.lossy)(
            loss.path.removeprefix("messages[0]."), loss.what
        )
    message: dict[str, Any] = carried.body["messages"][0]
    message["refusal"] = "".join(one.text for one in refused) or None
    if refused and not _spoken(left) and "content" not in said:
        message["content"] = None
    if said_of := "".join(one.thinking for one in thought):
        field = spelled(thought[0].extra, API).get("field", REASONING[0])
        message[field] = said_of
    return message


def note_thinking(block: ThinkingBlock, losses: Losses) -> None:
    """Note what a thinking cannot keep here."""
    if block.signature:
        losses.lossy("thinking.signature", "this API has no signed thinking")
    losses.own_fields(block.extra, "thinking")


def _only(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if len(choices) != 1:
        raise InputError(f"answer.choices: expected one choice, not {len(choices)}; ask with n = 1")
    return choices[0]


def _calls(blocks: list[Block]) -> bool:
    return _calls_from(blocks) < len(blocks)


def _calls_from(blocks: list[Block]) -> int:
    for place, one in enumerate(blocks):
        if isinstance(one, ToolUseBlock) or (isinstance(one, OtherBlock) and one.api == CALL):
            return place
    return len(blocks)


def _spoken(blocks: Any) -> bool:
    return any(isinstance(one, TextBlock) and one.extra != REFUSED for one in blocks)
