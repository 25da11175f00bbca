"""What clients can ask about: models, with what they can do, and the words for it."""

from typing import Any, Final

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.state import GatewayState
from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.capability import CAPABILITIES

_SHOWN: Final = (
    "streaming",
    "tool-calling",
    "structured-output",
    "reasoning",
    "image-input",
    "audio-input",
    "pdf-input",
    "prompt-caching",
)
_LIMITS: Final = ("context-window", "max-output")


def list_models(state: GatewayState, needs: Needs) -> list[dict[str, Any]]:
    """Return the workloads, aliases and models that can be asked for and meet the needs."""

    def fits(target: str) -> bool:
        return not needs or bool(negotiate(needs, target, catalog=state.models.catalog))

    workloads = [
        _named(f"workload/{name}", {"model": one.model, "needs": str(one.needs)})
        for name, one in state.configuration.workloads.items()
        if fits(one.model)
    ]
    aliases = [
        _named(name, {"model": target, **describe(state.models, target)["modelpact"]})
        for name, target in state.configuration.gateway.aliases.items()
        if fits(target)
    ]
    models = [describe(state.models, target) for target in _targets(state, needs)]
    return [*workloads, *aliases, *models]


def _named(name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return a name of this gateway's own as OpenAI's list has models."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "modelpact",
        "modelpact": told,
    }


def _targets(state: GatewayState, needs: Needs) -> list[str]:
    models = state.models
    usable = [one for one in models.supported_providers() if models.can_authenticate(one)]
    listed = find_models(needs, provider=usable, catalog=models.catalog) if usable else []
    overlaid = [
        "/".join(pair)
        for pair in state.configuration.models
        if pair[0] in usable
        and (not needs or negotiate(needs, "/".join(pair), catalog=models.catalog))
    ]
    mock = ["mock/demo"] if not needs or negotiate(needs, "mock/demo") else []
    return sorted({*listed, *overlaid, *mock})


def describe(models: ModelCaller, target: str) -> dict[str, Any]:
    """Return a model as OpenAI's list has them, with what is known of it beside."""
    provider, model = models.catalog.split(target)
    resolution = models.catalog.resolve(provider, model)
    claims: dict[str, Any] = {name: resolution.claim(name).support for name in _SHOWN}
    for name in _LIMITS:
        claim = resolution.claim(name)
        claims[name] = claim.value if claim.known else None
    return {
        "id": target,
        "object": "model",
        "created": 0,
        "owned_by": provider,
        "modelpact": {"capabilities": claims},
    }


def anthropic_list(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the same as Anthropic's list has them."""
    data = [
        {
            "type": "model",
            "id": one["id"],
            "display_name": one["id"],
            "created_at": "1970-01-01T00:00:00Z",
            "modelpact": one["modelpact"],
        }
        for one in models
    ]
    ends = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": ends[0], "last_id": ends[1]}


def list_capabilities() -> list[dict[str, Any]]:
    """Return the vocabulary."""
    return [
        {"id": one.id, "meaning": one.meaning, "kind": one.kind, "group": one.group}
        for one in CAPABILITIES.values()
    ]
