"""What a chat writes: switches, refusals, errors and answers, as text and as JSON lines."""

import json
import sys
from typing import Any, Final, Protocol

import click
import msgspec

from modelpact.cli.render.terminal import clip, escape, paint, plural, table, use_colour
from modelpact.conversation.message import ToolUseBlock
from modelpact.conversation.response import StreamEvent, TextDelta, ThinkingDelta, ToolCall
from modelpact.negotiation.stud import diagnostic_json
from modelpact.negotiation.verdict import MARKS, Diagnostic, Finding, ParamAffected, Verdict, verdict_data
from modelpact.providers.port import ProviderError
from modelpact.sessions import (
    CapabilityMissing,
    NoLongerFits,
    ParamsRefused,
    Session,
    SessionMoved,
    Switched,
    SwitchRejected,
    Turn,
)
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.money import format_money

_UNESCAPED: Final = "\n\t\u200c\u200d"
"""Unprintable characters that are written as they are; scripts and emoji need the joiners."""
_WAITING: Final = "…"
_STOP_REASONS: Final = {
    "length": "cut off: the answer reached the limit of output tokens",
    "refusal": "the model refused to answer",
    "unknown": "the provider did not say why the answer ended",
}


class ChatMessage(msgspec.Struct, frozen=True):
    """A report to the user. If `failed`, what the user asked for was not done."""

    kind: str
    text: str
    data: dict[str, Any] = {}
    failed: bool = False


class ChatOutput(Protocol):
    """Where a chat writes its reports and the model's answers."""

    def message(self, message: ChatMessage) -> None:
        """Write a report."""

    def begin(self) -> None:
        """Note that a message was sent and an answer is awaited."""

    def event(self, event: StreamEvent) -> None:
        """Write a piece of an answer."""

    def turn(self, session: Session, turn: Turn) -> None:
        """Write the end of an answer."""


class TextOutput:
    """Writes answers as they arrive, with the control characters in them escaped."""

    def __init__(self, *, at_terminal: bool) -> None:
        self._at_terminal = at_terminal
        self._waiting = False
        self._line_kind: type | None = None
        """The kind of piece that the current line holds; None at the start of a line."""
        self._held = ""
        """A carriage return whose line feed may be in the next piece."""

    def message(self, message: ChatMessage) -> None:
        """Print the text; without a terminal, errors go to standard error."""
        self._end_line()
        if message.text:
            click.echo(message.text, err=message.failed and not self._at_terminal)

    def begin(self) -> None:
        """Show that an answer is awaited."""
        self._line_kind, self._held = None, ""
        if self._at_terminal and use_colour():
            self._waiting = True
            click.echo(paint(_WAITING, "dim"), nl=False)

    def event(self, event: StreamEvent) -> None:
        """Print a piece of an answer."""
        if isinstance(event, ThinkingDelta):
            self._print_piece(ThinkingDelta, event.thinking, "dim")
        elif isinstance(event, TextDelta):
            self._print_piece(TextDelta, event.text, *(("yellow",) if event.refusal else ()))
        elif isinstance(event, ToolCall):
            self._end_line()
            click.echo(paint(tool_call_line(event.call), "cyan"))

    def turn(self, session: Session, turn: Turn) -> None:  # noqa: ARG002
        """Print the warnings of an answer, why it ended, and what it cost."""
        if self._line_kind is None and not turn.response.tool_calls:
            self._clear_waiting()
            click.echo(paint("(an empty answer)", "dim"))
        self._end_line()
        warnings = [escape(warning) for warning in turn.warnings]
        if turn.response.stop_reason in _STOP_REASONS:
            warnings.append(_STOP_REASONS[turn.response.stop_reason])
        for warning in warnings:
            click.echo(f"{paint('!', 'yellow')} {warning}", err=not self._at_terminal)
        if self._at_terminal:
            click.echo(paint(_usage_line(turn), "dim"))

    def _print_piece(self, kind: type, text: str, *styles: str) -> None:
        self._clear_waiting()
        if self._line_kind not in (None, kind):
            self._end_line()
        self._line_kind = kind
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n")
        click.echo(paint(escape(text, _UNESCAPED), *styles), nl=False)

    def _clear_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            click.echo("\r\x1b[K", nl=False)

    def _end_line(self) -> None:
        self._clear_waiting()
        if self._line_kind is not None:
            self._line_kind = None
            click.echo()


