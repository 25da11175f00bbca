"""The emulator: a set of emulations that goes beyond the default table of `strategies`.

Policy turns it on. Each emulation changes the request and reports what it did, with its cost and
its fidelity. A prepared message carries marks in its metadata: what the request asked for before
the change. With them, preparing a prepared request changes nothing more and reports the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Conversation, Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request, TokenLimitParam, Tool
from modelpact.emulation.emulated_request import AppliedEmulation, EmulatedRequest, EmulationFidelity, EmulatorReport
from modelpact.emulation.strategies import (
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
    inject_system_prompt,
)
from modelpact.emulation.streaming import THINKING_PROMPT, StopScanner
from modelpact.emulation.tools import ToolSpec, tool_schemas, tools_prompt, write_calls_as_text
from modelpact.emulation.validation import Schema
from modelpact.needs.token_estimate import tokens_for
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError

MARKS: Final = "modelpact"
"""The metadata key of a message's marks."""
HISTORY: Final = "tool-history"
"""The mark that counts the earlier calls and results that were written as text."""

_LABELS: Final[Mapping[str, str]] = {
    "tool-calling": "tools in the prompt, calls read from the text and checked",
    "structured-output": "schema in the prompt, answer checked against it",
    "json-object": "JSON asked for in the prompt, answer checked",
    "reasoning": "thinking asked for in the prompt and split from the answer",
    "stop-sequences": "answer cut at the stop sequence",
    "streaming": "whole answer passed on in pieces",
    "system-messages": "instructions put before the first user message",
    "token-limit-param": "parameter passed under the name that the model takes",
}
"""The capabilities that the emulator provides, and their labels in verdicts and reports."""
_PROVIDED_BY: Final = {
    "json-mode": "structured-output",
    "discriminator-enum": "structured-output",
    "tool-choice": "tool-calling",
    "parallel-tool-calls": "tool-calling",
}
"""Capabilities that the emulation of another capability provides too."""

_STRATEGIES: Final = Strategies({**_LABELS, **{name: _LABELS[base] for name, base in _PROVIDED_BY.items()}})


class Emulator:
    """Prepares requests for models that lack capabilities.

    `repairs` is how often the model may be asked to correct a response.
    """

    __slots__ = ("repairs",)

    def __init__(self, *, repairs: int = 2) -> None:
        if isinstance(repairs, bool) or not isinstance(repairs, int) or not 0 <= repairs <= 10:
            raise InputError("repairs: expected an integer from 0 to 10")
        self.repairs = repairs

    def plan(
        self, request: Request, capabilities: Iterable[str], *, token_limit_param: TokenLimitParam | None = None
    ) -> EmulatorReport:
        """Return the report that `prepare` would give."""
        return self.prepare(request, capabilities, token_limit_param=token_limit_param).report

    def prepare(
        self, request: Request, capabilities: Iterable[str], *, token_limit_param: TokenLimitParam | None = None
    ) -> EmulatedRequest:
        """Return the request to send, its report, and how to process the response.

        `capabilities` are those that the model lacks. Preparing a prepared request changes nothing
        more and reports the same. The original request is never changed.
        """
        if isinstance(capabilities, str):
            raise InputError("capabilities: expected a list of names")
        ids = (capability(name).id for name in capabilities)
        missing = list(dict.fromkeys(_PROVIDED_BY.get(name, name) for name in ids))
        return _Preparation(request, missing, self.repairs).run(token_limit_param)


def emulator_strategies() -> Strategies:
    """Return the capabilities that the emulator provides, for negotiation."""
    return _STRATEGIES


