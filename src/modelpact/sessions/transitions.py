"""State transitions: every way in which the state of a session changes, and the events of each.

A proposed state is negotiated first. Then one commit puts it in force together with its events, or
a rejection is recorded and raised, and the state stays as it was.
"""

import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec

from modelpact.ledger.canonical import canonical_safe
from modelpact.ledger.errors import LedgerUncertain
from modelpact.ledger.event import NEGOTIATION_DECIDED, Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.needs.need import Needs
from modelpact.negotiation.stud import diagnostic_json, stud_name
from modelpact.negotiation.verdict import Diagnostic, Verdict
from modelpact.sessions.errors import NoLongerFits, SessionClosed, SessionError, SpawnRejected, SwitchRejected
from modelpact.sessions.negotiator import RESUME, Negotiator, SessionDecision
from modelpact.sessions.store import CommittedState, SessionState, SessionStore
from modelpact.vocabulary.redaction import redact

T = TypeVar("T")


class Switched(msgspec.Struct, frozen=True):
    """An accepted change: a switch, an attached state machine or a reload.

    `diagnostic` has its warnings, if there are any. `previous` is the model before the change.
    """

    target: str
    previous: str
    verdict: Verdict
    diagnostic: Diagnostic | None = None


class StateTransitions:
    """The state in force of one session, and the operations that change it.

    Hold `lock` while you read the state to change it.
    """

    def __init__(self, store: SessionStore, negotiator: Negotiator, committed: CommittedState) -> None:
        self.store = store
        self.negotiator = negotiator
        self.committed = committed
        self.lock = _SessionLock(store.ledger)
        self.closed = False
        self.refusal: SessionError | None = None
        """Why nothing is sent: the model of a resumed session does not fit any more."""
        self._is_uncertain = False

    def current(self) -> SessionState:
        """Return the state in force. Raise if the session is closed."""
        if self.closed:
            raise SessionClosed(self.store.id)
        if self._is_uncertain:
            self.committed = self.store.load_state()
            self._is_uncertain = False
        return self.committed.state

    def start(self, target: str, parent: "StateTransitions | None") -> None:
        """Put the first state in force, or raise `SwitchRejected` or `SpawnRejected`.

        The rejection of a subagent is recorded with its parent.
        """
        before, needs = self.committed.state, self.committed.needs
        provider = "" if parent is None else parent.committed.state.provider
        state = before.with_target(self.negotiator.resolve_target(target, provider))
        if parent is None:
            decision = self.negotiator.negotiate("start", before, state, needs)
            if not decision.accepted:
                self._reject(decision, SwitchRejected)
        else:
            decision = self.negotiator.negotiate("spawn", before, state, needs)
            if not decision.accepted:
                parent._reject(decision, SpawnRejected)

        def commit(tx: Transaction) -> CommittedState:
            tx.open_envelope(self.store.envelope, "session", state.target)
            cause = None
            if parent is not None:
                payload = {"session": self.store.id, "target": state.target}
                cause = parent._append(tx, "session.spawned", payload, parent.committed.event)
            opening = _opening_payload(self.store.id, state, needs)
            event = self._append_change(tx, decision, cause, "session.opened", opening)
            committed = CommittedState(state, needs, event, 1)
            self.store.insert(tx, committed)
            return committed

        self.committed = self._write(commit)

    def resume(self, unanswered: int) -> None:
        """Negotiate a loaded session with its model as it is known now, and record that.

        A model that does not fit is not raised: `refusal` has the error.
        """
        decision = self._renegotiate()
        cause, refusal = self.committed.event, self.refusal
        target = self.committed.state.target
        payload: dict[str, Any] = {"target": target, "unanswered": unanswered}
        if decision.diagnostic is not None:
            payload["diagnostic"] = _diagnostic_payload(decision)

        def commit(tx: Transaction) -> None:
            resumed = self._append(tx, "session.resumed", payload, cause)
            if refusal is None:
                self._append_decision(tx, decision, resumed)
            else:
                self._append_rejection(tx, decision, resumed, refusal)

        self._write(commit)

    def check_fit(self) -> None:
        """Raise if the model did not fit when the session was resumed, and still does not."""
        with self.lock:
            if self.refusal is not None:
                self._renegotiate()
            if self.refusal is not None:
                raise self.refusal

    def change(
        self, trigger: str, proposed: SessionState, needs: Needs, event_type: str, payload: dict[str, Any]
    ) -> Switched:
        """Negotiate a proposed state and put it in force, or record its rejection and raise."""
        before = self.committed
        decision = self.negotiator.negotiate(trigger, before.state, proposed, needs)
        if not decision.accepted:
            self._reject(decision, SwitchRejected)
        if needs != before.needs:
            payload = {**payload, "required": _required_payload(needs)}

        def commit(tx: Transaction) -> CommittedState:
            event = self._append_change(tx, decision, before.event, event_type, payload)
            return self._replace(tx, proposed, needs, event)

        self.committed = self._write(commit)
        self.refusal = None
        return Switched(proposed.target, decision.previous, decision.verdict, decision.diagnostic)

    def change_without_negotiation(self, proposed: SessionState, event_type: str, payload: dict[str, Any]) -> None:
        """Put a state in force whose required set is not larger: parameters, or a detached machine.

        Parameters may stop applying on the model. `Session.params_affected` lists them.
        """
        before, needs = self.committed, proposed.required()
        if needs != before.needs:
            payload = {**payload, "required": _required_payload(needs)}

        def commit(tx: Transaction) -> CommittedState:
            event = self._append(tx, event_type, payload, before.event)
            return self._replace(tx, proposed, needs, event)

        self.committed = self._write(commit)

    def close(self) -> None:
        """Close the session in this process, and record that."""
        if not self.closed:
            self.closed = True
            payload = {"target": self.committed.state.target}
            draft = Draft(self.store.envelope, "session.closed", payload, self.committed.event)
            self.store.ledger.append(draft)

    def _renegotiate(self) -> SessionDecision:
        state, needs = self.committed.state, self.committed.needs
        decision = self.negotiator.negotiate(RESUME, state, state, needs)
        self.refusal = None if decision.accepted else decision.rejection(NoLongerFits)
        return decision

    def _reject(self, decision: SessionDecision, kind: type[SwitchRejected]) -> NoReturn:
        """Record a rejection, and raise it. The state stays as it was."""
        rejection = decision.rejection(kind)
        cause = self.committed.event or None

        def commit(tx: Transaction) -> None:
            tx.open_envelope(self.store.envelope, "session", decision.verdict.target)
            self._append_rejection(tx, decision, cause, rejection)

        self._write(commit)
        raise rejection

    def _replace(self, tx: Transaction, state: SessionState, needs: Needs, event: str) -> CommittedState:
        committed = CommittedState(state, needs, event, self.committed.revision + 1)
        self.store.replace(tx, committed)
        return committed

    def _write(self, work: Callable[[Transaction], T]) -> T:
        """Write to the ledger. If the outcome is not known, load the state before its next use."""
        try:
            return self.store.ledger.write(work)
        except LedgerUncertain:
            self._is_uncertain = True
            raise

    def _append(
        self, tx: Transaction, event_type: str, payload: dict[str, Any], cause: str | None, *, unchecked: bool = False
    ) -> str:
        """Append an event to the session's envelope, and return its id."""
        draft = Draft(self.store.envelope, event_type, payload, cause, unchecked=unchecked)
        return tx.append(draft).id

    def _append_decision(self, tx: Transaction, decision: SessionDecision, cause: str | None) -> str:
        """Append a negotiation, and what was wrong with the provider's declaration."""
        verdict = decision.verdict
        for capped in decision.capped:
            payload = {"target": verdict.target, **msgspec.structs.asdict(capped)}
            cause = self._append(tx, "capability.capped", event_payload(payload), cause)
        if decision.declaration_problem:
            payload = {"target": verdict.target, "problem": decision.declaration_problem}
            cause = self._append(tx, "capability.undescribed", event_payload(payload), cause)
        payload = {
            "trigger": decision.trigger,
            "target": verdict.target,
            "answer": verdict.answer,
            "needs": len(decision.needs),
            "notes": list(verdict.notes),
        }
        return self._append(tx, NEGOTIATION_DECIDED, payload, cause, unchecked=True)

    def _append_rejection(
        self, tx: Transaction, decision: SessionDecision, cause: str | None, rejection: SessionError
    ) -> None:
        """Append a negotiation that was not accepted, with the diagnostic and the error's code."""
        decided = self._append_decision(tx, decision, cause)
        payload = {"trigger": decision.trigger, "code": rejection.code, "diagnostic": _diagnostic_payload(decision)}
        if decision.unreachable is not None:
            payload["error"] = event_payload(rejection.context["problem"])
        self._append(tx, "session.rejected", payload, decided)

    def _append_change(
        self, tx: Transaction, decision: SessionDecision, cause: str | None, event_type: str, payload: dict[str, Any]
    ) -> str:
        """Append an accepted negotiation, its change, and the preferred capabilities it loses.

        Return the id of the event of the change.
        """
        decided = self._append_decision(tx, decision, cause)
        if decision.diagnostic is not None:
            payload = {**payload, "diagnostic": _diagnostic_payload(decision)}
        changed = self._append(tx, event_type, payload, decided)
        warnings = decision.verdict.warnings
        lost = [finding for finding in warnings if finding.outcome == "preferred-unmet"]
        if lost:
            downgrade = {
                "target": decision.verdict.target,
                "previous": decision.previous,
                "lost": [
                    {"capability": stud_name(finding.capability), "requiredBy": list(finding.need.required_by)}
                    for finding in lost
                ],
            }
            self._append(tx, "session.downgraded", downgrade, changed, unchecked=True)
        return changed


