"""Reading: a request, what it asks for, and the plan for it. Nothing is sent, nothing recorded."""

import contextlib
from typing import Any, Final

import msgspec

from modelpact.gateway.errors import GatewayError
from modelpact.gateway.keys import ClientKey
from modelpact.gateway.plan.plan import Plan, PlanKey
from modelpact.gateway.plan.policy import RequestPolicy, base_policy, with_header
from modelpact.gateway.plan.schemas import SchemaLinter, wanted_schema
from modelpact.gateway.plan.sizing import expected, expected_at_once
from modelpact.gateway.request.auth import Caller
from modelpact.gateway.request.model_names import WORKLOAD, ResolvedName, UnknownModel
from modelpact.gateway.request.planned import PlannedRequest
from modelpact.gateway.state import GatewayState
from modelpact.gateway.upstream.translate import Translator
from modelpact.ledger.costs import cost_of
from modelpact.needs.requests import RequestApi, read_asked
from modelpact.vocabulary.errors import brief
from modelpact.vocabulary.strict_json import parse_json
from modelpact.wire import HttpRequest

_LONGEST_NAME: Final = 500


class RequestReader:
    """Reads requests."""

    def __init__(self, carrier: Translator) -> None:
        self._carrier = carrier
        self._linter = SchemaLinter()

    async def read(
        self, state: GatewayState, request: HttpRequest, api: RequestApi, caller: Caller
    ) -> PlannedRequest:
        """Read a request and make its plan; nothing is sent and nothing recorded."""
        raw = await request.body()
        body = parse_json(raw, "the body")
        asked = read_asked(api, body)
        name: str = body["model"]
        if len(name) > _LONGEST_NAME or not name.isprintable():
            # Not every store keeps such a text, and one that is sent must be recorded.
            raise UnknownModel(f"{brief(name)}: no model has such a name")
        workload, key = caller.workload, caller.key
        policy = state.policy
        if workload or name.startswith(WORKLOAD):
            policy = _policy(state, workload or name.removeprefix(WORKLOAD))
        if caller.policy:
            policy = with_header(policy, caller.policy, key.settings.loosen)
        if key.settings.models and not _check_allowed(state, key, name, workload):
            policy = msgspec.structs.replace(policy, fallback=False)
        question = PlanKey(name, workload, asked, policy)
        plan = state.planner.plan(question)
        if plan.profile:
            plan = await self._linted(state, question, plan, raw, body)
        found = expected_at_once(plan, raw, body) or await expected(plan, raw, body)
        if found.too_long:
            plan = state.planner.sized(question, found.too_long)
            found = expected_at_once(plan, raw, body) or await expected(plan, raw, body)
        return PlannedRequest(
            state,
            request,
            api,
            caller,
            raw,
            body,
            question,
            plan,
            found.usage,
            cost_of(plan.price, found.usage),
            found.told,
        )

    async def _linted(
        self, state: GatewayState, question: PlanKey, plan: Plan, raw: bytes, body: dict[str, Any]
    ) -> Plan:
        """Return the fallback's plan where the vendor is known not to take the schema.

        Where there is none, or it would do no better, it is the plan with a warning.
        """
        rules = await self._broken(plan, question, body)
        if not rules:
            return plan
        other = state.planner.instead(question, plan, rules)
        if other is not None and not await self._broken(other, question, body):
            found = expected_at_once(other, raw, body) or await expected(other, raw, body)
            with contextlib.suppress(GatewayError):
                self._check_told(state, other, question.asked.api, body)
                if not found.too_long:
                    return other
        return state.planner.warned(question, plan, rules)

    async def _broken(self, plan: Plan, question: PlanKey, body: dict[str, Any]) -> tuple[str, ...]:
        """Return the rules of a plan's vendor that the schema of a request breaks."""
        if not plan.profile:
            return ()
        schema = wanted_schema(question.asked.api, body, plan.profile)
        return () if schema is None else await self._linter.broken(plan.profile, schema)

    def foreseen(self, exchange: PlannedRequest) -> Plan:
        """Return what would be done with a request: also, whether the provider can be told it."""
        plan = exchange.plan
        try:
            self._check_told(exchange.state, plan, exchange.api, exchange.body)
        except GatewayError as error:
            if error.plan is None:
                raise
            return error.plan
        return plan

    def _check_told(
        self, state: GatewayState, plan: Plan, api: RequestApi, body: dict[str, Any]
    ) -> None:
        """Raise where a request is to be carried, and the provider cannot be told it."""
        if plan.how == "carry":
            self._carrier.check(plan, api, body, state.models.port(plan.provider))


def _policy(state: GatewayState, workload: str) -> RequestPolicy:
    found = state.configuration.workloads.get(workload)
    if found is None or found.policy is None:
        return state.policy
    return base_policy(found.policy, state.configuration.gateway.lossy)


def _check_allowed(state: GatewayState, key: ClientKey, model: str, workload: str) -> bool:
    """Refuse what a key is not for; tell whether it is for the fallback as well.

    Who may use a workload by its name may have all of it, others only models that are theirs.
    """
    fallback = True
    for name in (model, f"workload/{workload}") if workload else (model,):
        if key.allows(name):
            continue
        meant = state.planner.names.meant(name)
        if not key.allows(meant.target):
            allowed = ", ".join(key.settings.models)
            told = f"the key {key.name} is not for {name}; it is for {allowed}"
            raise GatewayError(403, "model_not_allowed", told)
        other = None if meant.workload is None else meant.workload.fallback
        if other is not None:
            target = ResolvedName(*state.models.catalog.split(other)).target
            fallback = fallback and key.allows(target)
    return fallback
