"""Verdicts: the result of a negotiation, with one finding for each need, and their formats."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.needs.need import Need
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from weakref import ref

    from modelpact.catalog.catalog import Catalog

Outcome = Literal["met", "emulated", "missing", "preferred-unmet", "probe-pending"]
Reason = Literal["", "unsupported", "unknown", "below-minimum", "below-support", "conflict", "probed"]
Answer = Literal["yes", "labelled", "no"]
UnknownRule = Literal["refuse", "probe"]
"""For a need that nobody knows to be met: refuse it, or accept it with a warning."""
MARKS = {"met": "✓", "emulated": "≈", "missing": "✗", "preferred-unmet": "!", "probe-pending": "?"}
"""The mark of each outcome in tables."""


class PolicySettings(msgspec.Struct, frozen=True):
    """The policy that a configuration or a session sets."""

    unknown: UnknownRule = "refuse"
    """The rule for declared needs that are unknown."""
    emulate: bool = False
    """Whether modelpact emulates what a model lacks, where it can."""
    unsupported_params: Literal["refuse", "drop"] = "refuse"
    """What to do with parameters that do not apply to the model."""

    def __post_init__(self) -> None:
        if (
            self.unknown not in ("refuse", "probe")
            or not isinstance(self.emulate, bool)
            or self.unsupported_params not in ("refuse", "drop")
        ):
            raise InputError(
                "policy: unknown is refuse or probe, emulate true or false, unsupported_params refuse or drop"
            )


class Policy(PolicySettings, frozen=True):
    """What to do about needs that are unknown or not met, in one negotiation.

    The additional fields are for requests through the gateway; a request header can change them.
    """

    unknown_in_request: UnknownRule = "probe"
    """The rule for unknown needs that were read off a request and are not declared."""
    fallback: bool = True
    """Whether the declared fallback may answer."""
    lossy: bool = False
    """Whether a request may be sent without the parts that the provider's API cannot express."""

    def __post_init__(self) -> None:
        PolicySettings.__post_init__(self)
        if (
            self.unknown_in_request not in ("refuse", "probe")
            or not isinstance(self.fallback, bool)
            or not isinstance(self.lossy, bool)
        ):
            raise InputError("policy: unknown_in_request is refuse or probe, fallback and lossy true or false")

    @classmethod
    def of(cls, settings: PolicySettings) -> "Policy":
        """Return the policy that some settings describe, with the defaults for requests."""
        return cls(settings.unknown, settings.emulate, settings.unsupported_params)

    @property
    def settings(self) -> PolicySettings:
        """The part that a configuration or a session can set."""
        return PolicySettings(self.unknown, self.emulate, self.unsupported_params)


DEFAULT_POLICY: Final = Policy()


