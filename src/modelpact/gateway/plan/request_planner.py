"""The plan of one request: the plan of its key, and what depends on its body.

The body decides whether the vendor accepts the schema, whether the prompt fits, what the request is
expected to cost, and whether it can be translated to the provider's API.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic import DEFAULT_MAX_TOKENS
from modelpact.conversation.codecs import CODECS, request_losses
from modelpact.conversation.fidelity import Loss
from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.gateway.plan.plan import HeaderTuples, Plan
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.plan.sizing import MIN_BYTES_PER_TOKEN, TokenEstimate, estimate, quick_estimate
from modelpact.gateway.request import IncomingRequest
from modelpact.ledger.costs import CostLine, cost_of
from modelpact.needs.requests import CACHE_MARKER, RequestApi
from modelpact.needs.token_estimate import measure_body, prompt_tokens
from modelpact.negotiation.verdict import Diagnostic
from modelpact.schemas.lint import lint_schema
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.memo import BoundedMemo

_MAX_SCHEMAS: Final = 1_000
_ESTIMATE_MARGIN: Final = 1.25
"""By how much a prompt may be longer than its estimate."""


class Translation(msgspec.Struct, frozen=True):
    """A request in the conversation model, as it is sent to a provider."""

    plan: Plan
    """The plan of the request, with its added token limit reduced to fit beside the prompt."""
    request: Request
    losses: tuple[Loss, ...] = ()
    """What the provider's API cannot express, and is left out."""


class PlannedRequest(msgspec.Struct, frozen=True):
    """A request that was read and planned."""

    incoming: IncomingRequest
    plan: Plan
    expected_usage: Usage
    estimate: tuple[CostLine, ...]
    """What it is expected to cost."""
    headers: HeaderTuples = ()
    """Response headers beside those of the plan."""
    translation: Translation | None = None
    """The request in the conversation model, where the plan is to translate it."""


class RequestPlanner:
    """Plans requests; nothing is sent and nothing is recorded."""

    def __init__(self) -> None:
        self._linted: BoundedMemo[tuple[str, bytes], tuple[str, ...]] = BoundedMemo(_MAX_SCHEMAS)
        """The rules that a schema breaks, by the profile and the digest of the schema."""

    def plan_at_once(self, planner: Planner, incoming: IncomingRequest) -> PlannedRequest | None:
        """Plan a request without awaiting; None if it needs a schema check or a token count.

        Then call `plan`, which does both.
        """
        plan = planner.plan(incoming.plan_key)
        if plan.profile:
            return None
        size = quick_estimate(plan, incoming.raw, incoming.body)
        return None if size is None or size.too_long else _planned(plan, incoming, size)

    async def plan(self, planner: Planner, incoming: IncomingRequest) -> PlannedRequest:
        """Plan a request; check its schema and count its tokens if the plan depends on them."""
        key, raw, body = incoming.plan_key, incoming.raw, incoming.body
        plan = planner.plan(key)
        if plan.profile:
            plan = await self._check_schema(planner, plan, incoming)
        size = await estimate(plan, raw, body)
        if size.too_long:
            plan = planner.oversize_plan(key, size.too_long)
            size = await estimate(plan, raw, body)
        return _planned(plan, incoming, size)

    async def plan_fallback(self, planner: Planner, incoming: IncomingRequest, reason: str) -> PlannedRequest | None:
        """Plan a request on its declared fallback, for a reason; None if that cannot serve it."""
        plan = planner.fallback_plan(incoming.plan_key, reason)
        return None if plan is None else await _try_plan(plan, incoming)

    async def _check_schema(self, planner: Planner, plan: Plan, incoming: IncomingRequest) -> Plan:
        """Return the fallback's plan if the vendor is known to reject the request's schema.

        If there is no fallback, or it would reject the schema too, return the plan with a warning.
        """
        rules = await self._broken_rules(plan, incoming)
        if not rules:
            return plan
        fallback = planner.schema_fallback(incoming.plan_key, plan, rules)
        if (
            fallback is not None
            and not await self._broken_rules(fallback, incoming)
            and await _try_plan(fallback, incoming) is not None
        ):
            return fallback
        return planner.with_schema_warning(incoming.plan_key, plan, rules)

    async def _broken_rules(self, plan: Plan, incoming: IncomingRequest) -> tuple[str, ...]:
        """Return the rules of a plan's vendor that the request's schema breaks."""
        if not plan.profile:
            return ()
        schema = _output_schema(incoming.api, incoming.body, plan.profile)
        if schema is None:
            return ()
        key = (plan.profile, hashlib.sha256(msgspec.json.encode(schema)).digest())
        rules = self._linted.get(key)
        if rules is None:
            rules = await asyncio.to_thread(_lint, plan.profile, schema)
            self._linted[key] = rules
        return rules


