"""Budgets: what keys have spent in their period, from the ledger and from this process since."""

import asyncio
import datetime
from typing import Final

from modelpact.gateway.keys import ClientKey, Period
from modelpact.ledger.reader import Reader
from modelpact.ledger.totals import cost_totals

FRESH_SECONDS: Final = 10.0
"""How old a total may be: other gateways on the same store spend too."""


class Budgets:
    """Says whether a key has something left. What is under way counts with its estimate."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._spent: dict[str, tuple[float, int]] = {}
        self._since: dict[str, int] = {}
        self._pending: dict[str, int] = {}

    async def left(self, key: ClientKey) -> bool:
        """Tell whether a key may spend more."""
        budget = key.settings.budget
        if budget is None:
            return True
        now = asyncio.get_running_loop().time()
        read = self._spent.get(key.id)
        if read is None or now - read[0] > FRESH_SECONDS:
            spent = await asyncio.to_thread(self._total, key)
            read = self._spent[key.id] = (now, spent)
            self._since[key.id] = 0
        return read[1] + self._since[key.id] + self._pending.get(key.id, 0) < budget

    def opened(self, key: ClientKey, estimate: int) -> None:
        """Count what a request may cost."""
        if key.settings.budget is not None:
            self._pending[key.id] = self._pending.get(key.id, 0) + estimate

    def settled(self, key: ClientKey, estimate: int, cost: int) -> None:
        """Count what it did cost instead."""
        if key.settings.budget is not None:
            self._pending[key.id] = max(0, self._pending.get(key.id, 0) - estimate)
            self._since[key.id] = self._since.get(key.id, 0) + cost

    def _total(self, key: ClientKey) -> int:
        since = period_start(key.settings.period)
        return sum(
            one.money
            for one in cost_totals(self._reader, "worker", since=since)
            if one.name == key.id and one.currency == "USD"
        )


def period_start(period: Period, now: datetime.datetime | None = None) -> int:
    """Return when a period began, UTC, in nanoseconds."""
    if period == "all":
        return 0
    today = (now or datetime.datetime.now(datetime.UTC)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    if period == "month":
        today = today.replace(day=1)
    return int(today.timestamp()) * 1_000_000_000
