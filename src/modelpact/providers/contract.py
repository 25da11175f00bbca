"""The contract: what a provider registers, and what an invocation is."""

import re
from typing import Any, Final, Literal

import msgspec

from modelpact.emulation.validation import Schema
from modelpact.ledger.costs import UNITS, Attribution, CostLine, Unit, half_even
from modelpact.vocabulary.errors import InputError, ModelpactError, brief

Category = Literal["model", "tool", "knowledge", "human", "signal-source"]
Semantics = Literal["sync", "async", "streaming"]
State = Literal["open", "completed", "failed", "cancelled"]
Policy = Literal["drain", "cancel"]

_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]{1,200}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_IDENTITY: Final = re.compile(r"sha256:[0-9a-f]{64}")
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_BASE_URL: Final = re.compile(r"https?://[^\s?#@]{1,200}")


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


def read_registration(data: Any) -> Registration:
    """Read and check a registration; the error names the field."""
    try:
        found = msgspec.convert(data, Registration)
    except msgspec.ValidationError as error:
        raise InputError(f"registration: {error}") from None
    check_registration(found)
    return found


def check_registration(one: Registration) -> None:
    """Check what types alone cannot."""
    if not _ID.fullmatch(one.id):
        raise InputError("registration.id: expected lower-case letters, digits and dashes")
    if one.category != "signal-source" and not one.offers:
        raise InputError("registration.offers: at least one capability is needed")
    if not one.units:
        raise InputError(f"registration.units: at least one of {', '.join(UNITS)}")
    if ("currency" in one.units) != bool(_CURRENCY.fullmatch(one.currency)):
        raise InputError(
            "registration.currency: three letters, with the unit currency and only then"
        )
    if one.max_latency_ms is not None and one.max_latency_ms < 1:
        raise InputError("registration.maxLatencyMs: expected a number above zero")
    if one.category == "signal-source" and one.max_latency_ms is None:
        raise InputError("registration.maxLatencyMs: a signal source declares its longest delay")
    _check_trust(one)
    seen: set[str] = set()
    for place, offer in enumerate(one.offers):
        where = f"registration.offers[{place}]"
        if not _URI.fullmatch(offer.kind):
            raise InputError(f"{where}.kind: expected a URI, not {brief(offer.kind)}")
        if offer.kind in seen:
            raise InputError(f"{where}.kind: {offer.kind} is offered twice")
        seen.add(offer.kind)
        if not offer.semantics or len(set(offer.semantics)) != len(offer.semantics):
            raise InputError(f"{where}.semantics: expected some of sync, async, streaming")
        Schema(offer.input, f"{where}.input")
        Schema(offer.output, f"{where}.output")
        for rate in offer.rates:
            if rate.unit not in one.units or rate.unit == "currency" or rate.pico < 0:
                raise InputError(f"{where}.rates: {rate.unit} is not a unit that can have a price")
        if offer.rates and "currency" not in one.units:
            raise InputError(f"{where}.rates: prices need a currency")


def _check_trust(one: Registration) -> None:
    """Check identity, key and address: who is reached over a network has all of them."""
    if one.identity and not _IDENTITY.fullmatch(one.identity):
        raise InputError("registration.identity: expected sha256: and 64 hex digits")
    if one.signing_key and not _KEY.fullmatch(one.signing_key):
        raise InputError("registration.signingKey: expected an Ed25519 public key as 64 hex digits")
    if bool(one.identity) and not one.signing_key:
        raise InputError("registration.signingKey: who has an identity signs its answers")
    if not one.base_url:
        return
    if not _BASE_URL.fullmatch(one.base_url):
        raise InputError("registration.baseUrl: expected https://HOST:PORT, without a query")
    if not one.signing_key:
        raise InputError("registration.signingKey: who is reached over a network signs its answers")
    if one.base_url.startswith("https:") and not one.identity:
        raise InputError("registration.identity: needed with https, it is pinned")


class NotKept(msgspec.Struct, frozen=True):
    """What stands for an input or an output of which only the digest was kept."""

    digest: str


class Invocation(msgspec.Struct, frozen=True):
    """One invocation: recorded before it leaves, settled once."""

    id: str
    provider: str
    capability: str
    semantics: Semantics
    state: State
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


class Reply(msgspec.Struct, frozen=True):
    """What a provider answers: an output or an error, and what it cost."""

    invocation_id: str
    output: Any = None
    error: str = ""
    cost: tuple[CostLine, ...] = ()
    estimate: bool = False


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A compliance profile: a named bundle of policy."""

    name: str = "standard"
    on_deregistration: Policy = "drain"
    on_violation: Literal["flag", "deregister"] = "flag"
    require_identity: bool = False
    """Refuse providers without a pinned identity and a signing key."""


def expected_charge(offer: Offer, lines: tuple[CostLine, ...]) -> int:
    """Return what the reported units cost by the registered rates, in nano-units."""
    rates = {rate.unit: rate.pico for rate in offer.rates}
    pico = sum(rates.get(line.unit, 0) * line.amount for line in lines)
    return half_even(pico, 1_000)


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
