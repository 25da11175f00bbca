"""One gate decision as JSON: what `modelpact gate` and the conformance seams take and give."""

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
    body: Any, lacks: Callable[[], CapabilityCheck], is_provider: Callable[[str], bool]
) -> GateDecision:
    """Decide on a request in JSON; `lacks` is asked where the body brings no claims.

    `is_provider` tells which providers are supported where the body does not say.
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
        supported = _usual(module, claims, is_provider)
    credentials = _texts(body, "credentials")
    gate = Gate(
        lacks() if claims is None else _claimed(claims),
        supported=supported,
        can_authenticate=lambda name: credentials is None or name in credentials,
        substitution=_flag(body, "substitutionSupported"),
        redact=_flag(body, "redact"),
    )
    node = _text(body, "nodeId") if "nodeId" in body else _DEFAULT_NODE
    return gate.decide(module, provider, model, node_id=node)


def provider_check(*providers: str) -> CapabilityCheck:
    """Return what knows of providers only: those named have every reserved id, others none."""

    def lacks(provider: str, _: str, required: tuple[str, ...]) -> tuple[str, ...]:
        if provider not in providers:
            return required
        return tuple(name for name in required if name not in OPENWOP.ids)

    return lacks


def _claimed(claims: Mapping[str, frozenset[str]]) -> CapabilityCheck:
    def lacks(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        has = claims.get(f"{provider}/{model}", frozenset())
        return tuple(name for name in required if name not in has or not is_registered(name))

    return lacks


def _usual(
    module: NodeModule,
    claims: Mapping[str, frozenset[str]] | None,
    is_provider: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return the fallback's provider if it is one: known to the host, or among the claims."""
    if module.fallback is None:
        return ()
    name = module.fallback.provider
    claimed = any(target.startswith(f"{name}/") for target in claims or ())
    return (name,) if claimed or is_provider(name) else ()


def _module(data: Any) -> NodeModule:
    """Read a module as a dispatch has it: already loaded, so only its form is looked at."""
    if not isinstance(data, Mapping):
        raise InputError("module: expected an object with requiredModelCapabilities")
    required = _texts(data, "requiredModelCapabilities", "module.") or ()
    given = data.get("fallbackModel")
    fallback = None
    if given is not None:
        if not isinstance(given, Mapping):
            raise InputError("module.fallbackModel: expected an object with provider and model")
        where = "module.fallbackModel."
        fallback = FallbackModel(_text(given, "provider", where), _text(given, "model", where))
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
        told = "is missing" if name not in data else f"expected a text, not {brief(value)}"
        raise InputError(f"{where}{name}: {told}")
    return value


def _texts(data: Mapping[str, Any], name: str, where: str = "") -> tuple[str, ...] | None:
    if name not in data:
        return None
    value = data[name]
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{where}{name}: expected a list of texts, not {brief(value)}")
    return tuple(value)


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"{name}: expected true or false, not {brief(value)}")
    return value