def _usage_line(turn: Turn) -> str:
    usage = turn.response.usage
    costs = [format_money(line.amount, line.currency) for line in turn.cost if line.unit == "currency"]
    return " · ".join([f"{usage.input:,} in", f"{usage.output:,} out", *costs])


class JsonOutput:
    """Writes one JSON object per report and per answer, each flushed at once."""

    def message(self, message: ChatMessage) -> None:
        """Print a report."""
        self._print({"type": message.kind, **message.data})

    def begin(self) -> None:
        """Print nothing: an answer is printed whole."""

    def event(self, event: StreamEvent) -> None:
        """Print nothing: an answer is printed whole."""

    def turn(self, session: Session, turn: Turn) -> None:
        """Print an answer."""
        response = turn.response
        self._print(
            {
                "type": "answer",
                "target": session.target,
                "text": response.text,
                "thinking": response.thinking,
                "toolCalls": [{"id": call.id, "name": call.name, "input": call.input} for call in response.tool_calls],
                "stopReason": response.stop_reason,
                "usage": msgspec.to_builtins(response.usage),
                "cost": [msgspec.to_builtins(line) for line in turn.cost],
                "warnings": list(turn.warnings),
                "invocations": [invocation.id for invocation in turn.invocations],
            }
        )

    def _print(self, data: object) -> None:
        click.echo(json.dumps(data))
        sys.stdout.flush()


def fit_summary(verdict: Verdict) -> tuple[str, str, str]:
    """Return how a model fits: a mark, a few words, and their colour."""
    if verdict.answer == "yes":
        return "✓", "fits", "green"
    if verdict.ok:
        labelled = [finding for finding in verdict.findings if finding.outcome != "met" or finding.label]
        parts = [f"{finding.capability} {_short_reason(finding)}" for finding in labelled]
        return "~", f"fits; {'; '.join([*parts, *verdict.notes])}", "yellow"
    misses = [f"{finding.capability} {_short_reason(finding)}" for finding in verdict.missing]
    return "✗", "; ".join(misses), "red"


def _short_reason(finding: Finding) -> str:
    short = {"unsupported": "is missing", "unknown": "is unknown"}
    return short.get(finding.reason) or finding.sentence()


def switch_message(switched: Switched, head: str) -> ChatMessage:
    """Report an accepted switch, with everything that is worse than before."""
    lines = [f"{paint('✓', 'green')} {head}", *label_lines(switched.verdict)]
    if switched.diagnostic is not None:
        lines += params_lines(switched.diagnostic.params_affected)
    return ChatMessage(
        "switched",
        "\n".join(lines),
        {
            "target": switched.target,
            "previous": switched.previous,
            "verdict": verdict_data(switched.verdict, switched.diagnostic),
        },
    )


def label_lines(verdict: Verdict) -> list[str]:
    """Return a line for each need that is not plainly met, and for each note."""
    rows = []
    for finding in verdict.findings:
        if finding.outcome == "met":
            continue
        reason = f"emulated by us: {finding.label}" if finding.outcome == "emulated" else finding.sentence()
        required_by = escape(", ".join(finding.need.required_by))
        rows.append(
            (
                f"  {paint(MARKS[finding.outcome], 'yellow')}",
                str(finding.need),
                escape(reason),
                paint(f"for {required_by}", "dim") if required_by else "",
            )
        )
    notes = [f"  {paint('!', 'yellow')}  {escape(note)}" for note in verdict.notes]
    return table(rows).splitlines() + notes


def params_lines(affected: tuple[ParamAffected, ...]) -> list[str]:
    """Return a line for each parameter that does not apply to the model in use."""
    return [
        f"  {paint('!', 'yellow')}  {'.'.join(param.param_path)} will not apply: "
        f"{escape(param.reason)} {paint(f'(from {param.source_layer})', 'dim')}"
        for param in affected
    ]


