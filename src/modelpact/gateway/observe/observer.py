"""Watching: what telemetry hears of requests; nobody listens unless an operator wants it."""

from typing import Protocol

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.record.calls import GatewayCall
from modelpact.gateway.request.planned import PlannedRequest
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.wire import HttpRequest, HttpResponse


class Observer(Protocol):
    """Hears of each request, in its own task, in this order."""

    def begun(self, request: HttpRequest, api: RequestApi) -> None:
        """Hear that a request has come."""

    def planned(self, exchange: PlannedRequest) -> None:
        """Hear what it asks for and what is done about it."""

    def opened(self, plan: Plan, invocation: GatewayCall) -> None:
        """Hear that a provider is asked; more than once where there is a fallback."""

    def settled(self, invocation: GatewayCall, lines: tuple[CostLine, ...], error: str) -> None:
        """Hear how that ended."""

    def answered(self, answer: HttpResponse | None, verdict: str) -> None:
        """Hear that the answer begins, or that nobody waits for one."""
