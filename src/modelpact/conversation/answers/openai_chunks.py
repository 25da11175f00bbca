"""OpenAI Chat Completions: streams of chunks, written as the answer comes."""

from typing import Any

from modelpact.conversation.answers.openai_body import (
    REASONING,
    note_stop,
    note_thinking,
    stop_reason,
    write_stop,
)
from modelpact.conversation.answers.usage import write_openai_usage
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Message, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.read import API, CALL
from modelpact.conversation.openai_chat.write import to_openai_chat
from modelpact.conversation.request import Request
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
    Finish,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Whole,
)


class OpenAIChunks:
    """Writes the chunks that say each event; after those of `Finish` send `[DONE]`.

    `usage` says whether the caller asked for it, with `stream_options.include_usage`.
    """

    def __init__(self, id: str, model: str, *, created: int = 0, usage: bool = False) -> None:
        self._head = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._usage = usage
        self._losses = Losses(API, "")
        self._started = self._refused = self._thought = False
        self._calls = 0

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return tuple(self._losses.listed)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the chunks for one event."""
        if isinstance(event, TextDelta):
            self._note_order()
            self._refused = self._refused or event.refusal
            return self._delta({"refusal" if event.refusal else "content": event.text})
        if isinstance(event, ThinkingDelta):
            self._thought = True
            return self._delta({REASONING[0]: event.thinking}) if event.thinking else []
        if isinstance(event, BlockEnd):
            note_thinking(ThinkingBlock("", event.signature, event.extra), self._losses)
            return []
        if isinstance(event, ToolCall):
            return self._call(event.call)
        if isinstance(event, Whole):
            return self._whole(event)
        return self._finish(event)

    def _note_order(self) -> None:
        if self._calls:
            self._losses.lossy("text", "text after a tool call is moved before it")

    def _call(self, call: ToolUseBlock) -> list[dict[str, Any]]:
        carried = to_openai_chat(Request("", (Message("assistant", (call,)),), api=API))
        return self._calls_delta(carried.body["messages"][0]["tool_calls"][0])

    def _whole(self, event: Whole) -> list[dict[str, Any]]:
        if event.block.api == CALL:
            return self._calls_delta(event.block.content)
        if event.block.api == API:
            return self._delta({"content": [event.block.content]})
        kind = str(event.block.content.get("type", "foreign"))
        self._losses.unsupported("content", f"a {kind:.60} block has no place here")
        return []

    def _calls_delta(self, written: dict[str, Any]) -> list[dict[str, Any]]:
        index, self._calls = self._calls, self._calls + 1
        return self._delta({"tool_calls": [{"index": index, **written}]})

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        own = self._losses.own_fields(event.extra, "extra")
        content = (TextBlock("", REFUSED),) if self._refused else ()
        end = Response(content, event.stop_reason, event.stop_sequence)
        note_stop(end, self._losses)
        reason = write_stop(end, own)
        if stop_reason(reason, content) == "unknown":
            reason = "stop"
        chunks = self._delta({}, reason)
        if self._usage:
            told = write_openai_usage(event.usage, own.get("usage"))
            chunks.append({**self._head, "choices": [], "usage": told})
        return chunks

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> list[dict[str, Any]]:
        first = {} if self._started else {"role": "assistant"}
        self._started = True
        choice = {"index": 0, "delta": {**first, **delta}, "finish_reason": reason}
        usage = {"usage": None} if self._usage else {}
        return [{**self._head, "choices": [choice], **usage}]
