"""One gate decision as JSON, for `modelpact gate` and the host's conformance endpoints."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from modelpact.dispatch.gate import CapabilityCheck, Gate, GateDecision
from modelpact.needs.node_modules import FallbackModel, NodeModule, is_registered
from modelpact.vocabulary.dialects import OPENWOP
from modelpact.vocabulary.errors import InputError, brief

_FIELDS: Final = (
    "module",
    "activeProvider",
    "activeModel",
    "substitutionSupported",
    "supportedProviders",
    "credentials",
    "redact",
    "nodeId",
    "claims",
)
_DEFAULT_NODE: Final = "test-node"


def decide_json(
    body: Any, default_check: Callable[[], CapabilityCheck], is_provider: Callable[[str], bool]
) -> GateDecision:
    """Decide on a request in JSON.

    `default_check` is used if the body has no claims. `is_provider` says which providers are
    supported if the body does not list them.
    """
    if not isinstance(body, Mapping):
        raise InputError(f"expected an object with {', '.join(_FIELDS[:4])}")
    for name in body:
        if name not in _FIELDS:
            raise InputError(f"no field {brief(name)}; there are {', '.join(_FIELDS)}")
    provider, model = _text(body, "activeProvider"), _text(body, "activeModel")
    module = _module(body.get("module"))
    claims = _claims(body["claims"]) if "claims" in body else None
    supported = _texts(body, "supportedProviders")
    if supported is None:
        supported = _default_supported(module, claims, is_provider)
    credentials = _texts(body, "credentials")
    gate = Gate(
        default_check() if claims is None else _claims_check(claims),
        supported=supported,
        can_authenticate=lambda name: credentials is None or name in credentials,
        substitution=_flag(body, "substitutionSupported"),
        redact=_flag(body, "redact"),
    )
    node = _text(body, "nodeId") if "nodeId" in body else _DEFAULT_NODE
    return gate.decide(module, provider, model, node_id=node)


def provider_check(*providers: str) -> CapabilityCheck:
    """Return a check by provider: the models of these have every reserved id, others have none."""

    def check(provider: str, _: str, required: tuple[str, ...]) -> tuple[str, ...]:
        if provider not in providers:
            return required
        return tuple(name for name in required if name not in OPENWOP.ids)

    return check


def _claims_check(claims: Mapping[str, frozenset[str]]) -> CapabilityCheck:
    def check(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        claimed = claims.get(f"{provider}/{model}", frozenset())
        return tuple(name for name in required if name not in claimed or not is_registered(name))

    return check


def _default_supported(
    module: NodeModule,
    claims: Mapping[str, frozenset[str]] | None,
    is_provider: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return the fallback's provider, if the host knows it or the claims name it."""
    if module.fallback is None:
        return ()
    name = module.fallback.provider
    is_claimed = any(target.startswith(f"{name}/") for target in claims or ())
    return (name,) if is_claimed or is_provider(name) else ()


def _module(data: Any) -> NodeModule:
    """Read a module, checking only its form: its manifest was checked when it was loaded."""
    if not isinstance(data, Mapping):
        raise InputError("module: expected an object with requiredModelCapabilities")
    required = _texts(data, "requiredModelCapabilities", "module.") or ()
    declared = data.get("fallbackModel")
    fallback = None
    if declared is not None:
        if not isinstance(declared, Mapping):
            raise InputError("module.fallbackModel: expected an object with provider and model")
        where = "module.fallbackModel."
        fallback = FallbackModel(
            _text(declared, "provider", where), _text(declared, "model", where)
        )
    return NodeModule("", required, fallback)


def _claims(data: Any) -> dict[str, frozenset[str]]:
    if not isinstance(data, Mapping):
        raise InputError('claims: expected an object such as {"provider/model": ["reasoning"]}')
    return {
        target: frozenset(_texts(data, target, "claims.") or ())
        for target in data
        if isinstance(target, str)
    }


def _text(data: Mapping[str, Any], name: str, where: str = "") -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value:
        problem = "is missing" if name not in data else f"expected a text, not {brief(value)}"
        raise InputError(f"{where}{name}: {problem}")
    return value


def _texts(data: Mapping[str, Any], name: str, where: str = "") -> tuple[str, ...] | None:
    if name not in data:
        return None
    value = data[name]
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{where}{name}: expected a list of texts, not {brief(value)}")
    return tuple(value)


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"{name}: expected true or false, not {brief(value)}")
    return value
