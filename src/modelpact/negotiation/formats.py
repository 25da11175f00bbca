"""Reports: a verdict as one line, as Markdown, and as plain data."""

from typing import Any

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.negotiation.verdict import Diagnostic, Finding, Verdict, shown

MARKS = {
    "met": "✓",
    "emulated": "≈",
    "missing": "✗",
    "preferred-unmet": "!",
    "probe-pending": "?",
}


def one_line(verdict: Verdict) -> str:
    """Sum a verdict up in a line."""
    if verdict.answer == "yes":
        count = len(verdict.findings)
        return f"{verdict.target}: yes, {count} of {count} needs met"
    if verdict.ok:
        parts = [f"{one.capability} {_why(one)}" for one in verdict.findings if not _plain(one)]
        parts += verdict.notes
        return f"{verdict.target}: yes, with labels: {'; '.join(parts)}"
    parts = [f"{one.capability} {one.sentence()}{_for_whom(one)}" for one in verdict.missing]
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
    for one in verdict.findings:
        cells = (
            MARKS[one.outcome],
            f"`{one.need}`",
            one.need.level,
            claim_text(one.claim),
            evidence_text(one.claim),
            _why(one) if not _plain(one) else "met",
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
                "need": str(one.need),
                "capability": one.capability,
                "level": one.need.level,
                "requiredBy": list(one.need.required_by),
                "outcome": one.outcome,
                "reason": one.reason,
                "label": one.label,
                "conflicts": list(one.conflicts),
                "claim": msgspec.to_builtins(one.claim),
            }
            for one in verdict.findings
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
    """Write a claim in a few words."""
    if claim.support == "unknown":
        if claim.assumed is None:
            return "unknown"
        value = f" {shown(claim.value)}" if claim.value is not None else f" {claim.assumed}"
        return f"unknown (assumed{value})"
    if claim.value is not None and claim.support == "native":
        return shown(claim.value)
    if claim.reason and claim.support != "unsupported":
        return f"{claim.support}: {claim.reason}"
    return claim.support


def evidence_text(claim: Claim) -> str:
    """Say how a claim is known, in a few words."""
    evidence = claim.evidence
    if evidence is None:
        return "nothing says"
    if evidence.layer == "derived":
        return evidence.rule + (", disputed" if evidence.disputed else "")
    if evidence.votes:
        said = " ".join(dict.fromkeys(vote.lineage for vote in evidence.votes))
        whose = f" on {evidence.rule}" if evidence.layer == "family" else ""
        disputed = ", disputed" if evidence.disputed else ""
        return f"{said}{whose}{disputed}"
    return {
        "rule": f"rule “{evidence.rule}”",
        "correction": f"correction “{evidence.rule}”",
        "defaults": "defaults only",
        "overlay": f"your {evidence.source}",
        "evidence": f"{evidence.rule} on {evidence.date}",
    }.get(evidence.layer, evidence.rule or evidence.layer)


def _plain(one: Finding) -> bool:
    return one.outcome == "met" and not one.label


def _why(one: Finding) -> str:
    if one.outcome == "emulated":
        return f"emulated by us: {one.label}"
    if one.outcome == "met":
        return one.label or "met"
    text = one.sentence()
    if one.outcome == "missing" and one.label:
        text += f"; emulation could help: {one.label}"
    return text


def _for_whom(one: Finding) -> str:
    return f" (required by {', '.join(one.need.required_by)})" if one.need.required_by else ""
