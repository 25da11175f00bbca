"""Planning: a question answered once, then from memory.

Emulate where policy says so, else the declared fallback, else refuse; a refusal says when emulation
or a fallback would have helped.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from modelpact.catalog.provider import Api
from modelpact.catalog.resolution import Resolution
from modelpact.configuration.config import Configuration, Workload
from modelpact.conversation.anthropic import DEFAULT_MAX_TOKENS
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.emulation.emulator import emulator_strategies
from modelpact.gateway.plan.diagnosis import misses, would_help
from modelpact.gateway.plan.plan import Plan, PlanKey
from modelpact.gateway.plan.policy import RequestPolicy
from modelpact.gateway.plan.schemas import PROFILES, breaking, schema_warning
from modelpact.gateway.plan.sizing import encoding_of
from modelpact.gateway.request.model_names import ModelNames, ResolvedName
from modelpact.needs.need import Needs, need
from modelpact.needs.requests import CACHE_MARKER, RequestFeatures
from modelpact.negotiation.negotiate import decide
from modelpact.negotiation.parameters import ParamFinding, negotiate_parameters
from modelpact.negotiation.search import suggest
from modelpact.negotiation.verdict import Finding, Policy, Verdict

MOST_REMEMBERED: Final = 2_000
_NONE: Final = Needs()
_WRONG: Final = ("unsupported", "conflict")
_SPOKEN: Final = ("openai-chat", "anthropic", "openai-responses")
_WORDS: Final = {
    api: Needs([need("text-output", required_by=(f"request: {place}",))])
    for api, place in (
        ("openai-chat", "messages"),
        ("anthropic", "messages"),
        ("openai-responses", "input"),
    )
}
"""What every chat asks for. Only models that write nothing but vectors are held to it: pictures and
speech are asked for in chats too, and where nobody says what comes out it is mostly text."""
_LIMITS: Final = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})

_Broken = tuple[PlanKey, tuple[str, ...]]
"""A question, and the rules that its schema breaks."""
P = TypeVar("P", Plan, Plan | None)


class Planner:
    """Answers questions for one configuration and catalog; when either changes, make a new one."""

    def __init__(self, configuration: Configuration, models: ModelCaller) -> None:
        self.configuration = configuration
        self.models = models
        self.names = ModelNames(configuration, models)
        self._supported = models.supported_providers()
        self._plans: dict[PlanKey, Plan] = {}
        self._warned: dict[_Broken, Plan] = {}
        self._instead: dict[_Broken, Plan | None] = {}

    def plan(self, question: PlanKey) -> Plan:
        """Return the plan for a question."""
        found = self._plans.get(question)
        if found is None:
            if len(self._plans) >= MOST_REMEMBERED:
                self._plans.clear()
            found = self._plans[question] = self._made(question).with_head()
        return found

    def warned(self, question: PlanKey, plan: Plan, rules: tuple[str, ...]) -> Plan:
        """Return the plan of a question whose schema breaks rules: one for all that break these."""

        def made() -> Plan:
            told = (*plan.warnings, schema_warning(plan.profile, rules))
            return msgspec.structs.replace(plan, answer="labelled", warnings=told).with_head()

        return _remembered(self._warned, (question, rules), made)

    def instead(self, question: PlanKey, plan: Plan, rules: tuple[str, ...]) -> Plan | None:
        """Return the plan on the declared fallback for such a schema; None where there is none."""
        if plan.substituted_for or not _falls_back(question, plan.workload):
            return None
        meant = self.names.meant(question.name, question.workload)
        because = breaking(plan.profile, rules)
        made = partial(self.fallback, question, meant, because)
        return _remembered(self._instead, (question, rules), made)

    def sized(self, question: PlanKey, sizes: Needs) -> Plan:
        """Return the plan for a request that is longer than its model takes."""
        return self._made(question, sizes).with_head()

    def _made(self, question: PlanKey, sizes: Needs = _NONE) -> Plan:
        meant = self.names.meant(question.name, question.workload)
        first = self._on(meant, question, sizes)
        if first.how != "refuse" or not _falls_back(question, meant.workload):
            return first
        because = f"it lacks {', '.join(one['capability'] for one in _missing(first))}"
        return self.fallback(question, meant, because, sizes) or first

    def fallback(
        self, question: PlanKey, meant: ResolvedName, because: str, sizes: Needs = _NONE
    ) -> Plan | None:
        """Return the plan on the declared fallback, negotiated like any other, or None."""
        workload = meant.workload
        if workload is None or workload.fallback is None:
            return None
        other = ResolvedName(*self.models.catalog.split(workload.fallback), workload)
        if not self.models.can_authenticate(other.provider):
            return None
        made = self._on(other, question, sizes)
        if made.how == "refuse":
            return None
        return msgspec.structs.replace(
            made,
            answer="labelled",
            substituted_for=meant.target,
            because=because,
        ).with_head()

    def _on(self, meant: ResolvedName, question: PlanKey, sizes: Needs = _NONE) -> Plan:
        """Negotiate a question on one model."""
        asked, policy = question.asked, question.policy
        api = self._api(meant.provider, asked)
        resolution = self.models.catalog.resolve(meant.provider, meant.model, api)
        declared = Needs() if meant.workload is None else meant.workload.needs
        needs = asked.needs + sizes if sizes else asked.needs
        if asked.api != "embeddings" and _writes_only_vectors(resolution):
            needs = needs + _WORDS[asked.api]
        verdict = self._verdict(declared, needs, policy, resolution)
        params = negotiate_parameters(asked.settings, resolution)
        wrong = [one for one in params if one.action in _WRONG]
        invalid = [one for one in params if one.action == "invalid"]
        drops = wrong if policy.drop_params else []
        refused = [*invalid, *(() if policy.drop_params else wrong)]
        if not verdict.ok or refused:
            return self._refused(meant, question, verdict, refused, resolution)
        warnings = [
            *(f"{one.capability} {one.sentence()}" for one in verdict.warnings),
            *(f"{one.capability}: {one.label}" for one in verdict.findings if _labelled(one)),
            *(f"{'.'.join(one.path)}: {one.reason}" for one in params if one.action == "unknown"),
            *verdict.notes,
        ]
        emulate = tuple((one.capability, one.label) for one in verdict.emulated)
        same = asked.api == api or (asked.api == "embeddings" and api == "openai-chat")
        forward = same and not emulate
        renames = tuple((one.path[0], one.rename_to) for one in params if one.action == "rename")
        carried = "" if same or api == "mock" else f"{asked.api} -> {api}"
        longest = _limit(resolution, "max-output")
        left_out = {one.path[0] for one in drops}
        dropped = [".".join(one.path) for one in drops]
        if carried and api != "anthropic" and CACHE_MARKER in asked.uses:
            dropped.append(CACHE_MARKER[1])
        limited = any(name in _LIMITS - left_out for name, _ in asked.params)
        required = api == "anthropic" and not same and not limited
        labelled = warnings or emulate or drops or carried or verdict.answer == "labelled"
        return Plan(
            "forward" if forward else "carry",
            "labelled" if labelled else "yes",
            question.name,
            meant.provider,
            meant.model,
            api,
            emulate,
            carried=carried,
            renames=renames if forward else (),
            drops=tuple(dropped),
            added=(("max_tokens", longest or DEFAULT_MAX_TOKENS),) if required else (),
            warnings=tuple(warnings),
            window=_limit(resolution, "context-window"),
            longest_output=longest,
            encoding=self._vocabulary(meant),
            profile=self._profile(meant.provider, asked, emulate),
            price=resolution.price,
            policy=policy,
            workload=meant.workload,
        )

    def _profile(
        self, provider: str, asked: RequestFeatures, emulate: tuple[tuple[str, str], ...]
    ) -> str:
        """Return how a provider's servers take the schema of a request that leaves it to them."""
        if all(name != "structured-output" for name, _ in asked.uses):
            return ""
        known = self.models.catalog.find_provider(provider)
        if known is None or any(name == "structured-output" for name, _ in emulate):
            return ""
        return PROFILES.get(known.id, "")

    def _vocabulary(self, meant: ResolvedName) -> str:
        return encoding_of(self.models.catalog.spelling.family(meant.model), meant.provider)

    def _api(self, provider: str, asked: RequestFeatures) -> Api:
        """Return the API to speak: the client's own where the provider has it."""
        known = self.models.catalog.find_provider(provider)
        apis: Sequence[Api] = ("mock",) if known is None else known.apis
        if provider in self.models.ports or "mock" in apis:
            return "mock"
        if asked.api in apis:
            return asked.api  # type: ignore[return-value]
        return next((one for one in apis if one in _SPOKEN), apis[0])

    def _verdict(
        self, declared: Needs, asked: Needs, policy: RequestPolicy, resolution: Resolution
    ) -> Verdict:
        """Decide on all needs at once; what was declared may be unknown only if policy says so."""
        needs = declared + asked if declared else asked
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
        meant: ResolvedName,
        question: PlanKey,
        verdict: Verdict,
        params: list[ParamFinding],
        resolution: Resolution,
    ) -> Plan:
        better = self._better(meant, question, verdict, params)
        helps = would_help(question.policy, meant.workload, verdict, params)
        if better and not self.models.can_authenticate(better.partition("/")[0]):
            helps.append(f"{better} can be asked once there is a key for it here")
        diagnostic: dict[str, Any] = {
            "target": resolution.target,
            "missing": misses(verdict, params),
            "previous": None,
            "suggestion": better,
            "wouldHelp": helps,
        }
        return Plan(
            "refuse",
            "no",
            question.name,
            diagnostic=diagnostic,
            encoding=self._vocabulary(meant),
            policy=question.policy,
            workload=meant.workload,
        )

    def _better(
        self, meant: ResolvedName, question: PlanKey, verdict: Verdict, params: list[ParamFinding]
    ) -> str | None:
        """Return a model that would do, its parameters looked at as well."""
        wanted = [need(one.capability) for one in params if one.action == "unsupported"]
        needs = Needs([*(one.need for one in verdict.findings), *wanted])
        near = [one for one in self._supported if self.models.can_authenticate(one)]
        found = suggest(needs, avoid=meant.target, catalog=self.models.catalog, among=near)
        if found is None:
            return None
        takes = negotiate_parameters(question.asked.settings, found.target, self.models.catalog)
        fits = all(one.action not in (*_WRONG, "invalid") for one in takes)
        return found.target if fits else None


