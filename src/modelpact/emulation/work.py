"""Work under emulation: the request to send, and what to make of the answer."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from modelpact.conversation.message import Block, Message, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    collect,
    spell_out,
)
from modelpact.emulation import thinking
from modelpact.emulation.json_text import LARGEST_ANSWER, NoJson, find_json
from modelpact.emulation.report import (
    AskAgain,
    EmulatedRequestReport,
    EmulationFailed,
    StreamCutOff,
)
from modelpact.emulation.stops import StopScanner, chunks, first_stop
from modelpact.emulation.tools import ToolSpec, read_calls, spoken
from modelpact.emulation.validation import Schema

_ASK_AGAIN: Final = "Your last answer cannot be used:\n{findings}\nAnswer again, correctly."
_PLAIN_END: Final = BlockEnd()
_MOST_SHOWN: Final = 8_000
"""Characters of a bad answer that are sent back with the request to correct it."""


class EmulatedRequest(msgspec.Struct, frozen=True):
    """A request as it is to be sent, and how its answer becomes what was asked for."""

    request: Request
    report: EmulatedRequestReport
    tools: ToolSpec | None = None
    tool_schemas: Mapping[str, Schema] = {}
    output: JsonObject | JsonSchema | None = None
    output_schema: Schema | None = None
    stops: tuple[str, ...] = ()
    split_thinking: bool = False
    emulate_stream: bool = False
    repairs: int = 2

    @property
    def checks_the_whole(self) -> bool:
        """Whether an answer is only good as a whole, so that a stream is held until it is."""
        return self.tools is not None or self.output is not None

    def receive(self, response: Response, attempt: int = 1) -> Response | AskAgain:
        """Turn an answer into what was asked for, or say what to ask again.

        Raises `EmulationFailed` when the answers stay wrong. `attempt` counts the answers so far.
        """
        size = sum(len(one.text) for one in response.content if isinstance(one, TextBlock))
        if size > LARGEST_ANSWER and self.checks_the_whole:
            found = f"the answer has {size:,} characters; more than {LARGEST_ANSWER:,}"
            raise EmulationFailed(self.whole_capability, (found,), attempt)
        if response.stop_reason == "refusal":
            return response
        if not self.split_thinking and not self.checks_the_whole:
            return self._cut(response)
        thought, text = (
            thinking.split(response.text) if self.split_thinking else ("", response.text)
        )
        reason, stopped_by = response.stop_reason, response.stop_sequence
        cut = first_stop(spoken(text) if self.tools else text, self.stops)
        if cut is not None:
            text, reason, stopped_by = text[: cut[0]], "stop_sequence", cut[1]
        calls: tuple[Block, ...] = () if cut is not None else response.tool_calls
        if self.tools is not None:
            read = read_calls(text, self.tools, self.tool_schemas)
            if read.findings:
                return self._again("tool-calling", response, read.findings, attempt)
            text, calls = read.text, read.calls or calls
            if read.calls and reason != "length":
                reason = "tool_use"
        if self.output is not None and not calls:
            findings, text = self._checked_output(text)
            if reason == "length" and not findings and text[-1:] not in ("}", "]"):
                findings = ("the answer was cut off at the limit of its length",)
            if findings:
                return self._again(self._output_capability(), response, findings, attempt)
        native = [one for one in response.content if not isinstance(one, (TextBlock, ToolUseBlock))]
        content: list[Block] = [*native, *([ThinkingBlock(thought)] if thought else [])]
        content += [TextBlock(text)] if text else []
        return msgspec.structs.replace(
            response,
            content=(*content, *calls),
            stop_reason=reason,
            stop_sequence=stopped_by,
        )

    def _cut(self, response: Response) -> Response:
        """Cut an answer at a stop sequence, and leave every block before it as it is."""
        cut = first_stop(response.text, self.stops)
        if cut is None:
            return response
        content: list[Block] = []
        left = cut[0]
        for block in response.content:
            if isinstance(block, TextBlock):
                if len(block.text) >= left:
                    content += [TextBlock(block.text[:left], block.extra)] if left else []
                    break
                left -= len(block.text)
            content.append(block)
        return msgspec.structs.replace(
            response, content=tuple(content), stop_reason="stop_sequence", stop_sequence=cut[1]
        )

    def _output_capability(self) -> str:
        return "structured-output" if isinstance(self.output, JsonSchema) else "json-object"

    @property
    def whole_capability(self) -> str:
        """The capability for whose sake the whole answer is checked."""
        return self._output_capability() if self.output is not None else "tool-calling"

    def _checked_output(self, text: str) -> tuple[tuple[str, ...], str]:
        try:
            found = find_json(text, self._accepts)
        except NoJson as error:
            return (str(error),), text
        if isinstance(self.output, JsonObject) and not isinstance(found.value, dict):
            return ("the answer is JSON, but not an object",), text
        if self.output_schema is not None:
            wrong = self.output_schema.findings(found.value)
            if wrong:
                return tuple(wrong), text
        return (), found.text

    def _accepts(self, value: object) -> bool:
        if self.output_schema is not None:
            return self.output_schema.accepts(value)
        return isinstance(value, dict)

    def _again(
        self, capability: str, response: Response, findings: tuple[str, ...], attempt: int
    ) -> AskAgain:
        if attempt > self.repairs:
            raise EmulationFailed(capability, findings, attempt)
        listed = "\n".join(f"- {one}" for one in findings)
        answer = response.text[:_MOST_SHOWN] or "(no text)"
        messages = (
            *self.request.messages,
            Message("assistant", (TextBlock(answer),)),
            Message("user", (TextBlock(_ASK_AGAIN.format(findings=listed)),)),
        )
        request = msgspec.structs.replace(self.request, messages=messages)
        return AskAgain(request, findings, attempt + 1)

    def events(self, response: Response) -> Iterator[StreamEvent]:
        """Yield a whole answer as a stream: its texts in pieces, and its end."""
        for event in spell_out(response):
            if isinstance(event, TextDelta):
                for piece in chunks(event.text):
                    yield TextDelta(piece, event.refusal)
            elif isinstance(event, ThinkingDelta):
                for piece in chunks(event.thinking):
                    yield ThinkingDelta(piece)
            else:
                yield event

    def stream(self, attempt: int = 1) -> "StreamProcessor":
        """Return a processor for one streamed answer."""
        return StreamProcessor(self, attempt)


class StreamProcessor:
    """Turns a provider's events into the caller's, as they arrive.

    Where only a whole answer can be checked, events are held until the end; then `finish` gives
    them all, or says what to ask again. Tool calls of the model's own wait for the text to end.
    """

    __slots__ = ("_attempt", "_finish", "_held", "_size", "_splitter", "_stops", "_work")

    def __init__(self, work: EmulatedRequest, attempt: int) -> None:
        self._work = work
        self._attempt = attempt
        self._held: list[StreamEvent] = []
        self._size = 0
        self._finish: Finish | None = None
        self._splitter = thinking.ThinkingSplitter() if work.split_thinking else None
        self._stops = StopScanner(work.stops) if work.stops else None

    @property
    def stopped(self) -> bool:
        """Whether a stop sequence has come: nothing that follows will be passed on."""
        return self._stops is not None and bool(self._stops.stopped_by)

    def feed(self, event: StreamEvent) -> list[StreamEvent]:
        """Take one event and return those that the caller may see now."""
        if isinstance(event, Finish):
            self._finish = event
        if self._work.checks_the_whole:
            if isinstance(event, TextDelta):
                self._size += len(event.text)
                if self._size > LARGEST_ANSWER:
                    found = f"the answer has more than {LARGEST_ANSWER:,} characters"
                    raise EmulationFailed(self._work.whole_capability, (found,), self._attempt)
            self._held.append(event)
            return []
        if isinstance(event, Finish) or self.stopped:
            return []
        if isinstance(event, TextDelta):
            return self._pass_on(event.text)
        if (self._stops or self._splitter) and not isinstance(event, ThinkingDelta):
            if event != _PLAIN_END:  # text may still be held back that comes before this
                self._held.append(event)
            return []
        return [event]

    def _pass_on(self, text: str) -> list[StreamEvent]:
        if self._splitter is None:
            return self._answer(text)
        out: list[StreamEvent] = []
        for is_thinking, piece in self._splitter.feed(text):
            out += [ThinkingDelta(piece)] if is_thinking else self._answer(piece)
        return out

    def _answer(self, text: str) -> list[StreamEvent]:
        certain = text if self._stops is None else self._stops.feed(text)
        return [TextDelta(certain)] if certain else []

    def finish(self) -> list[StreamEvent] | AskAgain:
        """Return the last events, or what to ask again; raises where the stream was cut off."""
        if self._finish is None and not self.stopped:
            raise StreamCutOff
        if self._work.checks_the_whole:
            whole = collect(self._held)
            if whole is None:
                raise StreamCutOff
            answer = self._work.receive(whole, self._attempt)
            return answer if isinstance(answer, AskAgain) else list(self._work.events(answer))
        out: list[StreamEvent] = []
        if self._splitter is not None:
            for is_thinking, piece in self._splitter.finish():
                out += [ThinkingDelta(piece)] if is_thinking else self._answer(piece)
        end = self._finish or Finish()
        if self._stops is not None:
            held = self._stops.finish()
            out += [TextDelta(held)] if held else []
            if self._stops.stopped_by:
                end = msgspec.structs.replace(
                    end, stop_reason="stop_sequence", stop_sequence=self._stops.stopped_by
                )
                self._held.clear()
        return [*out, *self._held, end]
