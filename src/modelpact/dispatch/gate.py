"""The gate: before a node is dispatched, is its model up to it (seed 001 §B to §F)?

Capability check, optional substitution, telemetry, then dispatch or refusal: in this order, for
every dispatch, on the model that is active for it.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.needs.dialects import read_openwop
from modelpact.needs.node_modules import FallbackModel, NodeModule, is_registered
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.dialects import OPENWOP
from modelpact.vocabulary.errors import ModelpactError

REDACTED: Final = "[REDACTED]"
SUBSTITUTED: Final = "model.capability.substituted"
INSUFFICIENT: Final = "model.capability.insufficient"
NOT_PROVIDED: Final = "capability_not_provided"

Route = Literal["dispatch", "substitute", "refuse"]
Allows = Callable[[FallbackModel], bool]
T = TypeVar("T")


class GateEvent(msgspec.Struct, frozen=True):
    """What is told of a decision, in exactly the RFC's shapes."""

    type: str
    payload: dict[str, Any]


class GateDecision(msgspec.Struct, frozen=True):
    """What the gate decided for one dispatch: the model to call, and what is told of it."""

    route: Route
    provider: str
    """The provider of the model to call; on a refusal the active one."""
    model: str
    original: tuple[str, str]
    missing: tuple[str, ...] = ()
    """What the active model lacks, in the order required, each once."""
    fallback_attempted: bool = False
    event: GateEvent | None = None
    why: str = ""
    """Why nothing stood in, and what would help; it names no fallback, which may be a secret."""

    def data(self) -> dict[str, Any]:
        """Return the decision as JSON has it; a redacted pair is redacted here too."""
        outcome: dict[str, Any] = {"route": self.route}
        if self.route != "dispatch":
            outcome["missingCapabilities"] = list(self.missing)
        if self.route == "refuse":
            outcome["fallbackAttempted"] = self.fallback_attempted
        if self.route == "substitute" and self.event is not None:
            told = self.event.payload
            for name in _PAIRS:
                outcome[name] = told[name]
        event = None if self.event is None else msgspec.to_builtins(self.event)
        return {"outcome": outcome, "event": event}


_PAIRS: Final = ("originalProvider", "originalModel", "fallbackProvider", "fallbackModel")


class CapabilityNotProvided(ModelpactError):
    """A dispatch that was refused: the active model lacks something, and nothing stood in."""

    code = NOT_PROVIDED

    def __init__(self, decision: GateDecision, node_id: str) -> None:
        self.decision = decision
        self.node_id = node_id
        target = "/".join(decision.original)
        lacks = f"{node_id}: {target} lacks {', '.join(decision.missing)}"
        super().__init__(f"{lacks}; {decision.why}")


class CapabilityCheck(Protocol):
    """What knows which of the required capabilities a model lacks."""

    def __call__(self, provider: str, model: str, required: tuple[str, ...], /) -> tuple[str, ...]:
        """Return those that it lacks, in their order."""


def catalog_check(catalog: Catalog | None = None, policy: Policy | None = None) -> CapabilityCheck:
    """Return what asks the catalog: what is not known to be there is lacking.

    The answer is remembered for each distinct question.
    """
    known = catalog or default_catalog()
    used = policy or Policy()
    remembered: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}

    def lacks(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        question = (provider, model, required)
        found = remembered.get(question)
        if found is None:
            if len(remembered) > _MOST_REMEMBERED:
                remembered.clear()
            found = remembered[question] = _lacks(known, used, *question)
        return found

    return lacks


_MOST_REMEMBERED: Final = 10_000


def _lacks(
    catalog: Catalog, policy: Policy, provider: str, model: str, required: tuple[str, ...]
) -> tuple[str, ...]:
    registered = [name for name in required if is_registered(name)]
    verdict = negotiate(read_openwop(registered), catalog.resolve(provider, model), policy)
    met = {one.capability for one in verdict.findings if one.outcome == "met"}
    return tuple(
        name for name in required if not is_registered(name) or OPENWOP.read(name).id not in met
    )


class Gate:
    """Decides, tells and dispatches. Thread-safe: it keeps no state of its own.

    `supported` are the providers that the host has; `can_authenticate` says whether a credential
    resolves for one of them. A gate that is off lets everything through, unchecked.
    """

    def __init__(
        self,
        lacks: CapabilityCheck | None = None,
        *,
        supported: Collection[str] = (),
        can_authenticate: Callable[[str], bool] = lambda _: True,
        substitution: bool = True,
        redact: bool = False,
        on: bool = True,
    ) -> None:
        self.lacks = lacks or catalog_check()
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
        allows: Allows = lambda _: True,
    ) -> GateDecision:
        """Decide on one dispatch of a module on the active model.

        `allows` says of a fallback whether whoever dispatches may use it.
        """
        active = (provider, model)
        required = tuple(dict.fromkeys(module.required)) if self.on else ()
        missing = self.lacks(provider, model, required) if required else ()
        if not missing:
            return GateDecision("dispatch", provider, model, active)
        node = node_id or module.type_id
        fallback = module.fallback
        attempted = (
            fallback is not None and self.substitution and fallback.provider in self.supported
        )
        why = self._unusable(fallback, required, allows)
        if fallback is not None and not why:
            told = (REDACTED, REDACTED) if self.redact else (fallback.provider, fallback.model)
            payload: dict[str, Any] = {
                "nodeId": node,
                "originalProvider": provider,
                "originalModel": model,
                "fallbackProvider": told[0],
                "fallbackModel": told[1],
                "missingCapabilities": list(missing),
            }
            return GateDecision(
                "substitute",
                fallback.provider,
                fallback.model,
                active,
                missing,
                event=GateEvent(SUBSTITUTED, payload),
            )
        payload = {
            "nodeId": node,
            "provider": provider,
            "model": model,
            "missingCapabilities": list(missing),
            "fallbackAttempted": attempted,
        }
        return GateDecision(
            "refuse",
            provider,
            model,
            active,
            missing,
            attempted,
            GateEvent(INSUFFICIENT, payload),
            why,
        )

    def _unusable(
        self, fallback: FallbackModel | None, required: tuple[str, ...], allows: Allows
    ) -> str:
        """Return why a fallback cannot stand in, and what would help; nothing where it can."""
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
        if self.lacks(fallback.provider, fallback.model, required):
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
        """Decide, tell, then `call(provider, model)`, or raise `CapabilityNotProvided`.

        `call` resolves its prompt for the model that it is given, which may be the fallback.
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
        allows: Allows = lambda _: True,
    ) -> T:
        """Do what `dispatch` does, with an asynchronous call and telling."""
        decision = self.decide(module, provider, model, node_id=node_id, allows=allows)
        if decision.event is not None:
            await tell(decision.event)
        if decision.route == "refuse":
            raise CapabilityNotProvided(decision, node_id or module.type_id)
        return await call(decision.provider, decision.model)

    def advertised(self, modules: Iterable[NodeModule]) -> tuple[str, ...]:
        """Return the capabilities that the modules reference and the gate evaluates (§C).

        It is computed, so nobody can advertise what nothing is gated on.
        """
        if not self.on:
            return ()
        named = {name for module in modules for name in module.required}
        reserved = [name for name in OPENWOP.ids if name in named]
        return (*reserved, *sorted(name for name in named if name not in OPENWOP.ids))
