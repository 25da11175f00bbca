"""Responses: what a model answers, whole or as a stream of events."""

import itertools
from collections.abc import Iterable
from typing import Literal

import msgspec

from modelpact.conversation.message import Block, TextBlock, ThinkingBlock, ToolUseBlock

StopReason = Literal["end", "length", "stop_sequence", "tool_use", "refusal", "unknown"]


class Usage(msgspec.Struct, frozen=True):
    """Tokens that were used, as the provider counts them."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """One whole answer."""

    content: tuple[Block, ...] = ()
    stop_reason: StopReason = "end"
    stop_sequence: str = ""
    usage: Usage = Usage()
    model: str = ""

    @property
    def text(self) -> str:
        """The text of all text blocks together."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def thinking(self) -> str:
        """The thinking of all thinking blocks together."""
        return "".join(one.thinking for one in self.content if isinstance(one, ThinkingBlock))

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tools that the model wants called."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking"):
    """A piece of what the model thinks."""

    thinking: str


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """A whole tool call."""

    call: ToolUseBlock


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The end of a stream; a stream without one was cut off."""

    stop_reason: StopReason = "end"
    stop_sequence: str = ""
    usage: Usage = Usage()
    model: str = ""


StreamEvent = TextDelta | ThinkingDelta | ToolCall | Finish


def collect(events: Iterable[StreamEvent]) -> Response | None:
    """Put a whole stream together, or return None where its end is missing."""
    content: list[Block] = []
    finish: Finish | None = None
    for kind, run in itertools.groupby(events, type):
        if kind is TextDelta:
            content.append(TextBlock("".join(one.text for one in run)))  # type: ignore[union-attr]
        elif kind is ThinkingDelta:
            content.append(ThinkingBlock("".join(one.thinking for one in run)))  # type: ignore[union-attr]
        elif kind is ToolCall:
            content += [one.call for one in run]  # type: ignore[union-attr]
        else:
            *_, finish = run  # type: ignore[assignment]
    if finish is None:
        return None
    return Response(
        tuple(content), finish.stop_reason, finish.stop_sequence, finish.usage, finish.model
    )
