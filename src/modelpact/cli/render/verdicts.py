"""Verdicts for people: the table and the diagnosis that a colleague understands."""

import click

from modelpact.cli.render.tables import paint, table
from modelpact.negotiation.formats import MARKS, claim_text, evidence_text
from modelpact.negotiation.verdict import Diagnostic, Finding, Verdict

_COLOURS = {
    "met": "green",
    "emulated": "yellow",
    "missing": "red",
    "preferred-unmet": "yellow",
    "probe-pending": "yellow",
}
_ANSWERS = {
    "yes": ("fits", "green"),
    "labelled": ("fits, with labels", "yellow"),
    "no": ("does not fit", "red"),
}


def print_verdict(verdict: Verdict, diagnostic: Diagnostic | None, title: str = "") -> None:
    """Print a verdict's findings and what to do about them."""
    words, colour = _ANSWERS[verdict.answer]
    head = f"{title}: {verdict.target}" if title else verdict.target
    click.echo(f"{paint(head, 'bold')} {paint(words, colour, 'bold')}")
    rows = [
        (
            "  " + paint(MARKS[one.outcome], _COLOURS[one.outcome]),
            str(one.need),
            claim_text(one.claim),
            paint(evidence_text(one.claim), "dim"),
            _note(one),
        )
        for one in verdict.findings
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
        suggested = paint(diagnostic.suggestion, "cyan")
        click.echo(f"  Suggestion: {suggested} meets every need that is hard.")
    elif not verdict.ok:
        click.echo("  No model in the catalog is known to meet all of these needs.")


def _note(one: Finding) -> str:
    if one.outcome == "met":
        return "" if one.label.startswith("restricted") else one.label
    text = f"emulated by us: {one.label}" if one.outcome == "emulated" else one.sentence()
    if one.outcome == "missing" and one.label:
        text += f"; emulation could help: {one.label}"
    return text
