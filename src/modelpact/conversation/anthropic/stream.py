"""Anthropic Messages: read and write streamed responses."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic.request import API
from modelpact.conversation.anthropic.response import (
    KNOWN,
    read_blocks,
    read_stop_reason,
    read_usage,
    record_stop_losses,
    response_extra,
    write_blocks,
    write_stop_reason,
    write_usage,
)
from modelpact.conversation.fidelity import Loss, LossRecorder
from modelpact.conversation.fields import (
    optional_field,
    optional_string,
    parse_event,
    read_object,
    required_string,
    without,
)
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    OpaqueBlock,
    Response,
    ResponseError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
    read_error,
)
from modelpact.vocabulary.errors import InputError

_TEXT_FIELDS: Final = {"text_delta": "text", "thinking_delta": "thinking"}
"""The field of a block that each kind of delta extends."""


class AnthropicStreamReader:
    """Reads a stream, event by event. Kinds of events that it does not know are ignored."""

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._reason = ""
        self._block: dict[str, Any] | None = None
        self._input_json: list[str] = []
        self._input_error = ""
        self._block_has_text = False
        self._previous: type[Block] | None = None
        self._done = False

    def feed(self, data: str) -> list[StreamEvent]:
        """Read the data of one event; an error event raises `ResponseError`."""
        event = parse_event(data)
        kind = required_string(event, "type", "stream")
        if kind == "error":
            error = read_error(event)
            if error is None:
                raise InputError(f"stream.error: expected an error, not {event.get('error')!r:.80}")
            raise ResponseError(error)
        if self._done:
            raise InputError(f"stream: {kind:.40} after the message's end")
        return list(self._read(kind, event))

    def end(self) -> list[StreamEvent]:
        """Read the end of the stream, which has no events of its own."""
        return []

    def _read(self, kind: str, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if kind == "message_start":
            self._start_message(event)
        elif kind == "content_block_start":
            yield from self._start_block(read_object(event.get("content_block"), "stream.content_block"))
        elif kind == "content_block_delta":
            yield from self._extend_block(read_object(event.get("delta"), "stream.delta"))
        elif kind == "content_block_stop":
            yield from self._end_block()
        elif kind == "message_delta":
            self._update_message(event)
        elif kind == "message_stop":
            yield self._finish()

    def _start_message(self, event: Mapping[str, Any]) -> None:
        if self._message is not None:
            raise InputError("stream: a second message_start")
        self._message = dict(read_object(event.get("message"), "stream.message"))
        self._add_usage(self._message.get("usage"))

    def _start_block(self, block: dict[str, Any]) -> Iterator[StreamEvent]:
        if self._message is None:
            raise InputError("stream: a block before message_start")
        if self._block is not None:
            raise InputError("stream: a block begins before the last one ended")
        required_string(block, "type", "stream.content_block")
        kind = {"text": TextBlock, "thinking": ThinkingBlock}.get(block["type"])
        if kind is not None and kind is self._previous:
            yield BlockEnd()
        self._previous = None
        self._block, self._input_json, self._block_has_text = dict(block), [], False
        for name in ("text", "thinking"):
            if kind is not None and isinstance(text := block.get(name), str) and text:
                yield self._text_delta(name, text)

    def _extend_block(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        block = self._block
        if block is None:
            raise InputError("stream: a delta outside of a block")
        kind = required_string(delta, "type", "stream.delta")
        name = _TEXT_FIELDS.get(kind)
        if name is not None and block["type"] == name:
            text = required_string(delta, name, "stream.delta")
            block[name] = f"{block.get(name) or ''}{text}"
            if text:
                yield self._text_delta(name, text)
        elif kind == "input_json_delta":
            self._input_json.append(required_string(delta, "partial_json", "stream.delta"))
        elif kind == "signature_delta":
            signature = block.get("signature") or ""
            block["signature"] = signature + required_string(delta, "signature", "stream.delta")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        elif name is not None:
            raise InputError(f"stream.delta: a {kind} in a {block['type']:.40} block")
        else:
            for field, value in without(delta, {"type"}).items():
                grows = isinstance(value, str) and isinstance(block.get(field), str)
                block[field] = block[field] + value if grows else value

    def _text_delta(self, name: str, text: str) -> StreamEvent:
        self._block_has_text = True
        return TextDelta(text) if name == "text" else ThinkingDelta(text)

    def _end_block(self) -> Iterator[StreamEvent]:
        data, self._block = self._block, None
        if data is None:
            raise InputError("stream: the end of a block that is not open")
        raw = "".join(self._input_json)
        if raw:
            try:
                data["input"] = msgspec.json.decode(raw)
                raw = ""
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
                self._input_error = f"stream: the input of {data.get('name')!r:.60} is not JSON: {error}"
                data["input"] = None
        (block,) = read_blocks([data], "stream.content")
        if isinstance(block, (TextBlock, ThinkingBlock)):
            yield from self._end_text(block)
        elif isinstance(block, ToolUseBlock):
            yield ToolCall(msgspec.structs.replace(block, raw=raw) if raw else block)
        elif isinstance(block, OtherBlock):
            yield OpaqueBlock(block)
        else:
            raise InputError(f"stream.content: a {data['type']:.40} block is not part of a response")

    def _end_text(self, block: TextBlock | ThinkingBlock) -> Iterator[StreamEvent]:
        if not self._block_has_text:
            yield TextDelta("") if isinstance(block, TextBlock) else ThinkingDelta("")
        signature = block.signature if isinstance(block, ThinkingBlock) else ""
        if signature or block.extra:
            yield BlockEnd(signature, block.extra)
        else:
            self._previous = type(block)

    def _update_message(self, event: Mapping[str, Any]) -> None:
        if self._message is None:
            raise InputError("stream: message_delta before message_start")
        delta = read_object(event.get("delta"), "stream.delta")
        self._reason = optional_string(delta, "stop_reason") or self._reason
        self._message.update(delta)
        self._add_usage(event.get("usage"))
        if self._input_error and self._reason != "max_tokens":
            raise InputError(self._input_error)

    def _add_usage(self, usage: Any) -> None:
        if usage is None:
            return
        read_usage(usage, "stream.usage")
        counted = {name: value for name, value in usage.items() if value is not None}
        self._usage = {**usage, **self._usage, **counted}

    def _finish(self) -> StreamEvent:
        if self._message is None or self._block is not None:
            raise InputError("stream: message_stop before the message was complete")
        self._done = True
        message = self._message
        reason = optional_field(message, "stop_reason", str, "a string")
        return Finish(
            read_stop_reason(reason),
            optional_string(message, "stop_sequence"),
            read_usage(self._usage),
            optional_string(message, "model"),
            optional_string(message, "id"),
            response_extra(without(message, KNOWN), self._usage, reason),
        )


class AnthropicStreamWriter:
    """Writes a stream, event by event. The `type` of each event is also its SSE event name.

    Streams of this API carry neither a date nor fields of their request.
    """

    def __init__(
        self,
        id: str,
        model: str,
        *,
        created: int = 0,  # noqa: ARG002
        request_body: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> None:
        self._id, self._model = id, model
        self._losses = LossRecorder(API)
        self._started = False
        self._block_type = ""
        self._index = -1

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be expressed so far."""
        return tuple(self._losses.losses)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the API's events for one event."""
        out = [] if self._started else [self._start()]
        if isinstance(event, TextDelta):
            return out + self._extend("text", event.text)
        if isinstance(event, ThinkingDelta):
            return out + self._extend("thinking", event.thinking)
        if isinstance(event, BlockEnd):
            return out + self._end_block(event)
        out += self._close()
        if isinstance(event, ToolCall):
            return out + self._block(event.call)
        if isinstance(event, OpaqueBlock):
            return out + self._block(event.block)
        return out + self._finish(event)

    def _start(self) -> dict[str, Any]:
        self._started = True
        message: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(Usage()),
        }
        return {"type": "message_start", "message": message}

    def _extend(self, kind: str, text: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if self._block_type != kind:
            signed = {"signature": ""} if kind == "thinking" else {}
            out = [*self._close(), self._open({"type": kind, kind: "", **signed})]
            self._block_type = kind
        return [*out, self._delta({"type": f"{kind}_delta", kind: text})]

    def _end_block(self, event: BlockEnd) -> list[dict[str, Any]]:
        if not self._block_type:
            return []
        out = []
        if event.signature:
            out.append(self._delta({"type": "signature_delta", "signature": event.signature}))
        own = self._losses.own_fields(event.extra, "content")
        for citation in own.get("citations") or []:
            out.append(self._delta({"type": "citations_delta", "citation": citation}))
        return out + self._close()

    def _block(self, block: Block) -> list[dict[str, Any]]:
        written = write_blocks((block,), self._losses)
        if not written:
            return []
        (data,) = written
        if not isinstance(data.get("input"), dict):
            return [self._open(data), *self._close()]
        arguments = json.dumps(data["input"], ensure_ascii=False, separators=(",", ":"))
        delta = {"type": "input_json_delta", "partial_json": arguments}
        return [self._open({**data, "input": {}}), self._delta(delta), *self._close()]

    def _open(self, block: dict[str, Any]) -> dict[str, Any]:
        self._index += 1
        self._block_type = block["type"]
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> list[dict[str, Any]]:
        if not self._block_type:
            return []
        self._block_type = ""
        return [{"type": "content_block_stop", "index": self._index}]

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        own = self._losses.own_fields(event.extra, "extra")
        end = Response((), event.stop_reason, event.stop_sequence, extra=event.extra)
        record_stop_losses(end, self._losses)
        delta = {
            "stop_reason": write_stop_reason(end, own),
            "stop_sequence": event.stop_sequence or None,
            **{k: v for k, v in own.get("body", {}).items() if k in ("container", "stop_details")},
        }
        usage = write_usage(event.usage, own.get("usage"))
        return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
