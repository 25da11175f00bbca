"""The plan of one request: the plan of its key, and what depends on its body.

The body decides whether the schema is accepted, whether the prompt fits, what it is expected to
cost, and whether it can be translated.
"""

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.plan.plan import HeaderPairs, Plan
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.plan.schemas import SchemaLinter, answer_schema
from modelpact.gateway.plan.sizing import estimate, quick_estimate
from modelpact.gateway.plan.translation import (
    Translation,
    UntranslatableRequestError,
    translate_request,
)
from modelpact.gateway.request.incoming import IncomingRequest
from modelpact.ledger.costs import CostLine, cost_of
from modelpact.vocabulary.errors import InputError


class PlannedRequest(msgspec.Struct, frozen=True):
    """A request that was read and planned."""

    incoming: IncomingRequest
    plan: Plan
    expected_usage: Usage
    estimate: tuple[CostLine, ...]
    """What it is expected to cost."""
    headers: HeaderPairs = ()
    """Response headers beside those of the plan."""
    translation: Translation | None = None
    """The request in the conversation model, where the plan is to translate it."""


class RequestPlanner:
    """Plans requests."""

    def __init__(self) -> None:
        self._linter = SchemaLinter()

    async def plan(self, planner: Planner, incoming: IncomingRequest) -> PlannedRequest:
        """Plan a request; nothing is sent and nothing is recorded."""
        key, raw, body = incoming.plan_key, incoming.raw, incoming.body
        plan = planner.plan(key)
        if plan.profile:
            plan = await self._check_schema(planner, plan, incoming)
        size = quick_estimate(plan, raw, body) or await estimate(plan, raw, body)
        if size.too_long:
            plan = planner.oversize_plan(key, size.too_long)
            size = quick_estimate(plan, raw, body) or await estimate(plan, raw, body)
        translation = None
        if plan.action == "carry":
            try:
                translation = translate_request(plan, incoming.api, raw, body)
            except UntranslatableRequestError as error:
                plan = error.refusal
        cost = cost_of(plan.price, size.usage)
        return PlannedRequest(incoming, plan, size.usage, cost, size.headers, translation)

    async def plan_fallback(
        self, planner: Planner, incoming: IncomingRequest, because: str
    ) -> PlannedRequest | None:
        """Plan a request on its declared fallback; None where that cannot serve it."""
        key = incoming.plan_key
        resolved = planner.names.resolve(key.name, key.workload)
        plan = planner.fallback_plan(key, resolved, because)
        return None if plan is None else await _serve_by(plan, incoming)

    async def _check_schema(self, planner: Planner, plan: Plan, incoming: IncomingRequest) -> Plan:
        """Return the fallback's plan where the vendor is known to reject the request's schema.

        Return the plan with a warning where there is no fallback, or it would do no better.
        """
        rules = await self._broken_rules(plan, incoming)
        if not rules:
            return plan
        fallback = planner.schema_fallback(incoming.plan_key, plan, rules)
        if (
            fallback is not None
            and not await self._broken_rules(fallback, incoming)
            and await _serve_by(fallback, incoming) is not None
        ):
            return fallback
        return planner.with_schema_warning(incoming.plan_key, plan, rules)

    async def _broken_rules(self, plan: Plan, incoming: IncomingRequest) -> tuple[str, ...]:
        """Return the rules of a plan's vendor that the request's schema breaks."""
        if not plan.profile:
            return ()
        schema = answer_schema(incoming.api, incoming.body, plan.profile)
        return () if schema is None else await self._linter.broken_rules(plan.profile, schema)


async def _serve_by(plan: Plan, incoming: IncomingRequest) -> PlannedRequest | None:
    """Return a request under a given plan; None where it is too long or cannot be translated."""
    raw, body = incoming.raw, incoming.body
    size = quick_estimate(plan, raw, body) or await estimate(plan, raw, body)
    if size.too_long:
        return None
    translation = None
    if plan.action == "carry":
        try:
            translation = translate_request(plan, incoming.api, raw, body)
        except (UntranslatableRequestError, InputError):
            return None
    cost = cost_of(plan.price, size.usage)
    return PlannedRequest(incoming, plan, size.usage, cost, size.headers, translation)
