"""How events, envelopes and reports are shown to people and programs."""

import json
from typing import Any

import click
import msgspec

from modelpact.cli.render.tables import clip, paint, table
from modelpact.cli.times import show_time
from modelpact.ledger.event import Event
from modelpact.ledger.reader import Envelope
from modelpact.ledger.verify.report import TableReport, VerifyReport

_COLOURS = {"failed": "red", "flagged": "red", "cancelled": "yellow", "rejected": "yellow"}


def visible(text: str, keep: str = "\n") -> str:
    """Return a text with nothing in it that a terminal would obey, but for what is to be kept."""
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode()
        for one in text
    )


def one_line(text: str) -> str:
    """Return a text as it may stand in a line of ours: it makes none of its own."""
    return visible(text).replace("\n", "\\n")


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as an export has it; its time is nanoseconds, as a text."""
    fields = msgspec.structs.asdict(event)
    return {"id": event.id, **fields, "time": str(event.time)}


def event_rows(events: list[Event]) -> str:
    """Return events, a line each."""
    return table([event_row(event) for event in events])


def event_row(event: Event) -> tuple[str, ...]:
    """Return the cells of an event."""
    colour = _COLOURS.get(event.type.rpartition(".")[2], "cyan")
    payload = json.dumps(event.payload, ensure_ascii=False)
    return (
        paint(show_time(event.time), "dim"),
        one_line(event.id),
        paint(one_line(event.type), colour),
        visible(clip(payload, 60)),
    )


def print_event(event: Event) -> None:
    """Print everything of an event."""
    pairs = [
        ("event", paint(one_line(event.id), "bold")),
        ("type", one_line(event.type)),
        ("time", f"{show_time(event.time)} UTC"),
        ("caused by", one_line(event.cause or "nothing: it is an origin")),
        ("hash", one_line(event.hash)),
        ("previous", one_line(event.previous)),
    ]
    click.echo(table(pairs))
    click.echo(visible(json.dumps(event.payload, indent=2, ensure_ascii=False)))


def print_why(events: list[Event]) -> None:
    """Print an event and what caused it, back to the origin."""
    click.echo("\n".join(why_lines(events)))


def why_lines(events: list[Event]) -> list[str]:
    """Return an event and what caused it, back to the origin, a line each."""
    lines = []
    for depth, event in enumerate(events):
        arrow = "" if depth == 0 else "   " * (depth - 1) + "└─ because of "
        lines.append(arrow + "  ".join(event_row(event)[1:]))
    missing = events[-1].cause
    if missing is not None:
        said = (
            "is not in this ledger" if all(missing != one.id for one in events) else "comes again"
        )
        lines.append(paint(f"{one_line(missing)}, which caused that, {said}.", "yellow"))
    return lines


def print_envelopes(envelopes: list[Envelope]) -> None:
    """Print envelopes, a line each."""
    rows = [
        (
            one_line(one.id),
            one_line(one.kind) or "–",
            one_line(one.subject) or "–",
            f"{one.events:,}",
            paint(show_time(one.latest), "dim"),
            "archived" if one.archived is not None else "",
        )
        for one in envelopes
    ]
    click.echo(table(rows, ("envelope", "kind", "subject", "events", "latest", ""), right=[3]))


def report_json(report: VerifyReport | TableReport, source: str) -> dict[str, Any]:
    """Return a report for programs."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return {"source": source, "ok": report.ok, **fields}


def report_line(report: VerifyReport | TableReport, source: str) -> str:
    """Return a report for people, in a line or two."""
    name = one_line(source)
    broken = report.broken
    if broken is None:
        said = _table_line(report) if isinstance(report, TableReport) else _envelope_line(report)
        return f"{paint('✓', 'green')} {name}: {said}"
    where = f"{one_line(broken.event)}: " if broken.event else ""
    line = f"line {broken.line}: " if broken.line else ""
    lines = [
        f"{paint('✗', 'red')} {name}: {where}{paint(broken.kind, 'red')}",
        f"  {line}{one_line(broken.message)}",
    ]
    if isinstance(report, VerifyReport):
        lines.append(f"  {report.events:,} events before it hold")
    return "\n".join(lines)


def _table_line(report: TableReport) -> str:
    archived = f"; {report.unproven:,} rest on archives that are not here"
    return f"{report.rows:,} rows agree with the events{archived if report.unproven else ''}"


def _envelope_line(report: VerifyReport) -> str:
    if not report.checkpoints:
        vouched = "holds together; nobody has signed it"
    else:
        rest = report.events - report.signed
        whose = one_line(", ".join(report.keys))
        vouched = f"signed to event {report.signed:,} by {whose}"
        vouched += f"; {rest:,} events after that are not signed" if rest else ""
        vouched += "" if report.trusted else "; whose key that is was not proven: give --keys"
    closed = ", archived" if report.archived else ""
    closed += ", not here" if report.first > 1 else ""
    return f"{report.events:,} events{closed}, {vouched}"
