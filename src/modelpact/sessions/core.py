"""The core of a session: the state in force, and the only ways in which it changes.

A proposed state is negotiated first. Then it is put in force by one commit, with its events, or
nothing is changed at all.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.stores.base import LedgerUncertain
from modelpact.needs.need import Needs
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.parameters import params_affected
from modelpact.negotiation.verdict import Diagnostic
from modelpact.sessions import store as rows
from modelpact.sessions.audit_events import (
    SessionDecision,
    opening_payload,
    record_change,
    record_rejection,
    record_resumption,
    required_payload,
)
from modelpact.sessions.errors import (
    NoLongerFits,
    SessionClosed,
    SessionError,
    SpawnRejected,
    SwitchRejected,
)
from modelpact.sessions.knowledge import Knowledge
from modelpact.sessions.store import CommittedState, SessionState
from modelpact.vocabulary.errors import ModelpactError

T = TypeVar("T")
RESUME: Final = "resume"
_ASKED_ANEW: Final = ("/model", "/provider", RESUME)
"""Triggers on which a provider describes its model again."""


class _Lock:
    """A lock of a session; a listener of the bus, which could only wait for ever, is refused."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held = threading.RLock()

    def __enter__(self) -> None:
        self._ledger.ensure_can_wait()
        self._held.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.release()


