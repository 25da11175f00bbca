"""OpenAI Responses: streams of events, read as they come."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import checked, rest, text_field
from modelpact.conversation.error_bodies import ApiError, StreamBroken, parse, read_error
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.stream import DONE
from modelpact.conversation.openai_responses.read_request import API
from modelpact.conversation.openai_responses.response import (
    complete,
    from_openai_response,
    head,
    note_stop,
    read_failure,
    read_output,
    write_stop,
)
from modelpact.conversation.openai_responses.write_request import is_refusal, write_items
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
    Finish,
    OpaqueBlock,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)
from modelpact.conversation.usage import write_responses_usage
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
            raise StreamBroken(read_error(told) or ApiError("no reason given"))
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
            yield from self._close(OpaqueBlock(block))

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


_TEXT: Final = "output_text"
_FIELDS: Final = {_TEXT: "text", "refusal": "refusal"}


class ResponsesEvents:
    """Writes the events that say each of ours; the `type` of each is the name of its event.

    `asked` is the body of the request, of which answers repeat some.
    """

    def __init__(
        self, id: str, model: str, *, created: int = 0, asked: Mapping[str, Any] | None = None
    ) -> None:
        self._names = {"id": id, "object": "response", "model": model}
        self._created, self._asked = created, asked
        self._losses = Losses(API, "")
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._item: dict[str, Any] | None = None
        self._part: dict[str, Any] | None = None
        self._refused = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return tuple(self._losses.listed)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the events for one of ours."""
        out = [] if self._number else self._start()
        if isinstance(event, TextDelta):
            return out + self._say(event)
        if isinstance(event, ThinkingDelta):
            return out + self._think(event.thinking)
        if isinstance(event, BlockEnd):
            return out + self._end(event)
        if isinstance(event, ToolCall):
            return out + self._close() + self._whole(event.call)
        if isinstance(event, OpaqueBlock):
            return out + self._close() + self._whole(event.block)
        return out + self._finish(event)

    def fail(self, said: ApiError) -> list[dict[str, Any]]:
        """Return the events of an answer that breaks off with an error."""
        out = [] if self._number else self._start()
        error = {"code": said.code or said.kind or "server_error", "message": said.message}
        response = {**self._response("failed", None), "error": error}
        return [*out, self._event("response.failed", response=response)]

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        number, self._number = self._number, self._number + 1
        return {"type": kind, **fields, "sequence_number": number}

    def _start(self) -> list[dict[str, Any]]:
        response = self._response("in_progress", None)
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=response) for kind in kinds]

    def _response(self, status: str, details: Mapping[str, Any] | None) -> dict[str, Any]:
        told = head(self._created, self._asked, status, details)
        return {**self._names, **told, "output": list(self._output), "usage": None}

    # Text and refusals: parts of a message.

    def _say(self, event: TextDelta) -> list[dict[str, Any]]:
        kind = "refusal" if event.refusal else _TEXT
        self._refused = self._refused or event.refusal
        out: list[dict[str, Any]] = []
        if self._item is None or self._item["type"] != "message":
            out += self._close()
            out += self._open({"type": "message", "role": "assistant", "content": []})
        if self._part is None or self._part["type"] != kind:
            out += self._close_part()
            self._part = {"type": kind, _FIELDS[kind]: ""}
            if kind == _TEXT:
                self._part |= {"annotations": [], "logprobs": []}
            out.append(self._of_part("response.content_part.added", part=dict(self._part)))
        self._part[_FIELDS[kind]] += event.text
        probabilities: dict[str, Any] = {"logprobs": []} if kind == _TEXT else {}
        return [*out, self._of_part(f"response.{kind}.delta", delta=event.text, **probabilities)]

    def _close_part(self) -> list[dict[str, Any]]:
        part, item = self._part, self._item
        if part is None or item is None:
            return []
        kind = part["type"]
        field = _FIELDS[kind]
        fields = {field: part[field], **({"logprobs": part["logprobs"]} if kind == _TEXT else {})}
        out = [
            self._of_part(
                "response.output_text.annotation.added", annotation=one, annotation_index=n
            )
            for n, one in enumerate(part.get("annotations", []))
        ]
        out.append(self._of_part(f"response.{kind}.done", **fields))
        out.append(self._of_part("response.content_part.done", part=part))
        item["content"].append(part)
        self._part = None
        return out

    def _of_part(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = len(self._item["content"]) if self._item is not None else 0
        return self._of_item(kind, content_index=place, **fields)

    # Reasoning, which has one summary.

    def _think(self, said: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if self._item is None or self._item["type"] != "reasoning":
            out += self._close()
            out += self._open({"type": "reasoning", "summary": []})
        item = self._item
        if item is None or not (said or item["summary"]):
            return out
        if not item["summary"]:
            part = {"type": "summary_text", "text": ""}
            out.append(self._of_summary("response.reasoning_summary_part.added", part=dict(part)))
            item["summary"] = [part]
        item["summary"][0]["text"] += said
        return [*out, self._of_summary("response.reasoning_summary_text.delta", delta=said)]

    def _of_summary(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._of_item(kind, summary_index=0, **fields)

    # Items.

    def _open(self, item: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._item = complete(item, f"{self._names['id']}_{len(self._output)}", "in_progress")
        shown = dict(self._item)
        if "status" in shown:
            shown["status"] = "in_progress"
        for field in ("content", "summary"):
            if field in shown:
                shown[field] = []
        if "arguments" in shown:
            shown["arguments"] = ""
        fields = {"output_index": len(self._output), "item": shown}
        return [self._event("response.output_item.added", **fields)]

    def _of_item(self, kind: str, **fields: Any) -> dict[str, Any]:
        identity = self._item.get("id") if self._item is not None else None
        return self._event(kind, item_id=identity, output_index=len(self._output), **fields)

    def _end(self, event: BlockEnd) -> list[dict[str, Any]]:
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
        return self._close() if item["type"] == "reasoning" else []

    def _close(self, status: str = "completed") -> list[dict[str, Any]]:
        if self._item is None:
            return []
        out = self._close_part()
        item = self._item
        if item["type"] == "reasoning" and item["summary"]:
            (part,) = item["summary"]
            text = part["text"]
            out.append(self._of_summary("response.reasoning_summary_text.done", text=text))
            out.append(self._of_summary("response.reasoning_summary_part.done", part=part))
        if item["type"] in ("message", "function_call"):
            item["status"] = status
        out.append(
            self._event("response.output_item.done", output_index=len(self._output), item=item)
        )
        self._output.append(item)
        self._item = None
        return out

    def _whole(self, block: Block) -> list[dict[str, Any]]:
        """Return the events of an item that comes at once."""
        out: list[dict[str, Any]] = []
        blocks = [("content", block)]
        for item in write_items("assistant", blocks, None, self._losses, answer=True):
            out += self._open(item)
            if item["type"] == "function_call":
                given = item["arguments"]
                out.append(self._of_item("response.function_call_arguments.delta", delta=given))
                out.append(self._of_item("response.function_call_arguments.done", arguments=given))
            out += self._close()
        return out

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        self._losses.own_fields(event.extra, "extra")
        said = (TextBlock("", REFUSED),) if self._refused else ()
        end = Response(said, event.stop_reason, event.stop_sequence, extra=event.extra)
        note_stop(end, self._losses)
        status, details = write_stop(end)
        out = self._close(status)
        usage = write_responses_usage(event.usage)
        response = {**self._response(status, details), "usage": usage}
        return [*out, self._event(f"response.{status}", response=response)]
