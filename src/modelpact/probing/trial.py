"""Trials: one call that shows whether a model has a capability, and how its answer is judged."""

from collections.abc import Callable
from typing import Literal

import msgspec

from modelpact.conversation.request import Request
from modelpact.conversation.response import Response

Verdict = Literal["supported", "unsupported", "ignored", "inconclusive"]
"""`ignored`: the request was taken and the capability had no effect; that is unsupported too."""


class Seen(msgspec.Struct, frozen=True):
    """An answer, and in how many pieces it came."""

    response: Response
    pieces: int = 1


class Outcome(msgspec.Struct, frozen=True):
    """What one trial showed."""

    verdict: Verdict
    detail: str = ""


class Trial(msgspec.Struct, frozen=True):
    """One call. `shows` are capabilities that a good answer proves beside the trial's own.

    `value` is what the capability's value is where the trial succeeds. `control` puts nonsense in
    the parameter's place: a server that takes that too does not look at the parameter.
    """

    capability: str
    request: Request
    judge: Callable[[Seen], Outcome]
    streamed: bool = False
    shows: tuple[str, ...] = ()
    control: Request | None = None
    value: str | None = None

    def judged(self, seen: Seen) -> Outcome:
        """Judge an answer; one that ended too early proves nothing against the model."""
        found = self.judge(seen)
        if found.verdict != "ignored":
            return found
        response = seen.response
        if response.stop_reason == "length":
            limit = self.request.max_tokens
            return Outcome("inconclusive", f"the answer was cut off at {limit} tokens")
        if response.stop_reason == "refusal":
            return Outcome("inconclusive", "the model refused to answer")
        return found


def good(detail: str) -> Outcome:
    """Say that the capability is there."""
    return Outcome("supported", detail)


def without_effect(detail: str) -> Outcome:
    """Say that the request was taken, and nothing came of it."""
    return Outcome("ignored", f"silently ignored: {detail}")
