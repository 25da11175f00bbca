"""Writes events, envelopes and verification reports, as text and as JSON data."""

import json
from typing import Any, Final

import msgspec

from modelpact.cli.render.terminal import clip, escape, escape_line, format_time, paint, table
from modelpact.ledger.event import Event
from modelpact.ledger.reader import Envelope
from modelpact.ledger.verify.verifier import TableReport, VerifyReport

_EVENT_COLOURS: Final = {"failed": "red", "flagged": "red", "cancelled": "yellow", "rejected": "yellow"}


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as an export has it; its time is a string of nanoseconds."""
    fields = msgspec.structs.asdict(event)
    return {"id": event.id, **fields, "time": str(event.time)}


def event_row(event: Event) -> tuple[str, ...]:
    """Return the cells of an event: time, id, type and the start of the payload."""
    payload = json.dumps(event.payload, ensure_ascii=False)
    return (paint(format_time(event.time), "dim"), escape_line(event.id), event_type(event), escape(clip(payload, 60)))


def event_type(event: Event) -> str:
    """Return the type of an event in its colour."""
    colour = _EVENT_COLOURS.get(event.type.rpartition(".")[2], "cyan")
    return paint(escape_line(event.type), colour)


def event_text(event: Event) -> str:
    """Return all fields of an event as text."""
    rows = [
        ("event", paint(escape_line(event.id), "bold")),
        ("type", escape_line(event.type)),
        ("time", f"{format_time(event.time)} UTC"),
        ("caused by", escape_line(event.cause or "nothing: it is an origin")),
        ("hash", escape_line(event.hash)),
        ("previous", escape_line(event.previous)),
    ]
    return f"{table(rows)}\n{escape(json.dumps(event.payload, indent=2, ensure_ascii=False))}"


def cause_lines(events: list[Event]) -> list[str]:
    """Return an event and the events that led to it, a line each, back to the origin."""
    lines = []
    for depth, event in enumerate(events):
        arrow = "" if depth == 0 else "   " * (depth - 1) + "└─ because of "
        lines.append(arrow + "  ".join(event_row(event)[1:]))
    cause = events[-1].cause
    if cause is not None:
        listed = any(cause == event.id for event in events)
        end = "comes again" if listed else "is not in this ledger"
        lines.append(paint(f"{escape_line(cause)}, which caused that, {end}.", "yellow"))
    return lines


def envelopes_table(envelopes: list[Envelope]) -> str:
    """Return envelopes as text, a line each."""
    rows = [
        (
            escape_line(envelope.id),
            escape_line(envelope.kind) or "–",
            escape_line(envelope.subject) or "–",
            f"{envelope.events:,}",
            paint(format_time(envelope.latest), "dim"),
            "archived" if envelope.archived is not None else "",
        )
        for envelope in envelopes
    ]
    return table(rows, ("envelope", "kind", "subject", "events", "latest", ""), right=[3])


def report_json(report: VerifyReport | TableReport, source: str) -> dict[str, Any]:
    """Return a report as JSON data."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return {"source": source, "ok": report.ok, **fields}


def report_text(report: VerifyReport | TableReport, source: str) -> str:
    """Return a report as text: one line, or a few if something is broken."""
    name = escape_line(source)
    broken = report.broken
    if broken is None:
        summary = _table_summary(report) if isinstance(report, TableReport) else _summary(report)
        return f"{paint('✓', 'green')} {name}: {summary}"
    where = f"{escape_line(broken.event)}: " if broken.event else ""
    line = f"line {broken.line}: " if broken.line else ""
    lines = [
        f"{paint('✗', 'red')} {name}: {where}{paint(broken.kind, 'red')}",
        f"  {line}{escape_line(broken.message)}",
    ]
    if isinstance(report, VerifyReport):
        lines.append(f"  the {report.events:,} events before it are intact")
    return "\n".join(lines)


def _table_summary(report: TableReport) -> str:
    archived = f"; {report.unproven:,} rest on archives that are not here"
    return f"{report.rows:,} rows agree with the events{archived if report.unproven else ''}"


def _summary(report: VerifyReport) -> str:
    if not report.checkpoints:
        signatures = "intact; nobody has signed it"
    else:
        unsigned = report.events - report.signed
        keys = escape_line(", ".join(report.keys))
        signatures = f"signed up to event {report.signed:,} by {keys}"
        if unsigned:
            signatures += f"; {unsigned:,} events after that are not signed"
        if not report.trusted:
            signatures += "; the owner of that key is not proven: give --keys"
    archived = ", archived" if report.archived else ""
    if report.first > 1:
        archived += ", not here"
    return f"{report.events:,} events{archived}, {signatures}"
