"""Planners without a gateway, and plan keys for them."""

from pathlib import Path
from typing import Any

from modelpact.configuration import read_configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.plan.plan import Plan, PlanKey, configured_policy
from modelpact.gateway.plan.planner import Planner
from modelpact.ledger.ledger import Ledger
from modelpact.needs.requests import RequestApi, read_features
from modelpact.negotiation.verdict import Policy
from modelpact.providers.runtime.runtime import Runtime
from tests.gateway.support import BASE, HI, UPSTREAM_KEYS

CONFIGURATION = BASE.format(openai='"http://127.0.0.1:9/v1"', anthropic='"http://127.0.0.1:9"')
WEATHER: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": WEATHER, "strict": True}}


def make_planner(folder: Path, more: str = "") -> Planner:
    """Make a planner; nothing is ever called."""
    configuration = read_configuration(CONFIGURATION + more)
    ledger = Ledger.open(f"sqlite:{folder / 'ledger.db'}")
    with ledger:
        models = ModelCaller(Runtime(ledger), configuration=configuration, environment=dict(UPSTREAM_KEYS))
        return Planner(configuration, models)


def plan_key(
    planner: Planner,
    name: str,
    policy: Policy | None = None,
    *,
    api: RequestApi = "openai-chat",
    workload: str = "",
    **body: Any,
) -> PlanKey:
    """Return the plan key of a request with such a body."""
    features = read_features(api, {"model": name, "messages": HI, **body})
    applied = policy or configured_policy(planner.configuration, planner.configuration.policy)
    return PlanKey(name, workload, features, applied)


def plan_for(planner: Planner, name: str, policy: Policy | None = None, **body: Any) -> Plan:
    """Return the plan for a request."""
    return planner.plan(plan_key(planner, name, policy, **body))


def missing(plan: Plan) -> list[tuple[str, str]]:
    """Return the capabilities that a refusal misses, and why."""
    assert plan.diagnostic is not None
    return [(item.capability, item.reason) for item in plan.diagnostic.missing]