class _Preparation:
    """The preparation of one request for a model that lacks the `missing` capabilities."""

    def __init__(self, request: Request, missing: list[str], repairs: int) -> None:
        self._request = request
        self._missing = missing
        self._repairs = repairs
        self._conversation = Conversation(list(request.messages))
        self._applied: list[AppliedEmulation] = []
        self._changes: dict[str, Any] = {}
        """Fields of the request that change."""
        self._processing: dict[str, Any] = {}
        """Fields of the `EmulatedRequest` that say how to process the response."""
        self._marks: dict[str, Any] = {}
        for message in request.messages:
            self._marks |= _marks_of(message)

    def run(self, token_limit_param: TokenLimitParam | None) -> EmulatedRequest:
        """Apply the emulations in a fixed order and return the prepared request."""
        warnings = [
            f"Capability {name} not emulated: no emulation of the set provides it"
            for name in self._missing
            if name not in _LABELS
        ]
        for name, step in (
            ("tool-calling", self._tool_calling),
            ("structured-output", self._structured_output),
            ("json-object", self._json_object),
            ("reasoning", self._reasoning),
            ("stop-sequences", self._stop_sequences),
            ("streaming", self._streaming),
            ("system-messages", self._system_messages),
        ):
            if name in self._missing:
                step()
        if "token-limit-param" in self._missing and token_limit_param is not None:
            self._rename_limit(token_limit_param)
        prepared = msgspec.structs.replace(self._request, messages=tuple(self._conversation.messages), **self._changes)
        report = EmulatorReport(tuple(self._applied), tuple(warnings))
        return EmulatedRequest(prepared, report, repairs=self._repairs, **self._processing)

    # The emulations.

    def _tool_calling(self) -> None:
        """Describe the tools in the prompt, and write earlier calls and results as text."""
        request = self._request
        earlier: ToolSpec | None = self._mark("tool-calling", ToolSpec)
        blocks = [block for message in request.messages for block in message.content]
        calls = sum(isinstance(block, ToolUseBlock) for block in blocks)
        history = calls + sum(isinstance(block, ToolResultBlock) for block in blocks)
        if not request.tools and earlier is None and not history:
            return
        numbers = [_call_number(block.id) for block in blocks if isinstance(block, ToolUseBlock)]
        before = max(calls + (earlier.before if earlier else 0), *numbers, 0)
        if earlier is not None and not request.tools:
            spec = msgspec.structs.replace(earlier, before=before)
        else:
            choice = request.tool_choice
            spec = ToolSpec(_callable_tools(request), choice, request.parallel_tool_calls is not False, before)
        self._processing["tool_schemas"] = tool_schemas(spec)
        self._conversation.messages[:] = write_calls_as_text(tuple(self._conversation.messages))
        if spec.tools:
            self._processing["tools"] = spec
            prompt = tools_prompt(spec)
            self._inject("tool-calling", prompt, "validated", spec, calls=self._repairs)
        else:
            self._set_mark("tool-calling", spec)
        written = history + (self._mark(HISTORY, int) or 0)
        if written:
            self._set_mark(HISTORY, written)
            detail = f"{written} earlier calls and results are written as text"
            self._report("tool-calling", PostProcessing(detail), "best-effort")
        self._changes |= {"tools": (), "tool_choice": None, "parallel_tool_calls": None}

    def _structured_output(self) -> None:
        """Put the schema into the prompt."""
        output = self._request.output or self._mark("structured-output", JsonSchema)
        if not isinstance(output, JsonSchema):
            return
        self._processing["output_schema"] = Schema(output.schema, "response_format.schema")
        self._check_output("structured-output", output)
        schema = msgspec.json.encode(output.schema).decode()
        prompt = f"{self._json_prompt('one JSON value')} It must be valid against this JSON Schema:\n{schema}"
        self._inject("structured-output", prompt, "validated", output, calls=self._repairs)

    def _json_object(self) -> None:
        """Ask for a JSON object in the prompt."""
        output = self._request.output or self._mark("json-object", JsonObject)
        if not isinstance(output, JsonObject):
            return
        self._check_output("json-object", output)
        prompt = self._json_prompt("one JSON object")
        self._inject("json-object", prompt, "validated", output, calls=self._repairs)

    def _json_prompt(self, what: str) -> str:
        """Ask for nothing but JSON, except for thinking and tool calls if they are emulated too."""
        after = "After your thinking, answer" if "reasoning" in self._missing else "Answer"
        unless = ", unless you call a tool" if self._processing.get("tools") else ""
        return f"{after} with {what} and nothing else{unless}: no prose, no code fence."

    def _check_output(self, name: str, output: JsonObject | JsonSchema) -> None:
        """Have the response checked, and do not send the output format."""
        if self._processing.get("output", output) != output:
            raise InputError(f"{name}: an earlier preparation asked for another output format")
        self._processing["output"] = output
        self._changes["output"] = None
        self._drop_extras("response_format")

    def _reasoning(self) -> None:
        """Ask for thinking between tags."""
        self._processing["split_thinking"] = True
        self._changes["reasoning"] = None
        self._inject("reasoning", THINKING_PROMPT, "best-effort", True)

    def _stop_sequences(self) -> None:
        """Have the response cut, and do not send the stop sequences."""
        stops = self._request.stop or self._mark("stop-sequences", tuple)
        if not stops:
            return
        StopScanner(stops)  # raises if a stop sequence is not valid
        self._processing["stops"] = tuple(stops)
        self._changes["stop"] = ()
        self._set_mark("stop-sequences", tuple(stops))
        detail = "The answer is cut where a stop sequence ends first; the model writes on unseen"
        self._report("stop-sequences", PostProcessing(detail), "exact")

    def _streaming(self) -> None:
        """Have the response awaited, and streamed in chunks."""
        if not self._request.stream and self._mark("streaming", bool) is None:
            return
        self._processing["emulate_stream"] = True
        self._changes["stream"] = False
        self._drop_extras("stream_options")
        self._set_mark("streaming", True)
        detail = "The whole answer is awaited, then passed on in pieces of words"
        self._report("streaming", PostProcessing(detail), "exact")

    def _system_messages(self) -> None:
        """Move the system messages into the first user message."""
        system = [message for message in self._conversation.messages if message.role == "system"]
        earlier = self._mark("system-messages", str)
        if system:
            self._fold(system)
        elif earlier is None or not self._is_injected("system-messages", _preface(earlier)):
            return
        detail = "The system messages are written before the first user message"
        self._report("system-messages", PostProcessing(detail), "best-effort")

    def _fold(self, system: list[Message]) -> None:
        """Write system messages at the beginning of the first user message."""
        prompt = "\n".join(message.text for message in system)
        marks: dict[str, Any] = {}
        for message in system:
            marks |= _marks_of(message)
        marks["system-messages"] = prompt
        others = [message for message in self._conversation.messages if message.role != "system"]
        index = next((n for n, message in enumerate(others) if message.role == "user"), None)
        if index is None:
            index = 0
            others.insert(0, Message("user"))
        user = others[index]
        media = [block for message in system for block in message.content if not isinstance(block, TextBlock)]
        others[index] = Message(
            "user",
            (TextBlock(_preface(prompt)), *media, *user.content),
            {**user.metadata, MARKS: {**_marks_of(user), **marks}},
        )
        self._conversation.messages[:] = others

    def _rename_limit(self, name: TokenLimitParam) -> None:
        """Send the token limit under another name."""
        if self._request.max_tokens is None:
            return
        original = self._request.token_limit_param
        if original == name:
            original = self._mark("token-limit-param", str) or name
        if original == name:
            return
        self._changes["token_limit_param"] = name
        self._set_mark("token-limit-param", original)
        detail = f"{original} is passed as {name}"
        self._report("token-limit-param", PostProcessing(detail), "translation")

    # What they share.

    def _report(self, name: str, strategy: EmulationStrategy, fidelity: EmulationFidelity, *, calls: int = 0) -> None:
        tokens = 0
        if isinstance(strategy, SystemPromptInjection):
            tokens = tokens_for(len(strategy.prompt))
        self._applied.append(AppliedEmulation(name, strategy, _LABELS[name], fidelity, tokens, calls))

    def _inject(self, name: str, prompt: str, fidelity: EmulationFidelity, mark: Any, *, calls: int = 0) -> None:
        """Add a prompt to the system message, mark the message, and report the change."""
        if not self._is_injected(name, prompt):
            inject_system_prompt(self._conversation, prompt)
        self._set_mark(name, mark)
        self._report(name, SystemPromptInjection(prompt), fidelity, calls=calls)

    def _is_injected(self, name: str, prompt: str) -> bool:
        """Whether an earlier preparation wrote the prompt into a message."""
        return any(name in _marks_of(message) and prompt in message.text for message in self._conversation.messages)

    def _mark(self, name: str, kind: type) -> Any:
        """Return the mark of an earlier preparation, or None."""
        mark = self._marks.get(name)
        return mark if isinstance(mark, kind) else None

    def _set_mark(self, name: str, mark: Any) -> None:
        """Mark the message that has the mark, else the system message, else the first message."""
        messages = self._conversation.messages
        if not messages:
            return
        marked = (n for n, message in enumerate(messages) if name in _marks_of(message))
        system = (n for n, message in enumerate(messages) if message.role == "system")
        index = next(marked, next(system, 0))
        message = messages[index]
        marks = {**_marks_of(message), name: mark}
        metadata = {**message.metadata, MARKS: marks}
        messages[index] = Message(message.role, message.content, metadata)

    def _drop_extras(self, *names: str) -> None:
        """Remove fields from those that are sent unchanged."""
        extras = self._changes.get("extras", self._request.extras)
        self._changes["extras"] = {name: value for name, value in extras.items() if name not in names}


def _call_number(call_id: str) -> int:
    """Return the number of a call whose id the emulator made, or 0."""
    digits = call_id.removeprefix("call_")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def _callable_tools(request: Request) -> tuple[Tool, ...]:
    if "tool_choice" in request.extras and request.extras["tool_choice"] is not None:
        raise InputError("tool_choice: this form of it cannot be emulated")
    for tool in request.tools:
        if tool.builtin:
            raise InputError(f"tools: {tool.builtin!r:.80} runs at its provider and cannot be emulated")
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        return ()
    return request.tools


def _preface(prompt: str) -> str:
    return f"Instructions:\n{prompt}\n\n"


def _marks_of(message: Message) -> Mapping[str, Any]:
    marks = message.metadata.get(MARKS)
    return marks if isinstance(marks, Mapping) else {}