class Finding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result for one need.

    If the need is met, but not natively, `label` says how. If it is missing, `label` says how
    emulation would meet it. `conflicts` are the capabilities that exclude it on this model.
    """

    need: Need
    claim: Claim
    outcome: Outcome
    reason: Reason = ""
    label: str = ""
    conflicts: tuple[str, ...] = ()

    @property
    def capability(self) -> str:
        """The capability that the finding is about."""
        return self.need.capability

    def sentence(self) -> str:
        """Explain the finding in words that follow the name of the capability."""
        claim, need = self.claim, self.need
        if self.reason == "conflict":
            return f"cannot be had together with {' and '.join(self.conflicts)} on this model"
        if self.reason == "below-minimum":
            return f"has {format_value(claim.value)}, needs {format_value(need.minimum)}"
        if self.reason == "below-support":
            detail = f": {claim.reason}" if claim.reason else ""
            return f"is only {claim.support}{detail}; the need asks for {need.min_support}"
        if self.reason == "unsupported":
            return "is not supported" + (f" ({claim.reason})" if claim.reason else "")
        if self.reason == "unknown":
            if claim.assumed is None:
                return "is not known of this model"
            assumed = format_value(claim.value) if claim.value is not None else claim.assumed
            return f"is not known of this model; {assumed} is only assumed"
        if self.reason == "probed":
            return "is checked when it is used"
        return self.label or "is met"


class ParamAffected(msgspec.Struct, frozen=True, rename="camel"):
    """A parameter that does not apply on the destination model. The value is redacted."""

    param_path: tuple[str, ...]
    reason: str
    active_model_id: str
    current_value: Any
    source_layer: Literal["defaultParams", "launch", "/params"]


class Missing(msgspec.Struct, frozen=True, rename="camel"):
    """A capability that the target lacks, and what requires it."""

    capability: str
    required_by: tuple[str, ...]
    reason: str
    message: str = ""


class Diagnostic(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request or a switch was refused or carries warnings, and what would help."""

    target: str
    missing: tuple[Missing, ...]
    previous: str | None = None
    suggestion: str | None = None
    params_affected: tuple[ParamAffected, ...] = ()
    untranslatable: str = ""
    """The parts of a request that the provider's API cannot express."""
    would_help: tuple[str, ...] = ()
    """The changes of policy or configuration under which a refused request would be served."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The finding for every merged need, and whether all hard needs are met."""

    target: str
    findings: tuple[Finding, ...]
    ok: bool
    notes: tuple[str, ...] = ()
    """Facts about the model itself, such as that no catalog lists it or that it is retired."""
    policy: Policy = DEFAULT_POLICY
    """The policy under which the needs were negotiated."""
    catalog_ref: "ref[Catalog] | None" = None
    """The catalog that resolved the target, weakly: catalogs keep verdicts, so that a strong
    reference would be a cycle. None stands for the default catalog."""

    def __bool__(self) -> bool:
        return self.ok

    @property
    def answer(self) -> Answer:
        """`yes`, `labelled` (yes, with differences that the labels name) or `no`."""
        if not self.ok:
            return "no"
        plain = all(finding.outcome == "met" and not finding.label for finding in self.findings)
        return "yes" if plain and not self.notes else "labelled"

    @property
    def missing(self) -> tuple[Finding, ...]:
        """The hard needs that are not met."""
        return tuple(finding for finding in self.findings if finding.outcome == "missing")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Preferred needs that are not met, and needs that only use will decide."""
        return tuple(finding for finding in self.findings if finding.outcome in ("preferred-unmet", "probe-pending"))

    @property
    def emulated(self) -> tuple[Finding, ...]:
        """The needs that modelpact will meet by emulation."""
        return tuple(finding for finding in self.findings if finding.outcome == "emulated")

    @property
    def diagnostic(self) -> Diagnostic | None:
        """What `diagnose(verdict)` returns: why the verdict is a no or has warnings, or None.

        It is computed when it is read, because it searches the catalog for a suggestion.
        """
        from modelpact.negotiation.diagnosis import diagnose

        catalog = None if self.catalog_ref is None else self.catalog_ref()
        return diagnose(self, policy=self.policy, catalog=catalog)


def format_value(value: object) -> str:
    """Format a value for people, with separators of thousands in numbers."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "nothing" if value is None else str(value)


def one_line(verdict: Verdict) -> str:
    """Summarize a verdict in one line."""
    if verdict.answer == "yes":
        count = len(verdict.findings)
        return f"{verdict.target}: yes, {count} of {count} needs met"
    if verdict.ok:
        parts = [
            f"{finding.capability} {_explanation(finding)}"
            for finding in verdict.findings
            if not _is_plainly_met(finding)
        ]
        parts += verdict.notes
        return f"{verdict.target}: yes, with labels: {'; '.join(parts)}"
    parts = [f"{finding.capability} {finding.sentence()}{_requirers(finding)}" for finding in verdict.missing]
    return f"{verdict.target}: no: {'; '.join(parts)}"


