"""Observers: the gateway notifies them at each step of a request and of a provider's call.

Metrics, telemetry and budgets are observers. No observer changes a request. `Budgets` uses the
notifications to sum up costs; the gateway then asks it whether a key may spend more.
"""

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.responses import GatewayResponse
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.providers.contract import Invocation
from modelpact.wire import HttpRequest


class RequestObserver:
    """The base of observers of requests. Every method does nothing: override those you need.

    The methods are listed in the order in which they are called. All of them run in the task of the
    request, so they must not block.
    """

    def request_started(self, request: HttpRequest, api: RequestApi) -> None:
        """Take note of a request for a model, before its body is read."""

    def request_planned(self, planned: PlannedRequest) -> None:
        """Take note of the plan that was made for a request."""

    def response_started(self, api: RequestApi, response: GatewayResponse | None, seconds: float) -> None:
        """Take note of the head of a response, `seconds` after the request started.

        `response` is None if the client has disconnected.
        """


class CallObserver:
    """The base of observers of provider calls, in the same way.

    One request may open more than one call: the second goes to the fallback.
    """

    def call_opening(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Take note of a call that is about to be recorded, before anything is awaited.

        `key` is the id of the client's key, `estimate` what the call is expected to cost.
        """

    def call_not_opened(self, key: str, estimate: tuple[CostLine, ...]) -> None:
        """Take note that a call could not be recorded after `call_opening`, and is not sent."""

    def call_opened(self, plan: Plan, call: Invocation, estimate: tuple[CostLine, ...]) -> None:
        """Take note of a call that is recorded, and is sent next."""

    def call_ended(self, call: Invocation, cost: tuple[CostLine, ...], error: str) -> None:
        """Take note of how a call ended and what it cost, before that is recorded.

        `error` is empty if the provider responded.
        """

    def call_settled(self, call: Invocation, cost: tuple[CostLine, ...]) -> None:
        """Take note that the end of a call is recorded, with its cost."""
