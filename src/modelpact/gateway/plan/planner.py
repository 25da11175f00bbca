"""The planner: one plan for all requests with the same key.

Where a model lacks something, the planner emulates it if the policy says so, else uses the declared
fallback, else refuses. A refusal says when emulation or a fallback would have helped.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from modelpact.catalog.provider import Api
from modelpact.catalog.resolution import Resolution
from modelpact.configuration.config import Configuration, Workload
from modelpact.conversation.anthropic import DEFAULT_MAX_TOKENS
from modelpact.emulation.emulator import emulator_strategies
from modelpact.gateway.plan.model_names import ModelDirectory, ModelNameResolver, ResolvedName
from modelpact.gateway.plan.plan import Plan, PlanKey, configured_policy
from modelpact.gateway.plan.sizing import encoding_of
from modelpact.needs.need import Needs, need
from modelpact.needs.requests import CACHE_MARKER, RequestFeatures
from modelpact.needs.token_estimate import OUTPUT_LIMITS
from modelpact.negotiation.negotiate import NO_NEEDS, decide, model_notes
from modelpact.negotiation.parameters import ParamFinding, negotiate_parameters
from modelpact.negotiation.search import suggest
from modelpact.negotiation.verdict import Diagnostic, Missing, Policy, Verdict
from modelpact.vocabulary.memo import BoundedMemo

_PROFILES: Final = {"openai": "openai", "anthropic": "anthropic", "gemini": "gemini"}
"""The profiles of the schema linter, by the provider whose servers they describe."""
_MAX_RULES_NAMED: Final = 5
_INAPPLICABLE: Final = ("unsupported", "conflict")
_TRANSLATED_APIS: Final = ("openai-chat", "anthropic", "openai-responses")
_TEXT_OUTPUT: Final = {
    api: Needs([need("text-output", required_by=(f"request: {place}",))])
    for api, place in (("openai-chat", "messages"), ("anthropic", "messages"), ("openai-responses", "input"))
}
"""The need for text output, by API, and the field of the request that implies it.

