"""The tables of a chat: needs, parameters, costs, events, history, models and sessions."""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from modelpact.cli.chat.output import ChatMessage, fit_summary, params_lines, tool_call_line
from modelpact.cli.render.audit import cause_lines, event_json, event_type
from modelpact.cli.render.terminal import clip, escape, format_time, paint, table
from modelpact.cli.runtime import override_text, overrides_json
from modelpact.conversation.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.cost_tables import CostTotal, cost_totals
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.negotiation.parameters import effective_params
from modelpact.negotiation.verdict import MARKS, claim_text, evidence_text, verdict_data
from modelpact.sessions import Candidate, Session, SessionSummary, StateMachine
from modelpact.vocabulary.money import format_money
from modelpact.vocabulary.redaction import redact, redact_text

_MAX_EVENTS: Final = 15
_SUMMARY_KEYS: Final = ("trigger", "target", "answer", "machine", "set", "unset", "stopReason", "error")
"""The keys of a payload that the list of events shows."""
_OUTCOME_COLOURS: Final = {"met": "green", "missing": "red"}
_ROLE_NAMES: Final = {"user": "you", "assistant": "model", "tool": "tool", "system": "system"}


def needs_table(session: Session) -> ChatMessage:
    """List what is required and by what, and whether the model in use meets it."""
    verdict = session.fit(session.target)
    if not verdict.findings:
        text = f"Nothing is required of {session.target}: any model will do."
        return ChatMessage("needs", text, verdict_data(verdict))
    rows = [
        (
            paint(MARKS[finding.outcome], _OUTCOME_COLOURS.get(finding.outcome, "yellow")),
            str(finding.need),
            claim_text(finding.claim),
            escape(", ".join(finding.need.required_by)) or "you",
            paint(evidence_text(finding.claim), "dim"),
        )
        for finding in verdict.findings
    ]
    header = ("", "need", session.target, "required by", "how we know")
    return ChatMessage("needs", table(rows, header), verdict_data(verdict))


def params_table(session: Session) -> ChatMessage:
    """List the parameters, the layer of each, and which of them do not apply."""
    affected, unknown = session.params_affected, session.params_unknown
    data = {
        "params": redact(session.params),
        "layers": redact(session.layers),
        "paramsAffected": msgspec.to_builtins(affected),
        "paramsUnknown": [{"paramPath": list(param.path), "reason": redact_text(param.reason)} for param in unknown],
    }
    effective = effective_params(session.layers)
    if not effective:
        text = "No parameters are set: the model uses its defaults."
        return ChatMessage("params", text, data)
    marks = {param.path[0]: ("?", "yellow", f"unknown: {param.reason}") for param in unknown}
    marks |= {param.param_path[0]: ("✗", "red", "does not apply") for param in affected}
    rows = []
    for name, value in redact(effective).items():
        layer = next(layer for layer in reversed(session.layers) if name in session.layers[layer])
        mark, colour, note = marks.get(name, ("✓", "green", ""))
        rows.append(
            (
                paint(mark, colour),
                escape(name),
                escape(clip(json.dumps(value, ensure_ascii=False), 60)),
                paint(layer, "dim"),
                paint(escape(redact_text(note)), "dim"),
            )
        )
    return ChatMessage("params", "\n".join([table(rows), *params_lines(affected)]), data)


def cost_table(session: Session, ledger: Ledger) -> ChatMessage:
    """List what the session cost by model; estimates are marked."""
    totals = cost_totals(ledger, "model", envelope=session.envelope)
    totals.sort(key=lambda total: not total.currency)  # models without a cost come last
    data = {"rows": [_cost_json(total) for total in totals]}
    if not totals:
        return ChatMessage("cost", "This session has no costs yet.", data)
    text = table(
        [_cost_row(total) for total in totals], ("model", "calls", "cost", "input", "output"), right=range(1, 5)
    )
    if any(total.is_estimated for total in totals):
        note = "≈ is estimated: the provider did not report all of it."
        text += "\n" + paint(note, "dim")
    return ChatMessage("cost", text, data)


def _cost_row(total: CostTotal) -> tuple[str, ...]:
    estimated = "≈ " if total.is_estimated else ""
    money = format_money(total.money, total.currency) if total.currency else "–"
    output = total.amounts["tokens.output"] + total.amounts["tokens.reasoning"]
    return (
        escape(total.name) or "(none)",
        f"{total.records:,}",
        estimated + money,
        f"{total.amounts['tokens.input']:,}",
        f"{output:,}",
    )


def _cost_json(total: CostTotal) -> dict[str, object]:
    prefix = "tokens."
    return {
        "model": total.name,
        "calls": total.records,
        "currency": total.currency or None,
        "amount_nano": total.money,
        "estimated_nano": total.estimated["currency"],
        "estimated": total.is_estimated,
        "tokens": {
            unit.removeprefix(prefix): amount for unit, amount in total.amounts.items() if unit.startswith(prefix)
        },
    }


def audit_table(session: Session, ledger: Ledger, *, why: bool) -> ChatMessage:
    """List the last events of the session, or with `why` the chain that led to the last one.

    Events for pieces of a streamed answer are left out.
    """
    events = ledger.last_events(session.envelope, _MAX_EVENTS, without="capability.partial")
    if why:
        events = ledger.cause_chain(events[-1].id)
        text = "\n".join(cause_lines(events))
    else:
        text = table([_event_row(event) for event in events])
    return ChatMessage("audit", text, {"events": [event_json(event) for event in events]})