def describe_losses(losses: Sequence[Loss]) -> str:
    """Name the parts of a request that an API cannot express, and their paths."""
    return "; ".join(f"{loss.path}: {loss.what}" for loss in losses)


async def _try_plan(plan: Plan, incoming: IncomingRequest) -> PlannedRequest | None:
    """Return the request under a plan; None if it is too long or cannot be translated."""
    size = await estimate(plan, incoming.raw, incoming.body)
    if size.too_long:
        return None
    try:
        planned = _planned(plan, incoming, size)
    except InputError:
        return None
    return None if planned.plan.action == "refuse" else planned


def _planned(plan: Plan, incoming: IncomingRequest, size: TokenEstimate) -> PlannedRequest:
    """Return a request under its plan; a request that cannot be translated is refused."""
    translation = None
    if plan.action == "carry":
        plan, translation = _translate(plan, incoming)
    cost = cost_of(plan.price, size.usage)
    return PlannedRequest(incoming, plan, size.usage, cost, size.headers, translation)


def _translate(plan: Plan, incoming: IncomingRequest) -> tuple[Plan, Translation | None]:
    """Translate a request to the conversation model, as its plan says.

    Return a plan that refuses it where the provider's API cannot express it and the policy does not
    allow the loss. Raise `InputError` where the body is not a request of its API.
    """
    codec = CODECS.get(incoming.api)
    if codec is None:
        return _refuse(plan, f"it does not speak the {incoming.api} API"), None
    fitted = _fit_token_limit(plan, incoming.raw, incoming.body)
    request = codec.read_request({name: value for name, value in incoming.body.items() if name not in plan.drops})
    request = msgspec.structs.replace(request, model=plan.model, **dict(fitted.added))
    losses = request_losses(plan.api, request)
    fatal = [
        loss
        for loss in losses
        if loss.fidelity == "unsupported" or not (plan.policy.lossy or _is_dropped_marker(plan, loss))
    ]
    if fatal:
        helps = all(loss.fidelity == "lossy" for loss in fatal)
        return _refuse(fitted, describe_losses(fatal), ("policy lossy",) if helps else ()), None
    return plan, Translation(fitted, request, losses)


def _fit_token_limit(plan: Plan, raw: bytes, body: dict[str, Any]) -> Plan:
    """Return the plan with its added token limit reduced to what the prompt leaves free."""
    if not plan.added or plan.context_window is None:
        return plan
    ((name, limit),) = plan.added
    if limit + len(raw) // MIN_BYTES_PER_TOKEN <= plan.context_window:
        return plan
    tokens = prompt_tokens(measure_body(body)) * _ESTIMATE_MARGIN
    room = max(plan.context_window - int(tokens), DEFAULT_MAX_TOKENS)
    return msgspec.structs.replace(plan, added=((name, min(limit, room)),)).with_head()


def _is_dropped_marker(plan: Plan, loss: Loss) -> bool:
    """Tell whether a loss is a cache marker that the plan drops anyway."""
    _, marker = CACHE_MARKER
    return marker in plan.drops and loss.path.rpartition(".")[2] == marker


def _refuse(plan: Plan, problem: str, would_help: tuple[str, ...] = ()) -> Plan:
    diagnostic = Diagnostic(plan.target, (), untranslatable=problem, would_help=would_help)
    return msgspec.structs.replace(plan, action="refuse", verdict="no", diagnostic=diagnostic)


def _output_schema(api: RequestApi, body: dict[str, Any], profile: str) -> Any:
    """Return the schema that the response must follow, or None.

    OpenAI enforces a schema only where the request says `strict`.
    """
    if api == "openai-chat":
        output_format = _object_at(body, "response_format", "json_schema")
    elif api == "openai-responses":
        output_format = _object_at(body, "text", "format")
    else:
        output_format = _object_at(body, "output_config", "format")
        output_format = output_format or _object_at(body, "output_format")
    if api != "anthropic" and profile == "openai" and output_format.get("strict") is not True:
        return None
    return output_format.get("schema")


def _lint(profile: str, schema: Any) -> tuple[str, ...]:
    try:
        rules = {problem.rule for problem in lint_schema(schema, profile).errors}
    except InputError:
        return ("no-schema",)
    return tuple(sorted(rules))


def _object_at(body: dict[str, Any], *path: str) -> dict[str, Any]:
    value: Any = body
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value if type(value) is dict else {}
