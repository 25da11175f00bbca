"""Observers: the gateway notifies them at each step of a request and of a provider's call.

`Metrics`, telemetry and budgets are observers. No observer changes a request. `Budgets` uses the
notifications to sum up costs; the gateway then asks it whether a key may spend more.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import msgspec

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.responses import GatewayResponse
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.providers.contract import Invocation
from modelpact.wire import HttpRequest

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram of response times, in seconds."""


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


class Metrics(RequestObserver):
    """Counts requests by API, status and verdict, and the time until their responses start."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, int, str], _Series] = {}
        self.waiting = 0
        """Requests whose responses have not started."""

    def request_started(self, request: HttpRequest, api: RequestApi) -> None:  # noqa: ARG002
        """Count a request that waits for its response."""
        self.waiting += 1

    def response_started(self, api: RequestApi, response: GatewayResponse | None, seconds: float) -> None:
        """Count a response by its status and verdict, unless the client has disconnected."""
        self.waiting -= 1
        if response is None:
            return
        key = (api, response.status, response.verdict)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series()
        series.requests += 1
        series.seconds += seconds
        series.buckets[bisect_left(_BUCKETS, seconds)] += 1

    def text(self, connections: int) -> str:
        """Return all metrics; `connections` is the number of open connections."""
        return "\n".join([*self._lines(connections), ""])

    def _lines(self, connections: int) -> Iterator[str]:
        yield "# HELP modelpact_requests_total Requests by API, status and verdict."
        yield "# TYPE modelpact_requests_total counter"
        for api, status, verdict in sorted(self._series):
            labels = f'api="{api}",status="{status}",verdict="{verdict}"'
            count = self._series[api, status, verdict].requests
            yield f"modelpact_requests_total{{{labels}}} {count}"
        yield "# HELP modelpact_answer_seconds Time until an answer begins."
        yield "# TYPE modelpact_answer_seconds histogram"
        for api in sorted({key[0] for key in self._series}):
            of_api = [series for key, series in self._series.items() if key[0] == api]
            total = 0
            for index, bound in enumerate((*map(str, _BUCKETS), "+Inf")):
                total += sum(series.buckets[index] for series in of_api)
                yield f'modelpact_answer_seconds_bucket{{api="{api}",le="{bound}"}} {total}'
            seconds = sum(series.seconds for series in of_api)
            yield f'modelpact_answer_seconds_sum{{api="{api}"}} {seconds:.6f}'
            yield f'modelpact_answer_seconds_count{{api="{api}"}} {total}'
        yield "# HELP modelpact_requests_under_way Requests that wait for their answer to begin."
        yield "# TYPE modelpact_requests_under_way gauge"
        yield f"modelpact_requests_under_way {self.waiting}"
        yield "# HELP modelpact_connections Open connections of clients."
        yield "# TYPE modelpact_connections gauge"
        yield f"modelpact_connections {connections}"


class _Series(msgspec.Struct):
    """The requests of one API, status and verdict."""

    requests: int = 0
    seconds: float = 0.0
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