def _remembered(memory: dict[_Broken, P], key: _Broken, make: Callable[[], P]) -> P:
    if key not in memory:
        if len(memory) >= MOST_REMEMBERED:
            memory.clear()
        memory[key] = make()
    return memory[key]


def _falls_back(question: PlanKey, workload: Workload | None) -> bool:
    """Tell whether another model may be asked where the first cannot do it."""
    declared = workload is not None and "capability" in workload.fallback_on
    return declared and question.policy.fallback


def _known_or_missing(finding: Finding, checked: set[str]) -> Finding:
    if finding.outcome != "probe-pending" or finding.reason != "unknown":
        return finding
    if finding.need.level != "hard" or finding.capability not in checked:
        return finding
    if finding.capability == "context-window":
        return finding
    return msgspec.structs.replace(finding, outcome="missing")


def _writes_only_vectors(resolution: Resolution) -> bool:
    return (
        resolution.claim("text-output").support == "unsupported"
        and resolution.claim("embedding-output").support == "native"
    )


def _labelled(finding: Finding) -> bool:
    return finding.outcome == "met" and bool(finding.label)


def _missing(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (plan.diagnostic or {}).get("missing", [])
    return found


def _limit(resolution: Resolution, name: str) -> int | None:
    claim = resolution.claim(name)
    return claim.value if claim.known and isinstance(claim.value, int) else None
