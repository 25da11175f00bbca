"""OpenAI Responses: streams of events, read as they come."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelpact.conversation.answers.errors import ErrorSaid, StreamBroken, parse, read_error
from modelpact.conversation.answers.openai_stream import DONE
from modelpact.conversation.answers.responses_body import (
    from_openai_response,
    read_failure,
    read_output,
)
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_responses.write_items import is_refusal
from modelpact.conversation.reading import checked, rest, text_field
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

_ENDS: Final = {"response.completed": "completed", "response.incomplete": "incomplete"}
_SAID: Final = {"response.output_text.delta": False, "response.refusal.delta": True}
_THOUGHT: Final = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}
_BREAK: Final = "\n\n"
"""Stands between the pieces of reasoning."""


class ResponsesStream:
    """Takes the data of each event and returns what it says; kinds that are new are passed over.

    An item that ends says all that it is, so that a server may leave out its pieces.
    """

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._begun: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()
        self._thought: dict[int, tuple[str, int]] = {}
        self._over: set[int] = set()
        self._before: type[Block] | None = None
        self._speaking: tuple[int, int] | None = None
        self._done = False

    def feed(self, data: str) -> list[StreamEvent]:
        """Take the data of one event; an error among them raises `StreamBroken`."""
        if data.strip() == DONE:
            return []
        event = parse(data, "stream")
        if event.get("type") is None and (said := read_error(event)) is not None:
            raise StreamBroken(said)
        kind = text_field(event, "type", "stream")
        if kind == "error":
            told = event if event.get("error") is not None else {"error": rest(event, {"type"})}
            raise StreamBroken(read_error(told) or ErrorSaid("no reason given"))
        if kind == "response.failed":
            raise StreamBroken(read_failure(checked(event.get("response"), "stream.response")))
        if self._done:
            raise InputError(f"stream: {kind:.40} after the response's end")
        return list(self._take(kind, event))

    def end(self) -> list[StreamEvent]:
        """Take the end of the stream, which says nothing more."""
        return []

    def _take(self, kind: str, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if kind in _SAID:
            index, part = self._place(event), _number(event, "content_index")
            yield from self._say((index, part), text_field(event, "delta", "stream"), _SAID[kind])
        elif kind in _THOUGHT:
            index, part = self._place(event), _number(event, _THOUGHT[kind])
            yield from self._think(index, kind, part, text_field(event, "delta", "stream"))
        elif kind == "response.function_call_arguments.delta":
            pieces = self._arguments.setdefault(self._place(event), [])
            pieces.append(text_field(event, "delta", "stream"))
        elif kind == "response.content_part.done":
            yield from self._end_part(event)
        elif kind == "response.output_item.done":
            item = checked(event.get("item"), "stream.item")
            yield from self._end_item(self._place(event), item)
        elif kind in _ENDS:
            yield from self._finish(kind, checked(event.get("response"), "stream.response"))

    def _place(self, event: Mapping[str, Any]) -> int:
        index = _number(event, "output_index")
        if index in self._over:
            raise InputError(f"stream: more came of item {index} after its end")
        return index

    def _say(self, where: tuple[int, int], said: str, refusal: bool) -> Iterator[StreamEvent]:
        if where in self._ended:
            raise InputError("stream: more came of a part after its end")
        yield from self._begin(where, TextBlock)
        yield TextDelta(said, refusal)

    def _think(self, index: int, kind: str, part: int, said: str) -> Iterator[StreamEvent]:
        """Tell reasoning: a summary and the text of it are not both told."""
        told, before = self._thought.get(index, (kind, part))
        if told != kind:
            return
        yield from self._begin((index, 0), ThinkingBlock)
        self._thought[index] = (kind, part)
        yield ThinkingDelta(_BREAK + said if part != before else said)

    def _begin(self, where: tuple[int, int], kind: type[Block]) -> Iterator[StreamEvent]:
        """Keep a block apart from one of its kind that has just been told."""
        if self._speaking != where:
            if where in self._begun:
                raise InputError("stream: the pieces of two parts are mixed")
            if self._before is kind:
                yield BlockEnd()
        self._speaking, self._before = where, kind
        self._begun.add(where)

    def _end_part(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        part = checked(event.get("part"), "stream.part")
        index, number = self._place(event), _number(event, "content_index")
        if part.get("type") == "reasoning_text":
            return
        item = {"type": "message", "role": "assistant", "content": [part]}
        (block,), _ = read_output(item, "stream.part")
        yield from self._end_block((index, number), block)

    def _end_block(self, where: tuple[int, int], block: Block) -> Iterator[StreamEvent]:
        if where in self._ended:
            return
        self._ended.add(where)
        if isinstance(block, TextBlock):
            refusal = is_refusal(block)
            if where not in self._begun:
                yield from self._begin(where, TextBlock)
                yield TextDelta(block.text, refusal)
            if block.extra and not (refusal and len(block.extra) == 1):
                yield from self._close(BlockEnd(extra=block.extra))
        elif isinstance(block, ThinkingBlock):
            if where not in self._begun:
                yield from self._begin(where, ThinkingBlock)
                yield ThinkingDelta(block.thinking)
            yield from self._close(BlockEnd(extra=block.extra))
        elif isinstance(block, ToolUseBlock):
            yield from self._close(ToolCall(block))
        elif isinstance(block, OtherBlock):
            yield from self._close(Whole(block))

    def _close(self, event: StreamEvent) -> Iterator[StreamEvent]:
        self._before = self._speaking = None
        yield event

    def _end_item(self, index: int, item: Mapping[str, Any]) -> Iterator[StreamEvent]:
        self._over.add(index)
        pieces = "".join(self._arguments.pop(index, []))
        if item.get("type") == "function_call" and not item.get("arguments"):
            item = {**item, "arguments": pieces}
        self._items[index] = dict(item)
        blocks, _ = read_output(item, "stream.item")
        for number, block in enumerate(blocks):
            yield from self._end_block((index, number), block)

    def _finish(self, kind: str, response: Mapping[str, Any]) -> Iterator[StreamEvent]:
        listed = response.get("output") or [self._items[place] for place in sorted(self._items)]
        whole = from_openai_response({"status": _ENDS[kind], **response, "output": listed})
        for index, item in enumerate(listed):
            if index not in self._over:
                yield from self._end_item(index, item)
        self._done = True
        yield Finish(
            whole.stop_reason,
            whole.stop_sequence,
            whole.usage,
            whole.model,
            whole.id,
            whole.extra,
        )


def _number(event: Mapping[str, Any], name: str) -> int:
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"stream.{name}: expected a place, not {value!r:.40}")
    return value
