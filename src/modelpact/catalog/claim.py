"""Claims: what is said of a model's capability, and how that is known."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Protocol

import msgspec

from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.support import Support

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
        from modelpact.catalog.derive import derive  # derive needs Claim itself

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
