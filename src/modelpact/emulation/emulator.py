"""The emulator: the named set of emulations that do the work, turned on by policy.

It goes beyond the default table of `strategies`. Every change to the prompt is an entry of its
own in the report, with what it costs and how faithful it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Conversation, Message, TextBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request, TokenLimitParam
from modelpact.emulation import thinking
from modelpact.emulation.report import AppliedEmulation, WorkReport, token_estimate
from modelpact.emulation.stops import StopScanner
from modelpact.emulation.strategies import (
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
    inject,
)
from modelpact.emulation.tools import ToolSpec, tool_schemas, tools_prompt, written_out
from modelpact.emulation.validation import Schema
from modelpact.emulation.work import Work
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError

MARK: Final = "modelpact"
"""The metadata key under which a prepared message says what was done to it."""

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


def emulator_strategies() -> Strategies:
    """Return what the set can emulate, for negotiation."""
    return _STRATEGIES


_STRATEGIES: Final = Strategies(LABELS)


class Emulator:
    """Prepares requests for models that lack something, and makes sense of their answers."""

    __slots__ = ("repairs",)

    def __init__(self, *, repairs: int = 2) -> None:
        if isinstance(repairs, bool) or not isinstance(repairs, int) or not 0 <= repairs <= 10:
            raise InputError("repairs: expected a number from 0 to 10")
        self.repairs = repairs

    def plan(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> WorkReport:
        """Return the report that `prepare` would give; the request stays as it is anyway."""
        return self.prepare(request, capabilities, token_limit_param=token_limit_param).report

    def prepare(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> Work:
        """Return the work: the request as it is to be sent, the report, and the answer's handling.

        `capabilities` are those to make up for. Preparing a prepared request changes nothing more
        and reports the same. The request that is handed in is never changed.
        """
        if isinstance(capabilities, str):
            raise InputError("capabilities: expected a list of names")
        wanted = list(dict.fromkeys(capability(name).id for name in capabilities))
        return _Preparation(request, wanted, self.repairs).run(token_limit_param)


class _Preparation:
    """One request on its way to becoming work."""

    def __init__(self, request: Request, wanted: list[str], repairs: int) -> None:
        self.request = request
        self.wanted = wanted
        self.repairs = repairs
        self.conversation = Conversation(list(request.messages))
        self.applied: list[AppliedEmulation] = []
        self.changes: dict[str, Any] = {}
        self.work: dict[str, Any] = {}
        self.marks = _marks(request)

    def run(self, token_limit_param: TokenLimitParam | None) -> Work:
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
        report = WorkReport(tuple(self.applied), tuple(warnings))
        return Work(prepared, report, repairs=self.repairs, **self.work)

    def entry(
        self, name: str, strategy: EmulationStrategy, fidelity: Any, *, calls: int = 0
    ) -> None:
        tokens = 0
        if isinstance(strategy, SystemPromptInjection):
            tokens = token_estimate(strategy.prompt)
        self.applied.append(AppliedEmulation(name, strategy, LABELS[name], fidelity, tokens, calls))

    def ask(self, name: str, prompt: str, fidelity: Any, spec: Any, *, calls: int = 0) -> None:
        """Put a prompt into the system message, and mark there what was asked for."""
        if name not in self.marks:
            inject(self.conversation, prompt)
            place = next(
                n for n, one in enumerate(self.conversation.messages) if one.role == "system"
            )
            message = self.conversation.messages[place]
            marks = {**message.metadata.get(MARK, {}), name: spec}
            self.conversation.messages[place] = Message(
                message.role, message.content, {**message.metadata, MARK: marks}
            )
        self.entry(name, SystemPromptInjection(prompt), fidelity, calls=calls)

    def tool_calling(self) -> None:
        request = self.request
        spec = self.marks.get("tool-calling")
        if spec is None:
            if not request.tools and not _has_calls(request):
                return
            choice = request.tool_choice
            offered = () if choice is not None and choice.mode == "none" else request.tools
            before = sum(
                isinstance(block, ToolUseBlock)
                for message in request.messages
                for block in message.content
            )
            parallel = request.parallel_tool_calls is not False
            spec = ToolSpec(offered, choice, parallel, before)
            self.work["tool_schemas"] = tool_schemas(offered)
            self.conversation.messages[:] = written_out(tuple(self.conversation.messages))
        else:
            self.work["tool_schemas"] = tool_schemas(spec.tools)
        if spec.tools:
            self.work["tools"] = spec
            self.ask("tool-calling", tools_prompt(spec), "validated", spec, calls=self.repairs)
        self.changes |= {"tools": (), "tool_choice": None, "parallel_tool_calls": None}

    def structured_output(self) -> None:
        output = self.marks.get("structured-output", self.request.output)
        if not isinstance(output, JsonSchema):
            return
        self.work["output_schema"] = Schema(output.schema, "response_format.schema")
        self.work["output"] = output
        self.changes["output"] = None
        schema = msgspec.json.encode(output.schema).decode()
        prompt = (
            "Answer with one JSON value and nothing else: no prose, no code fence. "
            f"It must be valid against this JSON Schema:\n{schema}"
        )
        self.ask("structured-output", prompt, "validated", output, calls=self.repairs)

    def json_object(self) -> None:
        output = self.marks.get("json-object", self.request.output)
        if not isinstance(output, JsonObject):
            return
        self.work["output"] = output
        self.changes["output"] = None
        prompt = "Answer with one JSON object and nothing else: no prose, no code fence."
        self.ask("json-object", prompt, "validated", output, calls=self.repairs)

    def reasoning(self) -> None:
        self.work["split_thinking"] = True
        self.changes["reasoning"] = None
        self.ask("reasoning", thinking.PROMPT, "best-effort", True)

    def stop_sequences(self) -> None:
        stops = self.marks.get("stop-sequences", self.request.stop)
        if not stops:
            return
        StopScanner(stops)
        self.work["stops"] = tuple(stops)
        self.changes["stop"] = ()
        self.remember("stop-sequences", tuple(stops))
        detail = "The answer is cut where a stop sequence ends first; the model writes on unseen"
        self.entry("stop-sequences", PostProcessing(detail), "exact")

    def streaming(self) -> None:
        if not self.request.stream and "streaming" not in self.marks:
            return
        self.work["emulate_stream"] = True
        self.changes["stream"] = False
        self.remember("streaming", True)
        detail = "The whole answer is awaited, then passed on in pieces of words"
        self.entry("streaming", PostProcessing(detail), "exact")

    def remember(self, name: str, spec: Any) -> None:
        """Mark on the first message what the request itself no longer says."""
        if name in self.marks or not self.conversation.messages:
            return
        first = self.conversation.messages[0]
        marks = {**first.metadata.get(MARK, {}), name: spec}
        self.conversation.messages[0] = Message(
            first.role, first.content, {**first.metadata, MARK: marks}
        )

    def system_messages(self) -> None:
        """Fold the instructions into the first user message."""
        told = [one for one in self.conversation.messages if one.role == "system"]
        if not told and "system-messages" not in self.marks:
            return
        prompt = self.marks.get("system-messages", "\n".join(one.text for one in told))
        if told:
            marks = {"system-messages": prompt}
            for one in told:
                marks |= one.metadata.get(MARK, {})
            others = [one for one in self.conversation.messages if one.role != "system"]
            preface = TextBlock(f"Instructions:\n{prompt}\n\n")
            place = next((n for n, one in enumerate(others) if one.role == "user"), None)
            if place is None:
                others.insert(0, Message("user", (preface,), {MARK: marks}))
            else:
                user = others[place]
                metadata = {**user.metadata, MARK: {**user.metadata.get(MARK, {}), **marks}}
                others[place] = Message("user", (preface, *user.content), metadata)
            self.conversation.messages[:] = others
        detail = "The system messages are written before the first user message"
        self.entry("system-messages", PostProcessing(detail), "best-effort")

    def rename_limit(self, name: TokenLimitParam) -> None:
        if self.request.max_tokens is None:
            return
        before = self.marks.get("token-limit-param", self.request.token_limit_param)
        if before == name:
            return
        self.changes["token_limit_param"] = name
        self.remember("token-limit-param", before)
        detail = f"{before} is passed as {name}"
        self.entry("token-limit-param", PostProcessing(detail), "translation")


def _marks(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for message in request.messages:
        found |= message.metadata.get(MARK, {})
    return found


def _has_calls(request: Request) -> bool:
    return any(
        isinstance(block, ToolUseBlock) for message in request.messages for block in message.content
    )