def markdown(verdict: Verdict, diagnostic: Diagnostic | None = None) -> str:
    """Write a verdict as a Markdown section with a table."""
    words = {"yes": "fits", "labelled": "fits, with labels", "no": "does not fit"}
    lines = [
        f"### `{verdict.target}` {words[verdict.answer]}",
        "",
        "| | need | level | claim | evidence | finding |",
        "|---|---|---|---|---|---|",
    ]
    for finding in verdict.findings:
        cells = (
            MARKS[finding.outcome],
            f"`{finding.need}`",
            finding.need.level,
            claim_text(finding.claim),
            evidence_text(finding.claim),
            "met" if _is_plainly_met(finding) else _explanation(finding),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [part for note in verdict.notes for part in ("", f"Note: {note}.")]
    if diagnostic is not None and diagnostic.suggestion:
        lines += ["", f"Suggestion: `{diagnostic.suggestion}` meets every hard need."]
    if diagnostic is not None and diagnostic.params_affected:
        lines += ["", "Parameters that will not apply:", ""]
        for param in diagnostic.params_affected:
            lines.append(f"- `{'.'.join(param.param_path)}`: {param.reason}")
    return "\n".join(lines) + "\n"


def verdict_data(verdict: Verdict, diagnostic: Diagnostic | None = None) -> dict[str, Any]:
    """Return a verdict as plain data for JSON."""
    data: dict[str, Any] = {
        "target": verdict.target,
        "answer": verdict.answer,
        "ok": verdict.ok,
        "notes": list(verdict.notes),
        "findings": [
            {
                "need": str(finding.need),
                "capability": finding.capability,
                "level": finding.need.level,
                "requiredBy": list(finding.need.required_by),
                "outcome": finding.outcome,
                "reason": finding.reason,
                "label": finding.label,
                "conflicts": list(finding.conflicts),
                "claim": msgspec.to_builtins(finding.claim),
            }
            for finding in verdict.findings
        ],
    }
    if diagnostic is not None:
        data["diagnostic"] = diagnostic_data(diagnostic)
    return data


def diagnostic_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as `--json` prints it."""
    data: dict[str, Any] = msgspec.to_builtins(diagnostic)
    data["missing"] = missing_data(diagnostic.missing)
    for request_field in ("untranslatable", "wouldHelp"):
        del data[request_field]
    return data


def missing_data(missing: Iterable[Missing]) -> list[dict[str, Any]]:
    """Return missing capabilities as plain data for JSON: the one list for every format.

    `stud.missing_json` writes it with the names of that dialect.
    """
    return [
        {
            "capability": item.capability,
            "requiredBy": list(item.required_by),
            "reason": item.reason,
            "message": item.message,
        }
        for item in missing
    ]


def claim_text(claim: Claim) -> str:
    """Describe a claim in a few words."""
    if claim.support == "unknown":
        if claim.assumed is None:
            return "unknown"
        value = f" {format_value(claim.value)}" if claim.value is not None else f" {claim.assumed}"
        return f"unknown (assumed{value})"
    if claim.value is not None and claim.support == "native":
        return format_value(claim.value)
    if claim.reason and claim.support != "unsupported":
        return f"{claim.support}: {claim.reason}"
    return claim.support


def evidence_text(claim: Claim) -> str:
    """Describe the evidence of a claim in a few words."""
    evidence = claim.evidence
    if evidence is None:
        return "no evidence"
    if evidence.layer == "derived":
        return evidence.rule + (", disputed" if evidence.disputed else "")
    if evidence.votes:
        lineages = " ".join(dict.fromkeys(vote.lineage for vote in evidence.votes))
        model = f" on {evidence.rule}" if evidence.layer == "family" else ""
        disputed = ", disputed" if evidence.disputed else ""
        return f"{lineages}{model}{disputed}"
    return {
        "rule": f"rule “{evidence.rule}”",
        "correction": f"correction “{evidence.rule}”",
        "defaults": "defaults only",
        "overlay": f"your {evidence.source}",
        "evidence": f"{evidence.rule} on {evidence.date}",
    }.get(evidence.layer, evidence.rule or evidence.layer)


def _is_plainly_met(finding: Finding) -> bool:
    return finding.outcome == "met" and not finding.label


def _explanation(finding: Finding) -> str:
    if finding.outcome == "emulated":
        return f"emulated by us: {finding.label}"
    if finding.outcome == "met":
        return finding.label or "met"
    text = finding.sentence()
    if finding.outcome == "missing" and finding.label:
        text += f"; emulation could help: {finding.label}"
    return text


def _requirers(finding: Finding) -> str:
    names = finding.need.required_by
    return f" (required by {', '.join(names)})" if names else ""
