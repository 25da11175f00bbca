"""What a chat tells: to people as text, to programs as data; switches, refusals and errors."""

from typing import Any

import msgspec

from modelpact.cli.render.audit import visible
from modelpact.cli.render.tables import clip, paint, table
from modelpact.negotiation.formats import MARKS, verdict_data
from modelpact.negotiation.stud import diagnostic_json
from modelpact.negotiation.verdict import Diagnostic, Finding, ParamAffected, Verdict
from modelpact.providers.port import ProviderError
from modelpact.sessions import (
    CapabilityMissing,
    NoLongerFits,
    ParamsRefused,
    SessionMoved,
    Switched,
    SwitchRejected,
)
from modelpact.vocabulary.errors import ModelpactError


class ChatMessage(msgspec.Struct, frozen=True):
    """One thing that is told. `failed`: what was asked for was not done."""

    kind: str
    text: str
    data: dict[str, Any] = {}
    failed: bool = False


def fit_words(verdict: Verdict) -> tuple[str, str, str]:
    """Say in a few words how a model fits: a mark, the words, their colour."""
    if verdict.answer == "yes":
        return "✓", "fits", "green"
    if verdict.ok:
        labelled = [one for one in verdict.findings if one.outcome != "met" or one.label]
        parts = [f"{one.capability} {_in_short(one)}" for one in labelled]
        return "~", f"fits; {'; '.join([*parts, *verdict.notes])}", "yellow"
    return "✗", "; ".join(f"{one.capability} {_in_short(one)}" for one in verdict.missing), "red"


def _in_short(one: Finding) -> str:
    if one.reason in ("unsupported", "unknown"):
        return {"unsupported": "is missing", "unknown": "is not known"}[one.reason]
    return one.sentence()


def switched(done: Switched, head: str) -> ChatMessage:
    """Tell of a change that was accepted, and of all that is less good than before."""
    lines = [f"{paint('✓', 'green')} {head}"]
    lines += labels(done.verdict)
    if done.diagnostic is not None:
        lines += _params(done.diagnostic.params_affected)
    return ChatMessage(
        "switched",
        "\n".join(lines),
        {
            "target": done.target,
            "previous": done.previous,
            "verdict": verdict_data(done.verdict, done.diagnostic),
        },
    )


def labels(verdict: Verdict) -> list[str]:
    """Say of each need that is not plainly met how it stands, and what else there is to know."""
    rows = []
    for one in verdict.findings:
        if one.outcome == "met":
            continue
        how = f"emulated by us: {one.label}" if one.outcome == "emulated" else one.sentence()
        mark = paint(MARKS[one.outcome], "yellow")
        rows.append(
            (f"  {mark}", str(one.need), visible(how), paint(_whose(one.need.required_by), "dim"))
        )
    lines = table(rows).splitlines()
    return lines + [f"  {paint('!', 'yellow')}  {visible(note)}" for note in verdict.notes]


def _params(affected: tuple[ParamAffected, ...]) -> list[str]:
    return [
        f"  {paint('!', 'yellow')}  {'.'.join(one.param_path)} will not apply: "
        f"{visible(one.reason)} {paint(f'(from {one.source_layer})', 'dim')}"
        for one in affected
    ]


def params_told(affected: tuple[ParamAffected, ...]) -> str:
    """Say which parameters do not apply on the model in use, a line each."""
    return "\n".join(_params(affected))


def _whose(required_by: tuple[str, ...]) -> str:
    return f"for {visible(', '.join(required_by))}" if required_by else ""


