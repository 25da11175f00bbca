"""Formats of a verdict: one line, Markdown, and plain data for JSON."""

from typing import Any

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.negotiation.verdict import Diagnostic, Finding, Verdict, format_value

MARKS = {"met": "✓", "emulated": "≈", "missing": "✗", "preferred-unmet": "!", "probe-pending": "?"}


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
    parts = [
        f"{finding.capability} {finding.sentence()}{_requirers(finding)}"
        for finding in verdict.missing
    ]
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
    for request_field in ("untranslatable", "wouldHelp"):
        del data[request_field]
    return data


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
