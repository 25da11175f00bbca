"""An emulated request: what to send, how to process the response, and what is reported about it."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

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
    Usage,
    collect,
    response_events,
)
from modelpact.emulation.json_text import LARGEST_TEXT, NoJson, find_json
from modelpact.emulation.strategies import EmulationStrategy
from modelpact.emulation.streaming import StopScanner, ThinkingSplitter, first_stop, split_chunks, split_thinking
from modelpact.emulation.tools import ToolSpec, parse_tool_calls, text_before_calls
from modelpact.emulation.validation import Schema
from modelpact.vocabulary.errors import ModelpactError

EmulationFidelity = Literal["exact", "validated", "best-effort", "translation"]
_REPAIR_PROMPT: Final = "Your last answer cannot be used:\n{findings}\nAnswer again, correctly."
_MAX_REPEATED_TEXT: Final = 8_000
"""Characters of a wrong response that are sent back with the request to correct it."""
_PLAIN_END: Final = BlockEnd()


class AppliedEmulation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change: to the prompt, to the response, or to a parameter's name.

    `exact`: the same result as natively. `validated`: the result is checked, and a wrong one is an
    error. `best-effort`: the model may not comply. `translation`: the same under another name.
    """

    capability: str
    strategy: EmulationStrategy
    label: str
    fidelity: EmulationFidelity
    extra_prompt_tokens: int = 0
    """An estimate: four characters a token."""
    extra_calls: int = 0
    """The most further calls that repairs may take."""


class EmulatorReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that differs from a request to a model that has all capabilities natively."""

    applied: tuple[AppliedEmulation, ...] = ()
    warnings: tuple[str, ...] = ()
    calls_made_again: int = 0

    def is_empty(self) -> bool:
        """Whether nothing was applied and there are no warnings."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Whether a requested capability could not be emulated."""
        return bool(self.warnings)


class RepairRequest(msgspec.Struct, frozen=True):
    """The request to send next, since the response failed its check."""

    request: Request
    findings: tuple[str, ...]
    attempt: int


class EmulationFailed(ModelpactError):
    """No response passed its check; `findings` says what was wrong with the last one."""

    def __init__(self, capability: str, findings: tuple[str, ...], attempts: int) -> None:
        self.capability = capability
        self.findings = findings
        self.usage = Usage()
        """The usage of the responses that failed; the sender of the requests fills it in."""
        tries = f"{attempts} response{'s' if attempts != 1 else ''}"
        super().__init__(f"{capability} could not be emulated after {tries}: {'; '.join(findings)}")


class StreamCutOff(ModelpactError):
    """A stream broke off before its end."""

    def __init__(self) -> None:
        super().__init__("the stream ended before its end: what arrived is not a whole response")


