"""Budgets: what keys have spent in their period, from the ledger and from this process since."""

import asyncio
import datetime
from typing import TYPE_CHECKING, Final

from modelpact.gateway.keys import ClientKey, Period
from modelpact.gateway.observe.observer import Observer
from modelpact.ledger.costs import CostLine, money_of
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.totals.totals import cost_totals

if TYPE_CHECKING:
    from modelpact.gateway.plan.plan import Plan
    from modelpact.providers.contract import Invocation

FRESH_SECONDS: Final = 10.0
"""How old a total may be for a yes: other gateways on the same store spend too."""
SURE_SECONDS: Final = 1.0
"""How old it may be for a no. What ended while it was read may be in it, and is counted again."""


class Budgets(Observer):
    """Says whether a key has something left.

    What is under way counts with its estimate, what has ended with its cost, from that moment on.
    """

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader
        self._read: dict[str, tuple[float, int]] = {}
        """By the id of each key with a budget: when its total was read, and the total."""
        self._since: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._estimates: dict[str, int] = {}
        """By the id of each call of such a key that is under way: what was counted for it."""
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def has_remaining(self, key: ClientKey) -> bool:
        """Tell whether a key may spend more. Who may counts what that is before it waits again."""
        budget = key.settings.budget
        if budget is None:
            return True
        if self._age(key) > FRESH_SECONDS:
            await self._refresh(key)
        if self._spent(key) >= budget and self._age(key) > SURE_SECONDS:
            await self._refresh(key)
        return self._spent(key) < budget

    def call_opening(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Count what a call may cost."""
        if key in self._read:
            self.reserve(key, money_of(estimate) or 0)

    def call_not_opened(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Take back what was counted for a call that is not made."""
        if key in self._read:
            self.settle(key, money_of(estimate) or 0, 0)

    def call_opened(
        self,
        plan: "Plan",  # noqa: ARG002
        call: "Invocation",
        estimate: tuple[CostLine, ...],
    ) -> None:
        """Keep what was counted for a call until it ends."""
        if call.attribution.worker in self._read:
            self._estimates[call.id] = money_of(estimate) or 0

    def call_ended(self, call: "Invocation", cost: tuple[CostLine, ...], error: str) -> None:  # noqa: ARG002
        """Count what a call did cost instead of its estimate, while that is being recorded."""
        key = call.attribution.worker
        if key in self._read:
            reserved = self._reserved.get(key, 0) - self._estimates.pop(call.id, 0)
            self._reserved[key] = max(0, reserved) + (money_of(cost) or 0)

    def call_settled(self, call: "Invocation", cost: tuple[CostLine, ...]) -> None:
        """Count what a call did cost as recorded: the next total that is read contains it."""
        key = call.attribution.worker
        if key in self._read:
            money = money_of(cost) or 0
            self.settle(key, money, money)

    def reserve(self, key: str, estimate: int) -> None:
        """Count what a call of a key, by its id, may cost."""
        self._reserved[key] = self._reserved.get(key, 0) + estimate

    def settle(self, key: str, reserved: int, cost: int) -> None:
        """Count what a call did cost, as it is recorded, instead of what was reserved for it."""
        self._reserved[key] = max(0, self._reserved.get(key, 0) - reserved)
        self._since[key] = self._since.get(key, 0) + cost

    def _age(self, key: ClientKey) -> float:
        read = self._read.get(key.id)
        return float("inf") if read is None else asyncio.get_running_loop().time() - read[0]

    def _spent(self, key: ClientKey) -> int:
        _, total = self._read[key.id]
        return total + self._since.get(key.id, 0) + self._reserved.get(key.id, 0)

    async def _refresh(self, key: ClientKey) -> None:
        """Read a total anew; who asks meanwhile waits for the same reading."""
        reading = self._reading.get(key.id)
        if reading is None:
            reading = asyncio.create_task(self._read_total(key))
            self._reading[key.id] = reading
            reading.add_done_callback(lambda _: self._reading.pop(key.id))
        await asyncio.shield(reading)

    async def _read_total(self, key: ClientKey) -> None:
        began = asyncio.get_running_loop().time()
        counted = self._since.get(key.id, 0)
        total = await asyncio.to_thread(self._total, key)
        self._since[key.id] = self._since.get(key.id, 0) - counted
        self._read[key.id] = (began, total)

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
