"""Claims: how well a model supports a capability, and the evidence for it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, Protocol

import msgspec

from modelpact.vocabulary.capability import AnyOf, AtLeast, Formula, Ladder, SameAs, Support, capability
from modelpact.vocabulary.errors import InputError

LayerKind = Literal[
    "defaults", "rule", "family", "facts", "correction", "evidence", "overlay", "declared", "derived", "given"
]
Value = int | str | tuple[str, ...] | None
FindClaim = Callable[[str], "Claim"]

_SUPPORTED: Final[frozenset[Support]] = frozenset({"native", "emulated", "restricted"})


class Vote(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one lineage of public facts says about one capability."""

    lineage: str
    date: str
    support: Support
    value: Value = None


class Evidence(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a claim comes from: a layer, a rule, a source and a date."""

    layer: LayerKind
    rule: str = ""
    source: str = ""
    date: str = ""
    votes: tuple[Vote, ...] = ()

    @property
    def disputed(self) -> bool:
        """Whether the lineages disagree; the claim has the more cautious value."""
        return len({(vote.support, vote.value) for vote in self.votes}) > 1


class Claim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How well one model supports one capability.

    A claim that rests only on the defaults or on the limits of another provider has support
    `unknown`; `assumed` is what it assumes. Negotiation never treats an assumption as a yes.
    """

    capability: str
    support: Support = "unknown"
    value: Value = None
    reason: str | None = None
    assumed: Support | None = None
    evidence: Evidence | None = None

    @property
    def known(self) -> bool:
        """Whether the claim rests on more than an assumption."""
        return self.support != "unknown"


class Constraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Capabilities that exclude each other on a model."""

    name: str
    excludes: tuple[str, ...]
    source: str = ""


class ClaimSource(Protocol):
    """Anything that negotiation can take claims from: a resolved model, or `Claims`."""

    @property
    def target(self) -> str:
        """The `provider/model` that the claims are about."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The capabilities that exclude each other on this model."""

    def claim(self, name: str) -> Claim:
        """Return the claim for a capability id; its support is `unknown` if nothing is known."""


class Claims:
    """Claims from a caller. Capabilities that they do not name have the support `absent`."""

    __slots__ = ("_absent", "_claims", "constraints", "target")

    def __init__(
        self,
        claims: Mapping[str, Claim] | Iterable[Claim],
        *,
        target: str = "",
        absent: Support = "unknown",
        constraints: tuple[Constraint, ...] = (),
    ) -> None:
        entries = list(claims.values() if isinstance(claims, Mapping) else claims)
        if not all(isinstance(claim, Claim) for claim in entries):
            raise InputError("claims: expected Claim values")
        self._claims: dict[str, Claim] = {capability(claim.capability).id: claim for claim in entries}
        self._absent = absent
        self.target = target
        self.constraints = constraints

    def claim(self, name: str) -> Claim:
        """Return the claim for a capability id, derived from other claims if it has a formula."""
        claim = self._claims.get(name)
        if claim is not None:
            return claim
        formula = capability(name).formula
        if formula is not None:
            derived = derive(name, formula, self.claim)
            if derived.support != "unknown":
                return derived
        return Claim(name, self._absent)

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims.values())

    def __len__(self) -> int:
        return len(self._claims)


def derive(name: str, formula: Formula, claim: FindClaim) -> Claim:
    """Return the claim that a formula derives from other claims."""
    if isinstance(formula, AtLeast):
        return _at_least(name, formula, claim(formula.base))
    if isinstance(formula, SameAs):
        base = claim(formula.base)
        return Claim(
            name, base.support, reason=base.reason, assumed=base.assumed, evidence=_derived_evidence(formula, base)
        )
    if isinstance(formula, AnyOf):
        return _any_of(name, formula, claim)
    return _ladder(name, formula, claim)


def _at_least(name: str, formula: AtLeast, base: Claim) -> Claim:
    if not isinstance(base.value, int):
        return Claim(name, base.support if base.support == "unsupported" else "unknown")
    support: Support = "native" if base.value >= formula.minimum else "unsupported"
    if base.support == "unknown":
        return Claim(name, assumed=support, evidence=_derived_evidence(formula, base))
    return Claim(name, support, evidence=_derived_evidence(formula, base))


def _any_of(name: str, formula: AnyOf, claim: FindClaim) -> Claim:
    bases = [claim(base) for base in formula.bases]
    supported = [base for base in bases if base.support in _SUPPORTED]
    if supported:
        best = next((base for base in supported if base.support == "native"), supported[0])
        kinds = tuple(base.capability.removesuffix("-input") for base in supported)
        return Claim(name, best.support, kinds, best.reason, evidence=_derived_evidence(formula))
    if any(base.support == "unknown" for base in bases):
        assumed = next((base.assumed for base in bases if base.assumed in _SUPPORTED), None)
        return Claim(name, assumed=assumed, evidence=_derived_evidence(formula) if assumed else None)
    return Claim(name, "unsupported", evidence=_derived_evidence(formula))


def _ladder(name: str, formula: Ladder, claim: FindClaim) -> Claim:
    unknown = False
    for value, base_id in formula.steps:
        base = claim(base_id)
        if base.support in _SUPPORTED:
            return Claim(name, base.support, value, base.reason, evidence=_derived_evidence(formula, base))
        unknown = unknown or base.support == "unknown"
    if unknown:
        return Claim(name)
    return Claim(name, "unsupported", formula.floor, evidence=_derived_evidence(formula))


def _derived_evidence(formula: Formula, base: Claim | None = None) -> Evidence:
    votes = base.evidence.votes if base is not None and base.evidence is not None else ()
    return Evidence("derived", rule=str(formula), votes=votes)
