"""What sessions write into the audit trail: payloads without secrets and without fractions."""

from typing import Any

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.needs.need import Needs
from modelpact.negotiation.stud import diagnostic_json, wire
from modelpact.negotiation.verdict import Diagnostic, Verdict
from modelpact.providers.models.credentials import MissingKey
from modelpact.sessions.errors import KeyMissing, SessionError, SwitchRejected, TargetUnreachable
from modelpact.sessions.knowledge import Judgement
from modelpact.sessions.store import SessionState
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import redact


class SessionDecision(msgspec.Struct, frozen=True):
    """A negotiation: what set it off, what was required of whom, and how it ended."""

    trigger: str
    needs: Needs
    judged: Judgement
    diagnostic: Diagnostic | None
    previous: str = ""
    no_way: ModelpactError | None = None
    """Why a model that would fit cannot be called."""

    @property
    def ok(self) -> bool:
        """Whether it ended with a yes, and the model can be called."""
        return self.verdict.ok and self.no_way is None

    def refusal(self, kind: type[SwitchRejected]) -> SessionError:
        """Return what to raise of one that is not `ok`."""
        assert self.diagnostic is not None
        if self.no_way is None:
            return kind(self.verdict, self.diagnostic, self.trigger)
        missing = isinstance(self.no_way, MissingKey)
        unreachable = KeyMissing if missing else TargetUnreachable
        return unreachable(self.diagnostic, self.trigger, self.no_way)

    @property
    def verdict(self) -> Verdict:
        """How it ended."""
        return self.judged.verdict


def opening_payload(session: str, state: SessionState, needs: Needs) -> dict[str, Any]:
    """Return what a session starts with."""
    return {
        "session": session,
        "target": state.target,
        "params": told(state.layers),
        "security": state.security.mode,
        "policy": msgspec.to_builtins(state.policy.settings),
        "parent": state.parent,
        "required": required_payload(needs),
    }


def required_payload(needs: Needs) -> dict[str, list[str]]:
    """Return a required set, and who requires what; it stands in the events that change it."""
    return {str(one): list(one.required_by) for one in needs}


def record_decision(
    tx: Transaction, envelope: str, decision: SessionDecision, cause: str | None
) -> str:
    """Append a negotiation, and what was wrong with the provider's own words; return its id."""
    judged, verdict = decision.judged, decision.verdict
    for one in judged.capped:
        payload = {"target": verdict.target, **msgspec.structs.asdict(one)}
        cause = tx.append(Draft(envelope, "capability.capped", told(payload), cause)).id
    if judged.problem:
        payload = {"target": verdict.target, "problem": judged.problem}
        cause = tx.append(Draft(envelope, "capability.undescribed", told(payload), cause)).id
    payload = {
        "trigger": decision.trigger,
        "target": verdict.target,
        "answer": verdict.answer,
        "needs": len(decision.needs),
        "notes": list(verdict.notes),
    }
    return tx.append(Draft(envelope, "negotiation.decided", payload, cause, unchecked=True)).id


def record_rejection(
    tx: Transaction,
    envelope: str,
    decision: SessionDecision,
    cause: str | None,
    refusal: SessionError,
) -> str:
    """Append a negotiation that ended with a no, its diagnostic, and what was raised of it."""
    decided = record_decision(tx, envelope, decision, cause)
    payload = {
        "trigger": decision.trigger,
        "code": refusal.code,
        "diagnostic": diagnostic_payload(decision),
    }
    if decision.no_way is not None:
        payload["error"] = told(refusal.context["problem"])
    return tx.append(Draft(envelope, "session.rejected", payload, decided)).id


def record_resumption(
    tx: Transaction,
    envelope: str,
    decision: SessionDecision,
    cause: str,
    payload: dict[str, Any],
    refusal: SessionError | None,
) -> None:
    """Append that a session was taken up again, and how its model fits as it is known now."""
    if decision.diagnostic is not None:
        payload = {**payload, "diagnostic": diagnostic_payload(decision)}
    resumed = tx.append(Draft(envelope, "session.resumed", payload, cause)).id
    if refusal is None:
        record_decision(tx, envelope, decision, resumed)
    else:
        record_rejection(tx, envelope, decision, resumed, refusal)


def record_change(
    tx: Transaction,
    envelope: str,
    decision: SessionDecision,
    cause: str | None,
    kind: str,
    payload: dict[str, Any],
) -> str:
    """Append a negotiation that ended with a yes, the change, and what was given up for it."""
    decided = record_decision(tx, envelope, decision, cause)
    if decision.diagnostic is not None:
        payload = {**payload, "diagnostic": diagnostic_payload(decision)}
    changed = tx.append(Draft(envelope, kind, payload, decided)).id
    lost = [one for one in decision.verdict.warnings if one.outcome == "preferred-unmet"]
    if lost:
        downgrade = {
            "target": decision.verdict.target,
            "previous": decision.previous,
            "lost": [
                {"capability": wire(one.capability), "requiredBy": list(one.need.required_by)}
                for one in lost
            ],
        }
        tx.append(Draft(envelope, "session.downgraded", downgrade, changed, unchecked=True))
    return changed


def diagnostic_payload(decision: SessionDecision) -> dict[str, Any]:
    """Return a diagnostic with the seed's fields, and the warnings of its verdict."""
    assert decision.diagnostic is not None
    plain = diagnostic_json(decision.diagnostic)
    plain["warnings"] = [
        {"name": wire(one.capability), "reason": one.outcome} for one in decision.verdict.warnings
    ]
    if "paramsAffected" in plain:  # redacted already; listeners hear it as the trail has it
        plain["paramsAffected"] = _plain(plain["paramsAffected"], 0)
    return plain


def told(value: Any) -> Any:
    """Return a value as an event may hold it: redacted, and fractions as text."""
    return _plain(redact(value), 0)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if depth > 32:
        return "…"
    if isinstance(value, dict):
        return {str(name): _plain(one, depth + 1) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1) for one in value]
    return value
