"""The tables of a chat: needs, parameters, costs, events, what was said, what there is."""

import json
from collections.abc import Iterable

import msgspec

from modelpact.cli.chat.messages import ChatMessage, fit_words, params_told
from modelpact.cli.paths import address_data, address_words
from modelpact.cli.render.audit import event_json, visible, why_lines
from modelpact.cli.render.tables import clip, paint, table
from modelpact.cli.times import show_time
from modelpact.conversation.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.money import format_money
from modelpact.ledger.reader import EVENT_COLUMNS, read_event
from modelpact.ledger.totals.totals import CostTotal, cost_totals
from modelpact.negotiation.formats import MARKS, claim_text, evidence_text, verdict_data
from modelpact.negotiation.parameters import effective_params
from modelpact.sessions import Candidate, Session, SessionSummary, StateMachine
from modelpact.vocabulary.redaction import redact, redact_text

_EVENTS = 15
_LAST_EVENTS = (
    f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND type <> 'capability.partial' "
    "ORDER BY sequence DESC LIMIT ?"
)
_PARTICULARS = ("trigger", "target", "answer", "machine", "set", "unset", "stopReason", "error")
_EVENT_COLOURS = {"failed": "red", "cancelled": "yellow", "rejected": "yellow"}
_COLOURS = {"met": "green", "missing": "red"}
_WHO = {"user": "you", "assistant": "model", "tool": "tool", "system": "system"}


def needs(session: Session) -> ChatMessage:
    """Tell who requires what, and whether the model in use meets it."""
    verdict = session.fit(session.target)
    if not verdict.findings:
        text = f"Nothing is required of {session.target}: any model will do."
        return ChatMessage("needs", text, verdict_data(verdict))
    rows = [
        (
            paint(MARKS[one.outcome], _COLOURS.get(one.outcome, "yellow")),
            str(one.need),
            claim_text(one.claim),
            visible(", ".join(one.need.required_by)) or "you",
            paint(evidence_text(one.claim), "dim"),
        )
        for one in verdict.findings
    ]
    header = ("", "need", session.target, "required by", "how we know")
    return ChatMessage("needs", table(rows, header), verdict_data(verdict))


def params(session: Session) -> ChatMessage:
    """Tell the parameters, where each comes from, which do not apply, and what is not known."""
    lost, unsure = session.params_affected, session.params_unknown
    data = {
        "params": redact(session.params),
        "layers": redact(session.layers),
        "paramsAffected": msgspec.to_builtins(lost),
        "paramsUnknown": [
            {"paramPath": list(one.path), "reason": redact_text(one.reason)} for one in unsure
        ],
    }
    held = effective_params(session.layers)
    if not held:
        text = "No parameters are set: the model's own defaults hold."
        return ChatMessage("params", text, data)
    marks = {one.path[0]: ("?", "yellow", f"not known: {one.reason}") for one in unsure}
    marks |= {one.param_path[0]: ("✗", "red", "does not apply") for one in lost}
    rows = []
    for name, value in redact(held).items():
        layer = next(one for one in reversed(session.layers) if name in session.layers[one])
        mark, colour, words = marks.get(name, ("✓", "green", ""))
        shown = visible(clip(json.dumps(value, ensure_ascii=False), 60))
        row = (paint(mark, colour), visible(name), shown, paint(layer, "dim"))
        rows.append((*row, paint(visible(redact_text(words)), "dim")))
    told = params_told(lost)
    return ChatMessage("params", table(rows) + (f"\n{told}" if told else ""), data)


def cost(session: Session, ledger: Ledger) -> ChatMessage:
    """Tell what this session cost, by model; what is only estimated is marked."""
    totals = cost_totals(ledger, "model", envelope=session.envelope)
    totals.sort(key=lambda one: not one.currency)  # what cost nothing comes last
    data = {"rows": [_cost_data(one) for one in totals]}
    if not totals:
        return ChatMessage("cost", "Nothing was spent in this session yet.", data)
    text = table(
        [_cost_row(one) for one in totals],
        ("model", "calls", "cost", "input", "output"),
        right=range(1, 5),
    )
    if any(any(one.estimated.values()) for one in totals):
        text += "\n" + paint("≈ is estimated: the provider did not say all of it.", "dim")
    return ChatMessage("cost", text, data)


def _cost_row(one: CostTotal) -> tuple[str, ...]:
    about = "≈ " if any(one.estimated.values()) else ""
    money = format_money(one.money, one.currency) if one.currency else "–"
    output = one.amounts["tokens.output"] + one.amounts["tokens.reasoning"]
    return (
        visible(one.name) or "(none)",
        f"{one.records:,}",
        about + money,
        f"{one.amounts['tokens.input']:,}",
        f"{output:,}",
    )


def _cost_data(one: CostTotal) -> dict[str, object]:
    return {
        "model": one.name,
        "calls": one.records,
        "currency": one.currency or None,
        "amount_nano": one.money,
        "estimated_nano": one.estimated["currency"],
        "estimated": any(one.estimated.values()),
        "tokens": {unit[7:]: n for unit, n in one.amounts.items() if unit.startswith("tokens.")},
    }


