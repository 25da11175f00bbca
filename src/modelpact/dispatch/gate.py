"""The gate of the OpenWOP capability specification: decides before a node is dispatched.

For every dispatch, on the model that is active for it, the order is: capability check, optional
substitution, telemetry, then dispatch or refusal.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.needs.dialects import FallbackModel, NodeModule, is_registered, read_openwop
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.dialects import OPENWOP
from modelpact.vocabulary.errors import InputError, ModelpactError, brief
from modelpact.vocabulary.memo import BoundedMemo
from modelpact.vocabulary.redaction import REDACTED

SUBSTITUTED: Final = "model.capability.substituted"
INSUFFICIENT: Final = "model.capability.insufficient"
NOT_PROVIDED: Final = "capability_not_provided"
_PAIRS: Final = ("originalProvider", "originalModel", "fallbackProvider", "fallbackModel")
_MAX_REMEMBERED: Final = 10_000
_JSON_FIELDS: Final = (
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

Route = Literal["dispatch", "substitute", "refuse"]
AllowsFallback = Callable[[FallbackModel], bool]
T = TypeVar("T")


class GateEvent(msgspec.Struct, frozen=True):
    """The telemetry event of a decision, in the shape that the specification prescribes."""

    type: str
    payload: dict[str, Any]


class GateDecision(msgspec.Struct, frozen=True):
    """What the gate decided for one dispatch: the model to call, and the event to emit."""

    route: Route
    provider: str
    """The provider of the model to call; on a refusal, the active provider."""
    model: str
    original: tuple[str, str]
    missing: tuple[str, ...] = ()
    """The capabilities that the active model lacks, in the order required, each once."""
    fallback_attempted: bool = False
    event: GateEvent | None = None
    reason: str = ""
    """Why no fallback was used and what would help. It never names the fallback, which may be
    redacted."""

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain data. A redacted fallback is redacted here too."""
        outcome: dict[str, Any] = {"route": self.route}
        if self.route != "dispatch":
            outcome["missingCapabilities"] = list(self.missing)
        if self.route == "refuse":
            outcome["fallbackAttempted"] = self.fallback_attempted
        if self.route == "substitute" and self.event is not None:
            for name in _PAIRS:
                outcome[name] = self.event.payload[name]
        event = None if self.event is None else msgspec.to_builtins(self.event)
        return {"outcome": outcome, "event": event}


class CapabilityNotProvided(ModelpactError):
    """A dispatch was refused: the active model lacks a capability, and no fallback was used."""

    code = NOT_PROVIDED

    def __init__(self, decision: GateDecision, node_id: str) -> None:
        self.decision = decision
        self.node_id = node_id
        target = "/".join(decision.original)
        lacks = f"{node_id}: {target} lacks {', '.join(decision.missing)}"
        super().__init__(f"{lacks}; {decision.reason}")


class CapabilityCheck(Protocol):
    """Finds the required capabilities that a model lacks."""

    def __call__(self, provider: str, model: str, required: tuple[str, ...], /) -> tuple[str, ...]:
        """Return the missing ones in the order required."""


