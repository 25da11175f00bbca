"""Diagnosis: explain a verdict that is not a plain yes, and suggest a model that fits."""

from collections.abc import Collection, Mapping
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
    exclude: Collection[str] = (),
) -> Diagnostic | None:
    """Return the diagnostic of a rejected or warned verdict, or None if there is nothing to say.

    Only a rejected verdict gets a suggestion. It is neither the target nor a model in `exclude`.
    `params` are the parameters of a session by layer; `target` is the model on which they would
    apply.
    """
    if verdict.ok and not verdict.warnings:
        return None
    suggestion = None
    if not verdict.ok:
        suggestion = _suggestion(verdict, exclude, target, policy, catalog or default_catalog())
    return Diagnostic(
        verdict.target,
        tuple(
            Missing(finding.capability, finding.need.required_by, finding.reason, finding.sentence())
            for finding in verdict.missing
        ),
        previous=previous,
        suggestion=suggestion,
        params_affected=(() if params is None or target is None else params_affected(params, target)),
    )


def _suggestion(
    verdict: Verdict, exclude: Collection[str], target: Resolution | None, policy: Policy, catalog: Catalog
) -> str | None:
    """Search for a suggestion, and cache the result with the resolved model."""
    needs = tuple(finding.need for finding in verdict.findings)
    excluded = (verdict.target, *exclude)
    key = ("suggestion", needs, excluded, policy, catalog)
    if target is not None and key in target.memo:
        cached: str | None = target.memo[key]
        return cached
    better = suggest(
        Needs(needs), prefer_provider=verdict.target.partition("/")[0], exclude=excluded, policy=policy, catalog=catalog
    )
    suggestion = None if better is None else better.target
    if target is not None:
        target.remember(key, suggestion)
    return suggestion
