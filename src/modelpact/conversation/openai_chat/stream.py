"""OpenAI Chat Completions: read and write streamed responses."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import Loss, LossRecorder
from modelpact.conversation.fields import (
    optional_field,
    optional_int,
    optional_string,
    parse_event,
    read_object,
    read_objects,
    without,
)
from modelpact.conversation.message import Block, Message, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.openai_chat.request import API, CALL, write_request
from modelpact.conversation.openai_chat.response import (
    REASONING,
    read_message,
    read_stop_reason,
    read_stop_sequence,
    read_usage,
    record_stop_losses,
    record_thinking_losses,
    response_extra,
    write_stop_reason,
    write_usage,
)
from modelpact.conversation.request import Request
from modelpact.conversation.response import (
    REFUSED,
    BlockEnd,
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

DONE: Final = "[DONE]"
"""The data of the event that ends a stream."""
_MODELLED: Final = frozenset({"id", "object", "model", "choices", "usage", "obfuscation"})
_MODELLED_DELTA: Final = frozenset({"role", "content", "refusal", "tool_calls", *REASONING})


class OpenAIChatStreamReader:
    """Reads a stream, event by event.

    Tool calls are returned whole, once the model has stopped. `Finish` is returned at `[DONE]`,
    since the usage comes after the last delta.
    """

    def __init__(self) -> None:
        self._id = self._model = ""
        self._body: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._calls_by_index: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._reason: str | None = None
        self._stopped = self._done = False
        self._refused = False
        self._thinking_field = ""

    def feed(self, data: str) -> list[StreamEvent]:
        """Read the data of one event; an error event raises `ResponseError`."""
        if self._done:
            raise InputError(f"stream: an event after its end: {data!r:.80}")
        if data.strip() == DONE:
            return self.end()
        chunk = parse_event(data)
        if chunk.get("error") is not None and (error := read_error(chunk)) is not None:
            raise ResponseError(error)
        self._id = optional_field(chunk, "id", str, "a string") or self._id
        self._model = optional_field(chunk, "model", str, "a string") or self._model
        self._body.update(without(chunk, _MODELLED))
        if chunk.get("usage") is not None:
            read_usage(chunk["usage"], "stream.usage")
            self._usage = chunk["usage"]
        events: list[StreamEvent] = []
        for choice in read_objects(chunk.get("choices", []), "stream.choices"):
            events += self._read_choice(choice)
        return events

    def end(self) -> list[StreamEvent]:
        """Read the end of the stream; a stream that was cut off has no `Finish`."""
        if self._done or not self._stopped:
            return []
        self._done = True
        refused: tuple[Block, ...] = (TextBlock("", REFUSED),) if self._refused else ()
        extra = response_extra(self._body, self._choice, self._message, self._usage, self._reason, refused)
        return [
            Finish(
                read_stop_reason(self._reason, refused),
                read_stop_sequence({**self._choice, "finish_reason": self._reason}),
                read_usage(self._usage),
                self._model,
                self._id,
                extra,
            )
        ]

    def _read_choice(self, choice: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if choice.get("index", 0) != 0:
            raise InputError("stream.choices: expected one choice; request n = 1")
        delta = choice.get("delta")
        delta = {} if delta is None else read_object(delta, "stream.choices[0].delta")
        yield from self._read_delta(delta)
        self._keep_extra(without(delta, _MODELLED_DELTA), without(choice, {"index", "delta", "finish_reason"}))
        reason = optional_field(choice, "finish_reason", str, "a string")
        if reason and not self._stopped:
            self._reason, self._stopped = reason, True
            yield from self._end_thinking()
            yield from self._tool_calls()

    def _read_delta(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        for field in REASONING:
            if (text := optional_string(delta, field)) and self._check_running(field):
                self._thinking_field = field
                yield ThinkingDelta(text)
                break
        content = optional_field(delta, "content", (str, list), "a string")
        if content and self._check_running("content"):
            yield from self._end_thinking()
            yield from self._read_content(content)
        if (refusal := optional_string(delta, "refusal")) and self._check_running("refusal"):
            self._refused = True
            yield from self._end_thinking()
            yield TextDelta(refusal, refusal=True)
        calls = delta.get("tool_calls")
        if calls and self._check_running("tool_calls"):
            for delta_call in read_objects(calls, "stream.choices[0].delta.tool_calls"):
                self._add_to_call(delta_call)

    def _end_thinking(self) -> Iterator[StreamEvent]:
        """Report the field of the thinking, if it is not the usual one."""
        field, self._thinking_field = self._thinking_field, ""
        if field and field != REASONING[0]:
            yield BlockEnd(extra={f"{API} spelling": {"field": field}})

    def _read_content(self, content: Any) -> Iterator[StreamEvent]:
        if isinstance(content, str):
            yield TextDelta(content)
            return
        blocks, _ = read_message({"content": content})
        for block in blocks:
            if isinstance(block, TextBlock):
                yield TextDelta(block.text)
            elif not isinstance(block, ToolUseBlock):
                yield OpaqueBlock(block)  # type: ignore[arg-type]

    def _check_running(self, field: str) -> bool:
        if self._stopped:
            raise InputError(f"stream.choices[0].delta.{field}: a delta came after the model stopped")
        return True

    def _add_to_call(self, delta: Mapping[str, Any]) -> None:
        """Add a delta to the call with its index; a new id at a known index begins a new call."""
        index = optional_int(delta, "index")
        call_id = optional_string(delta, "id")
        call = self._calls_by_index.get(index) if index is not None else None
        if index is None and self._calls and call_id in ("", self._calls[-1].get("id")):
            call = self._calls[-1]
        if call is None or (call_id and call.get("id") and call_id != call["id"]):
            call = {}
            self._calls.append(call)
            if index is not None:
                self._calls_by_index[index] = call
        _merge(call, without(delta, {"index"}))

    def _tool_calls(self) -> Iterator[StreamEvent]:
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

    def _keep_extra(self, delta: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        for name, value in choice.items():
            earlier = self._choice.get(name)
            if isinstance(earlier, dict) and isinstance(value, dict):
                for part, items in value.items():
                    old = earlier.get(part)
                    joined = isinstance(old, list) and isinstance(items, list)
                    earlier[part] = [*old, *items] if joined else (items or old)  # type: ignore[misc]
            elif value is not None or name not in self._choice:
                self._choice[name] = dict(value) if isinstance(value, dict) else value
        if delta:
            extra = self._message.setdefault("extra", {})
            _merge(extra, delta)


class OpenAIChatStreamWriter:
    """Writes a stream, event by event. Send `[DONE]` after the chunks of `Finish`.

    The usage is written if the request asked for it with `stream_options.include_usage`.
    """

    def __init__(self, id: str, model: str, *, created: int = 0, request_body: Mapping[str, Any] | None = None) -> None:
        self._head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._usage = wants_usage(request_body or {})
        self._losses = LossRecorder(API)
        self._started = self._refused = False
        self._calls = 0

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be expressed so far."""
        return tuple(self._losses.losses)

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the API's chunks for one event."""
        if isinstance(event, TextDelta):
            self._record_order()
            self._refused = self._refused or event.refusal
            return self._delta({"refusal" if event.refusal else "content": event.text})
        if isinstance(event, ThinkingDelta):
            return self._delta({REASONING[0]: event.thinking}) if event.thinking else []
        if isinstance(event, BlockEnd):
            record_thinking_losses(ThinkingBlock("", event.signature, event.extra), self._losses)
            return []
        if isinstance(event, ToolCall):
            return self._write_call(event.call)
        if isinstance(event, OpaqueBlock):
            return self._write_block(event)
        return self._finish(event)

    def _record_order(self) -> None:
        if self._calls:
            self._losses.lossy("text", "text after a tool call is moved before the call")

    def _write_call(self, call: ToolUseBlock) -> list[dict[str, Any]]:
        carrier = write_request(Request("", (Message("assistant", (call,)),), api=API))
        return self._call_delta(carrier.body["messages"][0]["tool_calls"][0])

    def _write_block(self, event: OpaqueBlock) -> list[dict[str, Any]]:
        if event.block.api == CALL:
            return self._call_delta(event.block.content)
        if event.block.api == API:
            return self._delta({"content": [event.block.content]})
        self._losses.unsupported_block(event.block, "content")
        return []

    def _call_delta(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        index, self._calls = self._calls, self._calls + 1
        return self._delta({"tool_calls": [{"index": index, **call}]})

    def _finish(self, event: Finish) -> list[dict[str, Any]]:
        own = self._losses.own_fields(event.extra, "extra")
        content = (TextBlock("", REFUSED),) if self._refused else ()
        end = Response(content, event.stop_reason, event.stop_sequence)
        record_stop_losses(end, self._losses)
        reason = write_stop_reason(end, own)
        if read_stop_reason(reason, content) == "unknown":
            reason = "stop"
        chunks = self._delta({}, reason)
        if self._usage:
            usage = write_usage(event.usage, own.get("usage"))
            chunks.append({**self._head, "choices": [], "usage": usage})
        return chunks

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> list[dict[str, Any]]:
        first = {} if self._started else {"role": "assistant"}
        self._started = True
        choice = {"index": 0, "delta": {**first, **delta}, "finish_reason": reason}
        usage = {"usage": None} if self._usage else {}
        return [{**self._head, "choices": [choice], **usage}]


def wants_usage(request_body: Mapping[str, Any]) -> bool:
    """Whether a request asks for the usage at the end of its stream."""
    options = request_body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def _merge(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to what has come: contents and lists grow, names and kinds stay."""
    for name, value in delta.items():
        earlier = whole.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            _merge(earlier, value)
        elif isinstance(value, dict):
            whole[name] = {}
            _merge(whole[name], value)
        elif isinstance(earlier, list) and isinstance(value, list):
            whole[name] = [*earlier, *value]
        elif isinstance(earlier, str) and isinstance(value, str):
            grows = name in ("arguments", "input", "data", "transcript")
            whole[name] = earlier + value if grows else (earlier or value)
        elif value is not None or name not in whole:
            whole[name] = value
