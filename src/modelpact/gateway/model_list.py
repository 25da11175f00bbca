"""Lists for clients: models with their capabilities, and the vocabulary of capabilities."""

from typing import Any, Final

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.state import GatewayState
from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.capability import CAPABILITIES

_LISTED_CAPABILITIES: Final = (
    "streaming",
    "tool-calling",
    "structured-output",
    "reasoning",
    "image-input",
    "audio-input",
    "pdf-input",
    "prompt-caching",
)
_LISTED_LIMITS: Final = ("context-window", "max-output")


def list_models(state: GatewayState, needs: Needs) -> list[dict[str, Any]]:
    """Return the workloads, aliases and models that can be asked for and meet the needs."""

    def meets_needs(target: str) -> bool:
        return not needs or bool(negotiate(needs, target, catalog=state.models.catalog))

    workloads = [
        _own_name(f"workload/{name}", {"model": workload.model, "needs": str(workload.needs)})
        for name, workload in state.configuration.workloads.items()
        if meets_needs(workload.model)
    ]
    aliases = [
        _own_name(name, {"model": target, **describe(state.models, target)["modelpact"]})
        for name, target in state.configuration.gateway.aliases.items()
        if meets_needs(target)
    ]
    models = [describe(state.models, target) for target in _targets(state, needs)]
    return [*workloads, *aliases, *models]


def describe(models: ModelCaller, target: str) -> dict[str, Any]:
    """Return a model in the format of OpenAI's list, with its capabilities beside."""
    provider, model = models.catalog.split(target)
    resolution = models.catalog.resolve(provider, model)
    capabilities: dict[str, Any] = {
        name: resolution.claim(name).support for name in _LISTED_CAPABILITIES
    }
    for name in _LISTED_LIMITS:
        claim = resolution.claim(name)
        capabilities[name] = claim.value if claim.known else None
    return {
        "id": target,
        "object": "model",
        "created": 0,
        "owned_by": provider,
        "modelpact": {"capabilities": capabilities},
    }


def anthropic_list(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Return models in the format of Anthropic's list."""
    data = [
        {
            "type": "model",
            "id": model["id"],
            "display_name": model["id"],
            "created_at": "1970-01-01T00:00:00Z",
            "modelpact": model["modelpact"],
        }
        for model in models
    ]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def list_capabilities() -> list[dict[str, Any]]:
    """Return the vocabulary."""
    return [
        {
            "id": capability.id,
            "meaning": capability.meaning,
            "kind": capability.kind,
            "group": capability.group,
        }
        for capability in CAPABILITIES.values()
    ]


def _own_name(name: str, details: dict[str, Any]) -> dict[str, Any]:
    """Return a workload or an alias in the format of OpenAI's list."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "modelpact",
        "modelpact": details,
    }


def _targets(state: GatewayState, needs: Needs) -> list[str]:
    models = state.models
    usable = [name for name in models.supported_providers() if models.can_authenticate(name)]
    listed = find_models(needs, provider=usable, catalog=models.catalog) if usable else []
    configured = [
        f"{provider}/{model}"
        for provider, model in state.configuration.models
        if provider in usable
        and (not needs or negotiate(needs, f"{provider}/{model}", catalog=models.catalog))
    ]
    mock = ["mock/demo"] if not needs or negotiate(needs, "mock/demo") else []
    return sorted({*listed, *configured, *mock})
