"""Diagnosis: explain a verdict that is not a plain yes, and suggest a model that fits."""

from collections.abc import Mapping
from typing import Any

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.resolution import Resolution
from modelpact.needs.need import Needs
from modelpact.negotiation.parameters import params_affected
from modelpact.negotiation.search import suggest
from modelpact.negotiation.verdict import DEFAULT_POLICY, Diagnostic, Missing, Policy, Verdict


def diagnose(
    verdict: Verdict,
    *,
    previous: str | None = None,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    target: Resolution | None = None,
    policy: Policy = DEFAULT_POLICY,
    catalog: Catalog | None = None,
    in_force: str = "",
) -> Diagnostic | None:
    """Return the diagnostic of a rejected or warned verdict, or None if there is nothing to say.

    Only a rejected verdict gets a suggestion. `params` are the parameters of a session by layer;
    `target` is the model on which they would apply. The model `in_force` is never suggested: a
    session that was refused another model still has it.
    """
    if verdict.ok and not verdict.warnings:
        return None
    suggestion = None
    if not verdict.ok:
        suggestion = _suggestion(verdict, in_force, target, policy, catalog or default_catalog())
    return Diagnostic(
        verdict.target,
        tuple(
            Missing(
                finding.capability, finding.need.required_by, finding.reason, finding.sentence()
            )
            for finding in verdict.missing
        ),
        previous=previous,
        suggestion=suggestion,
        params_affected=(
            () if params is None or target is None else params_affected(params, target)
        ),
    )


def _suggestion(
    verdict: Verdict, in_force: str, target: Resolution | None, policy: Policy, catalog: Catalog
) -> str | None:
    """Search for a suggestion; the result is kept with the resolved model."""
    needs = tuple(finding.need for finding in verdict.findings)
    key = ("suggestion", needs, in_force, policy, catalog)
    if target is not None and key in target.memo:
        kept: str | None = target.memo[key]
        return kept
    better = suggest(
        Needs(needs), avoid=verdict.target, in_force=in_force, policy=policy, catalog=catalog
    )
    suggestion = None if better is None else better.target
    if target is not None:
        target.remember(key, suggestion)
    return suggestion