def _event_row(event: Event) -> tuple[str, ...]:
    """Return the cells of an event: time, number, type, and a summary of its payload."""
    summary = [f"{event.payload[key]}" for key in _SUMMARY_KEYS if event.payload.get(key)]
    diagnostic = event.payload.get("diagnostic", {})
    missing = [miss["capability"] for miss in diagnostic.get("missing", ())]
    if missing:
        summary.append(f"missing {', '.join(missing)}")
    return (
        paint(format_time(event.time)[11:19], "dim"),
        f"{event.sequence}",
        event_type(event),
        escape(clip("  ".join(summary), 80), ""),
    )


def history_table(session: Session, last: int | None = None) -> ChatMessage:
    """List the messages, or the last of them; a turn without an answer is marked."""
    transcript = session.transcript
    data = {"messages": [msgspec.to_builtins(entry) for entry in transcript]}
    entries = transcript if last is None else transcript[-last:]
    hidden = len(transcript) - len(entries)
    lines = [paint(f"({hidden:,} earlier messages: /history)", "dim")] if hidden else []
    for entry in entries:
        role = entry.message.role
        name = paint(_ROLE_NAMES[role], "bold" if role == "user" else "dim")
        mark = "" if entry.answered else paint("  (unfinished: it got no answer)", "yellow")
        lines.append(f"{name}  {_message_text(entry.message)}{mark}")
    return ChatMessage("history", "\n".join(lines) or "There are no messages yet.", data)


def _message_text(message: Message) -> str:
    """Return the text of a message, with its tool calls and results."""
    parts = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(escape(block.text, "\n\t"))
        elif isinstance(block, ToolUseBlock):
            parts.append(tool_call_line(block))
        elif isinstance(block, ToolResultBlock):
            texts = [part.text for part in block.content if isinstance(part, TextBlock)]
            parts.append(escape("".join(texts)))
    return "\n".join(parts)


def machines_table(machines: Iterable[StateMachine], attached: StateMachine | None) -> ChatMessage:
    """List the state machines, and mark the attached one."""
    known = {machine.name: machine for machine in machines}
    if attached is not None:
        known[attached.name] = attached
    rows = []
    for machine in known.values():
        is_attached = attached is not None and machine.name == attached.name
        needs = [*machine.needs, *(need for stage in machine.stages for need in stage.needs)]
        rows.append(
            (
                paint("●", "green") if is_attached else "○",
                escape(machine.name),
                escape(" → ".join(stage.name for stage in machine.stages)) or "–",
                paint(escape(", ".join(map(str, needs))), "dim"),
            )
        )
    data = {
        "machines": [msgspec.to_builtins(machine) for machine in known.values()],
        "attached": None if attached is None else attached.name,
    }
    usage = paint("/sm attach NAME, /sm attach FILE.toml, /sm detach", "dim")
    text = table(rows, ("", "name", "stages", "needs"))
    return ChatMessage("machines", f"{text}\n{usage}", data)


def models_table(session: Session, candidates: list[Candidate]) -> ChatMessage:
    """List the model in use and some candidates, with how each fits."""
    rows = []
    for candidate in candidates:
        mark, words, colour = fit_summary(candidate.verdict)
        current = "●" if candidate.target == session.target else " "
        rows.append((current, paint(mark, colour), candidate.target, paint(clip(words, 70), "dim")))
    data = {
        "target": session.target,
        "models": [{"target": candidate.target, "answer": candidate.verdict.answer} for candidate in candidates],
    }
    usage = "/model PROVIDER/MODEL switches; Tab completes names and shows how they fit"
    return ChatMessage("models", f"{table(rows)}\n{paint(usage, 'dim')}", data)


def providers_table(session: Session, models: ModelCaller, reachable: Iterable[str]) -> ChatMessage:
    """List the providers that can be called, with the addresses that the environment sets."""
    current = session.target.partition("/")[0]
    names = list(dict.fromkeys((current, *reachable)))
    overrides = models.env_overrides()
    lines = [
        f"{'●' if name == current else '○'} {escape(name)}"
        + (paint(f"  {override_text(overrides[name])}", "dim") if name in overrides else "")
        for name in names
    ]
    lines.append(paint("/provider NAME switches; others need a key, or [providers.NAME]", "dim"))
    data = {"provider": current, "providers": names, "addresses": overrides_json(overrides)}
    return ChatMessage("providers", "\n".join(lines), data)


def sessions_table(sessions: list[SessionSummary]) -> ChatMessage:
    """List the sessions of the ledger."""
    rows = [
        (
            escape(summary.id),
            escape(summary.target) if summary.readable else paint("(cannot be read)", "red"),
            f"{summary.messages:,}",
            paint(format_time(summary.updated)[:19], "dim"),
        )
        for summary in sessions
    ]
    text = table(rows, ("session", "model", "messages", "last used (UTC)"), right=[2])
    data = {"sessions": [msgspec.to_builtins(summary) for summary in sessions]}
    return ChatMessage("sessions", text if rows else "There are no sessions yet.", data)
