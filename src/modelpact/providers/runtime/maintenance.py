"""Maintenance of a runtime: deadlines, reminders, and the pruning of streamed partials."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from modelpact.ledger.errors import LedgerError, LedgerUnavailable
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.lifecycle import ProviderNotifier
from modelpact.providers.runtime.recorder import InvocationRecorder
from modelpact.providers.runtime.records import OVERDUE
from modelpact.providers.runtime.rows import find_row, load

_LOG: Final = logging.getLogger("modelpact.providers")
_BATCH: Final = 1_000
_PRUNE_INTERVAL_S: Final = 60.0
_PARTIALS_RETENTION_NS: Final = 3_600 * 1_000_000_000


class Maintenance:
    """Work that is due at a time. Of several runtimes on one store, one does each task."""

    def __init__(
        self, ledger: Ledger, recorder: InvocationRecorder, notifier: ProviderNotifier, now: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._recorder = recorder
        self._notifier = notifier
        self._now = now

    async def run(self, interval_s: float = 1.0) -> None:
        """Do what is due until cancelled, whatever happens to the store."""
        pruned_at = -_PRUNE_INTERVAL_S
        while True:
            try:
                await self.expire()
                await self.remind()
                if time.monotonic() - pruned_at > _PRUNE_INTERVAL_S:
                    await self.prune()
                    pruned_at = time.monotonic()
            except LedgerError as error:
                _LOG.warning("maintenance waits for the store: %s", error)
            except Exception:  # the next round may do what this one could not
                _LOG.exception("maintenance failed")
            await asyncio.sleep(interval_s)

    async def expire(self) -> list[Invocation]:
        """Fail every open invocation whose deadline has passed, whichever runtime opened it."""
        rows = await asyncio.to_thread(
            self._ledger.read,
            "SELECT id FROM invocations WHERE state = 'open' AND deadline < ? ORDER BY deadline LIMIT ?",
            (self._now(), _BATCH),
        )
        expired = []
        for (invocation_id,) in rows:
            with _isolated(invocation_id):
                invocation = await asyncio.to_thread(find_row, self._ledger, invocation_id)
                settlement = await self._recorder.settle(invocation, OVERDUE)
                if settlement.changed:
                    expired.append(settlement.invocation)
        await self._notifier.notify_cancelled(expired)
        return expired

    async def remind(self) -> list[Invocation]:
        """Record a reminder of every open invocation for which one is due."""
        rows = await asyncio.to_thread(
            self._ledger.read,
            "SELECT id, remind_at, remind_every FROM invocations WHERE state = 'open' "
            "AND remind_at < ? ORDER BY remind_at LIMIT ?",
            (self._now(), _BATCH),
        )
        reminded = []
        for invocation_id, due, interval in rows:
            with _isolated(invocation_id):
                work = partial(_remind, invocation_id=invocation_id, due=due, interval=interval, now=self._now())
                invocation = await self._ledger.write_async(work)
                if invocation is not None:
                    reminded.append(invocation)
        return reminded

    async def prune(self) -> int:
        """Delete the partials of answers that were settled an hour ago; the answers stay.

        Until then everybody who follows an invocation gets all of its partials. Return the number
        of invocations that lost theirs.
        """
        rows = await asyncio.to_thread(
            self._ledger.read,
            "SELECT i.id FROM (SELECT DISTINCT invocation FROM partials) p "
            "JOIN invocations i ON i.id = p.invocation WHERE i.settled < ? LIMIT ?",
            (self._now() - _PARTIALS_RETENTION_NS, _BATCH),
        )

        def work(tx: Transaction) -> None:
            for row in rows:
                tx.execute("DELETE FROM partials WHERE invocation = ?", row)

        if rows:
            await self._ledger.write_async(work)
        return len(rows)


@contextmanager
def _isolated(invocation_id: str) -> Iterator[None]:
    """Log what is wrong with one invocation and go on; a store that is away stops everything."""
    try:
        yield
    except LedgerUnavailable:
        raise
    except Exception as error:
        _LOG.warning("%s cannot be maintained: %s: %s", invocation_id, type(error).__name__, error)


def _remind(tx: Transaction, invocation_id: str, due: int, interval: int, now: int) -> Invocation | None:
    following = due + interval * (1 + max(0, now - due) // interval)
    changed = tx.execute_update(
        "UPDATE invocations SET remind_at = ?, reminders = reminders + 1 "
        "WHERE id = ? AND state = 'open' AND remind_at = ?",
        (following, invocation_id, due),
    )
    if not changed:
        return None
    invocation = load(tx, invocation_id)
    payload = {
        "invocation": invocation_id,
        "provider": invocation.provider,
        "number": invocation.reminders,
        "open_for": tx.now - invocation.created,
    }
    tx.append(Draft(invocation.envelope, "capability.reminded", payload, invocation.event))
    return invocation