def refused(
    rejected: SwitchRejected, no_way: str = "", at_hand: tuple[str, ...] = ()
) -> ChatMessage:
    """Tell of a refusal: what is missing, who needs it, what still holds, what would do.

    `no_way` says why the suggestion cannot be called, if so; `at_hand` are models that can.
    """
    diagnostic = rejected.diagnostic
    count = len(diagnostic.missing)
    head = f"{diagnostic.target} is refused: it does not meet {_count(count, 'need')}."
    if rejected.trigger == "/sm attach":
        head = f"Not attached: {diagnostic.target} does not meet {_count(count, 'need')} of it."
    if isinstance(rejected, NoLongerFits):
        head = f"{diagnostic.target} does not fit any more: it misses {_count(count, 'need')}."
    lines = [f"{paint('✗', 'red')} {paint(head, 'bold')}"]
    rows = [
        (
            f"  {paint('✗', 'red')}",
            one.capability,
            visible(one.message),
            paint(f"required by {visible(', '.join(one.required_by)) or 'you'}", "dim"),
        )
        for one in diagnostic.missing
    ]
    lines += table(rows).splitlines()
    lines += _params(diagnostic.params_affected)
    if diagnostic.previous:
        lines.append(f"  Still on {paint(diagnostic.previous, 'cyan')}; nothing has changed.")
    if isinstance(rejected, NoLongerFits):
        lines.append("  Nothing is sent until a model that fits is chosen; what was said is kept.")
    if rejected.evidence_hint:
        lines.append(f"  {paint('!', 'yellow')}  {visible(rejected.evidence_hint)}")
    lines += _ways_out(diagnostic, no_way, at_hand)
    data = {
        "code": rejected.code,
        "trigger": rejected.trigger,
        "message": str(rejected),
        "diagnostic": diagnostic_json(diagnostic),
        "atHand": list(at_hand),
    }
    return ChatMessage("refused", "\n".join(lines), data, failed=True)


def _ways_out(diagnostic: Diagnostic, no_way: str, at_hand: tuple[str, ...]) -> list[str]:
    lines = []
    if diagnostic.suggestion:
        named = paint(diagnostic.suggestion, "cyan")
        lines.append(f"  Suggestion: {named} meets every need that is hard.")
        if no_way:
            lines.append(f"  {paint('!', 'yellow')}  {visible(no_way)}")
        else:
            lines.append(f"  Take it with /model {diagnostic.suggestion}, or with /model alone.")
    if at_hand:
        named = ", ".join(paint(one, "cyan") for one in at_hand)
        lines.append(f"  At hand, and it fits: {named}.")
    if not lines:
        lines.append("  No model in the catalog is known to meet all of these needs.")
    return lines


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def failed(error: ModelpactError) -> ChatMessage:
    """Tell of an error in one line: what was wrong, and what to do."""
    said = error.summary if isinstance(error, ParamsRefused) else str(error)
    said = " ".join(visible(said).split())
    code = str(getattr(error, "code", "") or getattr(error.__cause__, "code", ""))
    hint = _hint(error)
    line = f"{paint('✗', 'red')} {clip(said.rstrip('.'), 600)}" + (f"; {hint}" if hint else "")
    if isinstance(error, CapabilityMissing):
        line += paint(f" [{code}]", "dim")
    data: dict[str, Any] = {"code": code, "message": said, "hint": hint}
    if isinstance(error, ProviderError):
        data["status"] = error.status
    return ChatMessage("error", line, data, failed=True)


def _hint(error: ModelpactError) -> str:
    if isinstance(error, ParamsRefused):
        names = " ".join(f"-{one}" for one in error.names)
        them = "it" if len(error.names) == 1 else "them"
        return (
            f"/params {names} takes {them} out, /model goes elsewhere, and [policy] "
            f'unsupported_params = "drop" in modelpact.toml leaves {them} out and says so'
        )
    if isinstance(error, CapabilityMissing) and error.param:
        return f"/params -{error.param} takes it out"
    if isinstance(error, SessionMoved):
        return "leave, and come back with --resume"
    if not isinstance(error, ProviderError):
        return ""
    status = error.status
    if status == 429:
        wait = getattr(error.__cause__, "retry_after", None)
        when = f"in {wait:g} s" if wait else "in a while"
        return f"send it again {when}, or go elsewhere with /model"
    if status is None or status >= 500:
        return "send it again, or go elsewhere with /provider"
    return ""
