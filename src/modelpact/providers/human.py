"""Humans as providers: an inbox in the store, answered by whoever has access to it."""

from collections.abc import AsyncIterator
from typing import Any, Final

from modelpact.ledger.costs import CostLine
from modelpact.providers.carrier import Accepted, Partial, Unreachable
from modelpact.providers.contract import Invocation, Offer, Registration, Reply, expected_charge

ASK: Final = "urn:modelpact:human:ask"
_QUESTION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1},
        "choices": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["question"],
}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


def human_registration(provider: str = "human", *offers: Offer) -> Registration:
    """Return the registration of a human, or a team, who answers from the inbox."""
    ask = Offer(ASK, _QUESTION, _ANSWER, ("async",), description="A question to a person.")
    return Registration(provider, "human", offers or (ask,), ("time", "discrete"))


class HumanCarrier:
    """Leaves invocations in the inbox: they are in the store already."""

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:  # noqa: ARG002
        """Promise an answer."""
        return Accepted(invocation.id)

    def stream(
        self,
        registration: Registration,
        invocation: Invocation,  # noqa: ARG002
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        """Refuse: a human answers whole."""
        raise Unreachable(f"{registration.id} does not stream")

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Nothing to do: what is cancelled is gone from the inbox."""


def human_cost(
    registration: Registration, invocation: Invocation, now: int
) -> tuple[CostLine, ...]:
    """Return what an answer from the inbox cost, in every unit that is registered."""
    lines: list[CostLine] = []
    if "time" in registration.units:
        lines.append(CostLine("time", max(0, now - invocation.created)))
    if "discrete" in registration.units:
        lines.append(CostLine("discrete", 1))
    if "currency" in registration.units:
        offer = registration.offer(invocation.capability)
        amount = expected_charge(offer, tuple(lines))
        lines.append(CostLine("currency", amount, registration.currency))
    return tuple(lines)
