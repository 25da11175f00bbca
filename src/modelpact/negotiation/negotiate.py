"""Negotiation: needs × claims × policy → verdict. Pure, total and deterministic."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import Claim, ClaimSource, Constraint
from modelpact.catalog.resolution import Resolution
from modelpact.needs.need import Need, Needs, ladder_steps
from modelpact.negotiation.verdict import Finding, Outcome, Policy, Reason, UnknownRule, Verdict
from modelpact.vocabulary.capability import CAPABILITIES, AnyOf, Ladder, SameAs, satisfies
from modelpact.vocabulary.errors import InputError, brief, nearest

DEFAULT_POLICY: Final = Policy()
NO_NEEDS: Final = Needs()
_MOST_REMEMBERED: Final = 1_024
_LADDERS: Final = {
    one.id: one.formula for one in CAPABILITIES.values() if isinstance(one.formula, Ladder)
}


class Strategies:
    """What emulation can make up for: a label for each capability. Compared by identity."""

    __slots__ = ("labels",)

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels: Mapping[str, str] = MappingProxyType(dict(labels))


NO_STRATEGIES: Final = Strategies({})


def negotiate(
    needs: Needs | Iterable[Need | str] | str,
    target: ClaimSource | str,
    policy: Policy = DEFAULT_POLICY,
    *,
    strategies: Strategies = NO_STRATEGIES,
    catalog: Catalog | None = None,
) -> Verdict:
    """Answer whether a model meets the needs; every need gets its finding.

    `target` is `provider/model`, looked up in the catalog, or claims. The same question asked
    again of the same resolved model is answered from memory.
    """
    if not isinstance(needs, Needs):
        needs = Needs(needs)
    if not isinstance(policy, Policy):
        raise InputError(f"policy is a Policy, not {brief(policy)}")
    if not isinstance(strategies, Strategies):
        raise InputError(f"strategies are Strategies, not {brief(strategies)}")
    if isinstance(target, str):
        catalog = catalog or default_catalog()
        target = catalog.resolve(*catalog.split(target))
    if not isinstance(target, Resolution):
        return decide(needs, target, policy, strategies)
    memo = target.memo
    key = (needs, policy, strategies)
    verdict = memo.get(key)
    if verdict is None:
        if len(memo) >= _MOST_REMEMBERED:
            memo.clear()
        verdict = decide(needs, target, policy, strategies)
        notes = model_notes(target, catalog or default_catalog())
        verdict = memo[key] = msgspec.structs.replace(verdict, notes=notes) if notes else verdict
    answered: Verdict = verdict
    return answered


def model_notes(target: Resolution, catalog: Catalog) -> tuple[str, ...]:
    """Say what a caller should know of the model itself, whatever the needs are."""
    notes: list[str] = []
    if target.provider is None:
        notes.append(f"nobody knows the provider {target.provider_id}")
    elif target.provider.kind == "cloud" and not target.known:
        close = nearest(target.model, catalog.models.names(target.provider.id))
        meant = f"; did you mean {close[0]}?" if close else ""
        notes.append(f"no public catalog lists this model: it is judged by its family{meant}")
        if target.provider.id == "azure":
            notes.append("if it is a deployment, say in modelpact.toml whose model: same_as")
    if target.status == "deprecated" and not target.retires:
        notes.append("this model is deprecated")
    elif target.retired_by(catalog.today):
        notes.append(f"this model was to retire on {target.retires}")
    return tuple(notes)


def decide(
    needs: Needs,
    claims: ClaimSource,
    policy: Policy,
    strategies: Strategies = NO_STRATEGIES,
    *,
    requested: Needs = NO_NEEDS,
) -> Verdict:
    """Compute a verdict. It never stops at the first miss.

    `requested` are needs that were read off a request, beside those that were declared. A
    capability that only they name follows the policy's `unknown_in_request`, every other one its
    `unknown`.
    """
    if not hasattr(claims, "claim"):
        raise InputError(f"cannot negotiate against a {type(claims).__name__}")
    unknown, emulate, labels = policy.unknown, policy.emulate, strategies.labels
    if requested:
        declared = {need.capability for need in needs}
        needs = needs + requested if needs else requested
        findings = [
            _finding(
                need,
                _claim(need, claims),
                emulate,
                unknown if need.capability in declared else policy.unknown_in_request,
                labels,
            )
            for need in needs
        ]
    else:
        findings = [
            _finding(need, _claim(need, claims), emulate, unknown, labels) for need in needs
        ]
    if "context-window" in needs.bases:
        findings = [_with_longest_prompt(one, claims) for one in findings]
    clashing = [one for one in claims.constraints if needs.bases.issuperset(one.excludes)]
    if clashing:
        findings = _constrained(findings, clashing)
    ok = True
    for one in findings:
        if one.outcome == "missing":
            ok = False
            break
    return Verdict(claims.target, tuple(findings), ok)


def _claim(need: Need, claims: ClaimSource) -> Claim:
    """Return the claim that a need is held against.

    A choice that is made of flags is met by any step that does: a model with both kinds of caching
    has each, and a schema mode that is restricted does not hide a native object mode.
    """
    claim = claims.claim(need.capability)
    formula = _LADDERS.get(need.capability)
    if formula is None or need.minimum == formula.floor or _stands_alone(claim):
        return claim
    unsure: Claim | None = None
    for value, base_id in reversed(ladder_steps(formula, need)):
        base = claims.claim(base_id)
        if satisfies(base.support, need.min_support):
            return Claim(need.capability, base.support, value, base.reason, evidence=claim.evidence)
        if base.support == "unknown":
            unsure = Claim(need.capability, assumed=base.assumed, evidence=base.evidence)
    return claim if unsure is None else unsure


def _with_longest_prompt(finding: Finding, claims: ClaimSource) -> Finding:
    """Label a window that is wide enough only with the answer in it."""
    need = finding.need
    if finding.outcome != "met" or need.capability != "context-window":
        return finding
    longest = claims.claim("max-input")
    if not isinstance(need.minimum, int) or not isinstance(longest.value, int):
        return finding
    if not longest.known or longest.value >= need.minimum:
        return finding
    label = f"with the answer; the prompt alone may have {longest.value:,}"
    return msgspec.structs.replace(finding, label=label)


def _stands_alone(claim: Claim) -> bool:
    """Tell whether a choice was stated as such, not made of flags."""
    derived = claim.evidence is not None and claim.evidence.layer == "derived"
    return claim.support != "unknown" and not derived


def _finding(
    need: Need, claim: Claim, emulate: bool, unknown: UnknownRule, labels: Mapping[str, str]
) -> Finding:
    reason = _shortfall(need, claim)
    if need.level == "probed":
        info = CAPABILITIES.get(need.capability)
        if not reason and info is not None and info.kind == "limit":
            return Finding(need, claim, "met")
        return Finding(need, claim, "probe-pending", "probed")
    if not reason:
        if claim.support == "native":
            return Finding(need, claim, "met")
        return Finding(need, claim, "met", label=_provider_label(claim))
    label = ""
    lacking = reason in ("unsupported", "unknown") or (
        reason == "below-minimum" and isinstance(need.minimum, str)
    )
    if lacking and need.min_support == "emulated":
        label = labels.get(need.capability, "")
        if label and emulate:
            return Finding(need, claim, "emulated", label=label)
    if reason == "unknown" and (
        need.level == "preferred" or unknown == "probe" or need.capability == "context-window"
    ):
        return Finding(need, claim, "probe-pending", reason, label)
    if need.level == "preferred":
        return Finding(need, claim, "preferred-unmet", reason, label)
    return Finding(need, claim, "missing", reason, label)


def _shortfall(need: Need, claim: Claim) -> Reason:
    """Say in what the claim falls short of the need; an empty reason means that it does not."""
    support = claim.support
    if support == "unknown":
        return "unknown"
    minimum = need.minimum
    if minimum is not None:
        value = claim.value
        if isinstance(minimum, int):
            if not isinstance(value, int):
                return "unsupported" if support == "unsupported" else "unknown"
            if value < minimum:
                return "below-minimum"
        elif value is None:
            return "unsupported" if support == "unsupported" else "unknown"
        else:
            return _choice_shortfall(need, str(value), claim)
    if support == "unsupported":
        return "unsupported"
    return "" if satisfies(support, need.min_support) else "below-support"


def _choice_shortfall(need: Need, value: str, claim: Claim) -> Reason:
    info = need.capability_info
    if value != need.minimum:
        order = info.choices
        if not info.ordered or value not in order:
            return "below-minimum"
        if order.index(value) < order.index(str(need.minimum)):
            return "below-minimum"
    if claim.support == "unsupported":
        return ""
    return "" if satisfies(claim.support, need.min_support) else "below-support"


def _provider_label(claim: Claim) -> str:
    if claim.support == "restricted":
        return f"restricted: {claim.reason}" if claim.reason else "restricted"
    return "emulated by the provider" if claim.support == "emulated" else ""


def _constrained(findings: list[Finding], constraints: list[Constraint]) -> list[Finding]:
    """Turn needs that are each met but exclude each other into misses that name one another.

    Hard needs that exclude each other are all missed; preferred ones give way to hard ones.
    """
    engaged: dict[str, list[int]] = {}
    for place, one in enumerate(findings):
        if one.outcome == "met" and one.need.level != "probed":
            for name in _carried_by(one):
                engaged.setdefault(name, []).append(place)
    clashes: dict[int, set[str]] = {}
    for constraint in constraints:
        if all(name in engaged for name in constraint.excludes):
            _clash(constraint, engaged, findings, clashes)
    for place, others in clashes.items():
        one = findings[place]
        outcome: Outcome = "missing" if one.need.level == "hard" else "preferred-unmet"
        named = tuple(sorted(others))
        findings[place] = Finding(one.need, one.claim, outcome, "conflict", conflicts=named)
    return findings


def _carried_by(finding: Finding) -> tuple[str, ...]:
    """Return the capabilities that a met need really uses on this model."""
    need, value = finding.need, finding.claim.value
    formula = need.capability_info.formula
    if isinstance(formula, SameAs):
        return need.capability, formula.base
    if isinstance(formula, Ladder):
        return need.capability, *(base for step, base in formula.steps if step == value)
    if isinstance(formula, AnyOf) and isinstance(value, tuple) and len(value) == 1:
        return need.capability, f"{value[0]}-input"
    return (need.capability,)


def _clash(
    constraint: Constraint,
    engaged: Mapping[str, list[int]],
    findings: list[Finding],
    clashes: dict[int, set[str]],
) -> None:
    def is_hard(place: int) -> bool:
        return findings[place].need.level == "hard"

    fatal = all(any(map(is_hard, engaged[name])) for name in constraint.excludes)
    for name in constraint.excludes:
        others = {
            findings[place].capability
            for other in constraint.excludes
            if other != name
            for place in engaged[other]
        }
        for place in engaged[name]:
            if fatal or not is_hard(place):
                clashes.setdefault(place, set()).update(others - {findings[place].capability})
