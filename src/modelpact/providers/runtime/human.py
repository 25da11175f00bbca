"""Humans as providers: an inbox in the store, answered by whoever has access to it."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from modelpact.ledger.costs import CostLine
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import (
    ContractError,
    Invocation,
    Offer,
    Registration,
    Reply,
    expected_charge,
)
from modelpact.providers.runtime import settlement as settling
from modelpact.providers.runtime.registration import in_inbox
from modelpact.providers.runtime.store import load
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import Accepted, Partial, Unreachable
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from modelpact.providers.runtime.runtime import Runtime

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


class InboxTransport:
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


async def answer(
    runtime: "Runtime", invocation_id: str, output: Any = None, *, error: str = ""
) -> Invocation:
    """Answer an open invocation from the inbox, with an output that fits, or with an error.

    Of several people who answer it one does: the others get `settled`, and nobody is flagged. One
    whose deadline has passed ends as overdue, whatever is answered.
    """
    invocation = await asyncio.to_thread(runtime.find, invocation_id)
    registration = await asyncio.to_thread(runtime.registry.under_which, invocation)
    if not in_inbox(registration):
        raise ContractError("not_yours", _elsewhere(invocation))
    judge, offer = ContractValidator(), registration.offer(invocation.capability)
    if not error:
        _, wrong = judge.read(registration, offer, "output", output)
        if wrong:
            raise InputError(f"the answer does not fit: {'; '.join(wrong)}")

    def work(tx: Transaction) -> Invocation:
        found = load(tx, invocation_id)
        if found.state != "open":
            raise ContractError("settled", _settled(found))
        cost = human_cost(registration, found, tx.now)
        outcome = judge.outcome(registration, found, Reply(found.id, output, error, cost))
        return settling.settle(tx, runtime.profile, found, outcome)[0]

    return await runtime.ledger.write_async(work)


def _settled(found: Invocation) -> str:
    why = f": {found.error}" if found.error else ""
    return f"{found.id} is {found.state} already{why}"


def _elsewhere(found: Invocation) -> str:
    return (
        f"{found.id} is answered by its provider, {found.provider}, itself: what waits in the "
        "inbox is asked of a provider of category human that was registered without a baseUrl, "
        "with `modelpact providers register FILE`"
    )
