"""Sessions: a model in use, what is required of it, and every change of either negotiated first.

A session has four parts. `StateTransitions` holds the committed state and changes it, `Negotiator`
decides whether a model fits, `TurnRunner` sends messages, and `SessionStore` has its rows.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message
from modelpact.conversation.response import StreamEvent
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.parameters import ParamFinding, effective_params, negotiate_parameters, params_affected
from modelpact.negotiation.verdict import ParamAffected, Policy, Verdict
from modelpact.sessions.errors import SessionError
from modelpact.sessions.extensions import ContextProvider, Hook, SecurityMode, StateMachine, load, load_all, read
from modelpact.sessions.loop import iterate, run_async, run_sync
from modelpact.sessions.negotiator import Negotiator
from modelpact.sessions.params import check_params
from modelpact.sessions.store import CommittedState, History, SessionState, SessionStore, TranscriptEntry
from modelpact.sessions.transitions import StateTransitions, Switched, event_payload
from modelpact.sessions.turns import MessageInput, Turn, TurnRunner, read_messages
from modelpact.vocabulary.errors import InputError, brief

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Session:
    """A session. Create one with `Session.open`, or continue one with `Session.resume`.

    You can use it from many threads; it runs one turn at a time.
    """

    def __init__(self, transitions: StateTransitions, models: ModelCaller, history: History) -> None:
        self._transitions = transitions
        self._store = transitions.store
        self._negotiator = transitions.negotiator
        self._models = models
        self._turns = TurnRunner(transitions, models, history)

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
        """Start a session on a model that meets its required set.

        Raise `SwitchRejected`, `KeyMissing` or `TargetUnreachable`, as `switch_model` does.
        `needs` are required throughout the session, in addition to what its extensions require.
        """
        if not isinstance(policy, Policy):
            raise InputError(f"policy is a Policy, not {brief(policy)}")
        state = SessionState(
            "",
            {"defaultParams": check_params(default_params, "defaultParams"), "launch": check_params(launch, "launch")},
            None if machine is None else load(StateMachine, machine),
            load_all(ContextProvider, context_providers),
            load_all(Hook, hooks),
            read(SecurityMode, security),
            policy,
            tuple(needs if isinstance(needs, Needs) else Needs(needs)),
        )
        return cls._start(target, state, ledger, models, id)

    @classmethod
    def resume(cls, id: str, *, ledger: Ledger, models: ModelCaller) -> "Session":
        """Continue a session from its last committed state, extensions included.

        Its model is negotiated again, as it is known now. If it no longer fits or cannot be called,
        `refusal` says why, and nothing is sent until you switch to a model that fits.
        """
        store = SessionStore(ledger, id)
        committed = store.load_state()
        state = committed.state
        if state.machine is not None:
            load(StateMachine, state.machine)
        load_all(ContextProvider, state.context_providers)
        load_all(Hook, state.hooks)
        transitions = StateTransitions(store, Negotiator(ledger, models), committed)
        history = store.load_history()
        session = cls(transitions, models, history)
        transitions.resume(len(history.unanswered))
        return session

    @classmethod
    def _start(
        cls,
        target: str,
        state: SessionState,
        ledger: Ledger,
        models: ModelCaller,
        id: str | None,
        parent: StateTransitions | None = None,
    ) -> "Session":
        name = secrets.token_hex(8) if id is None else id
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise InputError(f"id: 1 to 64 letters, digits, . _ and -, not {brief(id)}")
        transitions = StateTransitions(
            SessionStore(ledger, name), Negotiator(ledger, models), CommittedState(state, state.required(), "", 1)
        )
        transitions.start(target, parent)
        return cls(transitions, models, History())

    @property
    def id(self) -> str:
        """The session's id."""
        return self._store.id

    @property
    def envelope(self) -> str:
        """The envelope of its events: `session/ID`."""
        return self._store.envelope

    @property
    def target(self) -> str:
        """The `provider/model` in use."""
        return self._state.target

    @property
    def needs(self) -> Needs:
        """The required set. Each need says which parts require it."""
        return self._transitions.committed.needs

    @property
    def refusal(self) -> SessionError | None:
        """Why nothing is sent to the model of a resumed session; None if it fits."""
        return self._transitions.refusal

    @property
    def params(self) -> dict[str, Any]:
        """The effective parameters: `/params` over `launch` over `defaultParams`."""
        return effective_params(self._state.layers)

    @property
    def layers(self) -> dict[str, dict[str, Any]]:
        """The parameters by layer."""
        return {name: dict(params) for name, params in self._state.layers.items()}

    @property
    def params_affected(self) -> tuple[ParamAffected, ...]:
        """The parameters that do not apply on the model in use."""
        resolution = self._negotiator.resolution(self.target)
        return params_affected(self._state.layers, resolution)

    @property
    def params_unknown(self) -> tuple[ParamFinding, ...]:
        """The parameters that are sent although it is not known whether they apply."""
        resolution = self._negotiator.resolution(self.target)
        findings = negotiate_parameters(self.params, resolution)
        return tuple(finding for finding in findings if finding.action == "unknown")

    @property
    def machine(self) -> StateMachine | None:
        """The attached state machine."""
        return self._state.machine

    @property
    def context_providers(self) -> tuple[ContextProvider, ...]:
        """The active context providers."""
        return self._state.context_providers

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The active hooks."""
        return self._state.hooks

    @property
    def security(self) -> SecurityMode:
        """The security mode."""
        return self._state.security

    @property
    def policy(self) -> Policy:
        """The policy for unknown and missing capabilities."""
        return self._state.policy

    @property
    def parent(self) -> str:
        """The id of the session that spawned this one, or an empty string."""
        return self._state.parent

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all answered turns. The model gets them with every request."""
        return self._turns.history.messages

    @property
    def unanswered(self) -> tuple[Message, ...]:
        """Messages without an answer, because the call failed or the process ended. Not resent."""
        return self._turns.history.unanswered

    @property
    def transcript(self) -> tuple[TranscriptEntry, ...]:
        """All messages in order, unanswered ones included."""
        return self._store.load_transcript()

    @property
    def _state(self) -> SessionState:
        return self._transitions.committed.state

    def fit(self, target: str, needs: Needs | None = None) -> Verdict:
        """Return how a model would fit the required set, or other needs. Nothing is recorded."""
        resolved = self._negotiator.resolve_target(target, self._state.provider)
        required = self.needs if needs is None else needs
        return self._negotiator.verdict(required, resolved, self.policy)

    def switch_model(self, target: str) -> Switched:
        """Switch to `provider/model`, or to a model of the provider in use (`/model`).

        Raise `SwitchRejected` if the model does not fit, `KeyMissing` if it fits but its provider's
        API key is missing, and `TargetUnreachable` if it fits but cannot be called for another
        reason. After each of them the session is as it was.
        """
        with self._transitions.lock:
            state = self._transitions.current()
            resolved = self._negotiator.resolve_target(target, state.provider)
            return self._switch("/model", resolved)

    def switch_provider(self, name: str) -> Switched:
        """Switch to a provider's current choice of model (`/provider`).

        That is the model this session last used there; else the first that the configuration names
        there; else the cheapest well-known model that meets the needs.
        Raise as `switch_model` does.
        """
        with self._transitions.lock:
            state = self._transitions.current()
            provider = self._negotiator.resolve_provider(name)
            model = state.choices.get(provider)
            if model:
                return self._switch("/provider", f"{provider}/{model}")
            target = self._negotiator.choose_model(provider, self.needs, state.policy)
            return self._switch("/provider", target)

    def attach(self, machine: StateMachine | Mapping[str, Any]) -> Switched:
        """Attach a state machine in place of the present one.

        The model in use must fit it; otherwise raise as `switch_model` does.
        """
        loaded = load(StateMachine, machine)
        payload = {"machine": loaded.name, "contract": loaded.contract}
        with self._transitions.lock:
            proposed = msgspec.structs.replace(self._transitions.current(), machine=loaded)
            needs = proposed.required()
            return self._transitions.change("/sm attach", proposed, needs, "session.attached", payload)

    def detach(self) -> None:
        """Detach the state machine. What it required is no longer required."""
        with self._transitions.lock:
            state = self._transitions.current()
            if state.machine is None:
                raise InputError("no state machine is attached")
            proposed = msgspec.structs.replace(state, machine=None)
            payload = {"machine": state.machine.name}
            self._transitions.change_without_negotiation(proposed, "session.detached", payload)

    def reload(
        self, *, context_providers: Iterable[ContextProvider] | None = None, hooks: Iterable[Hook] | None = None
    ) -> Switched:
        """Replace the context providers or the hooks.

        The model in use must fit them; otherwise raise as `switch_model` does.
        """
        changes: dict[str, Any] = {}
        if context_providers is not None:
            changes["context_providers"] = load_all(ContextProvider, context_providers)
        if hooks is not None:
            changes["hooks"] = load_all(Hook, hooks)
        with self._transitions.lock:
            proposed = msgspec.structs.replace(self._transitions.current(), **changes)
            payload = {
                "contextProviders": [provider.name for provider in proposed.context_providers],
                "hooks": [hook.name for hook in proposed.hooks],
            }
            return self._transitions.change("reload", proposed, proposed.required(), "session.reloaded", payload)

    def set_params(self, params: Mapping[str, Any], *, unset: Iterable[str] = ()) -> tuple[ParamAffected, ...]:
        """Set parameters in the layer `/params`, and remove those in `unset`, in one change.

        Return the parameters that do not apply on the model.
        """
        return self._change_params(check_params(params, "/params"), unset)

    def unset_params(self, names: Iterable[str]) -> tuple[ParamAffected, ...]:
        """Remove parameters from the layer `/params`. Those of the layers below apply again."""
        return self._change_params({}, names)

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
        """Start a subagent. It inherits the required set, the parameters, security and policy.

        What you pass is added to that. Raise `SpawnRejected` if the model does not fit.
        """
        with self._transitions.lock:
            state = self._transitions.current()
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
            return Session._start(wanted, child, self._store.ledger, self._models, id, self._transitions)

    def send(self, messages: MessageInput) -> Turn:
        """Send messages and wait for the answer. A running event loop does not matter."""
        return run_sync(self._turns.run(read_messages(messages)))

    async def asend(self, messages: MessageInput) -> Turn:
        """Send messages and await the answer."""
        return await run_async(self._turns.run(read_messages(messages)))

    async def stream(self, messages: MessageInput) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Send messages and yield the events of the answer as they arrive, then the turn."""
        running = self._turns.stream(read_messages(messages))
        async with aclosing(iterate(running)) as events:
            async for event in events:
                yield event

    def close(self) -> None:
        """Close the session in this process. It stays in the store and can be resumed."""
        with self._transitions.lock:
            self._transitions.close()

    def _switch(self, trigger: str, target: str) -> Switched:
        payload = {"target": target, "previous": self.target, "trigger": trigger}
        proposed = self._state.with_target(target)
        return self._transitions.change(trigger, proposed, self.needs, "session.switched", payload)

    def _change_params(self, added: dict[str, Any], removed: Iterable[str]) -> tuple[ParamAffected, ...]:
        names = (removed,) if isinstance(removed, str) else tuple(removed)
        payload = {"set": event_payload(added)} if added or not names else {}
        if names:
            payload["unset"] = list(names)
        with self._transitions.lock:
            state = self._transitions.current()
            before = state.layers.get("/params", {})
            for name in names:
                if name not in before:
                    known = ", ".join(before) or "nothing"
                    raise InputError(f"/params: {brief(name)} is not set; set is {known}")
            remaining = {name: value for name, value in before.items() if name not in names}
            layers = {**state.layers, "/params": {**remaining, **added}}
            proposed = msgspec.structs.replace(state, layers=layers)
            self._transitions.change_without_negotiation(proposed, "session.params", payload)
            return self.params_affected

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
