"""Anthropic Messages: streams of events, read as they come."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic.read_request import API
from modelpact.conversation.anthropic.response import (
    KNOWN,
    note_stop,
    own_fields,
    read_blocks,
    write_blocks,
    write_stop,
)
from modelpact.conversation.body_reader import checked, rest, text_field, typed
from modelpact.conversation.error_bodies import StreamBroken, parse, read_error
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    OpaqueBlock,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from modelpact.conversation.usage import (
    ANTHROPIC_STOPS,
    read_anthropic_usage,
    write_anthropic_usage,
)
from modelpact.vocabulary.errors import InputError

_GROWING: Final = {"text_delta": "text", "thinking_delta": "thinking"}


class AnthropicStream:
    """Takes the data of each event and returns what it says; kinds that are new are passed over."""

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._reason: str | None = None
        self._block: dict[str, Any] | None = None
        self._json: list[str] = []
        self._broken = ""
        self._told = False
        self._before: type[Block] | None = None
        self._done = False

    def feed(self, data: str) -> list[StreamEvent]:
        """Take the data of one event; an error among them raises `StreamBroken`."""
        event = parse(data, "stream")
        kind = text_field(event, "type", "stream")
        if kind == "error":
            said = read_error(event)
            if said is None:
                raise InputError(f"stream.error: expected an error, not {event.get('error')!r:.80}")
            raise StreamBroken(said)
        if self._done:
            raise InputError(f"stream: {kind:.40} after the message's end")
        return list(self._take(kind, event))

    def end(self) -> list[StreamEvent]:
        """Take the end of the stream, which says nothing more."""
        return []

    def _take(self, kind: str, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if kind == "message_start":
            self._start(event)
        elif kind == "content_block_start":
            yield from self._open(checked(event.get("content_block"), "stream.content_block"))
        elif kind == "content_block_delta":
            yield from self._grow(checked(event.get("delta"), "stream.delta"))
        elif kind == "content_block_stop":
            yield from self._close()
        elif kind == "message_delta":
            self._change(event)
        elif kind == "message_stop":
            yield self._finish()

    def _start(self, event: Mapping[str, Any]) -> None:
        if self._message is not None:
            raise InputError("stream: a second message_start")
        self._message = dict(checked(event.get("message"), "stream.message"))
        self._count(self._message.get("usage"))

    def _open(self, block: dict[str, Any]) -> Iterator[StreamEvent]:
        if self._message is None:
            raise InputError("stream: a block before message_start")
        if self._block is not None:
            raise InputError("stream: a block begins before the last one ended")
        text_field(block, "type", "stream.content_block")
        kind = {"text": TextBlock, "thinking": ThinkingBlock}.get(block["type"])
        if kind is not None and kind is self._before:
            yield BlockEnd()
        self._before = None
        self._block, self._json, self._told = dict(block), [], False
        for name in ("text", "thinking"):
            if kind is not None and isinstance(said := block.get(name), str) and said:
                yield self._piece(name, said)

    def _grow(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        block = self._block
        if block is None:
            raise InputError("stream: a piece without a block that is open")
        kind = text_field(delta, "type", "stream.delta")
        name = _GROWING.get(kind)
        if name is not None and block["type"] == name:
            said = text_field(delta, name, "stream.delta")
            block[name] = f"{block.get(name) or ''}{said}"
            if said:
                yield self._piece(name, said)
        elif kind == "input_json_delta":
            self._json.append(text_field(delta, "partial_json", "stream.delta"))
        elif kind == "signature_delta":
            before = block.get("signature") or ""
            block["signature"] = before + text_field(delta, "signature", "stream.delta")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        elif name is not None:
            raise InputError(f"stream.delta: a {kind} in a {block['type']:.40} block")
        else:
            for field, value in rest(delta, {"type"}).items():
                grows = isinstance(value, str) and isinstance(block.get(field), str)
                block[field] = block[field] + value if grows else value

    def _piece(self, name: str, said: str) -> StreamEvent:
        self._told = True
        return TextDelta(said) if name == "text" else ThinkingDelta(said)

    def _close(self) -> Iterator[StreamEvent]:
        data, self._block = self._block, None
        if data is None:
            raise InputError("stream: the end of a block that is not open")
        raw = "".join(self._json)
        if raw:
            try:
                data["input"] = msgspec.json.decode(raw)
                raw = ""
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
                self._broken = f"stream: the input of {data.get('name')!r:.60} is not JSON: {error}"
                data["input"] = None
        (block,) = read_blocks([data], "stream.content")
        if isinstance(block, (TextBlock, ThinkingBlock)):
            yield from self._end_of(block)
        elif isinstance(block, ToolUseBlock):
            yield ToolCall(msgspec.structs.replace(block, raw=raw) if raw else block)
        elif isinstance(block, OtherBlock):
            yield OpaqueBlock(block)
        else:
            raise InputError(f"stream.content: a {data['type']:.40} block is no answer")

    def _end_of(self, block: TextBlock | ThinkingBlock) -> Iterator[StreamEvent]:
        text = isinstance(block, TextBlock)
        if not self._told:
            yield TextDelta("") if text else ThinkingDelta("")
        signature = block.signature if isinstance(block, ThinkingBlock) else ""
        if signature or block.extra:
            yield BlockEnd(signature, block.extra)
        else:
            self._before = type(block)

    def _change(self, event: Mapping[str, Any]) -> None:
        if self._message is None:
            raise InputError("stream: message_delta before message_start")
        delta = checked(event.get("delta"), "stream.delta")
        self._reason = typed(delta, "stop_reason", str, "a text") or self._reason
        self._message.update(delta)
        self._count(event.get("usage"))
        if self._broken and self._reason != "max_tokens":
            raise InputError(self._broken)

    def _count(self, usage: Any) -> None:
        if usage is None:
            return
        read_anthropic_usage(usage, "stream.usage")
        told = {name: value for name, value in usage.items() if value is not None}
        self._usage = {**usage, **self._usage, **told}

    def _finish(self) -> StreamEvent:
        if self._message is None or self._block is not None:
            raise InputError("stream: message_stop before the message was complete")
        self._done = True
        message = self._message
        reason = typed(message, "stop_reason", str, "a text")
        return Finish(
            ANTHROPIC_STOPS.get(reason or "", "unknown"),
            typed(message, "stop_sequence", str, "a text") or "",
            read_anthropic_usage(self._usage),
            typed(message, "model", str, "a text") or "",
            typed(message, "id", str, "a text") or "",
            own_fields(rest(message, KNOWN), self._usage, reason),
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
        if isinstance(event, OpaqueBlock):
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
