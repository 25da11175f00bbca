"""Where a chat writes: text for people as it arrives, or JSON lines for programs."""

import json
import sys
from typing import Final, Protocol

import click
import msgspec

from modelpact.cli.chat.messages import ChatMessage
from modelpact.cli.chat.tables import tool_call_line
from modelpact.cli.render.terminal import escape, paint, use_colour
from modelpact.conversation.response import StreamEvent, TextDelta, ThinkingDelta, ToolCall
from modelpact.sessions import Session, Turn
from modelpact.vocabulary.money import format_money

_UNESCAPED: Final = "\n\t\u200c\u200d"
"""Unprintable characters that are written as they are; scripts and emoji need the joiners."""
_WAITING: Final = "…"
_STOP_REASONS: Final = {
    "length": "cut off: the answer reached the limit of output tokens",
    "refusal": "the model refused to answer",
    "unknown": "the provider did not say why the answer ended",
}


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
    costs = [
        format_money(line.amount, line.currency) for line in turn.cost if line.unit == "currency"
    ]
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
                "toolCalls": [
                    {"id": call.id, "name": call.name, "input": call.input}
                    for call in response.tool_calls
                ],
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
