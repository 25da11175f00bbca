"""The preparation of one request: each emulation of the set changes it and reports what it did."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import (
    Conversation,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.request import JsonObject, JsonSchema, Request, TokenLimitParam, Tool
from modelpact.emulation import thinking
from modelpact.emulation.report import AppliedEmulation, EmulatedRequestReport, token_estimate
from modelpact.emulation.stops import StopScanner
from modelpact.emulation.strategies import (
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
    inject,
)
from modelpact.emulation.tools import ToolSpec, tool_schemas, tools_prompt, written_out
from modelpact.emulation.validation import Schema
from modelpact.emulation.work import EmulatedRequest
from modelpact.vocabulary.errors import InputError

MARK: Final = "modelpact"
"""The metadata key under which a prepared message says what was done to it."""
HISTORY: Final = "tool-history"
"""The mark that says how many earlier calls and results were written as text."""

LABELS: Final[Mapping[str, str]] = {
    "tool-calling": "tools in the prompt, calls read from the text and checked",
    "structured-output": "schema in the prompt, answer checked against it",
    "json-object": "JSON asked for in the prompt, answer checked",
    "reasoning": "thinking asked for in the prompt and split from the answer",
    "stop-sequences": "answer cut at the stop sequence",
    "streaming": "whole answer passed on in pieces",
    "system-messages": "instructions put before the first user message",
    "token-limit-param": "parameter passed under the name that the model takes",
}
"""The set, by capability, with the label that verdicts and reports show."""


class Preparation:
    """One request on its way to becoming work."""

    def __init__(self, request: Request, wanted: list[str], repairs: int) -> None:
        self.request = request
        self.wanted = wanted
        self.repairs = repairs
        self.conversation = Conversation(list(request.messages))
        self.applied: list[AppliedEmulation] = []
        self.changes: dict[str, Any] = {}
        self.work: dict[str, Any] = {}
        self.marks: dict[str, Any] = {}
        for message in request.messages:
            self.marks |= _marked(message)

    def run(self, token_limit_param: TokenLimitParam | None) -> EmulatedRequest:
        """Apply the wanted emulations, in the order of the set, and return the work."""
        warnings = [
            f"Capability {name} not emulated: no emulation of the set provides it"
            for name in self.wanted
            if name not in LABELS
        ]
        for name, step in (
            ("tool-calling", self.tool_calling),
            ("structured-output", self.structured_output),
            ("json-object", self.json_object),
            ("reasoning", self.reasoning),
            ("stop-sequences", self.stop_sequences),
            ("streaming", self.streaming),
            ("system-messages", self.system_messages),
        ):
            if name in self.wanted:
                step()
        if "token-limit-param" in self.wanted and token_limit_param is not None:
            self.rename_limit(token_limit_param)
        prepared = msgspec.structs.replace(
            self.request, messages=tuple(self.conversation.messages), **self.changes
        )
        report = EmulatedRequestReport(tuple(self.applied), tuple(warnings))
        return EmulatedRequest(prepared, report, repairs=self.repairs, **self.work)

    def entry(
        self, name: str, strategy: EmulationStrategy, fidelity: Any, *, calls: int = 0
    ) -> None:
        """Report one change."""
        tokens = 0
        if isinstance(strategy, SystemPromptInjection):
            tokens = token_estimate(strategy.prompt)
        self.applied.append(AppliedEmulation(name, strategy, LABELS[name], fidelity, tokens, calls))

    def mark(self, name: str, kind: type) -> Any:
        """Return what an earlier preparation remembered, or None."""
        found = self.marks.get(name)
        return found if isinstance(found, kind) else None

    def ask(self, name: str, prompt: str, fidelity: Any, spec: Any, *, calls: int = 0) -> None:
        """Put a prompt into the system message, and mark there what was asked for."""
        if not self.is_told(name, prompt):
            inject(self.conversation, prompt)
        self.remember(name, spec)
        self.entry(name, SystemPromptInjection(prompt), fidelity, calls=calls)

    def is_told(self, name: str, prompt: str) -> bool:
        """Tell whether an earlier preparation wrote the prompt into a message."""
        return any(
            name in _marked(one) and prompt in one.text for one in self.conversation.messages
        )

    def remember(self, name: str, spec: Any) -> None:
        """Mark on the instructions, or on the first message, what the request no longer says."""
        messages = self.conversation.messages
        if not messages:
            return
        marked = (n for n, one in enumerate(messages) if name in _marked(one))
        system = (n for n, one in enumerate(messages) if one.role == "system")
        place = next(marked, next(system, 0))
        one = messages[place]
        marks = {**_marked(one), name: spec}
        messages[place] = Message(one.role, one.content, {**one.metadata, MARK: marks})

    def drop_extra(self, *names: str) -> None:
        """Take fields out of those that are sent as they stand."""
        extras = self.changes.get("extras", self.request.extras)
        self.changes["extras"] = {key: one for key, one in extras.items() if key not in names}

    def tool_calling(self) -> None:
        """Describe the tools in the prompt, and write earlier calls and results as text."""
        request = self.request
        earlier: ToolSpec | None = self.mark("tool-calling", ToolSpec)
        blocks = [block for one in request.messages for block in one.content]
        calls = sum(isinstance(block, ToolUseBlock) for block in blocks)
        history = calls + sum(isinstance(block, ToolResultBlock) for block in blocks)
        if not request.tools and earlier is None and not history:
            return
        numbers = [_number(one.id) for one in blocks if isinstance(one, ToolUseBlock)]
        before = max(calls + (earlier.before if earlier else 0), *numbers, 0)
        if earlier is not None and not request.tools:
            spec = msgspec.structs.replace(earlier, before=before)
        else:
            choice = request.tool_choice
            spec = ToolSpec(
                _offered(request), choice, request.parallel_tool_calls is not False, before
            )
        self.work["tool_schemas"] = tool_schemas(spec)
        self.conversation.messages[:] = written_out(tuple(self.conversation.messages))
        if spec.tools:
            self.work["tools"] = spec
            self.ask("tool-calling", tools_prompt(spec), "validated", spec, calls=self.repairs)
        else:
            self.remember("tool-calling", spec)
        written = history + (self.mark(HISTORY, int) or 0)
        if written:
            self.remember(HISTORY, written)
            detail = f"{written} earlier calls and results are written as text"
            self.entry("tool-calling", PostProcessing(detail), "best-effort")
        self.changes |= {"tools": (), "tool_choice": None, "parallel_tool_calls": None}

    def structured_output(self) -> None:
        """Put the schema into the prompt."""
        output = self.request.output or self.mark("structured-output", JsonSchema)
        if not isinstance(output, JsonSchema):
            return
        self.work["output_schema"] = Schema(output.schema, "response_format.schema")
        self.wants("structured-output", output)
        schema = msgspec.json.encode(output.schema).decode()
        prompt = (
            f"{self.answer_with('one JSON value')} "
            f"It must be valid against this JSON Schema:\n{schema}"
        )
        self.ask("structured-output", prompt, "validated", output, calls=self.repairs)

    def json_object(self) -> None:
        """Ask for a JSON object in the prompt."""
        output = self.request.output or self.mark("json-object", JsonObject)
        if not isinstance(output, JsonObject):
            return
        self.wants("json-object", output)
        prompt = self.answer_with("one JSON object")
        self.ask("json-object", prompt, "validated", output, calls=self.repairs)

    def answer_with(self, what: str) -> str:
        """Ask for JSON alone, but for what else was asked for."""
        after = "After your thinking, answer" if "reasoning" in self.wanted else "Answer"
        unless = ", unless you call a tool" if self.work.get("tools") else ""
        return f"{after} with {what} and nothing else{unless}: no prose, no code fence."

    def wants(self, name: str, output: JsonObject | JsonSchema) -> None:
        """Have the answer checked instead of asking the model for a format."""
        if self.work.get("output", output) != output:
            raise InputError(f"{name}: an earlier preparation asked for another form of answer")
        self.work["output"] = output
        self.changes["output"] = None
        self.drop_extra("response_format")

    def reasoning(self) -> None:
        """Ask for thinking between tags."""
        self.work["split_thinking"] = True
        self.changes["reasoning"] = None
        self.ask("reasoning", thinking.PROMPT, "best-effort", True)

    def stop_sequences(self) -> None:
        """Have the answer cut instead of sending the stop sequences."""
        stops = self.request.stop or self.mark("stop-sequences", tuple)
        if not stops:
            return
        StopScanner(stops)
        self.work["stops"] = tuple(stops)
        self.changes["stop"] = ()
        self.remember("stop-sequences", tuple(stops))
        detail = "The answer is cut where a stop sequence ends first; the model writes on unseen"
        self.entry("stop-sequences", PostProcessing(detail), "exact")

    def streaming(self) -> None:
        """Have the answer awaited, and passed on in pieces."""
        if not self.request.stream and self.mark("streaming", bool) is None:
            return
        self.work["emulate_stream"] = True
        self.changes["stream"] = False
        self.drop_extra("stream_options")
        self.remember("streaming", True)
        detail = "The whole answer is awaited, then passed on in pieces of words"
        self.entry("streaming", PostProcessing(detail), "exact")

    def system_messages(self) -> None:
        """Fold the instructions into the first user message."""
        told = [one for one in self.conversation.messages if one.role == "system"]
        earlier = self.mark("system-messages", str)
        if told:
            self.fold(told)
        elif earlier is None or not self.is_told("system-messages", _preface(earlier)):
            return
        detail = "The system messages are written before the first user message"
        self.entry("system-messages", PostProcessing(detail), "best-effort")

    def fold(self, told: list[Message]) -> None:
        """Write instructions before what the user says first."""
        prompt = "\n".join(one.text for one in told)
        marks: dict[str, Any] = {}
        for one in told:
            marks |= _marked(one)
        marks["system-messages"] = prompt
        others = [one for one in self.conversation.messages if one.role != "system"]
        place = next((n for n, one in enumerate(others) if one.role == "user"), None)
        if place is None:
            others.insert(0, Message("user"))
        user = others[place or 0]
        kept = [
            one for message in told for one in message.content if not isinstance(one, TextBlock)
        ]
        others[place or 0] = Message(
            "user",
            (TextBlock(_preface(prompt)), *kept, *user.content),
            {**user.metadata, MARK: {**_marked(user), **marks}},
        )
        self.conversation.messages[:] = others

    def rename_limit(self, name: TokenLimitParam) -> None:
        """Pass the limit of tokens under another name."""
        if self.request.max_tokens is None:
            return
        before = self.request.token_limit_param
        if before == name:
            before = self.mark("token-limit-param", str) or name
        if before == name:
            return
        self.changes["token_limit_param"] = name
        self.remember("token-limit-param", before)
        detail = f"{before} is passed as {name}"
        self.entry("token-limit-param", PostProcessing(detail), "translation")


def _number(identity: str) -> int:
    """Return the number of a call that was named as we name them, or 0."""
    digits = identity.removeprefix("call_")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def _offered(request: Request) -> tuple[Tool, ...]:
    if "tool_choice" in request.extras and request.extras["tool_choice"] is not None:
        raise InputError("tool_choice: this form of it cannot be emulated")
    for tool in request.tools:
        if tool.builtin:
            raise InputError(f"tools: {tool.builtin!r:.80} is run by its provider, not emulated")
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        return ()
    return request.tools


def _preface(prompt: str) -> str:
    return f"Instructions:\n{prompt}\n\n"


def _marked(message: Message) -> Mapping[str, Any]:
    marks = message.metadata.get(MARK)
    return marks if isinstance(marks, Mapping) else {}
