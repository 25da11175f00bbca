"""Reads requests: the body, what it asks for, and the policy that it is planned under."""

from typing import Final

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.gateway.errors import GatewayError
from modelpact.gateway.keys import ClientKey
from modelpact.gateway.plan.plan import PlanKey
from modelpact.gateway.plan.policy import apply_policy_header
from modelpact.gateway.request.auth import Caller
from modelpact.gateway.request.incoming import IncomingRequest
from modelpact.gateway.request.model_names import (
    WORKLOAD_PREFIX,
    ModelNameResolver,
    ResolvedName,
    UnknownModel,
)
from modelpact.gateway.state import GatewayState
from modelpact.needs.requests import RequestApi, read_features
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import brief
from modelpact.vocabulary.strict_json import parse_json
from modelpact.wire.messages import HttpRequest

_MAX_NAME_LENGTH: Final = 500


async def read_request(
    state: GatewayState, request: HttpRequest, api: RequestApi, caller: Caller
) -> IncomingRequest:
    """Read a request, and check that its key may ask for the model that it names."""
    raw = await request.body()
    body = parse_json(raw, "the body")
    features = read_features(api, body)
    name: str = body["model"]
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        # Not every store can hold such a text, and a request that is sent must be recorded.
        raise UnknownModel(f"{brief(name)}: no model has such a name")
    workload, key = caller.workload, caller.key
    policy = state.policy
    if workload or name.startswith(WORKLOAD_PREFIX):
        policy = _workload_policy(state, workload or name.removeprefix(WORKLOAD_PREFIX))
    if caller.policy:
        policy = apply_policy_header(policy, caller.policy, key.settings.loosen)
    if key.settings.models and not _check_access(state, key, name, workload):
        policy = msgspec.structs.replace(policy, fallback=False)
    plan_key = PlanKey(name, workload, features, policy)
    return IncomingRequest(api, caller, request.headers, raw, body, plan_key)


def configured_policy(configuration: Configuration, policy: Policy) -> Policy:
    """Return the policy of requests: that of the configuration or a workload, and `lossy`."""
    return msgspec.structs.replace(policy, lossy=configuration.gateway.lossy)


def _workload_policy(state: GatewayState, name: str) -> Policy:
    workload = state.configuration.workloads.get(name)
    if workload is None or workload.policy is None:
        return state.policy
    return configured_policy(state.configuration, workload.policy)


def _check_access(state: GatewayState, key: ClientKey, model: str, workload: str) -> bool:
    """Refuse a model that a key does not allow; tell whether the key allows the fallback, too.

    A key that allows a workload by its name allows all of it. Any other key must allow the model of
    the workload, and the fallback's model for the fallback.
    """
    names: ModelNameResolver = state.planner.names
    allows_fallback = True
    for name in (model, f"{WORKLOAD_PREFIX}{workload}") if workload else (model,):
        if key.allows(name):
            continue
        resolved = names.resolve(name)
        if not key.allows(resolved.target):
            allowed = ", ".join(key.settings.models)
            message = f"the key {key.name} is not for {name}; it is for {allowed}"
            raise GatewayError(403, "model_not_allowed", message)
        fallback = None if resolved.workload is None else resolved.workload.fallback
        if fallback is not None:
            target = ResolvedName(*state.models.catalog.split(fallback)).target
            allows_fallback = allows_fallback and key.allows(target)
    return allows_fallback