class EmulatedRequest(msgspec.Struct, frozen=True):
    """A request as it is sent, and how its response becomes the one that was asked for."""

    request: Request
    report: EmulatorReport
    tools: ToolSpec | None = None
    tool_schemas: Mapping[str, Schema] = {}
    output: JsonObject | JsonSchema | None = None
    output_schema: Schema | None = None
    stops: tuple[str, ...] = ()
    split_thinking: bool = False
    emulate_stream: bool = False
    repairs: int = 2

    @property
    def checks_whole_response(self) -> bool:
        """Whether only a whole response can be checked, so that a stream is held until its end."""
        return self.tools is not None or self.output is not None

    @property
    def checked_capability(self) -> str:
        """The capability for which the whole response is checked."""
        return self._output_capability() if self.output is not None else "tool-calling"

    def process(self, response: Response, attempt: int = 1) -> Response | RepairRequest:
        """Return the response that was asked for, or the request that repairs a wrong one.

        `attempt` counts the responses so far. Raise `EmulationFailed` after the last repair.
        """
        size = sum(len(block.text) for block in response.content if isinstance(block, TextBlock))
        if size > LARGEST_TEXT and self.checks_whole_response:
            finding = f"the answer has {size:,} characters; more than {LARGEST_TEXT:,}"
            raise EmulationFailed(self.checked_capability, (finding,), attempt)
        if response.stop_reason == "refusal":
            return response
        if not self.split_thinking and not self.checks_whole_response:
            return self._cut_at_stop(response)
        thinking, text = split_thinking(response.text) if self.split_thinking else ("", response.text)
        reason, stopped_by = response.stop_reason, response.stop_sequence
        cut = first_stop(text_before_calls(text) if self.tools else text, self.stops)
        if cut is not None:
            text, reason, stopped_by = text[: cut[0]], "stop_sequence", cut[1]
        calls: tuple[Block, ...] = () if cut is not None else response.tool_calls
        if self.tools is not None:
            parsed = parse_tool_calls(text, self.tools, self.tool_schemas)
            if parsed.findings:
                return self._repair("tool-calling", response, parsed.findings, attempt)
            text, calls = parsed.text, parsed.calls or calls
            if parsed.calls and reason != "length":
                reason = "tool_use"
        if self.output is not None and not calls:
            findings, text = self._check_output(text)
            if reason == "length" and not findings and text[-1:] not in ("}", "]"):
                findings = ("the answer was cut off at the limit of its length",)
            if findings:
                return self._repair(self._output_capability(), response, findings, attempt)
        native = [block for block in response.content if not isinstance(block, (TextBlock, ToolUseBlock))]
        content: list[Block] = [*native, *([ThinkingBlock(thinking)] if thinking else [])]
        content += [TextBlock(text)] if text else []
        return msgspec.structs.replace(
            response, content=(*content, *calls), stop_reason=reason, stop_sequence=stopped_by
        )

    def stream_events(self, response: Response) -> Iterator[StreamEvent]:
        """Yield a whole response as a stream: its texts in chunks, and its end."""
        for event in response_events(response):
            if isinstance(event, TextDelta):
                for chunk in split_chunks(event.text):
                    yield TextDelta(chunk, event.refusal)
            elif isinstance(event, ThinkingDelta):
                for chunk in split_chunks(event.thinking):
                    yield ThinkingDelta(chunk)
            else:
                yield event

    def stream_processor(self, attempt: int = 1) -> "StreamProcessor":
        """Return a processor for one streamed response."""
        return StreamProcessor(self, attempt)

    def _cut_at_stop(self, response: Response) -> Response:
        """Cut a response at a stop sequence, and leave every block before it as it is."""
        cut = first_stop(response.text, self.stops)
        if cut is None:
            return response
        content: list[Block] = []
        remaining = cut[0]
        for block in response.content:
            if isinstance(block, TextBlock):
                if len(block.text) >= remaining:
                    content += [TextBlock(block.text[:remaining], block.extra)] if remaining else []
                    break
                remaining -= len(block.text)
            content.append(block)
        return msgspec.structs.replace(
            response, content=tuple(content), stop_reason="stop_sequence", stop_sequence=cut[1]
        )

    def _output_capability(self) -> str:
        return "structured-output" if isinstance(self.output, JsonSchema) else "json-object"

    def _check_output(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return what is wrong with the JSON of a response, and the JSON alone if it is right."""
        try:
            json = find_json(text, self._accepts)
        except NoJson as error:
            return (str(error),), text
        if isinstance(self.output, JsonObject) and not isinstance(json.value, dict):
            return ("the answer is JSON, but not an object",), text
        if self.output_schema is not None:
            findings = self.output_schema.findings(json.value)
            if findings:
                return tuple(findings), text
        return (), json.text

    def _accepts(self, value: object) -> bool:
        if self.output_schema is not None:
            return self.output_schema.accepts(value)
        return isinstance(value, dict)

    def _repair(self, capability: str, response: Response, findings: tuple[str, ...], attempt: int) -> RepairRequest:
        if attempt > self.repairs:
            raise EmulationFailed(capability, findings, attempt)
        listed = "\n".join(f"- {finding}" for finding in findings)
        wrong = response.text[:_MAX_REPEATED_TEXT] or "(no text)"
        messages = (
            *self.request.messages,
            Message("assistant", (TextBlock(wrong),)),
            Message("user", (TextBlock(_REPAIR_PROMPT.format(findings=listed)),)),
        )
        request = msgspec.structs.replace(self.request, messages=messages)
        return RepairRequest(request, findings, attempt + 1)


class StreamProcessor:
    """Turns a provider's events into the caller's events as they arrive.

    If only a whole response can be checked, events are held until the end; then `finish` returns
    all of them, or the request that repairs the response. Native tool calls are held until the text
    has ended.
    """

    __slots__ = ("_attempt", "_finish", "_held", "_request", "_size", "_splitter", "_stops")

    def __init__(self, request: EmulatedRequest, attempt: int) -> None:
        self._request = request
        self._attempt = attempt
        self._held: list[StreamEvent] = []
        self._size = 0
        self._finish: Finish | None = None
        self._splitter = ThinkingSplitter() if request.split_thinking else None
        self._stops = StopScanner(request.stops) if request.stops else None

    @property
    def stopped(self) -> bool:
        """Whether a stop sequence was found: nothing that follows is passed on."""
        return self._stops is not None and bool(self._stops.stopped_by)

    def feed(self, event: StreamEvent) -> list[StreamEvent]:
        """Read one event and return those that the caller may see now."""
        if isinstance(event, Finish):
            self._finish = event
        if self._request.checks_whole_response:
            if isinstance(event, TextDelta):
                self._size += len(event.text)
                if self._size > LARGEST_TEXT:
                    finding = f"the answer has more than {LARGEST_TEXT:,} characters"
                    capability = self._request.checked_capability
                    raise EmulationFailed(capability, (finding,), self._attempt)
            self._held.append(event)
            return []
        if isinstance(event, Finish) or self.stopped:
            return []
        if isinstance(event, TextDelta):
            return self._process_text(event.text)
        if (self._stops or self._splitter) and not isinstance(event, ThinkingDelta):
            # Text that comes before this event may still be held back.
            if event != _PLAIN_END:
                self._held.append(event)
            return []
        return [event]

    def finish(self) -> list[StreamEvent] | RepairRequest:
        """Return the last events or a repair request; raise if the stream was cut off."""
        if self._finish is None and not self.stopped:
            raise StreamCutOff
        if self._request.checks_whole_response:
            whole = collect(self._held)
            if whole is None:
                raise StreamCutOff
            response = self._request.process(whole, self._attempt)
            if isinstance(response, RepairRequest):
                return response
            return list(self._request.stream_events(response))
        events: list[StreamEvent] = []
        if self._splitter is not None:
            for is_thinking, text in self._splitter.finish():
                events += [ThinkingDelta(text)] if is_thinking else self._text_events(text)
        end = self._finish or Finish()
        if self._stops is not None:
            held = self._stops.finish()
            events += [TextDelta(held)] if held else []
            if self._stops.stopped_by:
                end = msgspec.structs.replace(end, stop_reason="stop_sequence", stop_sequence=self._stops.stopped_by)
                self._held.clear()
        return [*events, *self._held, end]

    def _process_text(self, text: str) -> list[StreamEvent]:
        if self._splitter is None:
            return self._text_events(text)
        events: list[StreamEvent] = []
        for is_thinking, part in self._splitter.feed(text):
            events += [ThinkingDelta(part)] if is_thinking else self._text_events(part)
        return events

    def _text_events(self, text: str) -> list[StreamEvent]:
        certain = text if self._stops is None else self._stops.feed(text)
        return [TextDelta(certain)] if certain else []
