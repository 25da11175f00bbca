"""OpenAI Chat Completions: streams of chunks, read as they come."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import checked, objects, rest, typed
from modelpact.conversation.error_bodies import StreamBroken, parse, read_error
from modelpact.conversation.fidelity import Loss, Losses
from modelpact.conversation.message import Block, Message, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.read_request import API, CALL
from modelpact.conversation.openai_chat.response import (
    REASONING,
    note_stop,
    note_thinking,
    own_fields,
    read_message,
    stop_reason,
    stop_sequence,
    write_stop,
)
from modelpact.conversation.openai_chat.write_request import to_openai_chat
from modelpact.conversation.request import Request
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
from modelpact.conversation.usage import read_openai_usage, write_openai_usage
from modelpact.vocabulary.errors import InputError

DONE: Final = "[DONE]"
"""The data of the event that ends a stream."""
_TOP: Final = frozenset({"id", "object", "model", "choices", "usage", "obfuscation"})
_DELTA: Final = frozenset({"role", "content", "refusal", "tool_calls", *REASONING})


class OpenAIStream:
    """Takes the data of each event and returns what it says.

    Tool calls come whole, when the model has stopped; the end comes with `[DONE]`, since the usage
    is told after the last piece.
    """

    def __init__(self) -> None:
        self._id = self._model = ""
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._at: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._reason: str | None = None
        self._stopped = self._done = False
        self._refused = False
        self._thinking = ""

    def feed(self, data: str) -> list[StreamEvent]:
        """Take the data of one event; an error among them raises `StreamBroken`."""
        if self._done:
            raise InputError(f"stream: an event after its end: {data!r:.80}")
        if data.strip() == DONE:
            return self.end()
        chunk = parse(data, "stream")
        if chunk.get("error") is not None and (said := read_error(chunk)) is not None:
            raise StreamBroken(said)
        self._id = typed(chunk, "id", str, "a text") or self._id
        self._model = typed(chunk, "model", str, "a text") or self._model
        self._top.update(rest(chunk, _TOP))
        if chunk.get("usage") is not None:
            read_openai_usage(chunk["usage"], "stream.usage")
            self._usage = chunk["usage"]
        events: list[StreamEvent] = []
        for choice in objects(chunk.get("choices", []), "stream.choices"):
            events += self._take(choice)
        return events

    def end(self) -> list[StreamEvent]:
        """Take the end of the stream; nothing comes of one that was cut off."""
        if self._done or not self._stopped:
            return []
        self._done = True
        refused: tuple[Block, ...] = (TextBlock("", REFUSED),) if self._refused else ()
        extra = own_fields(
            self._top, self._choice, self._message, self._usage, self._reason, refused
        )
        return [
            Finish(
                stop_reason(self._reason, refused),
                stop_sequence({**self._choice, "finish_reason": self._reason}),
                read_openai_usage(self._usage),
                self._model,
                self._id,
                extra,
            )
        ]

    def _take(self, choice: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if choice.get("index", 0) != 0:
            raise InputError("stream.choices: more than one answer; ask with n = 1")
        delta = choice.get("delta")
        delta = {} if delta is None else checked(delta, "stream.choices[0].delta")
        yield from self._pieces(delta)
        self._keep(rest(delta, _DELTA), rest(choice, {"index", "delta", "finish_reason"}))
        reason = typed(choice, "finish_reason", str, "a text")
        if reason and not self._stopped:
            self._reason, self._stopped = reason, True
            yield from self._end_thinking()
            yield from self._whole_calls()

    def _pieces(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        for field in REASONING:
            if (said := typed(delta, field, str, "a text")) and self._running(field):
                self._thinking = field
                yield ThinkingDelta(said)
                break
        if (said := typed(delta, "content", (str, list), "a text")) and self._running("content"):
            yield from self._end_thinking()
            yield from self._content(said)
        if (said := typed(delta, "refusal", str, "a text")) and self._running("refusal"):
            self._refused = True
            yield from self._end_thinking()
            yield TextDelta(said, refusal=True)
        calls = delta.get("tool_calls")
        if calls and self._running("tool_calls"):
            for piece in objects(calls, "stream.choices[0].delta.tool_calls"):
                self._add_call(piece)

    def _end_thinking(self) -> Iterator[StreamEvent]:
        """Say how the server calls its thinking, where that is not usual."""
        field, self._thinking = self._thinking, ""
        if field and field != REASONING[0]:
            yield BlockEnd(extra={f"{API} spelling": {"field": field}})

    def _content(self, said: Any) -> Iterator[StreamEvent]:
        if isinstance(said, str):
            yield TextDelta(said)
            return
        blocks, _ = read_message({"content": said})
        for block in blocks:
            if isinstance(block, TextBlock):
                yield TextDelta(block.text)
            elif not isinstance(block, ToolUseBlock):
                yield OpaqueBlock(block)  # type: ignore[arg-type]

    def _running(self, field: str) -> bool:
        if self._stopped:
            raise InputError(f"stream.choices[0].delta.{field}: more came after the model stopped")
        return True

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a piece to its call: by index, but another id at an index is another call."""
        index = typed(piece, "index", int, "a whole number")
        identity = typed(piece, "id", str, "a text")
        call = self._at.get(index) if index is not None else None
        if index is None and self._calls and identity in (None, "", self._calls[-1].get("id")):
            call = self._calls[-1]
        if call is None or (identity and call.get("id") and identity != call["id"]):
            call = {}
            self._calls.append(call)
            if index is not None:
                self._at[index] = call
        _merge(call, rest(piece, {"index"}))

    def _whole_calls(self) -> Iterator[StreamEvent]:
        if not self._calls:
            return
        for call in self._calls:
            if "function" in call and call["function"].get("arguments") is None:
                call["function"]["arguments"] = ""
        blocks, _ = read_message({"content": None, "tool_calls": self._calls})
        for block in blocks:
            if isinstance(block, ToolUseBlock):
                yield ToolCall(block)
            else:
                yield OpaqueBlock(block)  # type: ignore[arg-type]

    def _keep(self, delta: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        for name, value in choice.items():
            before = self._choice.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                for part, listed in value.items():
                    old = before.get(part)
                    joined = isinstance(old, list) and isinstance(listed, list)
                    before[part] = [*old, *listed] if joined else (listed or old)  # type: ignore[misc]
            elif value is not None or name not in self._choice:
                self._choice[name] = dict(value) if isinstance(value, dict) else value
        if delta:
            extra = self._message.setdefault("extra", {})
            _merge(extra, delta)


def _merge(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece to what has come: texts grow, lists too, names and kinds stay."""
    for name, value in piece.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(value, dict):
            whole[name] = {}
            _merge(whole[name], value)
        elif isinstance(before, list) and isinstance(value, list):
            whole[name] = [*before, *value]
        elif isinstance(before, str) and isinstance(value, str):
            grows = name in ("arguments", "input", "data", "transcript")
            whole[name] = before + value if grows else (before or value)
        elif value is not None or name not in whole:
            whole[name] = value


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
        if isinstance(event, OpaqueBlock):
            return self._whole(event)
        return self._finish(event)

    def _note_order(self) -> None:
        if self._calls:
            self._losses.lossy("text", "text after a tool call is moved before it")

    def _call(self, call: ToolUseBlock) -> list[dict[str, Any]]:
        carried = to_openai_chat(Request("", (Message("assistant", (call,)),), api=API))
        return self._calls_delta(carried.body["messages"][0]["tool_calls"][0])

    def _whole(self, event: OpaqueBlock) -> list[dict[str, Any]]:
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
