"""Anthropic Messages: streams of events, written as the answer comes."""

import json
from typing import Any

from modelpact.conversation.answers.anthropic_body import note_stop, write_blocks, write_stop
from modelpact.conversation.answers.usage import write_anthropic_usage
from modelpact.conversation.anthropic.read import API
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Block
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
    Whole,
)

_NO_USAGE = Usage()


class AnthropicEvents:
    """Writes the events that say each of ours; the `type` of each is the name of its event."""

    def __init__(self, id: str, model: str, *, usage: Usage = _NO_USAGE) -> None:
        """`usage` is what is known of it at the start; all of it is told at the end."""
        self._message = {"id": id, "model": model}
        self._usage = usage
        self._losses = Losses(API, "")
        self._started = False
        self._kind = ""
        self._index = -1

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return tuple(self._losses.listed)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the events for one of ours."""
        out = [] if self._started else [self._start()]
        if isinstance(event, TextDelta):
            return out + self._piece("text", event.text)
        if isinstance(event, ThinkingDelta):
            return out + self._piece("thinking", event.thinking)
        if isinstance(event, BlockEnd):
            return out + self._end(event)
        out += self._close()
        if isinstance(event, ToolCall):
            return out + self._whole(event.call)
        if isinstance(event, Whole):
            return out + self._whole(event.block)
        return out + self._finish(event)

    def _start(self) -> dict[str, Any]:
        self._started = True
        message: dict[str, Any] = {
            "id": self._message["id"],
            "type": "message",
            "role": "assistant",
            "model": self._message["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_anthropic_usage(self._usage),
        }
        return {"type": "message_start", "message": message}

    def _piece(self, kind: str, said: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if self._kind != kind:
            signed = {"signature": ""} if kind == "thinking" else {}
            out = [*self._close(), self._open({"type": kind, kind: "", **signed})]
            self._kind = kind
        return [*out, self._delta({"type": f"{kind}_delta", kind: said})]

    def _end(self, event: BlockEnd) -> list[dict[str, Any]]:
        if not self._kind:
            return []
        out = []
        if event.signature:
            out.append(self._delta({"type": "signature_delta", "signature": event.signature}))
        own = self._losses.own_fields(event.extra, "content")
        for citation in own.get("citations") or []:
            out.append(self._delta({"type": "citations_delta", "citation": citation}))
        return out + self._close()

    def _whole(self, block: Block) -> list[dict[str, Any]]:
        written = write_blocks((block,), self._losses)
        if not written:
            return []
        (data,) = written
        if not isinstance(data.get("input"), dict):
            return [self._open(data), *self._close()]
        given = json.dumps(data["input"], ensure_ascii=False, separators=(",", ":"))
        delta = {"type": "input_json_delta", "partial_json": given}
        return [self._open({**data, "input": {}}), self._delta(delta), *self._close()]

    def _open(self, block: dict[str, Any]) -> dict[str, Any]:
        self._index += 1
        self._kind = block["type"]
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> list[dict[str, Any]]:
        if not self._kind:
            return []
        self._kind = ""
        return [{"type": "content_block_stop", "index": self._index}]

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        own = self._losses.own_fields(event.extra, "extra")
        end = Response((), event.stop_reason, event.stop_sequence, extra=event.extra)
        note_stop(end, self._losses)
        delta = {
            "stop_reason": write_stop(end, own),
            "stop_sequence": event.stop_sequence or None,
            **{k: v for k, v in own.get("body", {}).items() if k in ("container", "stop_details")},
        }
        usage = write_anthropic_usage(event.usage, own.get("usage"))
        return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
