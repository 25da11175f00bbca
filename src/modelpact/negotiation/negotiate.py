"""Negotiation: a pure, total and deterministic function of needs, claims and policy."""

import weakref
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import Claim, ClaimSource, Constraint
from modelpact.catalog.resolution import Resolution
from modelpact.needs.need import Need, Needs, ladder_steps
from modelpact.negotiation.verdict import DEFAULT_POLICY, Finding, Outcome, Policy, Reason, UnknownRule, Verdict
from modelpact.vocabulary.capability import CAPABILITIES, AnyOf, Ladder, SameAs, satisfies
from modelpact.vocabulary.errors import InputError, brief, nearest

NO_NEEDS: Final = Needs()
_LADDERS: Final = {entry.id: entry.formula for entry in CAPABILITIES.values() if isinstance(entry.formula, Ladder)}


class Strategies:
    """The capabilities that emulation can provide, with a label for each. Compared by identity."""

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
    """Decide whether a model meets the needs; every need gets a finding.

    `target` is `provider/model`, which is looked up in the catalog, or claims. Verdicts are kept
    with the resolved model, so that the same needs cost nothing the second time.
    """
    if not isinstance(needs, Needs):
        needs = Needs(needs)
    if not isinstance(policy, Policy):
        raise InputError(f"policy: expected a Policy, not {brief(policy)}")
    if not isinstance(strategies, Strategies):
        raise InputError(f"strategies: expected Strategies, not {brief(strategies)}")
    if isinstance(target, str):
        catalog = catalog or default_catalog()
        target = catalog.resolve(*catalog.split(target))
    if not isinstance(target, Resolution):
        return decide(needs, target, policy, strategies)
    key = (needs, policy, strategies)
    verdict = target.memo.get(key)
    if verdict is None:
        verdict = decide(needs, target, policy, strategies)
        notes = model_notes(target, catalog or default_catalog())
        if notes or catalog is not None:
            catalog_ref = None if catalog is None else weakref.ref(catalog)
            verdict = msgspec.structs.replace(verdict, notes=notes, catalog_ref=catalog_ref)
        target.remember(key, verdict)
    decided: Verdict = verdict
    return decided


