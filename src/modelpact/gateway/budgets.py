"""Budgets: what each key has spent in its period.

The sum of a total that is read from the ledger, the costs that this process recorded since, and the
estimates of open calls.
"""

import asyncio
import datetime
from typing import Final

from modelpact.gateway.keys import ClientKey, Period
from modelpact.gateway.observers import CallObserver
from modelpact.gateway.plan.plan import Plan
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.costs import CostLine, money_of
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import Invocation

MAX_AGE_TO_ALLOW_SECONDS: Final = 10.0
"""How old a total may be to allow a request: other gateways on the same store spend too."""
MAX_AGE_TO_REFUSE_SECONDS: Final = 1.0
"""How old a total may be to refuse a request: older ones are read again first.

A call that is recorded while a total is read may be in the total and in the costs since then. It
counts twice until the next reading, so the sum may be too high, never too low.
"""


class Budgets(CallObserver):
    """Tells whether a key has budget left.

    A call counts with its estimate until it ends, and with its cost from then on.
    """

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader
        self._totals: dict[str, tuple[float, int]] = {}
        """By the id of each key with a budget: when its total was read, and the total."""
        self._since: dict[str, int] = {}
        """By the id of a key: the cost of what was recorded after its total was read."""
        self._reserved: dict[str, int] = {}
        """By the id of a key: the estimates and costs of what is not recorded yet."""
        self._estimates: dict[str, int] = {}
        """By the id of an open call of such a key: the estimate that is reserved for it."""
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    async def has_remaining(self, key: ClientKey) -> bool:
        """Tell whether a key may spend more.

        If so, reserve the estimate of the call before you await anything else. Otherwise other
        requests pass the same check meanwhile.
        """
        budget = key.settings.budget
        if budget is None:
            return True
        if self._age(key) > MAX_AGE_TO_ALLOW_SECONDS:
            await self._refresh(key)
        if self._spent(key) >= budget and self._age(key) > MAX_AGE_TO_REFUSE_SECONDS:
            await self._refresh(key)
        return self._spent(key) < budget

    def call_opening(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Reserve the estimate of a call."""
        if key in self._totals:
            self.reserve(key, money_of(estimate) or 0)

    def call_not_opened(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Release what was reserved for a call that is not made."""
        if key in self._totals:
            self.settle(key, money_of(estimate) or 0, 0)

    def call_opened(
        self,
        plan: Plan,  # noqa: ARG002
        call: Invocation,
        estimate: tuple[CostLine, ...],
    ) -> None:
        """Remember the estimate of a call until it ends."""
        if call.attribution.worker in self._totals:
            self._estimates[call.id] = money_of(estimate) or 0

    def call_ended(self, call: Invocation, cost: tuple[CostLine, ...], error: str) -> None:  # noqa: ARG002
        """Reserve the cost of a call instead of its estimate, while the cost is being recorded."""
        key = call.attribution.worker
        if key in self._totals:
            others = self._reserved.get(key, 0) - self._estimates.pop(call.id, 0)
            self._reserved[key] = max(0, others) + (money_of(cost) or 0)

    def call_settled(self, call: Invocation, cost: tuple[CostLine, ...]) -> None:
        """Count the cost of a call as recorded: the next total that is read contains it."""
        key = call.attribution.worker
        if key in self._totals:
            money = money_of(cost) or 0
            self.settle(key, money, money)

    def reserve(self, key: str, estimate: int) -> None:
        """Reserve nano-dollars for a call of a key, given by its id."""
        self._reserved[key] = self._reserved.get(key, 0) + estimate

    def settle(self, key: str, reserved: int, cost: int) -> None:
        """Release what was reserved for a call, and count its recorded cost."""
        self._reserved[key] = max(0, self._reserved.get(key, 0) - reserved)
        self._since[key] = self._since.get(key, 0) + cost

    def _age(self, key: ClientKey) -> float:
        total = self._totals.get(key.id)
        return float("inf") if total is None else asyncio.get_running_loop().time() - total[0]

    def _spent(self, key: ClientKey) -> int:
        _, total = self._totals[key.id]
        return total + self._since.get(key.id, 0) + self._reserved.get(key.id, 0)

    async def _refresh(self, key: ClientKey) -> None:
        """Read a total again; concurrent callers share one reading."""
        task = self._refreshing.get(key.id)
        if task is None:
            task = asyncio.create_task(self._read_total(key))
            self._refreshing[key.id] = task
            task.add_done_callback(lambda _: self._refreshing.pop(key.id))
        await asyncio.shield(task)

    async def _read_total(self, key: ClientKey) -> None:
        started = asyncio.get_running_loop().time()
        # The total contains what was recorded before the reading. What is recorded during the
        # reading may be in it or not: it stays in `_since`, and may count twice.
        recorded_before = self._since.get(key.id, 0)
        total = await asyncio.to_thread(self._total, key)
        self._since[key.id] = self._since.get(key.id, 0) - recorded_before
        self._totals[key.id] = (started, total)

    def _total(self, key: ClientKey) -> int:
        since = period_start(key.settings.period)
        return sum(
            total.money
            for total in cost_totals(self._reader, "worker", since=since)
            if total.name == key.id and total.currency == "USD"
        )


def period_start(period: Period, now: datetime.datetime | None = None) -> int:
    """Return when the current period began, in UTC and nanoseconds."""
    if period == "all":
        return 0
    start = (now or datetime.datetime.now(datetime.UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "month":
        start = start.replace(day=1)
    return int(start.timestamp()) * 1_000_000_000
