"""The inbox: what was asked of people, answered by whoever has access to the store."""

import asyncio
from typing import Any

from modelpact.ledger.ledger import Transaction
from modelpact.providers import settling
from modelpact.providers.contract import ContractError, Invocation, Reply
from modelpact.providers.human import human_cost
from modelpact.providers.invocations import load
from modelpact.providers.judging import Judge
from modelpact.providers.registrations import in_inbox
from modelpact.providers.runtime import Runtime
from modelpact.vocabulary.errors import InputError


async def answer(
    runtime: Runtime, invocation_id: str, output: Any = None, *, error: str = ""
) -> Invocation:
    """Answer an open invocation from the inbox, with an output that fits, or with an error.

    Of several people who answer it one does: the others get `settled`, and nobody is flagged. One
    whose deadline has passed ends as overdue, whatever is answered.
    """
    invocation = await asyncio.to_thread(runtime.find, invocation_id)
    registration = await asyncio.to_thread(runtime.registry.under_which, invocation)
    if not in_inbox(registration):
        raise ContractError("not_yours", _elsewhere(invocation))
    judge, offer = Judge(), registration.offer(invocation.capability)
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
