"""Recording: each request is an invocation, opened before it leaves and settled when it ends."""

import datetime
import secrets
from typing import Any, Final

import msgspec

from modelpact.catalog.facts import Price
from modelpact.conversation.response import Usage
from modelpact.gateway.plan import Plan
from modelpact.gateway.watching import Watch
from modelpact.ledger.canonical import LARGEST
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, price_cost, usage_lines
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.adapters.values import CHAT
from modelpact.providers.contract import ContractError, Invocation, Profile, Semantics
from modelpact.providers.opening import Order, open_invocation
from modelpact.providers.registry import Registry
from modelpact.providers.settling import Outcome, cancel, settle
from modelpact.providers.steady import steady

_SECOND: Final = 1_000_000_000
_MOST_REMEMBERED: Final = 10_000


class Recorder:
    """Writes the record of a gateway: one envelope for a process, a workload and a day."""

    def __init__(
        self, ledger: Ledger, registry: Registry, name: str, *, keep_content: bool = False
    ) -> None:
        self.ledger = ledger
        self._registry = registry
        self._name = name
        self._process = f"{name}-{secrets.token_hex(3)}"
        self.keep_content = keep_content
        self.watch: Watch | None = None
        self._profile = Profile()
        self._now = steady(ledger.clock)
        self._day = ("", 0)
        self._attributions: dict[tuple[str, str, str, str], Attribution] = {}
        self._decided: dict[int, tuple[Plan, str, str]] = {}
        """By the plan itself: the envelope in which it was written, and its event."""

    def envelope(self, plan: Plan) -> str:
        """Return where the requests of a plan are recorded today."""
        now = self._now()
        day, until = self._day
        if now >= until:
            moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC)
            midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
            day = midnight.date().isoformat()
            until = (int(midnight.timestamp()) + 86_400) * _SECOND
            self._day = (day, until)
            self._decided.clear()
        workload = "direct" if plan.workload is None else plan.workload.name
        return f"gateway/{self._process}/{workload}/{day}"

    async def decision(self, plan: Plan, envelope: str) -> str:
        """Return the event of a decision: written once for all requests that it is about."""
        known = self._decided.get(id(plan))
        if known is not None and known[0] is plan and known[1] == envelope:
            return known[2]
        event = await self.decided(plan, envelope)
        if len(self._decided) >= _MOST_REMEMBERED:
            self._decided.clear()
        self._decided[id(plan)] = (plan, envelope, event.id)
        return event.id

    async def decided(self, plan: Plan, envelope: str, **more: Any) -> Event:
        """Record a decision."""
        payload = {**plan.data(), **more}

        def work(tx: Transaction) -> Event:
            tx.open_envelope(envelope, "gateway", self._name)
            return tx.append(Draft(envelope, "negotiation.decided", payload))

        return await self.ledger.write_async(work)

    def _who(self, plan: Plan, worker: str) -> Attribution:
        """Return who and what a request is for; the same one for the same."""
        workload = "" if plan.workload is None else plan.workload.name
        key = (plan.provider, plan.model, worker, workload)
        found = self._attributions.get(key)
        if found is None:
            if len(self._attributions) >= _MOST_REMEMBERED:
                self._attributions.clear()
            found = self._attributions[key] = Attribution(
                plan.provider, plan.model, CHAT, worker, function=workload
            )
        return found

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
        envelope = self.envelope(plan)
        cause = await self.decision(plan, envelope)
        registered = self._registry.remembered(plan.provider)
        if registered is None:
            registered = await self._registry.looked_up(plan.provider)
        order = Order(
            plan.provider,
            registered.event,
            CHAT,
            None,
            body,
            semantics,
            self._name,
            envelope,
            self._now(),
            seconds,
            attribution=self._who(plan, worker),
            estimate=estimate,
            cause=cause,
            keep_content=self.keep_content,
            plain=True,
        )
        try:
            opened, _ = await self.ledger.write_surely(lambda tx: open_invocation(tx, order))
        except ContractError as error:
            if error.code != "registration_changed":
                raise
            current = await self._registry.looked_up(plan.provider)
            again = msgspec.structs.replace(order, registered=current.event)
            opened, _ = await self.ledger.write_surely(lambda tx: open_invocation(tx, again))
        if self.watch is not None:
            self.watch.opened(plan, opened)
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
        record = CostRecord(lines, invocation.attribution, estimate) if lines else None
        plain = all(0 <= line.amount <= LARGEST for line in lines)
        outcome = Outcome(None, error, record, answered=True, data=answer, plain=plain)
        ended, _ = await self.ledger.write_surely(
            lambda tx: settle(tx, self._profile, invocation, outcome)
        )
        if self.watch is not None:
            self.watch.settled(invocation, lines, error)
        return ended

    async def cancel(self, invocation: Invocation, reason: str) -> None:
        """Record that nobody waits for an answer any more."""
        if self.watch is not None:
            self.watch.settled(invocation, (), f"cancelled: {reason}")
        await self.ledger.write_surely(lambda tx: cancel(tx, invocation.id, reason))


def cost_of(price: Price | None, usage: Usage) -> tuple[CostLine, ...]:
    """Return what a usage costs: its tokens, and money where the price is known."""
    money = None if price is None else price_cost(price, usage)
    lines = usage_lines(usage)
    return lines if money is None else (*lines, money)
