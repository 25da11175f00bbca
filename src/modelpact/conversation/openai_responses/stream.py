"""OpenAI Responses: read and write streamed responses."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import Loss, LossRecorder
from modelpact.conversation.fields import parse_event, read_object, required_string, without
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.stream import DONE
from modelpact.conversation.openai_responses.items import API, is_refusal, write_items
from modelpact.conversation.openai_responses.response import (
    complete_item,
    read_failure,
    read_output_item,
    read_response,
    record_stop_losses,
    response_head,
    write_status,
    write_usage,
)
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
    ErrorBody,
    Finish,
    OpaqueBlock,
    Response,
    ResponseError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    read_error,
)
from modelpact.vocabulary.errors import InputError

_END_STATUSES: Final = {"response.completed": "completed", "response.incomplete": "incomplete"}
_TEXT_EVENTS: Final = {"response.output_text.delta": False, "response.refusal.delta": True}
"""The events that carry text, and whether the text is a refusal."""
_THINKING_EVENTS: Final = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}
"""The events that carry thinking, and the field with the index of their part."""
_PARAGRAPH: Final = "\n\n"
"""Separates the parts of reasoning."""
_TEXT: Final = "output_text"
_PART_FIELDS: Final = {_TEXT: "text", "refusal": "refusal"}
"""The types of parts that stream text, and the field that holds it."""


class OpenAIResponsesStreamReader:
    """Reads a stream, event by event. Kinds of events that it does not know are ignored.

    The event that ends an item repeats the whole item, so a server may leave out its deltas.
    A block is known by the index of its item and the index of its part in the item.
    """

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._begun_blocks: set[tuple[int, int]] = set()
        self._ended_blocks: set[tuple[int, int]] = set()
        self._ended_items: set[int] = set()
        self._thinking: dict[int, tuple[str, int]] = {}
        self._previous: type[Block] | None = None
        self._current: tuple[int, int] | None = None
        self._done = False

    def feed(self, data: str) -> list[StreamEvent]:
        """Read the data of one event; an error event raises `ResponseError`."""
        if data.strip() == DONE:
            return []
        event = parse_event(data)
        if event.get("type") is None and (error := read_error(event)) is not None:
            raise ResponseError(error)
        kind = required_string(event, "type", "stream")
        if kind == "error":
            body = event if event.get("error") is not None else {"error": without(event, {"type"})}
            raise ResponseError(read_error(body) or ErrorBody("the server gave no reason"))
        if kind == "response.failed":
            raise ResponseError(read_failure(read_object(event.get("response"), "stream.response")))
        if self._done:
            raise InputError(f"stream: {kind:.40} after the response's end")
        return list(self._read(kind, event))

    def end(self) -> list[StreamEvent]:
        """Read the end of the stream, which has no events of its own."""
        return []

    def _read(self, kind: str, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if kind in _TEXT_EVENTS:
            index, part = self._item_index(event), _read_index(event, "content_index")
            text = required_string(event, "delta", "stream")
            yield from self._read_text((index, part), text, _TEXT_EVENTS[kind])
        elif kind in _THINKING_EVENTS:
            index, part = self._item_index(event), _read_index(event, _THINKING_EVENTS[kind])
            text = required_string(event, "delta", "stream")
            yield from self._read_thinking(index, kind, part, text)
        elif kind == "response.function_call_arguments.delta":
            deltas = self._arguments.setdefault(self._item_index(event), [])
            deltas.append(required_string(event, "delta", "stream"))
        elif kind == "response.content_part.done":
            yield from self._end_part(event)
        elif kind == "response.output_item.done":
            item = read_object(event.get("item"), "stream.item")
            yield from self._end_item(self._item_index(event), item)
        elif kind in _END_STATUSES:
            yield from self._finish(kind, read_object(event.get("response"), "stream.response"))

    def _item_index(self, event: Mapping[str, Any]) -> int:
        index = _read_index(event, "output_index")
        if index in self._ended_items:
            raise InputError(f"stream: an event for item {index} came after the end of the item")
        return index

    def _read_text(self, position: tuple[int, int], text: str, refusal: bool) -> Iterator[StreamEvent]:
        if position in self._ended_blocks:
            raise InputError("stream: a delta came after the end of its part")
        yield from self._begin_block(position, TextBlock)
        yield TextDelta(text, refusal)

    def _read_thinking(self, index: int, kind: str, part: int, text: str) -> Iterator[StreamEvent]:
        """Read reasoning: either the summary or the text, whichever comes first."""
        first_kind, previous_part = self._thinking.get(index, (kind, part))
        if first_kind != kind:
            return
        yield from self._begin_block((index, 0), ThinkingBlock)
        self._thinking[index] = (kind, part)
        yield ThinkingDelta(_PARAGRAPH + text if part != previous_part else text)

    def _begin_block(self, position: tuple[int, int], kind: type[Block]) -> Iterator[StreamEvent]:
        """Begin or continue a block; separate it from a previous block of the same kind."""
        if self._current != position:
            if position in self._begun_blocks:
                raise InputError("stream: the deltas of two parts are mixed")
            if self._previous is kind:
                yield BlockEnd()
        self._current, self._previous = position, kind
        self._begun_blocks.add(position)

    def _end_part(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        part = read_object(event.get("part"), "stream.part")
        position = self._item_index(event), _read_index(event, "content_index")
        if part.get("type") == "reasoning_text":
            return
        item = {"type": "message", "role": "assistant", "content": [part]}
        (block,), _ = read_output_item(item, "stream.part")
        yield from self._end_block(position, block)

    def _end_block(self, position: tuple[int, int], block: Block) -> Iterator[StreamEvent]:
        if position in self._ended_blocks:
            return
        self._ended_blocks.add(position)
        if isinstance(block, TextBlock):
            refusal = is_refusal(block)
            if position not in self._begun_blocks:
                yield from self._begin_block(position, TextBlock)
                yield TextDelta(block.text, refusal)
            if block.extra and not (refusal and len(block.extra) == 1):
                yield from self._close(BlockEnd(extra=block.extra))
        elif isinstance(block, ThinkingBlock):
            if position not in self._begun_blocks:
                yield from self._begin_block(position, ThinkingBlock)
                yield ThinkingDelta(block.thinking)
            yield from self._close(BlockEnd(extra=block.extra))
        elif isinstance(block, ToolUseBlock):
            yield from self._close(ToolCall(block))
        elif isinstance(block, OtherBlock):
            yield from self._close(OpaqueBlock(block))

    def _close(self, event: StreamEvent) -> Iterator[StreamEvent]:
        self._previous = self._current = None
        yield event

    def _end_item(self, index: int, item: Mapping[str, Any]) -> Iterator[StreamEvent]:
        self._ended_items.add(index)
        arguments = "".join(self._arguments.pop(index, []))
        if item.get("type") == "function_call" and not item.get("arguments"):
            item = {**item, "arguments": arguments}
        self._items[index] = dict(item)
        blocks, _ = read_output_item(item, "stream.item")
        for part, block in enumerate(blocks):
            yield from self._end_block((index, part), block)

    def _finish(self, kind: str, response: Mapping[str, Any]) -> Iterator[StreamEvent]:
        items = response.get("output") or [self._items[index] for index in sorted(self._items)]
        whole = read_response({"status": _END_STATUSES[kind], **response, "output": items})
        for index, item in enumerate(items):
            if index not in self._ended_items:
                yield from self._end_item(index, item)
        self._done = True
        yield Finish(whole.stop_reason, whole.stop_sequence, whole.usage, whole.model, whole.id, whole.extra)


class OpenAIResponsesStreamWriter:
    """Writes a stream, event by event. The `type` of each event is also its SSE event name.

    Responses repeat fields of the request body.
    """

    def __init__(self, id: str, model: str, *, created: int = 0, request_body: Mapping[str, Any] | None = None) -> None:
        self._names = {"id": id, "object": "response", "model": model}
        self._created, self._request_body = created, request_body
        self._losses = LossRecorder(API)
        self._sequence_number = 0
        self._output: list[dict[str, Any]] = []
        self._item: dict[str, Any] | None = None
        self._part: dict[str, Any] | None = None
        self._refused = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be expressed so far."""
        return tuple(self._losses.losses)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the API's events for one event."""
        out = [] if self._sequence_number else self._start()
        if isinstance(event, TextDelta):
            return out + self._write_text(event)
        if isinstance(event, ThinkingDelta):
            return out + self._write_thinking(event.thinking)
        if isinstance(event, BlockEnd):
            return out + self._end_block(event)
        if isinstance(event, ToolCall):
            return out + self._close_item() + self._write_item(event.call)
        if isinstance(event, OpaqueBlock):
            return out + self._close_item() + self._write_item(event.block)
        return out + self._finish(event)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        event = {"type": kind, **fields, "sequence_number": self._sequence_number}
        self._sequence_number += 1
        return event

    def _start(self) -> list[dict[str, Any]]:
        response = self._response("in_progress", None)
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=response) for kind in kinds]

    def _response(self, status: str, details: Mapping[str, Any] | None) -> dict[str, Any]:
        head = response_head(self._created, self._request_body, status, details)
        return {**self._names, **head, "output": list(self._output), "usage": None}

    # Text and refusals: parts of a message.

    def _write_text(self, event: TextDelta) -> list[dict[str, Any]]:
        kind = "refusal" if event.refusal else _TEXT
        self._refused = self._refused or event.refusal
        out: list[dict[str, Any]] = []
        if self._item is None or self._item["type"] != "message":
            out += self._close_item()
            out += self._open_item({"type": "message", "role": "assistant", "content": []})
        if self._part is None or self._part["type"] != kind:
            out += self._close_part()
            self._part = {"type": kind, _PART_FIELDS[kind]: ""}
            if kind == _TEXT:
                self._part |= {"annotations": [], "logprobs": []}
            out.append(self._part_event("response.content_part.added", part=dict(self._part)))
        self._part[_PART_FIELDS[kind]] += event.text
        probabilities: dict[str, Any] = {"logprobs": []} if kind == _TEXT else {}
        return [*out, self._part_event(f"response.{kind}.delta", delta=event.text, **probabilities)]

    def _close_part(self) -> list[dict[str, Any]]:
        part, item = self._part, self._item
        if part is None or item is None:
            return []
        kind = part["type"]
        field = _PART_FIELDS[kind]
        fields = {field: part[field], **({"logprobs": part["logprobs"]} if kind == _TEXT else {})}
        out = [
            self._part_event("response.output_text.annotation.added", annotation=annotation, annotation_index=index)
            for index, annotation in enumerate(part.get("annotations", []))
        ]
        out.append(self._part_event(f"response.{kind}.done", **fields))
        out.append(self._part_event("response.content_part.done", part=part))
        item["content"].append(part)
        self._part = None
        return out

    def _part_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        index = len(self._item["content"]) if self._item is not None else 0
        return self._item_event(kind, content_index=index, **fields)

    # Reasoning: an item with one summary.

    def _write_thinking(self, text: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if self._item is None or self._item["type"] != "reasoning":
            out += self._close_item()
            out += self._open_item({"type": "reasoning", "summary": []})
        item = self._item
        if item is None or not (text or item["summary"]):
            return out
        if not item["summary"]:
            part = {"type": "summary_text", "text": ""}
            out.append(self._summary_event("response.reasoning_summary_part.added", part=dict(part)))
            item["summary"] = [part]
        item["summary"][0]["text"] += text
        return [*out, self._summary_event("response.reasoning_summary_text.delta", delta=text)]

    def _summary_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._item_event(kind, summary_index=0, **fields)

    # Items.

    def _open_item(self, item: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._item = complete_item(item, f"{self._names['id']}_{len(self._output)}", "in_progress")
        added = dict(self._item)
        if "status" in added:
            added["status"] = "in_progress"
        for field in ("content", "summary"):
            if field in added:
                added[field] = []
        if "arguments" in added:
            added["arguments"] = ""
        fields = {"output_index": len(self._output), "item": added}
        return [self._event("response.output_item.added", **fields)]

    def _item_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        item_id = self._item.get("id") if self._item is not None else None
        return self._event(kind, item_id=item_id, output_index=len(self._output), **fields)

    def _end_block(self, event: BlockEnd) -> list[dict[str, Any]]:
        item = self._item
        if item is None:
            return []
        if event.signature:
            self._losses.lossy("thinking.signature", "this API has no signed thinking")
        own = self._losses.own_fields(event.extra, "content")
        if self._part is not None:
            self._part |= own
            return self._close_part()
        item |= own
        return self._close_item() if item["type"] == "reasoning" else []

    def _close_item(self, status: str = "completed") -> list[dict[str, Any]]:
        if self._item is None:
            return []
        out = self._close_part()
        item = self._item
        if item["type"] == "reasoning" and item["summary"]:
            (part,) = item["summary"]
            text = part["text"]
            out.append(self._summary_event("response.reasoning_summary_text.done", text=text))
            out.append(self._summary_event("response.reasoning_summary_part.done", part=part))
        if item["type"] in ("message", "function_call"):
            item["status"] = status
        out.append(self._event("response.output_item.done", output_index=len(self._output), item=item))
        self._output.append(item)
        self._item = None
        return out

    def _write_item(self, block: Block) -> list[dict[str, Any]]:
        """Return the events of a whole item."""
        out: list[dict[str, Any]] = []
        blocks = [("content", block)]
        for item in write_items("assistant", blocks, None, self._losses, in_response=True):
            out += self._open_item(item)
            if item["type"] == "function_call":
                arguments = item["arguments"]
                out.append(self._item_event("response.function_call_arguments.delta", delta=arguments))
                out.append(self._item_event("response.function_call_arguments.done", arguments=arguments))
            out += self._close_item()
        return out

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        self._losses.own_fields(event.extra, "extra")
        content = (TextBlock("", REFUSED),) if self._refused else ()
        end = Response(content, event.stop_reason, event.stop_sequence, extra=event.extra)
        record_stop_losses(end, self._losses)
        status, details = write_status(end)
        out = self._close_item(status)
        usage = write_usage(event.usage)
        response = {**self._response(status, details), "usage": usage}
        return [*out, self._event(f"response.{status}", response=response)]


def _read_index(event: Mapping[str, Any], name: str) -> int:
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"stream.{name}: expected an index, not {value!r:.40}")
    return value
