"""Humans as providers: an inbox in the store, answered by anybody who has access to it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.costs import CostLine
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    Invocation,
    Offer,
    Registration,
    Reply,
    expected_charge,
)
from modelpact.providers.runtime.registry import Registry
from modelpact.providers.runtime.row_storage import settle
from modelpact.providers.runtime.rows import find_row, load
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import Accepted, Partial, Unreachable
from modelpact.vocabulary.errors import InputError

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


def human_cost(registration: Registration, invocation: Invocation, now: int) -> tuple[CostLine, ...]:
    """Return what an answer from the inbox cost, in every registered unit."""
    lines: list[CostLine] = []
    if "time" in registration.units:
        lines.append(CostLine("time", min(max(0, now - invocation.created), MAX_SAFE_INTEGER)))
    if "discrete" in registration.units:
        lines.append(CostLine("discrete", 1))
    if "currency" in registration.units:
        offer = registration.offer(invocation.capability)
        amount = expected_charge(offer, tuple(lines))
        lines.append(CostLine("currency", amount, registration.currency))
    return tuple(lines)


class HumanInbox:
    """The transport to humans: their invocations wait in the store until somebody answers."""

    def __init__(
        self, ledger: Ledger, registry: Registry, profile: ComplianceProfile, validator: ContractValidator
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._profile = profile
        self._validator = validator

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:  # noqa: ARG002
        """Accept the invocation: the response is deferred."""
        return Accepted(invocation.id)

    def stream(
        self,
        registration: Registration,
        invocation: Invocation,  # noqa: ARG002
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        """Refuse: a human gives whole answers."""
        raise Unreachable(f"{registration.id} does not stream")

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Do nothing: a cancelled invocation is no longer in the inbox."""

    async def answer(self, invocation_id: str, output: Any = None, *, error: str = "") -> Invocation:
        """Answer an open invocation, with an output that fits its schema, or with an error.

        If several people answer, the first one counts: the others get `settled`, and nobody is
        flagged. An invocation whose deadline has passed fails, whatever the answer is.
        """
        invocation = await asyncio.to_thread(find_row, self._ledger, invocation_id)
        registration = await asyncio.to_thread(self._registry.registration_for, invocation)
        if not registration.in_inbox:
            raise ContractError("not_yours", _elsewhere(invocation))
        validator, offer = self._validator, registration.offer(invocation.capability)
        if not error:
            _, problems = validator.validate(registration, offer, "output", output)
            if problems:
                raise InputError(f"the answer does not fit: {'; '.join(problems)}")

        def work(tx: Transaction) -> Invocation:
            current = load(tx, invocation_id)
            if current.state != "open":
                raise ContractError("settled", _already(current))
            cost = human_cost(registration, current, tx.now)
            reply = Reply(current.id, output, error, cost)
            outcome = validator.judge_reply(registration, current, reply)
            return settle(tx, self._profile, current, outcome)[0]

        return await self._ledger.write_async(work)


def _already(invocation: Invocation) -> str:
    reason = f": {invocation.error}" if invocation.error else ""
    return f"{invocation.id} is already {invocation.state}{reason}"


def _elsewhere(invocation: Invocation) -> str:
    return (
        f"{invocation.id} is answered by its provider, {invocation.provider}, itself: what waits "
        "in the inbox is asked of a provider of category human that was registered without a "
        "baseUrl, with `modelpact providers register FILE`"
    )