class Core:
    """The state in force. `lock` is held by whoever changes it."""

    def __init__(
        self, id: str, ledger: Ledger, models: ModelCaller, standing: CommittedState
    ) -> None:
        self.id = id
        self.envelope = f"session/{id}"
        self.ledger = ledger
        self.models = models
        self.knowledge = Knowledge(ledger, models)
        self.standing = standing
        self.own = {standing.event}
        """The events that put a state in force and are known here, committed or not."""
        self.lock = _Lock(ledger)
        self.closed = False
        self.refusal: SessionError | None = None
        """Why nothing is sent: the model does not fit as it is known since the resumption."""
        self._unsure = False

    def current(self) -> SessionState:
        """Return the state in force; raise where the session is closed."""
        if self.closed:
            raise SessionClosed(self.id)
        if self._unsure:
            self.standing = rows.load_state(self.ledger, self.id)
            self.own.add(self.standing.event)
            self._unsure = False
        return self.standing.state

    def start(self, target: str, parent: "Core | None") -> None:
        """Put the first state in force, on a model that meets its required set."""
        before = self.standing.state
        provider = "" if parent is None else parent.standing.state.target.partition("/")[0]
        state = before.on(self.knowledge.target(target, provider))
        trigger = "start" if parent is None else "spawn"
        decision = self.decide(trigger, state, self.standing.needs)
        if not decision.ok:
            teller, kind = (self, SwitchRejected) if parent is None else (parent, SpawnRejected)
            teller.reject(decision, kind)

        def work(tx: Transaction) -> str:
            tx.open_envelope(self.envelope, "session", state.target)
            cause = None
            if parent is not None:
                payload = {"session": self.id, "target": state.target}
                spawned = Draft(parent.envelope, "session.spawned", payload, parent.standing.event)
                cause = tx.append(spawned).id
            opening = opening_payload(self.id, state, decision.needs)
            opened = record_change(tx, self.envelope, decision, cause, "session.opened", opening)
            rows.insert(tx, self.id, self.envelope, state, opened)
            self.own.add(opened)
            return opened

        opened = self.write(work)
        self.standing = CommittedState(state, decision.needs, opened, 1)

    def take_up(self, unanswered: int) -> None:
        """Hold a session that was resumed against its model as that is known now."""
        decision = self._look_again()
        payload = {"target": self.standing.state.target, "unanswered": unanswered}
        cause, refusal = self.standing.event, self.refusal
        self.write(
            lambda tx: record_resumption(tx, self.envelope, decision, cause, payload, refusal)
        )

    def check_fit(self) -> None:
        """Raise where the model did not fit when the session was resumed, and still does not."""
        with self.lock:
            if self.refusal is not None:
                self._look_again()
            if self.refusal is not None:
                raise self.refusal

    def _look_again(self) -> SessionDecision:
        decision = self.decide(RESUME, self.standing.state, self.standing.needs)
        self.refusal = None if decision.ok else decision.refusal(NoLongerFits)
        return decision

    def decide(self, trigger: str, proposed: SessionState, needs: Needs) -> SessionDecision:
        """Negotiate a proposed state; nothing is changed or recorded by that."""
        before = self.standing.state
        previous = None if trigger == RESUME else before.target or None
        moved = proposed.target != before.target or trigger in _ASKED_ANEW
        no_way: ModelpactError | None = None
        try:
            self.knowledge.describe(proposed.target, anew=moved)
        except ModelpactError as error:
            no_way = error
        judged = self.knowledge.judge(needs, proposed.target, proposed.policy)
        if not judged.verdict.ok:
            no_way = None  # of a model that does not fit no key is worth looking for
        diagnostic = diagnose(
            judged.verdict,
            previous=previous,
            params=proposed.layers,
            target=judged.resolution,
            policy=proposed.policy,
            catalog=judged.catalog,
            in_force=before.target,
        )
        if diagnostic is None and (moved or no_way):  # parameters are lost in silence nowhere
            affected = params_affected(proposed.layers, judged.resolution)
            if affected or no_way:
                diagnostic = Diagnostic(proposed.target, (), previous, params_affected=affected)
        return SessionDecision(trigger, needs, judged, diagnostic, before.target, no_way)

    def change(
        self, trigger: str, proposed: SessionState, needs: Needs, kind: str, payload: dict[str, Any]
    ) -> SessionDecision:
        """Negotiate a proposed state; put it in force, or raise and leave all as it was."""
        before = self.standing
        decision = self.decide(trigger, proposed, needs)
        if not decision.ok:
            self.reject(decision, SwitchRejected)
        if needs != before.needs:
            payload = {**payload, "required": required_payload(needs)}

        def work(tx: Transaction) -> CommittedState:
            event = record_change(tx, self.envelope, decision, before.event, kind, payload)
            return self._replaced(tx, CommittedState(proposed, needs, event, before.revision + 1))

        self.standing = self.write(work)
        self.refusal = None
        return decision

    def put(self, proposed: SessionState, kind: str, payload: dict[str, Any]) -> None:
        """Put a state in force that asks for nothing more than the one before."""
        before = self.standing
        needs = proposed.required()
        if needs != before.needs:
            payload = {**payload, "required": required_payload(needs)}

        def work(tx: Transaction) -> CommittedState:
            event = tx.append(Draft(self.envelope, kind, payload, before.event)).id
            return self._replaced(tx, CommittedState(proposed, needs, event, before.revision + 1))

        self.standing = self.write(work)

    def note(self, kind: str, payload: dict[str, Any]) -> None:
        """Append an event that changes nothing."""
        self.ledger.append(Draft(self.envelope, kind, payload, self.standing.event))

    def _replaced(self, tx: Transaction, after: CommittedState) -> CommittedState:
        rows.replace(tx, self.id, after)
        self.own.add(after.event)
        return after

    def reject(self, decision: SessionDecision, kind: type[SwitchRejected]) -> None:
        """Record a negotiation that ended with a no, and raise it."""
        refusal = decision.refusal(kind)
        cause = self.standing.event or None

        def work(tx: Transaction) -> str:
            tx.open_envelope(self.envelope, "session", decision.verdict.target)
            return record_rejection(tx, self.envelope, decision, cause, refusal)

        self.write(work)
        raise refusal

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Do work on the ledger; where it is not known whether it was kept, look next time."""
        try:
            return self.ledger.write(work)
        except LedgerUncertain:
            self._unsure = True
            raise