The planner adds it for embedding models only. It must not refuse an image or speech model, which
the same APIs serve, nor a model whose output is unknown, which most likely writes text.
"""

_SchemaKey = tuple[PlanKey, tuple[str, ...]]
"""A plan key, and the rules that the schema of the request breaks."""


class Planner:
    """Makes plans for one configuration and catalog. When either changes, make a new planner."""

    def __init__(self, configuration: Configuration, models: ModelDirectory) -> None:
        self.configuration = configuration
        self.models = models
        self.names = ModelNameResolver(configuration, models)
        self.policy = configured_policy(configuration, configuration.policy)
        """The policy of requests without a workload or a header."""
        self._supported = models.supported_providers()
        self._plans: BoundedMemo[PlanKey, Plan] = BoundedMemo()
        self._warned_plans: BoundedMemo[_SchemaKey, Plan] = BoundedMemo()
        self._schema_fallbacks: BoundedMemo[_SchemaKey, Plan | None] = BoundedMemo()

    def workload_policy(self, name: str) -> Policy:
        """Return the policy of requests for a workload."""
        workload = self.configuration.workloads.get(name)
        if workload is None or workload.policy is None:
            return self.policy
        return configured_policy(self.configuration, workload.policy)

    def plan(self, key: PlanKey) -> Plan:
        """Return the plan for a key."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(key).with_head()
        return plan

    def oversize_plan(self, key: PlanKey, limits: Needs) -> Plan:
        """Return the plan for a request that is longer than its model accepts."""
        return self._make(key, limits).with_head()

    def with_schema_warning(self, key: PlanKey, plan: Plan, rules: tuple[str, ...]) -> Plan:
        """Return a plan with a warning that the request's schema breaks rules of the vendor."""

        def warned() -> Plan:
            problem = _describe_broken_rules(plan.profile, rules)
            where = f"`modelpact lint --for {plan.profile}` says where"
            warnings = (*plan.warnings, f"structured-output: {problem}; {where}")
            return msgspec.structs.replace(plan, verdict="labelled", warnings=warnings).with_head()

        return self._warned_plans.get_or_compute((key, rules), warned)

    def schema_fallback(self, key: PlanKey, plan: Plan, rules: tuple[str, ...]) -> Plan | None:
        """Return the plan on the declared fallback for such a schema, or None without one."""
        if plan.substituted_for or not _may_fall_back(key, plan.workload):
            return None

        def fallback() -> Plan | None:
            return self.fallback_plan(key, _describe_broken_rules(plan.profile, rules))

        return self._schema_fallbacks.get_or_compute((key, rules), fallback)

    def fallback_plan(self, key: PlanKey, reason: str, limits: Needs = NO_NEEDS) -> Plan | None:
        """Return the plan on the declared fallback, or None if it cannot serve the request.

        `reason` says why the fallback is called.
        """
        resolved = self.names.resolve(key.name, key.workload)
        workload = resolved.workload
        if workload is None or workload.fallback is None:
            return None
        fallback = ResolvedName(*self.models.catalog.split(workload.fallback), workload)
        if not self.models.can_authenticate(fallback.provider):
            return None
        plan = self._plan_on(fallback, key, limits)
        if plan.action == "refuse":
            return None
        return msgspec.structs.replace(
            plan, verdict="labelled", substituted_for=resolved.target, substitution_reason=reason
        ).with_head()

    def _make(self, key: PlanKey, limits: Needs = NO_NEEDS) -> Plan:
        resolved = self.names.resolve(key.name, key.workload)
        plan = self._plan_on(resolved, key, limits)
        if plan.diagnostic is None or not _may_fall_back(key, resolved.workload):
            return plan
        reason = f"it lacks {', '.join(item.capability for item in plan.diagnostic.missing)}"
        return self.fallback_plan(key, reason, limits) or plan

    def _plan_on(self, resolved: ResolvedName, key: PlanKey, limits: Needs) -> Plan:
        """Negotiate a request with one model, and return the plan that follows."""
        features, policy = key.features, key.policy
        api = self._provider_api(resolved.provider, features)
        resolution = self.models.catalog.resolve(resolved.provider, resolved.model, api)
        verdict = self._negotiate(resolved, key, resolution, limits)
        params = negotiate_parameters(features.settings, resolution)
        inapplicable = [param for param in params if param.action in _INAPPLICABLE]
        refused = [param for param in params if param.action == "invalid"]
        dropped: list[ParamFinding] = []
        if policy.unsupported_params == "drop":
            dropped = inapplicable
        else:
            refused += inapplicable
        if not verdict.ok or refused:
            return self._refuse(resolved, key, verdict, refused)
        emulate = tuple((finding.capability, finding.label) for finding in verdict.emulated)
        same_api = features.api == api or (features.api == "embeddings" and api == "openai-chat")
        forward = same_api and not emulate
        api_translation = "" if same_api or api == "mock" else f"{features.api} -> {api}"
        drops = [".".join(param.path) for param in dropped]
        if api_translation and api != "anthropic" and CACHE_MARKER in features.uses:
            drops.append(CACHE_MARKER[1])
        warnings = _warnings(verdict, params)
        labelled = warnings or emulate or dropped or api_translation or verdict.answer == "labelled"
        max_output = _limit(resolution, "max-output")
        added: tuple[tuple[str, int], ...] = ()
        if api == "anthropic" and not same_api and not _limits_output(features, dropped):
            added = (("max_tokens", max_output or DEFAULT_MAX_TOKENS),)
        listed = self.models.catalog.find_provider(resolved.provider)
        return Plan(
            "forward" if forward else "carry",
            "labelled" if labelled else "yes",
            key.name,
            resolved.provider,
            resolved.model,
            api,
            emulate,
            api_translation=api_translation,
            renames=_renames(params) if forward else (),
            drops=tuple(drops),
            added=added,
            warnings=warnings,
            context_window=_limit(resolution, "context-window"),
            max_output=max_output,
            encoding=self._encoding(resolved),
            profile=self._schema_profile(resolved.provider, features, emulate),
            price=resolution.price,
            policy=policy,
            workload=resolved.workload,
            provider_kind=resolved.provider if listed is None else listed.id,
        )

    def _negotiate(self, resolved: ResolvedName, key: PlanKey, resolution: Resolution, limits: Needs) -> Verdict:
        """Negotiate the declared needs and those of the request together."""
        declared = NO_NEEDS if resolved.workload is None else resolved.workload.needs
        requested = key.features.needs
        if limits:
            requested = requested + limits
        if key.features.api != "embeddings" and _is_embedding_model(resolution):
            requested = requested + _TEXT_OUTPUT[key.features.api]
        verdict = decide(declared, resolution, key.policy, emulator_strategies(), requested=requested)
        # A model that no catalog lists, or that is retired, is never a plain yes.
        notes = model_notes(resolution, self.models.catalog)
        return msgspec.structs.replace(verdict, notes=notes) if notes else verdict

    def _refuse(self, resolved: ResolvedName, key: PlanKey, verdict: Verdict, params: list[ParamFinding]) -> Plan:
        suggestion = self._suggest(resolved, key, verdict, params)
        would_help = _helpful_changes(key.policy, resolved.workload, verdict, params)
        if suggestion and not self.models.can_authenticate(suggestion.partition("/")[0]):
            would_help += (f"a key for {suggestion} on this gateway",)
        missing = _missing_items(verdict, params)
        return Plan(
            "refuse",
            "no",
            key.name,
            diagnostic=Diagnostic(verdict.target, missing, suggestion=suggestion, would_help=would_help),
            encoding=self._encoding(resolved),
            policy=key.policy,
            workload=resolved.workload,
        )

    def _suggest(
        self, resolved: ResolvedName, key: PlanKey, verdict: Verdict, params: list[ParamFinding]
    ) -> str | None:
        """Return a model that meets all needs and accepts all parameters, or None."""
        lacking = [need(param.capability) for param in params if param.action == "unsupported"]
        needs = Needs([*(finding.need for finding in verdict.findings), *lacking])
        usable = [name for name in self._supported if self.models.can_authenticate(name)]
        catalog = self.models.catalog
        suggestion = suggest(
            needs,
            prefer_provider=resolved.target.partition("/")[0],
            exclude=(resolved.target,),
            catalog=catalog,
            available_providers=usable,
        )
        if suggestion is None:
            return None
        findings = negotiate_parameters(key.features.settings, suggestion.target, catalog)
        accepted = all(param.action not in (*_INAPPLICABLE, "invalid") for param in findings)
        return suggestion.target if accepted else None

    def _schema_profile(self, provider: str, features: RequestFeatures, emulate: tuple[tuple[str, str], ...]) -> str:
        """Return the linter profile for a request whose schema the provider itself enforces."""
        if all(name != "structured-output" for name, _ in features.uses):
            return ""
        listed = self.models.catalog.find_provider(provider)
        if listed is None or any(name == "structured-output" for name, _ in emulate):
            return ""
        return _PROFILES.get(listed.id, "")

    def _encoding(self, resolved: ResolvedName) -> str:
        family = self.models.catalog.names.family(resolved.model)
        return encoding_of(family, resolved.provider)

    def _provider_api(self, provider: str, features: RequestFeatures) -> Api:
        """Return the API to call the provider with: the client's own where the provider has it."""
        listed = self.models.catalog.find_provider(provider)
        apis: Sequence[Api] = ("mock",) if listed is None else listed.apis
        if provider in self.models.ports or "mock" in apis:
            return "mock"
        if features.api in apis:
            return features.api  # type: ignore[return-value]
        return next((api for api in apis if api in _TRANSLATED_APIS), apis[0])


