"""Ending an invocation while the store comes and goes: an answer in hand is not let go at once."""

import asyncio
import logging
from typing import Final

from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.store import Conflict, LedgerUnavailable, LedgerUncertain
from modelpact.providers import settling
from modelpact.providers.contract import Invocation, Profile
from modelpact.providers.registry import departures
from modelpact.providers.settling import Outcome

_LOG: Final = logging.getLogger("modelpact.providers")
_WAITS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


async def end(
    ledger: Ledger,
    profile: Profile,
    invocation: Invocation,
    outcome: Outcome,
    *,
    again: bool = False,
) -> tuple[Invocation, list[Invocation], list[Event]]:
    """Settle an invocation; a store that is away or contended is asked again for a few seconds.

    Also return what was cancelled by that, and who was deregistered. `again`: it was asked before,
    and nobody heard what came of that.
    """

    def work(tx: Transaction) -> tuple[Invocation, list[Invocation], list[Event]]:
        ended, cancelled = settling.settle(tx, profile, invocation, outcome, again=again)
        return ended, cancelled, departures(tx)

    for wait in (*_WAITS, None):
        try:
            return await ledger.write_async(work)
        except (Conflict, LedgerUnavailable) as error:
            if wait is None:
                raise
            again = again or isinstance(error, LedgerUncertain)
            _LOG.warning("%s waits for the store: %s", invocation.id, error)
            await asyncio.sleep(wait)
    raise AssertionError("the last try returns or raises")
