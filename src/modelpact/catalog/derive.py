"""Derived capabilities: the formulas of the vocabulary, evaluated on claims."""

from collections.abc import Callable

from modelpact.catalog.claim import Claim, Evidence
from modelpact.vocabulary.capability import AnyOf, AtLeast, Formula, Ladder, SameAs
from modelpact.vocabulary.support import Support

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
