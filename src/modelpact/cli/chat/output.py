"""How a chat shows answers and what is told: to people as it comes, to programs as JSON lines."""

import json
import sys
from typing import Final, Protocol

import click
import msgspec

from modelpact.cli.chat.messages import ChatMessage
from modelpact.cli.chat.tables import call_text
from modelpact.cli.render.audit import visible
from modelpact.cli.render.tables import colours, paint
from modelpact.conversation.response import StreamEvent, TextDelta, ThinkingDelta, ToolCall, Usage
from modelpact.ledger.money import format_money
from modelpact.sessions import Session, Turn

_KEPT: Final = "\n\t\u200c\u200d"
"""What is let through beside what is printable: joiners, which scripts and emoji need."""
_WAITING: Final = "…"
_ENDS: Final = {
    "length": "cut off: the most tokens that an answer may have were reached",
    "refusal": "the model refused to answer",
    "unknown": "the provider did not say why the answer ended",
}


class ChatOutput(Protocol):
    """Where a chat puts what it has to say."""

    def told(self, told: ChatMessage) -> None:
        """Show what a command has to say."""

    def begin(self) -> None:
        """A message is on its way."""

    def event(self, event: StreamEvent) -> None:
        """Show a piece of an answer."""

    def turn(self, session: Session, turn: Turn) -> None:
        """Show the end of an answer."""


class TextOutput:
    """Shows answers as they come; nothing that a model says is obeyed by the terminal."""

    def __init__(self, *, at_terminal: bool) -> None:
        self._at_terminal = at_terminal
        self._waiting = False
        self._kind: type | None = None
        self._held = ""

    def told(self, told: ChatMessage) -> None:
        """Print a text; errors of a chat without a terminal go to standard error."""
        self._close()
        if told.text:
            click.echo(told.text, err=told.failed and not self._at_terminal)

    def begin(self) -> None:
        """Show that an answer is awaited."""
        self._kind, self._held = None, ""
        if self._at_terminal and colours():
            self._waiting = True
            click.echo(paint(_WAITING, "dim"), nl=False)

    def event(self, event: StreamEvent) -> None:
        """Print a piece."""
        if isinstance(event, ThinkingDelta):
            self._piece(ThinkingDelta, event.thinking, "dim")
        elif isinstance(event, TextDelta):
            self._piece(TextDelta, event.text, *(("yellow",) if event.refusal else ()))
        elif isinstance(event, ToolCall):
            self._close()
            click.echo(paint(call_text(event.call), "cyan"))

    def _piece(self, kind: type, text: str, *styles: str) -> None:
        self._clear()
        if self._kind not in (None, kind):
            self._close()
        self._kind = kind
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""  # the other half of a line's end may come
        text = text.removesuffix("\r").replace("\r\n", "\n")
        click.echo(paint(visible(text, _KEPT), *styles), nl=False)

    def _clear(self) -> None:
        if self._waiting:
            self._waiting = False
            click.echo("\r\x1b[K", nl=False)

    def _close(self) -> None:
        """End the line that an answer is in."""
        self._clear()
        if self._kind is not None:
            self._kind = None
            click.echo()

    def turn(self, session: Session, turn: Turn) -> None:  # noqa: ARG002
        """Print what is to be said of the whole answer."""
        if self._kind is None and not turn.response.tool_calls:
            self._clear()
            click.echo(paint("(an empty answer)", "dim"))
        self._close()
        for one in turn.warnings:
            click.echo(f"{paint('!', 'yellow')} {visible(one)}", err=not self._at_terminal)
        end = _ENDS.get(turn.response.stop_reason)
        if end:
            click.echo(f"{paint('!', 'yellow')} {end}", err=not self._at_terminal)
        if self._at_terminal:
            click.echo(paint(_bill(turn), "dim"))


def _bill(turn: Turn) -> str:
    used: Usage = turn.response.usage
    parts = [f"{used.input:,} in", f"{used.output:,} out"]
    parts += [
        format_money(line.amount, line.currency) for line in turn.cost if line.unit == "currency"
    ]
    return " · ".join(parts)


class JsonOutput:
    """Prints one JSON object for each thing that happens, and flushes it."""

    def told(self, told: ChatMessage) -> None:
        """Print what a command has to say."""
        self._print({"type": told.kind, **told.data})

    def begin(self) -> None:
        """Print nothing yet: answers come whole."""

    def event(self, event: StreamEvent) -> None:
        """Print nothing yet: answers come whole."""

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
                    {"id": one.id, "name": one.name, "input": one.input}
                    for one in response.tool_calls
                ],
                "stopReason": response.stop_reason,
                "usage": msgspec.to_builtins(response.usage),
                "cost": [msgspec.to_builtins(one) for one in turn.cost],
                "warnings": list(turn.warnings),
                "invocations": [one.id for one in turn.invocations],
            }
        )

    def _print(self, data: object) -> None:
        click.echo(json.dumps(data))
        sys.stdout.flush()
