"""What a response proves about its model, and which evidence it refutes.

A response proves only what could not have come about otherwise. That a server accepted a parameter
does not show that the model heeded it, so a seed, a temperature or a schema in a successful request
teaches nothing. A tool call, several stream events and reasoning are either there or not.
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

_PROOFS: Final = {
    "streaming": "the answer came in pieces",
    "tool-calling": "the model called a tool that it was offered",
    "reasoning": "the answer came with reasoning",
}
_TOKENS: Final = {
    "context-window": lambda usage: usage.input + usage.output,
    "max-input": lambda usage: usage.input,
    "max-output": lambda usage: usage.output,
}
"""The tokens of a response that each limit bounds."""


class Refutation(msgspec.Struct, frozen=True):
    """Recorded evidence that a response contradicts, and what to record instead, if anything."""

    before: Observation
    replacement: Observation | None = None
    reason: str = ""


def learn_from_response(
    request: Request,
    response: Response,
    provider: str,
    model: str,
    *,
    events: Sequence[StreamEvent] = (),
) -> tuple[Observation, ...]:
    """Return what a successful response proves. `events` are those of a streamed response."""
    offered = {tool.name for tool in request.tools}
    pieces = sum(isinstance(event, (TextDelta, ThinkingDelta, ToolCall)) for event in events)
    proved = {
        "streaming": pieces > 1,
        "tool-calling": any(call.name in offered for call in response.tool_calls),
        "reasoning": bool(response.usage.reasoning or response.thinking),
    }
    return tuple(
        Observation(provider, model, name, "native", origin="use", detail=_PROOFS[name])
        for name, is_proved in proved.items()
        if is_proved
    )


def find_refuted(
    current: Iterable[Observation],
    proved: Iterable[Observation],
    usage: Usage,
    resolution: Resolution,
) -> tuple[Refutation, ...]:
    """Return the current evidence that a response contradicts.

    `proved` is what the response proves, `usage` the tokens it took. If the catalog without
    evidence agrees with the response, or knows nothing, the evidence is withdrawn and the catalog's
    claim applies again. Otherwise what the response showed replaces the evidence.
    """
    by_capability = {observation.capability: observation for observation in proved}
    refutations = (
        _refute(observation, by_capability, usage, resolution) for observation in current
    )
    return tuple(refutation for refutation in refutations if refutation is not None)


def _refute(
    current: Observation,
    proved: Mapping[str, Observation],
    usage: Usage,
    resolution: Resolution,
) -> Refutation | None:
    capability = current.capability
    catalog_claim = resolution.without_evidence(capability)
    count = _TOKENS.get(capability)
    if count is not None and isinstance(current.value, int) and count(usage) > current.value:
        tokens = count(usage)
        reason = f"an answer took {tokens:,} tokens, more than the {current.value:,} learned before"
        if isinstance(catalog_claim.value, int) and catalog_claim.value < tokens:
            replacement = Observation(
                current.provider, current.model, capability, "native", tokens, "use", reason
            )
            return Refutation(current, replacement, reason)
        return Refutation(current, None, reason)
    proof = proved.get(capability)
    if current.support == "unsupported" and proof is not None:
        is_in_catalog = catalog_claim.support == "native"
        return Refutation(current, None if is_in_catalog else proof, proof.detail)
    return None
