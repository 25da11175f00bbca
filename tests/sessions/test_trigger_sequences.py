"""Random sequences of triggers: a rejected trigger changes nothing."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from modelpact import InputError, Policy, negotiate
from modelpact.emulation.emulator import emulator_strategies
from modelpact.ledger import Ledger
from modelpact.sessions import (
    ContextProvider,
    Hook,
    LoadError,
    SecurityMode,
    Session,
    SpawnRejected,
    Stage,
    StateMachine,
    SwitchRejected,
    required_set,
)
from modelpact.sessions.store import SessionStore
from tests.sessions.support import models_of, seen, small_catalog, stored, trail

KNOWN = small_catalog(
    mute={"streaming": False},
    plain={"tool_calling": False, "temperature": False},
    tiny={"context_window": 8_000, "prompt_caching": False, "top_k": False},
    vague={"streaming": "unknown", "context_window": "unknown"},
)
MODELS = ["gpt-full", "gpt-mute", "gpt-plain", "gpt-tiny", "gpt-vague", "nobody-lists-this"]
TARGETS = [f"{provider}/{model}" for provider in ("openai", "anthropic") for model in MODELS]
NEEDS = st.lists(
    st.sampled_from(
        [
            *("streaming", "tools:preferred", "context>=50k", "prompt-caching:preferred"),
            *("reasoning:probed", "structured-output", "multimodal:preferred"),
        ]
    ),
    max_size=3,
).map(tuple)
LEVELS = st.sampled_from(["hard", "preferred", "probed"])
MACHINES = st.builds(
    StateMachine,
    st.sampled_from(["review", "deploy"]),
    NEEDS.map(lambda needs: (Stage("only", needs),)),
    NEEDS,
    st.sampled_from(["^1.0", "1.x", ">=2"]),
)
CONTEXT = st.builds(
    ContextProvider,
    st.sampled_from(["docs", "code", "notes"]),
    st.lists(st.sampled_from(["text", "tool-hint", "resource-binding"]), max_size=2).map(tuple),
    st.sampled_from([0, 5_000, 90_000, 900_000]),
    LEVELS,
    NEEDS,
)
HOOKS = st.builds(
    Hook,
    st.sampled_from(["mask", "log"]),
    st.sampled_from(["observe", "guard", "transform"]),
    st.sampled_from(["tokens", "messages"]),
    LEVELS,
    NEEDS,
)
PARAMS = st.sampled_from(
    [
        *({"temperature": 0.5}, {"top_k": 3}, {"temperature": "hot"}, {"model": "x"}),
        *({"stop": ["a"]}, {"temperature": None}, {"x": float("nan")}, "nonsense"),
    ]
)


class Triggers(RuleBasedStateMachine):
    """Fires triggers at a session, and compares its properties, its row and its verdicts."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()

    @initialize(unknown=st.sampled_from(["refuse", "probe"]), tool_oriented=st.booleans(), hooks=HOOKS)
    def open(self, unknown: Any, tool_oriented: bool, hooks: Hook) -> None:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.ledger = self.stack.enter_context(Ledger.open(f"sqlite:{Path(folder) / 'x.db'}"))
        self.models = models_of(self.ledger, KNOWN)
        self.session = Session.open(
            "openai/gpt-full",
            ledger=self.ledger,
            models=self.models,
            default_params={"temperature": 0.1},
            hooks=[hooks],
            security=SecurityMode("allowlist", tool_oriented),
            policy=Policy(unknown=unknown),
        )

    def teardown(self) -> None:
        self.stack.close()

    def attempt(self, act: Any, *, accepted: bool, changes: dict[str, Any]) -> None:
        """Fire a trigger. If it is rejected, nothing differs; otherwise only what it changes."""
        before, rows = self.snapshot(), stored(self.ledger, self.session)
        try:
            act()
        except (SwitchRejected, LoadError, InputError):
            assert not accepted
            assert self.snapshot() == before
            assert stored(self.ledger, self.session) == rows
        else:
            assert accepted
            assert self.snapshot() == {**before, **changes}

    def snapshot(self) -> dict[str, Any]:
        names = ("target", "needs", "params", "layers", "machine", "context", "hooks")
        return dict(zip(names, seen(self.session), strict=False))

    def fits(self, target: str, **parts: Any) -> tuple[bool, Any]:
        """Compute by other means whether the parts fit a model."""
        now = self.session
        held: dict[str, Any] = {
            "machine": now.machine,
            "context_providers": now.context_providers,
            "hooks": now.hooks,
            **parts,
        }
        needs = required_set(**held, security=now.security)
        if target.endswith("nobody-lists-this"):
            from modelpact.catalog.claim import Claims

            verdict = negotiate(needs, Claims((), target=target), now.policy)
        else:
            verdict = negotiate(needs, target, now.policy, strategies=emulator_strategies(), catalog=KNOWN)
        return verdict.ok, needs

    @rule(name=st.sampled_from(TARGETS))
    def model(self, name: str) -> None:
        ok, _ = self.fits(name)
        self.attempt(lambda: self.session.switch_model(name), accepted=ok, changes={"target": name})

    @rule(provider=st.sampled_from(["openai", "anthropic", "nobody"]))
    def provider(self, provider: str) -> None:
        choice = SessionStore(self.ledger, self.session.id).load_state().state.choices.get(provider)
        if choice is None:
            return
        target = f"{provider}/{choice}"
        ok, _ = self.fits(target)
        self.attempt(lambda: self.session.switch_provider(provider), accepted=ok, changes={"target": target})

    @rule(machine=MACHINES)
    def attach(self, machine: StateMachine) -> None:
        ok, needs = self.fits(self.session.target, machine=machine)
        self.attempt(
            lambda: self.session.attach(machine),
            accepted=ok and machine.contract != ">=2",
            changes={"machine": machine, "needs": needs},
        )

    @precondition(lambda self: self.session.machine is not None)
    @rule()
    def detach(self) -> None:
        _, needs = self.fits(self.session.target, machine=None)
        self.attempt(self.session.detach, accepted=True, changes={"machine": None, "needs": needs})

    @rule(context=st.lists(CONTEXT, max_size=3), hooks=st.none() | st.lists(HOOKS, max_size=2))
    def reload(self, context: list[ContextProvider], hooks: list[Hook] | None) -> None:
        remaining = self.session.hooks if hooks is None else tuple(hooks)
        ok, needs = self.fits(self.session.target, context_providers=tuple(context), hooks=remaining)
        twice = len({event.name for event in context}) < len(context)
        twice = twice or len({run.name for run in remaining}) < len(remaining)
        self.attempt(
            lambda: self.session.reload(context_providers=context, hooks=hooks),
            accepted=ok and not twice,
            changes={"context": tuple(context), "hooks": remaining, "needs": needs},
        )

    @rule(params=PARAMS)
    def params(self, params: Any) -> None:
        before = self.snapshot()
        good = isinstance(params, dict) and not ({"model", "x"} & set(params))
        good = good and params.get("temperature") != "hot"
        try:
            self.session.set_params(params)
        except InputError:
            assert not good
            assert self.snapshot() == before
        else:
            assert good
            assert self.session.layers["/params"].items() >= params.items()
            assert self.session.needs == before["needs"]

    @rule(name=st.none() | st.sampled_from(TARGETS))
    def spawn(self, name: str | None) -> None:
        before, rows = self.snapshot(), stored(self.ledger, self.session)
        ok, needs = self.fits(name or self.session.target)
        try:
            child = self.session.spawn(name)
        except SpawnRejected:
            assert not ok
        else:
            assert ok
            assert child.needs == needs
        assert self.snapshot() == before
        assert stored(self.ledger, self.session) == rows

    @invariant()
    def what_is_in_force_is_what_is_stored(self) -> None:
        if hasattr(self, "session"):
            committed = SessionStore(self.ledger, self.session.id).load_state()
            assert committed.state.target == self.session.target
            assert committed.needs == self.session.needs
            assert committed.state.layers == self.session.layers
            assert self.session.fit(self.session.target).ok
            trail(self.ledger, self.session)


TestTriggers = Triggers.TestCase
TestTriggers.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
