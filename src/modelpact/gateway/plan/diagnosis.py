"""Diagnosis: everything that a request needs and its model lacks, and what would help."""

from collections.abc import Sequence

from modelpact.configuration.config import Workload
from modelpact.negotiation.parameters import ParamFinding
from modelpact.negotiation.verdict import Missing, Policy, Verdict


def missing_items(verdict: Verdict, params: Sequence[ParamFinding]) -> tuple[Missing, ...]:
    """Return every miss of a refusal: the capability, who requires it, and why it is missing."""
    capabilities = (
        Missing(
            finding.capability,
            finding.need.required_by,
            finding.reason,
            f"{finding.capability} {finding.sentence()}",
        )
        for finding in verdict.missing
    )
    parameters = (
        Missing(param.capability, (f"request: {'.'.join(param.path)}",), param.action, param.reason)
        for param in params
    )
    return (*capabilities, *parameters)


def helpful_changes(
    policy: Policy, workload: Workload | None, verdict: Verdict, params: Sequence[ParamFinding]
) -> tuple[str, ...]:
    """Return the policies, or the fallback, with which the request would have been served."""
    changes = []
    if not policy.emulate and any(finding.label for finding in verdict.missing):
        changes.append("policy emulate: modelpact can emulate some of it")
    if params and policy.unsupported_params == "refuse":
        changes.append("policy unsupported_params: parameters that do not apply can be dropped")
    if workload is not None and workload.fallback is None:
        changes.append(f"workload {workload.name} declares no fallback")
    return tuple(changes)
