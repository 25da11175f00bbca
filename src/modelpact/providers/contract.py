"""The contract: what a provider registers, and what an invocation is."""

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
    """Something that the contract does not allow; `code` says what."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price: so many pico-units of the registered currency for one of a unit."""

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


class Registration(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """What a provider presents: who it is, what it offers, what that costs and in which units.

    `identity` is the fingerprint of its certificate's key, `signing_key` the public Ed25519 key of
    its signatures in hex; both are pinned. In-process providers have neither.
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
    """For signal sources: the longest that a signal may take from its emission to here."""

    def offer(self, kind: str) -> Offer:
        """Return the offer of that kind, or raise `unknown_capability`."""
        for one in self.offers:
            if one.kind == kind:
                return one
        known = ", ".join(one.kind for one in self.offers) or "nothing"
        raise ContractError(
            "unknown_capability", f"{self.id} does not offer {brief(kind)}; it offers {known}"
        )


class NotKept(msgspec.Struct, frozen=True):
    """What stands for an input or an output of which only the digest was kept."""

    digest: str


class Invocation(msgspec.Struct, frozen=True):
    """One invocation: recorded before it leaves, settled once."""

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
    """When the provider promised an answer."""
    answered: int | None = None
    """When the provider's final answer came, in time or late."""
    reminders: int = 0
    kept: bool = True
    """Whether its content is in the store; else only the caller who was answered has it."""
    registered: str = ""
    """The event of the registration under which it was invoked; its answer is judged by that."""


class Reply(msgspec.Struct, frozen=True):
    """What a provider answers: an output or an error, and what it cost."""

    invocation_id: str
    output: Any = None
    error: str = ""
    cost: tuple[CostLine, ...] = ()
    estimate: bool = False


class ComplianceProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A compliance profile: a named bundle of policy."""

    name: str = "standard"
    on_deregistration: DeregistrationPolicy = "drain"
    on_violation: Literal["flag", "deregister"] = "flag"
    require_identity: bool = False
    """Refuse providers without a pinned identity and a signing key."""


def expected_charge(offer: Offer, lines: tuple[CostLine, ...]) -> int:
    """Return what the reported units cost by the registered rates, in nano-units."""
    rates = {rate.unit: rate.pico for rate in offer.rates}
    pico = sum(rates.get(line.unit, 0) * line.amount for line in lines)
    return divide_half_even(pico, 1_000)


def is_registered(registration: Registration, line: CostLine) -> bool:
    """Tell whether a line is in a unit, and a currency, that its provider registered."""
    money = line.unit != "currency" or line.currency == registration.currency
    return money and line.unit in registration.units


def cost_violation(
    registration: Registration, offer: Offer, lines: tuple[CostLine, ...]
) -> str | None:
    """Say how reported costs break the contract, or None: units registered, money recomputed."""
    if not lines:
        return "no cost was reported"
    for line in lines:
        if line.unit not in registration.units:
            return f"the unit {line.unit} was not registered"
        if line.unit == "currency" and line.currency != registration.currency:
            return f"the cost is in {line.currency}, registered is {registration.currency}"
    charged = [line.amount for line in lines if line.unit == "currency"]
    if offer.rates and charged:
        wanted = expected_charge(offer, lines)
        if sum(charged) != wanted:
            return f"charged {sum(charged)} nano-units, the registered rates make {wanted}"
    return None


def profile_in_force(configuration: Configuration) -> ComplianceProfile:
    """Return the profile that `[contract]` names; without one, the standard profile."""
    name = configuration.contract.profile
    settings = configuration.profiles.get(name)
    if settings is None:
        return ComplianceProfile(name)
    return ComplianceProfile(name, **msgspec.structs.asdict(settings))