def catalog_check(catalog: Catalog | None = None, policy: Policy | None = None) -> CapabilityCheck:
    """Return a check against the catalog. A capability that is not known to be there is missing.

    The answers are memoised.
    """
    known_catalog = catalog or default_catalog()
    known_policy = policy or Policy()
    memo: BoundedMemo[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = BoundedMemo(_MAX_REMEMBERED)

    def check(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        key = (provider, model, required)
        missing = memo.get(key)
        if missing is None:
            missing = memo[key] = _find_missing(known_catalog, known_policy, *key)
        return missing

    return check


def provider_check(*providers: str) -> CapabilityCheck:
    """Return a check by provider: the models of these have every reserved id, others have none."""

    def check(provider: str, _: str, required: tuple[str, ...]) -> tuple[str, ...]:
        if provider not in providers:
            return required
        return tuple(name for name in required if name not in OPENWOP.ids)

    return check


class Gate:
    """Decides on dispatches, emits their events and makes their calls. Thread-safe.

    `supported` are the host's providers; `can_authenticate` says whether a credential resolves for
    one of them. A gate that is not `on` dispatches everything unchecked.
    """

    def __init__(
        self,
        check: CapabilityCheck | None = None,
        *,
        supported: Collection[str] = (),
        can_authenticate: Callable[[str], bool] = lambda _: True,
        substitution: bool = True,
        redact: bool = False,
        on: bool = True,
    ) -> None:
        self.check = check or catalog_check()
        self.supported = supported
        self.can_authenticate = can_authenticate
        self.substitution = substitution
        self.redact = redact
        self.on = on

    def decide(
        self,
        module: NodeModule,
        provider: str,
        model: str,
        *,
        node_id: str = "",
        allows: AllowsFallback = lambda _: True,
    ) -> GateDecision:
        """Decide on one dispatch of a module on the active model.

        `allows` says whether the client may use a fallback.
        """
        active = (provider, model)
        required = tuple(dict.fromkeys(module.required)) if self.on else ()
        missing = self.check(provider, model, required) if required else ()
        if not missing:
            return GateDecision("dispatch", provider, model, active)
        node = node_id or module.type_id
        fallback = module.fallback
        attempted = fallback is not None and self.substitution and fallback.provider in self.supported
        unusable = self._why_unusable(fallback, required, allows)
        if fallback is not None and not unusable:
            pair = (REDACTED, REDACTED) if self.redact else (fallback.provider, fallback.model)
            payload: dict[str, Any] = {
                "nodeId": node,
                "originalProvider": provider,
                "originalModel": model,
                "fallbackProvider": pair[0],
                "fallbackModel": pair[1],
                "missingCapabilities": list(missing),
            }
            return GateDecision(
                "substitute", fallback.provider, fallback.model, active, missing, event=GateEvent(SUBSTITUTED, payload)
            )
        payload = {
            "nodeId": node,
            "provider": provider,
            "model": model,
            "missingCapabilities": list(missing),
            "fallbackAttempted": attempted,
        }
        return GateDecision(
            "refuse", provider, model, active, missing, attempted, GateEvent(INSUFFICIENT, payload), unusable
        )

    def _why_unusable(self, fallback: FallbackModel | None, required: tuple[str, ...], allows: AllowsFallback) -> str:
        """Say why a fallback cannot be used and what would help; empty if it can be used."""
        run = "run it on a model that has it"
        if fallback is None:
            return f"no fallback is declared: {run}, or declare a fallbackModel that does"
        if not self.substitution:
            return f"its fallback is not used, since substitution is off: {run}"
        other = f"{run}, or declare another fallbackModel"
        if fallback.provider not in self.supported:
            return f"its fallback is on a provider that is not supported here: {other}"
        if not self.can_authenticate(fallback.provider):
            return f"there is no credential for its fallback's provider: {other}"
        if not allows(fallback):
            return f"its fallback is not allowed to this client: {other}"
        if self.check(fallback.provider, fallback.model, required):
            return f"its fallback does not have all that is required either: {other}"
        return ""

    def dispatch(
        self,
        module: NodeModule,
        provider: str,
        model: str,
        call: Callable[[str, str], T],
        *,
        tell: Callable[[GateEvent], object],
        node_id: str = "",
    ) -> T:
        """Decide, then call `tell(event)`, then `call(provider, model)` or raise.

        A refusal raises `CapabilityNotProvided`. `call` gets the model that was decided on, which
        may be the fallback, and resolves its prompt for that model.
        """
        decision = self.decide(module, provider, model, node_id=node_id)
        if decision.event is not None:
            tell(decision.event)
        if decision.route == "refuse":
            raise CapabilityNotProvided(decision, node_id or module.type_id)
        return call(decision.provider, decision.model)

    async def dispatch_async(
        self,
        module: NodeModule,
        provider: str,
        model: str,
        call: Callable[[str, str], Awaitable[T]],
        *,
        tell: Callable[[GateEvent], Awaitable[object]],
        node_id: str = "",
        allows: AllowsFallback = lambda _: True,
    ) -> T:
        """Do what `dispatch` does, with asynchronous callables."""
        decision = self.decide(module, provider, model, node_id=node_id, allows=allows)
        if decision.event is not None:
            await tell(decision.event)
        if decision.route == "refuse":
            raise CapabilityNotProvided(decision, node_id or module.type_id)
        return await call(decision.provider, decision.model)

    def advertised(self, modules: Iterable[NodeModule]) -> tuple[str, ...]:
        """Return the capabilities that modules require and the gate evaluates.

        They are computed from the modules, so a host cannot advertise others.
        """
        if not self.on:
            return ()
        required = {name for module in modules for name in module.required}
        reserved = [name for name in OPENWOP.ids if name in required]
        return (*reserved, *sorted(name for name in required if name not in OPENWOP.ids))


def decide_json(
    body: Any, default_check: Callable[[], CapabilityCheck], is_provider: Callable[[str], bool]
) -> GateDecision:
    """Decide on a request in JSON, for `modelpact gate` and the host's conformance endpoints.

    `default_check` is used if the body has no claims. `is_provider` says which providers are
    supported if the body does not list them.
    """
    if not isinstance(body, Mapping):
        raise InputError(f"expected an object with {', '.join(_JSON_FIELDS[:4])}")
    for name in body:
        if name not in _JSON_FIELDS:
            raise InputError(f"no field {brief(name)}; there are {', '.join(_JSON_FIELDS)}")
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


def _find_missing(
    catalog: Catalog, policy: Policy, provider: str, model: str, required: tuple[str, ...]
) -> tuple[str, ...]:
    registered = [name for name in required if is_registered(name)]
    verdict = negotiate(read_openwop(registered), catalog.resolve(provider, model), policy)
    met = {finding.capability for finding in verdict.findings if finding.outcome == "met"}
    return tuple(name for name in required if not is_registered(name) or OPENWOP.read(name).id not in met)


def _claims_check(claims: Mapping[str, frozenset[str]]) -> CapabilityCheck:
    def check(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        claimed = claims.get(f"{provider}/{model}", frozenset())
        return tuple(name for name in required if name not in claimed or not is_registered(name))

    return check


def _default_supported(
    module: NodeModule, claims: Mapping[str, frozenset[str]] | None, is_provider: Callable[[str], bool]
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
        fallback = FallbackModel(_text(declared, "provider", where), _text(declared, "model", where))
    return NodeModule("", required, fallback)


def _claims(data: Any) -> dict[str, frozenset[str]]:
    if not isinstance(data, Mapping):
        raise InputError('claims: expected an object such as {"provider/model": ["reasoning"]}')
    return {target: frozenset(_texts(data, target, "claims.") or ()) for target in data if isinstance(target, str)}


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