class _SessionLock:
    """A reentrant lock that raises where waiting for it would deadlock.

    The ledger calls its listeners on the thread that commits. A listener that waited for a session
    would wait for its own thread.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._ledger.ensure_can_wait()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def event_payload(value: Any) -> Any:
    """Return a value as an event may hold it: redacted, and with fractions as text."""
    return canonical_safe(redact(value))


def _opening_payload(session: str, state: SessionState, needs: Needs) -> dict[str, Any]:
    return {
        "session": session,
        "target": state.target,
        "params": event_payload(state.layers),
        "security": state.security.mode,
        "policy": msgspec.to_builtins(state.policy.settings),
        "parent": state.parent,
        "required": _required_payload(needs),
    }


def _required_payload(needs: Needs) -> dict[str, list[str]]:
    """Return each need of a required set with the parts that require it."""
    return {str(need): list(need.required_by) for need in needs}


def _diagnostic_payload(decision: SessionDecision) -> dict[str, Any]:
    """Return the diagnostic as the `stud` specification writes it, with the verdict's warnings."""
    assert decision.diagnostic is not None
    payload = diagnostic_json(decision.diagnostic)
    payload["warnings"] = [
        {"name": stud_name(finding.capability), "reason": finding.outcome} for finding in decision.verdict.warnings
    ]
    if "paramsAffected" in payload:  # these are redacted already
        payload["paramsAffected"] = canonical_safe(payload["paramsAffected"])
    return payload
