"""Prints verdicts: a table of the findings, and what to do about the misses."""

from typing import Final

import click

from modelpact.cli.render.tables import table
from modelpact.cli.render.terminal import paint
from modelpact.negotiation.formats import MARKS, claim_text, evidence_text
from modelpact.negotiation.verdict import Diagnostic, Finding, Verdict

_OUTCOME_COLOURS: Final = {
    "met": "green",
    "emulated": "yellow",
    "missing": "red",
    "preferred-unmet": "yellow",
    "probe-pending": "yellow",
}
_ANSWERS: Final = {
    "yes": ("fits", "green"),
    "labelled": ("fits, with labels", "yellow"),
    "no": ("does not fit", "red"),
}


def print_verdict(verdict: Verdict, diagnostic: Diagnostic | None, title: str = "") -> None:
    """Print the findings of a verdict, its notes, and a suggestion if there is one."""
    answer, colour = _ANSWERS[verdict.answer]
    head = f"{title}: {verdict.target}" if title else verdict.target
    click.echo(f"{paint(head, 'bold')} {paint(answer, colour, 'bold')}")
    rows = [
        (
            "  " + paint(MARKS[finding.outcome], _OUTCOME_COLOURS[finding.outcome]),
            str(finding.need),
            claim_text(finding.claim),
            paint(evidence_text(finding.claim), "dim"),
            _note(finding),
        )
        for finding in verdict.findings
    ]
    if rows:
        click.echo(table(rows, ("", "need", "claim", "how we know", "")))
    for note in verdict.notes:
        click.echo(f"  {paint('!', 'yellow')} {note}")
    if diagnostic is None:
        return
    for param in diagnostic.params_affected:
        click.echo(f"  {paint('!', 'yellow')} {'.'.join(param.param_path)}: {param.reason}")
    if diagnostic.suggestion:
        suggestion = paint(diagnostic.suggestion, "cyan")
        click.echo(f"  Suggestion: {suggestion} meets every hard need.")
    elif not verdict.ok:
        click.echo("  No model in the catalog is known to meet all of these needs.")


def _note(finding: Finding) -> str:
    if finding.outcome == "met":
        return "" if finding.label.startswith("restricted") else finding.label
    if finding.outcome == "emulated":
        return f"emulated by us: {finding.label}"
    note = finding.sentence()
    if finding.outcome == "missing" and finding.label:
        note += f"; emulation could help: {finding.label}"
    return note
