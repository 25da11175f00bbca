"""Claims: what is said of a model's capability, and how that is known."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

import msgspec

from modelpact.vocabulary.capability import (
    AnyOf,
    AtLeast,
    Formula,
    Ladder,
    SameAs,
    Support,
    capability,
)
from modelpact.vocabulary.errors import InputError

LayerKind = Literal[
    "defaults",
    "rule",
    "family",
    "facts",
    "correction",
    "evidence",
    "overlay",
    "declared",
    "derived",
    "given",
]
Value = int | str | tuple[str, ...] | None


class Vote(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one lineage of public facts says of one capability."""

    lineage: str
    date: str
    support: Support
    value: Value = None


class Evidence(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which layer and rule said so, from which source, on which date."""

    layer: LayerKind
    rule: str = ""
    source: str = ""
    date: str = ""
    votes: tuple[Vote, ...] = ()

    @property
    def disputed(self) -> bool:
        """Whether the lineages disagree; the more cautious value was taken."""
        return len({(vote.support, vote.value) for vote in self.votes}) > 1


class Claim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is said of one capability of one model.

    A claim that only the defaults (or another provider's limits) vouch for has support `unknown`
    and says in `assumed` what would be assumed; negotiation never takes that for a yes.
    """

    capability: str
    support: Support = "unknown"
    value: Value = None
    reason: str | None = None
    assumed: Support | None = None
    evidence: Evidence | None = None

    @property
    def known(self) -> bool:
        """Whether anything but an assumption stands behind the claim."""
        return self.support != "unknown"


class Constraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Capabilities that exclude each other on a model."""

    name: str
    excludes: tuple[str, ...]
    source: str = ""


class ClaimSource(Protocol):
    """Whatever can be negotiated against: a resolved model, or claims that were handed in."""

    @property
    def target(self) -> str:
        """The `provider/model` that the claims are about."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What excludes what on this model."""

    def claim(self, name: str) -> Claim:
        """Return the claim for the capability with that canonical id; unknown if there is none."""


class Claims:
    """Claims that were handed in rather than looked up. What they do not name is `absent`."""

    __slots__ = ("_absent", "_claims", "constraints", "target")

    def __init__(
        self,
        claims: Mapping[str, Claim] | Iterable[Claim],
        *,
        target: str = "",
        absent: Support = "unknown",
        constraints: tuple[Constraint, ...] = (),
    ) -> None:
        listed = list(claims.values() if isinstance(claims, Mapping) else claims)
        if not all(isinstance(one, Claim) for one in listed):
            raise InputError("claims are Claim values")
        self._claims: dict[str, Claim] = {capability(one.capability).id: one for one in listed}
        self._absent = absent
        self.target = target
        self.constraints = constraints

    def claim(self, name: str) -> Claim:
        """Return the claim for that capability, by formula where it is derived from others."""
        found = self._claims.get(name)
        if found is not None:
            return found
        from modelpact.catalog.claim import derive  # derive needs Claim itself

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


Lookup = Callable[[str], Claim]
_HAVE: frozenset[Support] = frozenset({"native", "emulated", "restricted"})


def derive(name: str, formula: Formula, claim: Lookup) -> Claim:
    """Return the claim that the formula makes of the claims it stands on."""
    if isinstance(formula, AtLeast):
        return _at_least(name, formula, claim(formula.base))
    if isinstance(formula, SameAs):
        base = claim(formula.base)
        return Claim(
            name,
            base.support,
            reason=base.reason,
            assumed=base.assumed,
            evidence=_by(formula, base),
        )
    if isinstance(formula, AnyOf):
        return _any_of(name, formula, claim)
    return _ladder(name, formula, claim)


def _by(formula: Formula, base: Claim | None = None) -> Evidence:
    votes = base.evidence.votes if base is not None and base.evidence is not None else ()
    return Evidence("derived", rule=str(formula), votes=votes)


def _at_least(name: str, formula: AtLeast, base: Claim) -> Claim:
    if not isinstance(base.value, int):
        return Claim(name, base.support if base.support == "unsupported" else "unknown")
    verdict: Support = "native" if base.value >= formula.minimum else "unsupported"
    if base.support == "unknown":
        return Claim(name, assumed=verdict, evidence=_by(formula, base))
    return Claim(name, verdict, evidence=_by(formula, base))


def _any_of(name: str, formula: AnyOf, claim: Lookup) -> Claim:
    bases = [claim(base) for base in formula.bases]
    having = [one for one in bases if one.support in _HAVE]
    if having:
        best = next((one for one in having if one.support == "native"), having[0])
        kinds = tuple(one.capability.removesuffix("-input") for one in having)
        return Claim(name, best.support, kinds, best.reason, evidence=_by(formula))
    if any(one.support == "unknown" for one in bases):
        assumed = next((one.assumed for one in bases if one.assumed in _HAVE), None)
        return Claim(name, assumed=assumed, evidence=_by(formula) if assumed else None)
    return Claim(name, "unsupported", evidence=_by(formula))


def _ladder(name: str, formula: Ladder, claim: Lookup) -> Claim:
    unsure = False
    for value, base_id in formula.steps:
        base = claim(base_id)
        if base.support in _HAVE:
            return Claim(name, base.support, value, base.reason, evidence=_by(formula, base))
        unsure = unsure or base.support == "unknown"
    if unsure:
        return Claim(name)
    return Claim(name, "unsupported", formula.floor, evidence=_by(formula))
