"""Checks workloads: negotiates the needs of each with its model and with its fallback."""

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import Configuration, Workload
from modelpact.emulation.emulator import emulator_strategies
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.verdict import Diagnostic, Verdict


class WorkloadCheck(msgspec.Struct, frozen=True):
    """The verdicts on a workload: on its model, and on its fallback if it has one."""

    workload: Workload
    verdict: Verdict
    diagnostic: Diagnostic | None
    fallback: Verdict | None

    @property
    def runs(self) -> bool:
        """Whether the workload can run, on its model or on its fallback."""
        return self.verdict.ok or (self.fallback is not None and self.fallback.ok)

    @property
    def problem(self) -> str:
        """What is wrong, as a sentence; empty if nothing is."""
        fallback = self.fallback
        if self.verdict.ok:
            if fallback is None or fallback.ok:
                return ""
            return f"the fallback {fallback.target} does not meet the needs"
        if fallback is not None and fallback.ok:
            return f"{self.verdict.target} does not fit; every call will go to the fallback"
        return f"{self.verdict.target} does not meet the needs"


def check_workload(workload: Workload, configuration: Configuration, catalog: Catalog) -> WorkloadCheck:
    """Negotiate the needs of a workload with its model and with its fallback."""

    def verdict_on(target: str) -> Verdict:
        return negotiate(
            workload.needs, target, configuration.policy, strategies=emulator_strategies(), catalog=catalog
        )

    verdict = verdict_on(workload.model)
    return WorkloadCheck(
        workload,
        verdict,
        diagnose(verdict, policy=configuration.policy, catalog=catalog),
        None if workload.fallback is None else verdict_on(workload.fallback),
    )
