"""Sessions: a model in use, what is required of it, and every change of either negotiated first."""

import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.conversation.response import StreamEvent
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.verdict import Diagnostic, ParamAffected, Policy, Verdict
from modelpact.sessions import store as rows
from modelpact.sessions.audit_events import told
from modelpact.sessions.conversation_log import ConversationLog, Sent, read_messages
from modelpact.sessions.core import Core
from modelpact.sessions.extensions import (
    ContextProvider,
    Hook,
    SecurityMode,
    StateMachine,
    load,
    load_all,
    read,
)
from modelpact.sessions.loop import iterate, run_async, run_sync
from modelpact.sessions.params import check_params
from modelpact.sessions.store import CommittedState, History, SessionState
from modelpact.sessions.turn import Turn
from modelpact.sessions.view import View
from modelpact.vocabulary.errors import InputError, brief

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Switched(msgspec.Struct, frozen=True):
    """A change that was accepted; the diagnostic says what is to know of it, if anything is."""

    target: str
    previous: str
    verdict: Verdict
    diagnostic: Diagnostic | None = None


class Session(View):
    """A session. Make one with `Session.open`, take one up again with `Session.resume`.

    Safe to use from many threads; one turn at a time.
    """

    @classmethod
    def open(
        cls,
        target: str,
        *,
        ledger: Ledger,
        models: ModelCaller,
        default_params: Mapping[str, Any] | None = None,
        launch: Mapping[str, Any] | None = None,
        machine: StateMachine | Mapping[str, Any] | None = None,
        context_providers: Iterable[ContextProvider] = (),
        hooks: Iterable[Hook] = (),
        security: SecurityMode = SecurityMode(),  # noqa: B008
        policy: Policy = Policy(),  # noqa: B008
        needs: Needs | Iterable[Need | str] | str = (),
        id: str | None = None,
    ) -> "Session":
        """Start a session on a model that meets its required set, or raise `SwitchRejected`.

        `needs` are required whatever is attached, for as long as the session lives.
        """
        if not isinstance(policy, Policy):
            raise InputError(f"policy is a Policy, not {brief(policy)}")
        state = SessionState(
            "",
            {
                "defaultParams": check_params(default_params, "defaultParams"),
                "launch": check_params(launch, "launch"),
            },
            None if machine is None else load(StateMachine, machine),
            load_all(ContextProvider, context_providers),
            load_all(Hook, hooks),
            read(SecurityMode, security),
            policy,
            tuple(needs if isinstance(needs, Needs) else Needs(needs)),
        )
        return cls._begin(target, state, ledger, models, id)

    @classmethod
    def _begin(
        cls,
        target: str,
        state: SessionState,
        ledger: Ledger,
        models: ModelCaller,
        id: str | None,
        parent: Core | None = None,
    ) -> "Session":
        name = secrets.token_hex(8) if id is None else id
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise InputError(f"id: 1 to 64 letters, digits, . _ and -, not {brief(id)}")
        core = Core(name, ledger, models, CommittedState(state, state.required(), "", 1))
        core.start(target, parent)
        return cls(core, ConversationLog(core, History()))

    @classmethod
    def resume(cls, id: str, *, ledger: Ledger, models: ModelCaller) -> "Session":
        """Take a session up as it was last committed; extensions come from the store with it.

        Its model is negotiated anew, as it is known now. Where it no longer fits, or cannot be
        called, `refusal` says so, and nothing is sent until one that fits is chosen.
        """
        standing = rows.load_state(ledger, id)
        state = standing.state
        if state.machine is not None:
            load(StateMachine, state.machine)
        load_all(ContextProvider, state.context_providers)
        load_all(Hook, state.hooks)
        core = Core(id, ledger, models, standing)
        session = cls(core, ConversationLog(core, rows.load_history(ledger, id)))
        core.take_up(len(session.unanswered))
        return session

    def switch_model(self, target: str) -> Switched:
        """Switch to `provider/model`, or to a model of the provider in use (`/model`)."""
        with self._core.lock:
            provider = self._core.current().target.partition("/")[0]
            return self._switch("/model", self._core.knowledge.target(target, provider))

    def switch_provider(self, name: str) -> Switched:
        """Switch to a provider's current choice model (`/provider`).

        That is the model this session last used there; else what the configuration names there
        first; else the cheapest well-known model that meets the needs.
        """
        with self._core.lock:
            state, knowledge = self._core.current(), self._core.knowledge
            provider = knowledge.provider(name)
            used = state.choices.get(provider)
            wanted = f"{provider}/{used}" if used else ""
            return self._switch(
                "/provider", wanted or knowledge.choice(provider, self.needs, state.policy)
            )

    def _switch(self, trigger: str, target: str) -> Switched:
        payload = {"target": target, "previous": self.target, "trigger": trigger}
        proposed = self._core.standing.state.on(target)
        return self._change(trigger, proposed, self.needs, "session.switched", payload)

    def attach(self, machine: StateMachine | Mapping[str, Any]) -> Switched:
        """Attach a state machine, in place of one that is; the model in use must fit it."""
        loaded = load(StateMachine, machine)
        payload = {"machine": loaded.name, "contract": loaded.contract}
        with self._core.lock:
            proposed = msgspec.structs.replace(self._core.current(), machine=loaded)
            needs = proposed.required()
            return self._change("/sm attach", proposed, needs, "session.attached", payload)

    def detach(self) -> None:
        """Detach the state machine; what it required is required no longer."""
        with self._core.lock:
            state = self._core.current()
            if state.machine is None:
                raise InputError("no state machine is attached")
            proposed = msgspec.structs.replace(state, machine=None)
            self._core.put(proposed, "session.detached", {"machine": state.machine.name})

    def reload(
        self,
        *,
        context_providers: Iterable[ContextProvider] | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> Switched:
        """Replace the context providers or the hooks; the model in use must fit them."""
        changes: dict[str, Any] = {}
        if context_providers is not None:
            changes["context_providers"] = load_all(ContextProvider, context_providers)
        if hooks is not None:
            changes["hooks"] = load_all(Hook, hooks)
        with self._core.lock:
            proposed = msgspec.structs.replace(self._core.current(), **changes)
            payload = {
                "contextProviders": [one.name for one in proposed.context_providers],
                "hooks": [one.name for one in proposed.hooks],
            }
            needs = proposed.required()
            return self._change("reload", proposed, needs, "session.reloaded", payload)

    def _change(
        self, trigger: str, proposed: SessionState, needs: Needs, kind: str, payload: dict[str, Any]
    ) -> Switched:
        done = self._core.change(trigger, proposed, needs, kind, payload)
        return Switched(proposed.target, done.previous, done.verdict, done.diagnostic)

    def set_params(
        self, params: Mapping[str, Any], *, unset: Iterable[str] = ()
    ) -> tuple[ParamAffected, ...]:
        """Set parameters in the layer `/params`; return those that do not apply on the model.

        Others may be `unset` with the same change: all of it is done, or nothing.
        """
        return self._change_params(check_params(params, "/params"), unset)

    def unset_params(self, names: Iterable[str]) -> tuple[ParamAffected, ...]:
        """Take parameters out of the layer `/params`; those of the layers beneath hold again."""
        return self._change_params({}, names)

    def _change_params(
        self, given: dict[str, Any], names: Iterable[str]
    ) -> tuple[ParamAffected, ...]:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        payload = {"set": told(given)} if given or not wanted else {}
        if wanted:
            payload["unset"] = list(wanted)
        with self._core.lock:
            state = self._core.current()
            held = state.layers.get("/params", {})
            for name in wanted:
                if name not in held:
                    known = ", ".join(held) or "nothing"
                    raise InputError(f"/params: {brief(name)} is not set; set is {known}")
            left = {name: one for name, one in held.items() if name not in wanted}
            return self._put_params(state, {**left, **given}, payload)

    def _put_params(
        self, state: SessionState, held: dict[str, Any], payload: dict[str, Any]
    ) -> tuple[ParamAffected, ...]:
        layers = {**state.layers, "/params": held}
        self._core.put(msgspec.structs.replace(state, layers=layers), "session.params", payload)
        return self.params_affected

    def spawn(
        self,
        target: str | None = None,
        *,
        launch: Mapping[str, Any] | None = None,
        machine: StateMachine | Mapping[str, Any] | None = None,
        context_providers: Iterable[ContextProvider] = (),
        hooks: Iterable[Hook] = (),
        id: str | None = None,
    ) -> "Session":
        """Start a subagent: it inherits the required set, the parameters, security and policy.

        What is handed in adds to that. A model that does not fit is `SpawnRejected`.
        """
        with self._core.lock:
            state = self._core.current()
            layers = dict(state.layers)
            if launch is not None:
                layers["launch"] = check_params(launch, "launch")
            child = SessionState(
                "",
                layers,
                None if machine is None else load(StateMachine, machine),
                load_all(ContextProvider, context_providers),
                load_all(Hook, hooks),
                state.security,
                state.policy,
                tuple(self.needs),
                self.id,
            )
            wanted = state.target if target is None else target
            return Session._begin(
                wanted, child, self._core.ledger, self._core.models, id, self._core
            )

    def send(self, said: Sent) -> Turn:
        """Ask the model and wait for its answer, with or without a running loop in this thread."""
        return run_sync(self._talk.whole(read_messages(said)))

    async def asend(self, said: Sent) -> Turn:
        """Ask the model and await its answer."""
        return await run_async(self._talk.whole(read_messages(said)))

    async def stream(self, said: Sent) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Ask the model and yield its answer as it comes; the last thing is the turn."""
        asked = self._talk.pieces(read_messages(said), streaming=True)
        async with aclosing(iterate(asked)) as pieces:
            async for piece in pieces:
                yield piece

    def close(self) -> None:
        """Close the session here; it stays in the store and can be resumed."""
        with self._core.lock:
            if not self._core.closed:
                self._core.closed = True
                self._core.note("session.closed", {"target": self.target})

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