def model_notes(target: Resolution, catalog: Catalog) -> tuple[str, ...]:
    """Return what a caller should know about the model itself, whatever the needs."""
    notes: list[str] = []
    if target.provider is None:
        notes.append(f"the catalog does not know the provider {target.provider_id}")
    elif target.provider.kind == "cloud" and not target.known:
        close = nearest(target.model, catalog.models.names(target.provider.id))
        suggestion = f"; did you mean {close[0]}?" if close else ""
        notes.append(f"no public catalog lists this model: its family decides{suggestion}")
        if target.provider.id == "azure":
            notes.append("if it is a deployment, name its model with same_as in modelpact.toml")
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
    """Compute a verdict. It covers every need and never stops at the first missing one.

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
                _claim_for(need, claims),
                emulate,
                unknown if need.capability in declared else policy.unknown_in_request,
                labels,
            )
            for need in needs
        ]
    else:
        findings = [_finding(need, _claim_for(need, claims), emulate, unknown, labels) for need in needs]
    if "context-window" in needs.bases:
        findings = [_label_prompt_limit(finding, claims) for finding in findings]
    constraints = [rule for rule in claims.constraints if needs.bases.issuperset(rule.excludes)]
    if constraints:
        findings = _apply_constraints(findings, constraints)
    ok = True
    for finding in findings:
        if finding.outcome == "missing":
            ok = False
            break
    return Verdict(claims.target, tuple(findings), ok, policy=policy)


def _claim_for(need: Need, claims: ClaimSource) -> Claim:
    """Return the claim that decides a need.

    A choice that is derived from flags is met by any step that meets it: a model with both kinds of
    caching has each, and a restricted schema mode does not hide a native object mode.
    """
    claim = claims.claim(need.capability)
    formula = _LADDERS.get(need.capability)
    if formula is None or need.minimum == formula.floor or _is_stated(claim):
        return claim
    unknown: Claim | None = None
    for value, base_id in reversed(ladder_steps(formula, need)):
        base = claims.claim(base_id)
        if satisfies(base.support, need.min_support):
            return Claim(need.capability, base.support, value, base.reason, evidence=claim.evidence)
        if base.support == "unknown":
            unknown = Claim(need.capability, assumed=base.assumed, evidence=base.evidence)
    return claim if unknown is None else unknown


def _label_prompt_limit(finding: Finding, claims: ClaimSource) -> Finding:
    """Label a context window that is large enough only together with the answer."""
    need = finding.need
    if finding.outcome != "met" or need.capability != "context-window":
        return finding
    max_input = claims.claim("max-input")
    if not isinstance(need.minimum, int) or not isinstance(max_input.value, int):
        return finding
    if not max_input.known or max_input.value >= need.minimum:
        return finding
    label = f"with the answer; the prompt alone may have {max_input.value:,}"
    return msgspec.structs.replace(finding, label=label)


def _is_stated(claim: Claim) -> bool:
    """Whether a choice was stated itself, and not derived from flags."""
    derived = claim.evidence is not None and claim.evidence.layer == "derived"
    return claim.support != "unknown" and not derived


def _finding(need: Need, claim: Claim, emulate: bool, unknown: UnknownRule, labels: Mapping[str, str]) -> Finding:
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
    emulatable = reason in ("unsupported", "unknown") or (reason == "below-minimum" and isinstance(need.minimum, str))
    if emulatable and need.min_support == "emulated":
        label = labels.get(need.capability, "")
        if label and emulate:
            return Finding(need, claim, "emulated", label=label)
    if reason == "unknown" and (need.level == "preferred" or unknown == "probe" or need.capability == "context-window"):
        return Finding(need, claim, "probe-pending", reason, label)
    if need.level == "preferred":
        return Finding(need, claim, "preferred-unmet", reason, label)
    return Finding(need, claim, "missing", reason, label)


def _shortfall(need: Need, claim: Claim) -> Reason:
    """Return why the claim does not meet the need, or an empty string if it does."""
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


def _apply_constraints(findings: list[Finding], constraints: list[Constraint]) -> list[Finding]:
    """Turn needs that are met but exclude each other into conflicts that name each other.

    Hard needs that exclude each other are all missing; preferred needs give way to hard ones.
    """
    users: dict[str, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.outcome == "met" and finding.need.level != "probed":
            for name in _capabilities_used(finding):
                users.setdefault(name, []).append(index)
    conflicts: dict[int, set[str]] = {}
    for constraint in constraints:
        if all(name in users for name in constraint.excludes):
            _add_conflicts(constraint, users, findings, conflicts)
    for index, others in conflicts.items():
        finding = findings[index]
        outcome: Outcome = "missing" if finding.need.level == "hard" else "preferred-unmet"
        findings[index] = Finding(finding.need, finding.claim, outcome, "conflict", conflicts=tuple(sorted(others)))
    return findings


def _capabilities_used(finding: Finding) -> tuple[str, ...]:
    """Return the capabilities that a met need uses on this model."""
    need, value = finding.need, finding.claim.value
    formula = need.capability_info.formula
    if isinstance(formula, SameAs):
        return need.capability, formula.base
    if isinstance(formula, Ladder):
        return need.capability, *(base for step, base in formula.steps if step == value)
    if isinstance(formula, AnyOf) and isinstance(value, tuple) and len(value) == 1:
        return need.capability, f"{value[0]}-input"
    return (need.capability,)


def _add_conflicts(
    constraint: Constraint, users: Mapping[str, list[int]], findings: list[Finding], conflicts: dict[int, set[str]]
) -> None:
    def is_hard(index: int) -> bool:
        return findings[index].need.level == "hard"

    all_hard = all(any(map(is_hard, users[name])) for name in constraint.excludes)
    for name in constraint.excludes:
        others = {
            findings[index].capability for other in constraint.excludes if other != name for index in users[other]
        }
        for index in users[name]:
            if all_hard or not is_hard(index):
                conflicts.setdefault(index, set()).update(others - {findings[index].capability})
