"""One request on its way through the gateway: what it asks, for whom, under which plan."""

from typing import Any

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.keys import ClientKey
from modelpact.gateway.plan.plan import HeaderPairs, Plan, PlanKey
from modelpact.gateway.request.auth import Caller
from modelpact.gateway.state import GatewayState
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi, RequestFeatures
from modelpact.wire import HttpRequest


class PlannedRequest(msgspec.Struct, frozen=True):
    """A request that was read and planned."""

    state: GatewayState
    request: HttpRequest
    api: RequestApi
    caller: Caller
    raw: bytes
    body: dict[str, Any]
    question: PlanKey
    plan: Plan
    expected: Usage
    """What it is expected to use."""
    estimate: tuple[CostLine, ...]
    told: HeaderPairs = ()
    """What its answer's head says beside what the plan says."""

    @property
    def key(self) -> ClientKey:
        """Whose it is."""
        return self.caller.key

    @property
    def report(self) -> bool:
        """Whether its report is wanted in the body as well."""
        return self.caller.report

    @property
    def asked(self) -> RequestFeatures:
        """What the request asks for."""
        return self.question.asked
