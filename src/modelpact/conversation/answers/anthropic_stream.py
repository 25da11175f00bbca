"""Anthropic Messages: streams of events, read as they come."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.answers.anthropic_body import KNOWN, own_fields, read_blocks
from modelpact.conversation.answers.errors import StreamBroken, parse, read_error
from modelpact.conversation.answers.usage import ANTHROPIC_STOPS, read_anthropic_usage
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.reading import checked, rest, text_field, typed
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Whole,
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
            yield Whole(block)
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