def refusal_message(rejected: SwitchRejected, unreachable: str = "", alternatives: tuple[str, ...] = ()) -> ChatMessage:
    """Report a refusal: the missing needs, what requires them, and which model would fit.

    `unreachable` says why the suggested model cannot be called, if so. `alternatives` are
    configured models that fit.
    """
    diagnostic = rejected.diagnostic
    needs = plural(len(diagnostic.missing), "need")
    head = f"{diagnostic.target} is refused: it does not meet {needs}."
    if rejected.trigger == "/sm attach":
        head = f"Not attached: {diagnostic.target} does not meet {needs} of it."
    if isinstance(rejected, NoLongerFits):
        head = f"{diagnostic.target} no longer fits: it does not meet {needs}."
    rows = [
        (
            f"  {paint('✗', 'red')}",
            miss.capability,
            escape(miss.message),
            paint(f"required by {escape(', '.join(miss.required_by)) or 'you'}", "dim"),
        )
        for miss in diagnostic.missing
    ]
    lines = [f"{paint('✗', 'red')} {paint(head, 'bold')}", *table(rows).splitlines()]
    lines += params_lines(diagnostic.params_affected)
    if diagnostic.previous:
        lines.append(f"  Still on {paint(diagnostic.previous, 'cyan')}; nothing has changed.")
    if isinstance(rejected, NoLongerFits):
        lines.append("  Nothing is sent until you choose a model that fits. The history is kept.")
    if rejected.evidence_hint:
        lines.append(f"  {paint('!', 'yellow')}  {escape(rejected.evidence_hint)}")
    lines += _suggestion_lines(diagnostic, unreachable, alternatives)
    data = {
        "code": rejected.code,
        "trigger": rejected.trigger,
        "message": str(rejected),
        "diagnostic": diagnostic_json(diagnostic),
        "atHand": list(alternatives),
    }
    return ChatMessage("refused", "\n".join(lines), data, failed=True)


def _suggestion_lines(diagnostic: Diagnostic, unreachable: str, alternatives: tuple[str, ...]) -> list[str]:
    lines = []
    if diagnostic.suggestion:
        suggestion = paint(diagnostic.suggestion, "cyan")
        lines.append(f"  Suggestion: {suggestion} meets every hard need.")
        if unreachable:
            lines.append(f"  {paint('!', 'yellow')}  {escape(unreachable)}")
        else:
            lines.append(f"  Use it with /model {diagnostic.suggestion}, or with /model alone.")
    if alternatives:
        names = ", ".join(paint(target, "cyan") for target in alternatives)
        lines.append(f"  Configured models that fit: {names}.")
    return lines or ["  No model in the catalog is known to meet all of these needs."]


def error_message(error: ModelpactError) -> ChatMessage:
    """Report an error in one line, with what to do about it."""
    text = error.summary if isinstance(error, ParamsRefused) else str(error)
    text = " ".join(escape(text).split())
    code = str(getattr(error, "code", "") or getattr(error.__cause__, "code", ""))
    hint = _hint(error)
    line = f"{paint('✗', 'red')} {clip(text.rstrip('.'), 600)}" + (f"; {hint}" if hint else "")
    if isinstance(error, CapabilityMissing):
        line += paint(f" [{code}]", "dim")
    data: dict[str, Any] = {"code": code, "message": text, "hint": hint}
    if isinstance(error, ProviderError):
        data["status"] = error.status
    return ChatMessage("error", line, data, failed=True)


def _hint(error: ModelpactError) -> str:
    if isinstance(error, ParamsRefused):
        names = " ".join(f"-{name}" for name in error.names)
        them = "it" if len(error.names) == 1 else "them"
        return (
            f"/params {names} removes {them}, /model switches to another model, and [policy] "
            f'unsupported_params = "drop" in modelpact.toml leaves {them} out with a warning'
        )
    if isinstance(error, CapabilityMissing) and error.param:
        return f"/params -{error.param} removes it"
    if isinstance(error, SessionMoved):
        return "leave the chat, and return with --resume"
    if not isinstance(error, ProviderError):
        return ""
    status = error.status
    if status == 429:
        retry_after = getattr(error.__cause__, "retry_after", None)
        when = f"in {retry_after:g} s" if retry_after else "in a while"
        return f"send it again {when}, or switch with /model"
    if status is None or status >= 500:
        return "send it again, or switch with /provider"
    return ""


def tool_call_line(call: ToolUseBlock) -> str:
    """Return a tool call as one line."""
    arguments = json.dumps(call.input, ensure_ascii=False)
    return escape(f"⚙ {call.name}({clip(arguments, 300)})", "")
