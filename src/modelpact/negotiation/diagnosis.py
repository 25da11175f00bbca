"""Diagnosis: what a person needs to know of a verdict that is not a plain yes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.resolution import Resolution
from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import DEFAULT_POLICY
from modelpact.negotiation.parameters import params_affected
from modelpact.negotiation.search import suggest
from modelpact.negotiation.verdict import Diagnostic, Policy, Verdict


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
    """Return the full diagnostic of a rejected or warned verdict, or None where all is well.

    `params` are the session's parameters by layer; `target` is the model they would apply to.
    A model `in_force` is not suggested: a session that was refused another one has it still.
    """
    plain = verdict.diagnostic
    if plain is None:
        return None
    suggestion = None
    if not verdict.ok:
        suggestion = _suggestion(verdict, in_force, target, policy, catalog or default_catalog())
    affected = () if params is None or target is None else params_affected(params, target)
    return msgspec.structs.replace(
        plain, previous=previous, suggestion=suggestion, params_affected=affected
    )


def _suggestion(
    verdict: Verdict,
    in_force: str,
    target: Resolution | None,
    policy: Policy,
    catalog: Catalog,
) -> str | None:
    """Search for a suggestion; asked again of the same model it is answered from memory."""
    wanted = tuple(one.need for one in verdict.findings)
    memo = {} if target is None else target.memo
    key = ("suggestion", wanted, in_force, policy, catalog)
    if key not in memo:
        better = suggest(
            Needs(wanted),
            avoid=verdict.target,
            in_force=in_force,
            policy=policy,
            catalog=catalog,
        )
        memo[key] = None if better is None else better.target
    found: str | None = memo[key]
    return found