def audit(session: Session, ledger: Ledger, *, why: bool) -> ChatMessage:
    """Tell the session's last events but for pieces of answers, or what led to the last one."""
    rows = ledger.read(_LAST_EVENTS, (session.envelope, _EVENTS))
    events = [read_event(row) for row in reversed(rows)]
    if why:
        events = ledger.cause_chain(events[-1].id)
    text = "\n".join(why_lines(events)) if why else table([_event_row(one) for one in events])
    return ChatMessage("audit", text, {"events": [event_json(one) for one in events]})


def _event_row(event: Event) -> tuple[str, ...]:
    """Return an event in a line: when, which, what, and the particulars that people ask for."""
    said = [f"{event.payload[key]}" for key in _PARTICULARS if event.payload.get(key)]
    diagnostic = event.payload.get("diagnostic", {})
    missing = [one["capability"] for one in diagnostic.get("missing", ())]
    said += [f"missing {', '.join(missing)}"] if missing else []
    colour = _EVENT_COLOURS.get(event.type.rpartition(".")[2], "cyan")
    return (
        paint(show_time(event.time)[11:19], "dim"),
        f"{event.sequence}",
        paint(event.type, colour),
        visible(clip("  ".join(said), 80), ""),
    )


def history(session: Session, last: int | None = None) -> ChatMessage:
    """Tell what was said, or the last of it; a turn without an answer is marked as unfinished."""
    said = session.transcript
    data = {"messages": [msgspec.to_builtins(one) for one in said]}
    shown = said if last is None else said[-last:]
    earlier = len(said) - len(shown)
    lines = [paint(f"({earlier:,} messages before: /history)", "dim")] if earlier else []
    for one in shown:
        mark = "" if one.answered else paint("  (unfinished: it got no answer)", "yellow")
        who = paint(_WHO[one.message.role], "bold" if one.message.role == "user" else "dim")
        lines.append(f"{who}  {message_text(one.message)}{mark}")
    return ChatMessage("history", "\n".join(lines) or "Nothing was said yet.", data)


def message_text(message: Message) -> str:
    """Return what a message says, tool calls and results included, as a terminal may have it."""
    parts = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(visible(block.text, "\n\t"))
        elif isinstance(block, ToolUseBlock):
            parts.append(call_text(block))
        elif isinstance(block, ToolResultBlock):
            said = "".join(one.text for one in block.content if isinstance(one, TextBlock))
            parts.append(visible(said))
    return "\n".join(parts)


def call_text(call: ToolUseBlock) -> str:
    """Write a tool call as a line."""
    arguments = json.dumps(call.input, ensure_ascii=False)
    return visible(f"⚙ {call.name}({clip(arguments, 300)})", "")


def machines(listed: Iterable[StateMachine], attached: StateMachine | None) -> ChatMessage:
    """Tell which state machines there are, and which one is attached."""
    rows = []
    known = {one.name: one for one in listed}
    if attached is not None:
        known[attached.name] = attached
    for one in known.values():
        here = attached is not None and one.name == attached.name
        every = [*one.needs, *(need for stage in one.stages for need in stage.needs)]
        rows.append(
            (
                paint("●", "green") if here else "○",
                visible(one.name),
                visible(" → ".join(stage.name for stage in one.stages)) or "–",
                paint(visible(", ".join(map(str, every))), "dim"),
            )
        )
    data = {
        "machines": [msgspec.to_builtins(one) for one in known.values()],
        "attached": None if attached is None else attached.name,
    }
    ways = paint("/sm attach NAME, /sm attach FILE.toml, /sm detach", "dim")
    return ChatMessage("machines", table(rows, ("", "name", "stages", "needs")) + f"\n{ways}", data)


def models(session: Session, offered: list[Candidate]) -> ChatMessage:
    """Tell the model in use and some that are at hand, with how they fit."""
    rows = []
    for one in offered:
        mark, words, colour = fit_words(one.verdict)
        here = "●" if one.target == session.target else " "
        rows.append((here, paint(mark, colour), one.target, paint(clip(words, 70), "dim")))
    data = {
        "target": session.target,
        "models": [{"target": one.target, "answer": one.verdict.answer} for one in offered],
    }
    ways = paint(
        "/model PROVIDER/MODEL switches; Tab completes names and shows how they fit", "dim"
    )
    return ChatMessage("models", table(rows) + f"\n{ways}", data)


def providers(session: Session, models: ModelCaller, reached: Iterable[str]) -> ChatMessage:
    """Tell which providers can be called, and where those are that the environment leads to."""
    here = session.target.partition("/")[0]
    names = list(dict.fromkeys((here, *reached)))
    led = models.env_overrides()
    lines = [
        f"{'●' if one == here else '○'} {visible(one)}"
        + (paint(f"  {address_words(led[one])}", "dim") if one in led else "")
        for one in names
    ]
    ways = paint("/provider NAME switches; others need a key, or a [providers.NAME]", "dim")
    data = {"provider": here, "providers": names, "addresses": address_data(led)}
    return ChatMessage("providers", "\n".join([*lines, ways]), data)


def sessions(listed: list[SessionSummary]) -> ChatMessage:
    """Tell which sessions the store has."""
    rows = [
        (
            visible(one.id),
            visible(one.target) if one.readable else paint("(cannot be read)", "red"),
            f"{one.messages:,}",
            paint(show_time(one.updated)[:19], "dim"),
        )
        for one in listed
    ]
    text = table(rows, ("session", "model", "messages", "last used (UTC)"), right=[2])
    data = {"sessions": [msgspec.to_builtins(one) for one in listed]}
    return ChatMessage("sessions", text if rows else "There are no sessions yet.", data)
