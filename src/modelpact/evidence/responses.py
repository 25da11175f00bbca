"""What an answer shows: only what could not have come about otherwise.

That a server took a parameter does not show that the model heeded it, so a seed, a temperature or
a schema in a request that went well teach nothing. A tool call, an answer in pieces and reasoning
that was done are there or are not.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.request import Request
from modelpact.conversation.response import (
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from modelpact.evidence.observation import Observation


def learn_from_response(
    request: Request,
    response: Response,
    provider: str,
    model: str,
    *,
    events: Sequence[StreamEvent] = (),
) -> tuple[Observation, ...]:
    """Return what a good answer proves; `events` are those of a stream."""
    offered = {tool.name for tool in request.tools}
    proved = {
        "streaming": sum(isinstance(one, (TextDelta, ThinkingDelta, ToolCall)) for one in events)
        > 1,
        "tool-calling": any(call.name in offered for call in response.tool_calls),
        "reasoning": bool(response.usage.reasoning or response.thinking),
    }
    return tuple(
        Observation(provider, model, name, "native", origin="use", detail=_SEEN[name])
        for name, seen in proved.items()
        if seen
    )


_SEEN = {
    "streaming": "the answer came in pieces",
    "tool-calling": "the model called a tool that it was offered",
    "reasoning": "the answer came with reasoning",
}


_TOKENS: Final = {
    "context-window": lambda used: used.input + used.output,
    "max-input": lambda used: used.input,
    "max-output": lambda used: used.output,
}


class Refutation(msgspec.Struct, frozen=True):
    """Evidence that an answer contradicts, and what is said in its place: more, or nothing."""

    before: Observation
    instead: Observation | None = None
    why: str = ""


def find_refuted(
    standing: Iterable[Observation], shown: Iterable[Observation], usage: Usage, known: Resolution
) -> tuple[Refutation, ...]:
    """Hold the evidence that stands against an answer: what it proves, and the tokens it took.

    Where the catalog without evidence agrees with the answer, or knows nothing, the evidence falls
    and that stands again; else what was seen is the new evidence.
    """
    proved = {one.capability: one for one in shown}
    found = (_refuted(one, proved, usage, known) for one in standing)
    return tuple(one for one in found if one is not None)


def _refuted(
    one: Observation, proved: Mapping[str, Observation], usage: Usage, known: Resolution
) -> Refutation | None:
    rest = known.without_evidence(one.capability)
    count = _TOKENS.get(one.capability)
    if count is not None and isinstance(one.value, int) and count(usage) > one.value:
        seen = count(usage)
        why = f"an answer took {seen:,} tokens, more than the {one.value:,} that were learned"
        if isinstance(rest.value, int) and rest.value < seen:
            name = (one.provider, one.model, one.capability)
            return Refutation(one, Observation(*name, "native", seen, "use", why), why)
        return Refutation(one, None, why)
    better = proved.get(one.capability)
    if one.support == "unsupported" and better is not None:
        return Refutation(one, None if rest.support == "native" else better, better.detail)
    return None
