"""Spending: a recorder whose budgets hear of each request when it opens and when it ends."""

from modelpact.gateway.budgets import Budgets
from modelpact.gateway.plan import Plan
from modelpact.gateway.recording import Recorder
from modelpact.gateway.reports import money_of
from modelpact.ledger.costs import CostLine
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Invocation, Semantics
from modelpact.providers.registry import Registry


class CountingRecorder(Recorder):
    """Counts what a request may cost before anything is waited for, and in the end its cost."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        name: str,
        budgets: Budgets,
        *,
        keep_content: bool = False,
    ) -> None:
        super().__init__(ledger, registry, name, keep_content=keep_content)
        self._budgets = budgets
        self._under_way: dict[str, tuple[str, int]] = {}
        """Of each open invocation, whose it is and what it was estimated at."""

    async def open(
        self,
        plan: Plan,
        body: bytes,
        semantics: Semantics,
        worker: str,
        estimate: tuple[CostLine, ...],
        seconds: float,
    ) -> Invocation:
        """Record a request before it leaves."""
        money = money_of(estimate) or 0
        self._budgets.opened(worker, money)
        try:
            opened = await super().open(plan, body, semantics, worker, estimate, seconds)
        except BaseException:
            self._budgets.settled(worker, money, 0)
            raise
        self._under_way[opened.id] = (worker, money)
        return opened

    async def settle(
        self,
        invocation: Invocation,
        lines: tuple[CostLine, ...],
        *,
        error: str = "",
        answer: bytes = b"",
        estimate: bool = False,
    ) -> Invocation:
        """Record how a request ended and what it cost."""
        try:
            return await super().settle(
                invocation, lines, error=error, answer=answer, estimate=estimate
            )
        finally:
            self._ended(invocation, money_of(lines) or 0)

    async def cancel(self, invocation: Invocation, reason: str) -> None:
        """Record that nobody waits for an answer any more."""
        try:
            await super().cancel(invocation, reason)
        finally:
            self._ended(invocation, 0)

    def _ended(self, invocation: Invocation, cost: int) -> None:
        worker, money = self._under_way.pop(invocation.id, ("", 0))
        self._budgets.settled(worker, money, cost)
