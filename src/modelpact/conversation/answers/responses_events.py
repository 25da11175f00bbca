"""OpenAI Responses: streams of events, written as the answer comes."""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.answers.errors import ErrorSaid
from modelpact.conversation.answers.responses_body import complete, head, note_stop, write_stop
from modelpact.conversation.answers.usage import write_responses_usage
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Block, TextBlock
from modelpact.conversation.openai_responses.items import API
from modelpact.conversation.openai_responses.write_items import write_items
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
        if isinstance(event, Whole):
            return out + self._close() + self._whole(event.block)
        return out + self._finish(event)

    def fail(self, said: ErrorSaid) -> list[dict[str, Any]]:
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
