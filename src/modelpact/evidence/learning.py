"""Learning from calls: the one path from a rejection or a response to evidence in the ledger.

Everything that calls models uses it: sessions, the OpenWOP host, probes and the gateway.

A response is evidence only of what it visibly contains: a tool call, several stream events,
reasoning. A server may accept a parameter and ignore it, so a successful request with a seed, a
temperature or a schema proves nothing about them.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent, TextDelta, ThinkingDelta, ToolCall, Usage
from modelpact.evidence.observation import Observation, Refutation, current_observations, record_async, withdraw_async
from modelpact.evidence.rejection import Rejection, learn_from_rejection
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.ledger import Ledger
from modelpact.vocabulary.memo import BoundedMemo

_PROOFS: Final = {
    "streaming": "the response was streamed in several partials",
    "tool-calling": "the model called a tool that it was offered",
    "reasoning": "the response has reasoning",
}
_TOKENS: Final = {
    "context-window": lambda usage: usage.input + usage.output,
    "max-input": lambda usage: usage.input,
    "max-output": lambda usage: usage.output,
}
"""The tokens of a response that each limit bounds."""


class Lesson(msgspec.Struct, frozen=True):
    """What one call taught about its model."""

    observations: tuple[Observation, ...] = ()
    """What the call showed, whether or not the catalog said so already."""
    changed: bool = False
    """Whether the evidence changed: a catalog that was read before does not have it yet."""


class EvidenceLearner:
    """Records what calls teach, and withdraws evidence that they refute.

    If the ledger cannot be written to, nothing is learned, and the call itself does not fail.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recorded: BoundedMemo[Observation, bool] = BoundedMemo()

    async def observe_rejection(
        self, request: Request, error: Rejection | BaseException, resolution: Resolution, *, cause: str | None = None
    ) -> Lesson:
        """Learn from a request that the upstream rejected.

        `resolution` is what the catalog knows about the model that was called. `cause` is the
        event that settled the call.
        """
        observations = learn_from_rejection(error, request, resolution.provider_id, resolution.model)
        changed = await self._record(self._admit(observations, resolution), cause)
        return Lesson(observations, changed)

    async def observe_response(
        self,
        request: Request,
        response: Response,
        resolution: Resolution,
        *,
        events: Sequence[StreamEvent] = (),
        cause: str | None = None,
    ) -> Lesson:
        """Learn from a response, and withdraw the evidence that it refutes.

        `events` are the first events of a streamed response.
        """
        names = (resolution.provider_id, resolution.model)
        observations = learn_from_response(request, response, *names, events=events)
        changed = await self._record(self._admit(observations, resolution), cause)
        with contextlib.suppress(LedgerError):
            current = await asyncio.to_thread(current_observations, self._ledger, *names)
            refuted = find_refuted(current, observations, response.usage, resolution)
            if refuted:
                await withdraw_async(self._ledger, refuted, cause=cause)
                self._recorded.clear()  # what was withdrawn may be learned again
                changed = True
        return Lesson(observations, changed)

    def _admit(self, observations: tuple[Observation, ...], resolution: Resolution) -> tuple[Observation, ...]:
        """Return the observations to record: those that tell the catalog something new.

        This is the place for rules on which observations become evidence, such as a scope or a
        number of calls that must agree.
        """
        return tuple(
            observation
            for observation in observations
            if observation not in self._recorded and _is_new(observation, resolution)
        )

    async def _record(self, observations: tuple[Observation, ...], cause: str | None) -> bool:
        if not observations:
            return False
        try:
            await record_async(self._ledger, *observations, cause=cause)
        except LedgerError:
            return False
        for observation in observations:
            self._recorded[observation] = True
        return True


def learn_from_response(
    request: Request, response: Response, provider: str, model: str, *, events: Sequence[StreamEvent] = ()
) -> tuple[Observation, ...]:
    """Return what a successful response proves. `events` are those of a streamed response."""
    offered = {tool.name for tool in request.tools}
    partials = sum(isinstance(event, (TextDelta, ThinkingDelta, ToolCall)) for event in events)
    proved = {
        "streaming": partials > 1,
        "tool-calling": any(call.name in offered for call in response.tool_calls),
        "reasoning": bool(response.usage.reasoning or response.thinking),
    }
    return tuple(
        Observation(provider, model, name, "native", origin="use", detail=_PROOFS[name])
        for name, is_proved in proved.items()
        if is_proved
    )


def find_refuted(
    current: Iterable[Observation], proved: Iterable[Observation], usage: Usage, resolution: Resolution
) -> tuple[Refutation, ...]:
    """Return the current evidence that a response contradicts.

    `proved` is what the response proves, `usage` the tokens it took. If the catalog without
    evidence agrees with the response, or knows nothing, the evidence is withdrawn and the catalog's
    claim applies again. Otherwise what the response showed replaces the evidence.
    """
    by_capability = {observation.capability: observation for observation in proved}
    refutations = (_refute(observation, by_capability, usage, resolution) for observation in current)
    return tuple(refutation for refutation in refutations if refutation is not None)


def _refute(
    current: Observation, proved: Mapping[str, Observation], usage: Usage, resolution: Resolution
) -> Refutation | None:
    capability = current.capability
    catalog_claim = resolution.without_evidence(capability)
    count = _TOKENS.get(capability)
    if count is not None and isinstance(current.value, int) and count(usage) > current.value:
        tokens = count(usage)
        reason = f"an answer took {tokens:,} tokens, more than the {current.value:,} learned before"
        if isinstance(catalog_claim.value, int) and catalog_claim.value < tokens:
            replacement = Observation(current.provider, current.model, capability, "native", tokens, "use", reason)
            return Refutation(current, replacement, reason)
        return Refutation(current, None, reason)
    proof = proved.get(capability)
    if current.support == "unsupported" and proof is not None:
        is_in_catalog = catalog_claim.support == "native"
        return Refutation(current, None if is_in_catalog else proof, proof.detail)
    return None


def _is_new(observation: Observation, resolution: Resolution) -> bool:
    claim = resolution.claim(observation.capability)
    return claim.support != observation.support or observation.value not in (None, claim.value)
