"""Planning: a question answered once, then from memory.

Emulate where policy says so, else the declared fallback, else refuse; a refusal says when emulation
or a fallback would have helped.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from modelpact.catalog.provider import Api
from modelpact.catalog.resolution import Resolution
from modelpact.configuration.config import Configuration
from modelpact.dispatch.models import Models
from modelpact.emulation.emulator import emulator_strategies
from modelpact.gateway.counting import encoding_of
from modelpact.gateway.names import Meant, Names
from modelpact.gateway.plan import Plan, Question
from modelpact.gateway.policy import RequestPolicy
from modelpact.needs.need import Needs
from modelpact.needs.requests import Asked
from modelpact.negotiation.negotiate import decide
from modelpact.negotiation.parameters import ParamFinding, negotiate_parameters
from modelpact.negotiation.search import suggest
from modelpact.negotiation.verdict import Finding, Policy, Verdict

MOST_REMEMBERED: Final = 10_000
_SPOKEN: Final = ("openai-chat", "anthropic", "openai-responses")


class Planner:
    """Answers questions for one configuration and catalog; when either changes, make a new one."""

    def __init__(self, configuration: Configuration, models: Models) -> None:
        self.configuration = configuration
        self.models = models
        self.names = Names(configuration, models)
        self._plans: dict[Question, Plan] = {}

    def plan(self, question: Question) -> Plan:
        """Return the plan for a question."""
        found = self._plans.get(question)
        if found is None:
            if len(self._plans) >= MOST_REMEMBERED:
                self._plans.clear()
            found = self._plans[question] = self._made(question).with_head()
        return found

    def _made(self, question: Question) -> Plan:
        meant = self.names.meant(question.name, question.workload)
        first = self._on(meant, question)
        if first.how != "refuse" or meant.workload is None:
            return first
        if not question.policy.fallback or "capability" not in meant.workload.fallback_on:
            return first
        because = f"it lacks {', '.join(one['capability'] for one in _missing(first))}"
        return self.fallback(question, meant, because) or first

    def fallback(self, question: Question, meant: Meant, because: str) -> Plan | None:
        """Return the plan on the declared fallback, negotiated like any other, or None."""
        workload = meant.workload
        if workload is None or workload.fallback is None:
            return None
        other = Meant(*self.models.catalog.split(workload.fallback), workload)
        if not self.models.can_authenticate(other.provider):
            return None
        made = self._on(other, question)
        if made.how == "refuse":
            return None
        return msgspec.structs.replace(
            made,
            answer="labelled",
            requested=meant.target,
            substituted_for=meant.target,
            because=because,
        ).with_head()

    def _on(self, meant: Meant, question: Question) -> Plan:
        """Negotiate a question on one model."""
        asked, policy = question.asked, question.policy
        api = self._api(meant.provider, asked)
        resolution = self.models.catalog.resolve(meant.provider, meant.model, api)
        declared = Needs() if meant.workload is None else meant.workload.needs
        verdict = self._verdict(declared, asked, policy, resolution)
        params = negotiate_parameters(asked.settings, resolution)
        wrong = [one for one in params if one.action in ("unsupported", "conflict")]
        invalid = [one for one in params if one.action == "invalid"]
        drops = wrong if policy.drop_params else []
        refused = [*invalid, *(() if policy.drop_params else wrong)]
        if not verdict.ok or refused:
            return self._refused(meant, question, verdict, refused, resolution)
        warnings = [
            *(f"{one.capability} {one.sentence()}" for one in verdict.warnings),
            *(f"{'.'.join(one.path)}: {one.reason}" for one in params if one.action == "unknown"),
            *verdict.notes,
        ]
        emulate = tuple((one.capability, one.label) for one in verdict.emulated)
        same = asked.api == api or (asked.api == "embeddings" and api == "openai-chat")
        forward = same and not emulate
        renames = tuple((one.path[0], one.rename_to) for one in params if one.action == "rename")
        carried = "" if same or api == "mock" else f"{asked.api} -> {api}"
        labelled = warnings or emulate or drops or carried or verdict.answer == "labelled"
        return Plan(
            "forward" if forward else "carry",
            "labelled" if labelled else "yes",
            meant.target,
            meant.provider,
            meant.model,
            api,
            emulate,
            carried=carried,
            renames=renames if forward else (),
            drops=tuple(".".join(one.path) for one in drops),
            warnings=tuple(warnings),
            window=_limit(resolution, "context-window"),
            longest_output=_limit(resolution, "max-output"),
            encoding=encoding_of(self.models.catalog.spelling.family(meant.model), meant.provider),
            price=resolution.price,
            policy=policy,
            workload=meant.workload,
        )

    def _api(self, provider: str, asked: Asked) -> Api:
        """Return the API to speak: the client's own where the provider has it."""
        known = self.models.catalog.find_provider(provider)
        apis: Sequence[Api] = ("mock",) if known is None else known.apis
        if provider in self.models.ports or "mock" in apis:
            return "mock"
        if asked.api in apis:
            return asked.api  # type: ignore[return-value]
        return next((one for one in apis if one in _SPOKEN), apis[0])

    def _verdict(
        self, declared: Needs, asked: Asked, policy: RequestPolicy, resolution: Resolution
    ) -> Verdict:
        """Decide on all needs at once; what was declared may be unknown only if policy says so."""
        needs = declared + asked.needs if declared else asked.needs
        verdict = decide(needs, resolution, Policy("probe", policy.emulate), emulator_strategies())
        if policy.strict_unknown:
            checked = {one.capability for one in needs}
        elif policy.unknown:
            return verdict
        else:
            checked = {one.capability for one in declared}
        findings = tuple(_known_or_missing(one, checked) for one in verdict.findings)
        ok = all(one.outcome != "missing" for one in findings)
        return msgspec.structs.replace(verdict, findings=findings, ok=ok)

    def _refused(
        self,
        meant: Meant,
        question: Question,
        verdict: Verdict,
        params: list[ParamFinding],
        resolution: Resolution,
    ) -> Plan:
        needs = Needs(one.need for one in verdict.findings)
        better = suggest(needs, avoid=meant.target, catalog=self.models.catalog)
        missing: list[dict[str, Any]] = [
            {
                "capability": one.capability,
                "requiredBy": list(one.need.required_by),
                "reason": one.reason,
                "message": one.sentence(),
            }
            for one in verdict.missing
        ]
        missing += [
            {
                "capability": one.capability,
                "requiredBy": [f"request: {'.'.join(one.path)}"],
                "reason": one.action,
                "message": one.reason,
            }
            for one in params
        ]
        helps = []
        if any(one.label for one in verdict.missing) and not question.policy.emulate:
            helps.append("emulation would make up for some of it: policy emulate")
        if params and not question.policy.drop_params:
            helps.append("parameters that do not apply can be dropped: policy unsupported_params")
        if meant.workload is not None and meant.workload.fallback is None:
            helps.append(f"workload {meant.workload.name} declares no fallback")
        diagnostic: dict[str, Any] = {
            "target": resolution.target,
            "missing": missing,
            "previous": None,
            "suggestion": None if better is None else better.target,
            "wouldHelp": helps,
        }
        return Plan(
            "refuse",
            "no",
            meant.target,
            diagnostic=diagnostic,
            policy=question.policy,
            workload=meant.workload,
        )


def _known_or_missing(finding: Finding, checked: set[str]) -> Finding:
    if finding.outcome != "probe-pending" or finding.reason != "unknown":
        return finding
    if finding.need.level != "hard" or finding.capability not in checked:
        return finding
    if finding.capability == "context-window":
        return finding
    return msgspec.structs.replace(finding, outcome="missing")


def _missing(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (plan.diagnostic or {}).get("missing", [])
    return found


def _limit(resolution: Resolution, name: str) -> int | None:
    claim = resolution.claim(name)
    return claim.value if claim.known and isinstance(claim.value, int) else None
