"""Watching: what telemetry hears of requests; nobody listens unless an operator wants it."""

from typing import Protocol

from modelpact.gateway.calls import Call
from modelpact.gateway.exchange import Exchange
from modelpact.gateway.plan import Plan
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.wire import Incoming, Outgoing


class Watch(Protocol):
    """Hears of each request, in its own task, in this order."""

    def begun(self, request: Incoming, api: RequestApi) -> None:
        """Hear that a request has come."""

    def planned(self, exchange: Exchange) -> None:
        """Hear what it asks for and what is done about it."""

    def opened(self, plan: Plan, invocation: Call) -> None:
        """Hear that a provider is asked; more than once where there is a fallback."""

    def settled(self, invocation: Call, lines: tuple[CostLine, ...], error: str) -> None:
        """Hear how that ended."""

    def answered(self, answer: Outgoing | None, verdict: str) -> None:
        """Hear that the answer begins, or that nobody waits for one."""
