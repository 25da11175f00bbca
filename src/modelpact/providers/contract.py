"""The provider contract: registrations, offers, invocations, replies and compliance profiles."""

from typing import Any, Literal

import msgspec

from modelpact.configuration import Configuration
from modelpact.ledger.costs import Attribution, CostLine, Unit, divide_half_even
from modelpact.vocabulary.errors import ModelpactError, brief

Category = Literal["model", "tool", "knowledge", "human", "signal-source"]
Semantics = Literal["sync", "async", "streaming"]
InvocationState = Literal["open", "completed", "failed", "cancelled"]
DeregistrationPolicy = Literal["drain", "cancel"]


class ContractError(ModelpactError):
    """The contract does not allow an operation; `code` names the reason."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price: pico-units of the registered currency for one of a unit."""

    unit: Unit
    pico: int


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A capability that a provider offers: its kind, its schemas, how it may be invoked."""

    kind: str
    input: dict[str, Any]
    output: dict[str, Any]
    semantics: tuple[Semantics, ...] = ("sync",)
    rates: tuple[Rate, ...] = ()
    description: str = ""


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """What a provider registers: its id, its offers, their rates and its units of cost.

    `identity` is the fingerprint of the key of its certificate, `signing_key` its public Ed25519
    key in hex. Both are pinned. In-process providers have neither.
    """

    id: str
    category: Category
    offers: tuple[Offer, ...]
    units: tuple[Unit, ...]
    currency: str = ""
    name: str = ""
    identity: str = ""
    signing_key: str = ""
    base_url: str = ""
    max_latency_ms: int | None = None
    """For signal sources: the longest time from the emission of a signal to its receipt."""

    @property
    def waits_in_store(self) -> bool:
        """Whether invocations wait in the store: those of a human without an address do."""
        return self.category == "human" and not self.base_url

    @property
    def in_inbox(self) -> bool:
        """Whether anybody with access to the store may answer: no identity is pinned for it."""
        return self.waits_in_store and not self.identity

    def offer(self, kind: str) -> Offer:
        """Return the offer of that kind, or raise `unknown_capability`."""
        for offer in self.offers:
            if offer.kind == kind:
                return offer
        offered = ", ".join(offer.kind for offer in self.offers) or "nothing"
        raise ContractError("unknown_capability", f"{self.id} does not offer {brief(kind)}; it offers {offered}")


class ContentDigest(msgspec.Struct, frozen=True):
    """The digest of an input or output whose content was not stored."""

    digest: str


class Invocation(msgspec.Struct, frozen=True):
    """One invocation of a capability. It is recorded before it is sent, and settled once."""

    id: str
    provider: str
    capability: str
    semantics: Semantics
    state: InvocationState
    input: Any
    envelope: str
    event: str
    created: int
    deadline: int | None = None
    output: Any = None
    error: str | None = None
    settled_by: str | None = None
    partials: int = 0
    attribution: Attribution = Attribution()
    owner: str = ""
    """The runtime that opened it."""
    acknowledged: int | None = None
    """When the provider acknowledged it."""
    answered: int | None = None
    """When the final response of the provider arrived, in time or late."""
    reminders: int = 0
    kept: bool = True
    """Whether its content is in the store; otherwise only the caller has it."""
    registered: str = ""
    """The event of the registration under which it was invoked, which its response must match."""


class Reply(msgspec.Struct, frozen=True):
    """The final response of a provider: an output or an error, and its cost."""

    invocation_id: str
    output: Any = None
    error: str = ""
    cost: tuple[CostLine, ...] = ()
    estimate: bool = False


class ComplianceProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named set of policies."""

    name: str = "standard"
    on_deregistration: DeregistrationPolicy = "drain"
    on_violation: Literal["flag", "deregister"] = "flag"
    require_identity: bool = False
    """Whether providers need a pinned identity and a signing key."""


def expected_charge(offer: Offer, lines: tuple[CostLine, ...]) -> int:
    """Return the cost of the reported units at the registered rates, in nano-units."""
    rates = {rate.unit: rate.pico for rate in offer.rates}
    pico = sum(rates.get(line.unit, 0) * line.amount for line in lines)
    return divide_half_even(pico, 1_000)


def is_registered(registration: Registration, line: CostLine) -> bool:
    """Tell whether the unit and the currency of a cost line are registered."""
    currency_matches = line.unit != "currency" or line.currency == registration.currency
    return currency_matches and line.unit in registration.units


def cost_violation(registration: Registration, offer: Offer, lines: tuple[CostLine, ...]) -> str | None:
    """Return how reported costs break the contract, or None: unregistered units or wrong money."""
    if not lines:
        return "no cost was reported"
    for line in lines:
        if line.unit not in registration.units:
            return f"the unit {line.unit} was not registered"
        if line.unit == "currency" and line.currency != registration.currency:
            return f"the cost is in {line.currency}, but {registration.currency} is registered"
    charged = [line.amount for line in lines if line.unit == "currency"]
    if offer.rates and charged:
        expected = expected_charge(offer, lines)
        if sum(charged) != expected:
            return f"charged {sum(charged)} nano-units, but the registered rates give {expected}"
    return None


def profile_in_force(configuration: Configuration) -> ComplianceProfile:
    """Return the profile that `[contract]` names, or the standard profile."""
    name = configuration.contract.profile
    settings = configuration.profiles.get(name)
    if settings is None:
        return ComplianceProfile(name)
    return ComplianceProfile(name, **msgspec.structs.asdict(settings))