def _may_fall_back(key: PlanKey, workload: Workload | None) -> bool:
    """Tell whether the fallback may be called if the first model lacks a capability."""
    declared = workload is not None and "capability" in workload.fallback_on
    return declared and key.policy.fallback


def _missing_items(verdict: Verdict, params: Sequence[ParamFinding]) -> tuple[Missing, ...]:
    """Return every capability that a refusal lacks, what requires it, and why it is missing."""
    capabilities = (
        Missing(
            finding.capability, finding.need.required_by, finding.reason, f"{finding.capability} {finding.sentence()}"
        )
        for finding in verdict.missing
    )
    parameters = (
        Missing(param.capability, (f"request: {'.'.join(param.path)}",), param.action, param.reason) for param in params
    )
    return (*capabilities, *parameters)


def _helpful_changes(
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


def _describe_broken_rules(profile: str, rules: tuple[str, ...]) -> str:
    """Say which rules of a vendor a schema breaks."""
    named = ", ".join(rules[:_MAX_RULES_NAMED])
    more = f" and {len(rules) - _MAX_RULES_NAMED} more" if len(rules) > _MAX_RULES_NAMED else ""
    return f"the schema breaks rules of {profile}: {named}{more}"


def _warnings(verdict: Verdict, params: Sequence[ParamFinding]) -> tuple[str, ...]:
    return (
        *(f"{finding.capability} {finding.sentence()}" for finding in verdict.warnings),
        *(
            f"{finding.capability}: {finding.label}"
            for finding in verdict.findings
            if finding.outcome == "met" and finding.label
        ),
        *(f"{'.'.join(param.path)}: {param.reason}" for param in params if param.action == "unknown"),
        *verdict.notes,
    )


def _renames(params: Sequence[ParamFinding]) -> tuple[tuple[str, str], ...]:
    return tuple((param.path[0], param.rename_to) for param in params if param.action == "rename")


def _limits_output(features: RequestFeatures, dropped: Sequence[ParamFinding]) -> bool:
    """Tell whether a request still limits its output without its dropped parameters."""
    without = {param.path[0] for param in dropped}
    return any(name in OUTPUT_LIMITS and name not in without for name, _ in features.params)


def _is_embedding_model(resolution: Resolution) -> bool:
    """Tell whether a model is known to produce embeddings and no text."""
    return (
        resolution.claim("text-output").support == "unsupported"
        and resolution.claim("embedding-output").support == "native"
    )


def _limit(resolution: Resolution, name: str) -> int | None:
    claim = resolution.claim(name)
    return claim.value if claim.known and isinstance(claim.value, int) else None
