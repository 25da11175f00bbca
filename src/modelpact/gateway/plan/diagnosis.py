"""Refusing: all that a request asks for and its model lacks, and what would help."""

from typing import Any

from modelpact.configuration.config import Workload
from modelpact.gateway.plan.policy import RequestPolicy
from modelpact.negotiation.parameters import ParamFinding
from modelpact.negotiation.verdict import Verdict


def misses(verdict: Verdict, params: list[ParamFinding]) -> list[dict[str, Any]]:
    """Return every miss: what it is, who needs it, and why."""
    found: list[dict[str, Any]] = [
        {
            "capability": one.capability,
            "requiredBy": list(one.need.required_by),
            "reason": one.reason,
            "message": f"{one.capability} {one.sentence()}",
        }
        for one in verdict.missing
    ]
    found += [
        {
            "capability": one.capability,
            "requiredBy": [f"request: {'.'.join(one.path)}"],
            "reason": one.action,
            "message": one.reason,
        }
        for one in params
    ]
    return found


def would_help(
    policy: RequestPolicy, workload: Workload | None, verdict: Verdict, params: list[ParamFinding]
) -> list[str]:
    """Say which policy, or which fallback, would have helped."""
    helps = []
    if any(one.label for one in verdict.missing) and not policy.emulate:
        helps.append("emulation would make up for some of it: policy emulate")
    if params and not policy.drop_params:
        helps.append("parameters that do not apply can be dropped: policy unsupported_params")
    if workload is not None and workload.fallback is None:
        helps.append(f"workload {workload.name} declares no fallback")
    return helps
