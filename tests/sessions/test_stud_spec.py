"""The stud specification (docs/spec/stud.md) in sessions: sources, levels, triggers, diagnostics,
security.
"""

from collections.abc import Callable
from typing import Any

import pytest

from modelpact import Policy
from modelpact.ledger import Event, Ledger
from modelpact.providers.port import MockProvider
from modelpact.sessions import (
    ContextProvider,
    Hook,
    SecurityMode,
    SpawnRejected,
    Stage,
    StateMachine,
    SwitchRejected,
    required_set,
)
from tests.sessions.support import LACKING, NEED, last, opened, seen, small_catalog, stored, types

MACHINE = StateMachine("review", (Stage("draft"), Stage("check", ("streaming",))))


def by(needs: Any) -> dict[str, tuple[str, ...]]:
    return {str(need): need.required_by for need in needs}


def asking(name: str, level: str) -> ContextProvider:
    return ContextProvider("notes", needs=(f"{NEED[name]}:{level}",))


# Required capabilities: the four sources.


def test_source_state_machine() -> None:
    """S000-3-1, S000-3-3: `toolCalling: hard` always, and what the stages rely on."""
    assert by(required_set(StateMachine("bare"))) == {"tool-calling>=native": ("state-machine:bare",)}
    assert by(required_set(MACHINE)) == {
        "tool-calling>=native": ("state-machine:review",),
        "streaming>=native": ("state-machine:review/check",),
    }


@pytest.mark.parametrize("content", ["tool-hint", "resource-binding"])
def test_source_context_providers_by_content(content: Any) -> None:
    """S000-3-4: tool-hint and resource-binding content require tool calling."""
    provider = ContextProvider("docs", produces=("text", content))
    assert by(required_set(context_providers=[provider])) == {"tool-calling>=native": ("context-provider:docs",)}
    assert not required_set(context_providers=[ContextProvider("docs")])


def test_source_context_providers_by_size() -> None:
    """S000-3-5: large contributions require a minimum context window."""
    providers = [
        ContextProvider("manual", tokens=60_000),
        ContextProvider("code", tokens=40_000),
        ContextProvider("date", tokens=20),
    ]
    assert by(required_set(context_providers=providers)) == {
        "context-window>=100000>=native": ("context-provider:manual", "context-provider:code")
    }


@pytest.mark.parametrize("kind", ["guard", "transform"])
def test_source_hooks(kind: Any) -> None:
    """S000-3-6: guard and transform hooks on streamed tokens require streaming."""
    assert by(required_set(hooks=[Hook("mask", kind, "tokens")])) == {"streaming>=native": ("hook:mask",)}
    assert not required_set(hooks=[Hook("mask", kind, "messages")])
    assert not required_set(hooks=[Hook("count", "observe", "tokens")])


def test_source_security_mode() -> None:
    """S000-3-7: allowlist with tool-oriented workflows requires tool calling."""
    assert by(required_set(security=SecurityMode("allowlist", tool_oriented=True))) == {
        "tool-calling>=native": ("security:allowlist",)
    }
    assert not required_set(security=SecurityMode("allowlist"))
    assert not required_set(security=SecurityMode("ask", tool_oriented=True))


def test_the_set_keeps_the_requirers_and_the_strictest_level() -> None:
    """MP-N12, S000-1-2: needs for one capability merge to the strictest; every `required_by` is
    kept.
    """
    needs = required_set(
        MACHINE,
        [ContextProvider("hints", produces=("tool-hint",), level="preferred")],
        [Hook("mask", "guard", "tokens", level="preferred")],
        SecurityMode("allowlist", tool_oriented=True),
    )
    assert by(needs) == {
        "tool-calling>=native": ("state-machine:review", "context-provider:hints", "security:allowlist"),
        "streaming>=native": ("state-machine:review/check", "hook:mask"),
    }


def test_the_required_set_is_fixed_at_start(ledger: Ledger) -> None:
    """S000-3-8, S000-3-9: fixed when the session starts, evaluated again on each switch."""
    session = opened(ledger, machine=MACHINE, context_providers=[ContextProvider("a", tokens=9_000)])
    assert session.needs == required_set(MACHINE, session.context_providers)
    known = small_catalog(weak={"tool_calling": False})
    with pytest.raises(SwitchRejected) as caught:
        opened(ledger, "openai/gpt-weak", known=known, machine=MACHINE, id="weak")
    assert caught.value.diagnostic.previous is None
    assert ledger.events("session/weak")[-1].type == "session.rejected"
    assert ledger.read("SELECT 1 FROM sessions WHERE id = 'weak'") == []


@pytest.mark.parametrize("trigger", ["/sm attach", "/model", "/provider"])
def test_tool_calling_hard_fails_on_every_path(ledger: Ledger, trigger: str) -> None:
    """S000-3-10: fails on /sm attach and on a /model or /provider switch."""
    known = small_catalog(weak={"tool_calling": False})
    session = opened(ledger, "anthropic/gpt-weak", known=known)
    if trigger != "/sm attach":
        session.switch_model("openai/gpt-full")
        session.attach(MACHINE)
    act: dict[str, Callable[[], object]] = {
        "/sm attach": lambda: session.attach(MACHINE),
        "/model": lambda: session.switch_model("openai/gpt-weak"),
        "/provider": lambda: session.switch_provider("anthropic"),
    }
    with pytest.raises(SwitchRejected) as caught:
        act[trigger]()
    assert caught.value.trigger == trigger
    assert [missing.capability for missing in caught.value.diagnostic.missing] == ["tool-calling"]


# Three levels × seven capabilities.


@pytest.mark.parametrize("name", LACKING)
def test_matrix_hard(ledger: Ledger, name: str) -> None:
    """S000-6-1, S000-4-4, S000-5-4, S000-1-3: the switch is rejected and nothing changes."""
    session = opened(ledger, known=small_catalog(weak=LACKING[name]), context_providers=[asking(name, "hard")])
    before = seen(session), stored(ledger, session)
    with pytest.raises(SwitchRejected) as caught:
        session.switch_model("gpt-weak")
    assert caught.value.code == "ProviderCapability/MissingCapability"
    assert caught.value.context["missing"][0]["capability"] == name
    assert caught.value.axis == "runtime"
    assert (seen(session), stored(ledger, session)) == before


@pytest.mark.parametrize("name", LACKING)
def test_matrix_preferred(ledger: Ledger, name: str) -> None:
    """S000-6-2, S000-5-5, S000-10-3: `preferred-unmet`, and the downgrade is audited."""
    session = opened(ledger, known=small_catalog(weak=LACKING[name]), context_providers=[asking(name, "preferred")])
    switched = session.switch_model("gpt-weak")
    assert [warning.outcome for warning in switched.verdict.warnings] == ["preferred-unmet"]
    assert session.target == "openai/gpt-weak"
    audited = last(ledger, session, "session.downgraded")
    assert audited.payload == {
        "target": "openai/gpt-weak",
        "previous": "openai/gpt-full",
        "lost": [{"capability": name, "requiredBy": ["context-provider:notes"]}],
    }
    warned = last(ledger, session, "session.switched").payload["diagnostic"]["warnings"]
    assert warned == [{"name": name, "reason": "preferred-unmet"}]


@pytest.mark.parametrize("name", LACKING)
def test_matrix_probed(ledger: Ledger, name: str) -> None:
    """S000-6-3, S000-6-6: `probe-pending`."""
    declared = {"context_window": "unknown"} if name == "contextWindow" else LACKING[name]
    session = opened(ledger, known=small_catalog(weak=declared), context_providers=[asking(name, "probed")])
    switched = session.switch_model("gpt-weak")
    assert [warning.outcome for warning in switched.verdict.warnings] == ["probe-pending"]
    assert "session.downgraded" not in types(ledger, session)


@pytest.mark.parametrize("level", ["hard", "preferred", "probed"])
def test_a_probed_window_is_always_deferred(ledger: Ledger, level: str) -> None:
    """S000-6-9: a `probed` claim is always deferred, whatever the level."""
    known = small_catalog(unsure={"context_window": "unknown"})
    session = opened(ledger, known=known, context_providers=[asking("contextWindow", level)])
    switched = session.switch_model("gpt-unsure")
    assert [warning.outcome for warning in switched.verdict.warnings] == ["probe-pending"]


@pytest.mark.parametrize("unknown", ["refuse", "probe"])
def test_an_unknown_pair_has_the_default_vector(ledger: Ledger, unknown: Any) -> None:
    """S000-2-2: an unknown pair has a default vector: all probed."""
    session = opened(ledger, policy=Policy(unknown=unknown))
    verdict = session.fit("openai/nobody-lists-this")
    assert verdict.findings == ()
    session.reload(context_providers=[asking(name, "preferred") for name in ["reasoning"]])
    everything = [ContextProvider(name, needs=(text,)) for name, text in NEED.items()]
    session.reload(context_providers=everything)
    verdict = session.fit("openai/nobody-lists-this")
    assert {finding.claim.support for finding in verdict.findings} == {"unknown"}
    assert verdict.ok is (unknown == "probe")


# Re-negotiation triggers.


def test_trigger_model(ledger: Ledger) -> None:
    """S000-7-1, S000-4-2: full negotiation against the target model."""
    known = small_catalog(weak={"tool_calling": False, "context_window": 10_000})
    session = opened(ledger, known=known, machine=MACHINE, context_providers=[ContextProvider("x", tokens=50_000)])
    with pytest.raises(SwitchRejected) as caught:
        session.switch_model("gpt-weak")
    missing = [missing.capability for missing in caught.value.diagnostic.missing]
    assert missing == ["tool-calling", "context-window"]
    assert session.switch_model("anthropic/gpt-full").previous == "openai/gpt-full"


def test_trigger_provider(ledger: Ledger) -> None:
    """S000-7-2: against the model that is the provider's current choice."""
    known = small_catalog(mini={}, weak={"tool_calling": False})
    session = opened(ledger, "anthropic/gpt-weak", known=known)
    session.switch_model("openai/gpt-mini")
    assert session.switch_provider("anthropic").target == "anthropic/gpt-weak"
    assert session.switch_provider("openai").target == "openai/gpt-mini"
    session.attach(MACHINE)
    with pytest.raises(SwitchRejected) as caught:
        session.switch_provider("anthropic")
    assert caught.value.diagnostic.target == "anthropic/gpt-weak"
    assert session.target == "openai/gpt-mini"


def test_trigger_state_machine_attach(ledger: Ledger) -> None:
    """S000-7-3: compute the required set again; negotiate with the current model."""
    session = opened(ledger, known=small_catalog(weak={"streaming": False}))
    assert not session.needs
    session.attach(MACHINE)
    assert session.needs == required_set(MACHINE)
    session.detach()
    assert not session.needs
    session.switch_model("gpt-weak")
    with pytest.raises(SwitchRejected) as caught:
        session.attach(MACHINE)
    assert [missing.capability for missing in caught.value.diagnostic.missing] == ["streaming"]
    assert session.machine is None
    assert not session.needs


def test_trigger_reload_with_a_new_context_provider(ledger: Ledger) -> None:
    """S000-7-4: compute the required set again; negotiate."""
    session = opened(ledger)
    session.reload(context_providers=[ContextProvider("manual", tokens=100_000)])
    assert by(session.needs) == {"context-window>=100000>=native": ("context-provider:manual",)}
    before = seen(session)
    with pytest.raises(SwitchRejected) as caught:
        session.reload(context_providers=[ContextProvider("library", tokens=900_000)])
    assert caught.value.trigger == "reload"
    assert seen(session) == before


def test_no_trigger_context_window_exhaustion(ledger: Ledger) -> None:
    """S000-7-5: running out of context window is no trigger."""
    from modelpact.providers.models.upstream import UpstreamError
    from modelpact.sessions import CapabilityMissing

    full = UpstreamError("this model's maximum context length is 8192 tokens", status=400, code="too_long")
    session = opened(ledger, ports={"openai": MockProvider([full])}, machine=MACHINE)
    state, decisions = seen(session)[:9], types(ledger, session).count("negotiation.decided")
    with pytest.raises(CapabilityMissing) as caught:
        session.send("a very long text")
    assert caught.value.code == "ProviderCapability/ContextWindowTooSmall"
    assert seen(session)[:9] == state
    assert types(ledger, session).count("negotiation.decided") == decisions


# Diagnostic shape.


def rejected(ledger: Ledger) -> tuple[SwitchRejected, dict[str, Any]]:
    known = small_catalog(weak={"tool_calling": False, "temperature": False, "top_k": False})
    session = opened(
        ledger,
        known=known,
        machine=MACHINE,
        default_params={"temperature": 0.1, "max_tokens": 10},
        launch={"temperature": 0.5},
    )
    session.set_params({"top_k": 7})
    with pytest.raises(SwitchRejected) as caught:
        session.switch_model("gpt-weak")
    event = last(ledger, session, "session.rejected")
    return caught.value, event.payload["diagnostic"]


def test_diagnostic_target(ledger: Ledger) -> None:
    """S000-9-1: the provider and model that the user asked for."""
    error, diagnostic = rejected(ledger)
    assert error.diagnostic.target == "openai/gpt-weak"
    assert diagnostic["target"] == {"provider": "openai", "model": "gpt-weak"}


def test_diagnostic_missing(ledger: Ledger) -> None:
    """S000-9-2: a list of capability and requiredBy."""
    error, diagnostic = rejected(ledger)
    assert error.diagnostic.missing[0].required_by == ("state-machine:review",)
    assert diagnostic["missing"] == [
        {"capability": "toolCalling", "requiredBy": ["state-machine:review"], "reason": "unsupported"}
    ]


def test_diagnostic_previous(ledger: Ledger) -> None:
    """S000-9-3: the provider and model before the switch."""
    error, diagnostic = rejected(ledger)
    assert error.diagnostic.previous == "openai/gpt-full"
    assert diagnostic["previous"] == {"provider": "openai", "model": "gpt-full"}


def test_diagnostic_suggestion(ledger: Ledger) -> None:
    """S000-9-4: a target that would satisfy the session."""
    error, diagnostic = rejected(ledger)
    assert error.diagnostic.suggestion == "openai/gpt-suggested"
    assert diagnostic["suggestion"] == {"provider": "openai", "model": "gpt-suggested"}


def test_diagnostic_params_affected(ledger: Ledger) -> None:
    """S000-9-5: paramPath, reason, activeModelId, currentValue, sourceLayer."""
    _, diagnostic = rejected(ledger)
    affected = {tuple(param["paramPath"]): param for param in diagnostic["paramsAffected"]}
    assert {path: param["sourceLayer"] for path, param in affected.items()} == {
        ("temperature",): "launch",
        ("top_k",): "/params",
    }
    assert affected["temperature",]["currentValue"] == "0.5"
    assert affected["temperature",]["activeModelId"] == "gpt-weak"
    assert "temperature" in affected["temperature",]["reason"]


@pytest.mark.parametrize("layer", ["defaultParams", "launch", "/params"])
def test_diagnostic_source_layer_and_redaction(ledger: Ledger, layer: str) -> None:
    """S000-9-7, S000-9-8, S000-11-2: secrets never appear verbatim; three source layers."""
    secret = "-".join(("sk", "proj", "0123456789abcdefghij"))
    params = {"stop": [secret]}
    known = small_catalog(weak={"stop_sequences": False, "prompt_caching": False})
    session = opened(
        ledger,
        known=known,
        context_providers=[asking("promptCaching", "preferred")],
        default_params=params if layer == "defaultParams" else None,
        launch=params if layer == "launch" else None,
    )
    if layer == "/params":
        session.set_params(params)
    switched = session.switch_model("gpt-weak")
    assert switched.diagnostic is not None
    (affected,) = switched.diagnostic.params_affected
    assert affected.source_layer == layer
    assert affected.current_value == ["[REDACTED]"]
    trail = [str(event.payload) for event in ledger.events(session.envelope)]
    assert not any(secret in text for text in trail)


def test_params_lost_on_a_plain_yes_are_reported_too(ledger: Ledger) -> None:
    """S000-4-5: a switch that costs only a parameter has a diagnostic."""
    session = opened(ledger, known=small_catalog(cold={"temperature": False}))
    session.set_params({"temperature": 0.2})
    switched = session.switch_model("gpt-cold")
    assert switched.verdict.answer == "yes"
    assert switched.diagnostic is not None
    assert [param.param_path for param in switched.diagnostic.params_affected] == [("temperature",)]


def test_diagnostic_is_emitted_on_the_bus_and_in_the_audit_trail(ledger: Ledger) -> None:
    """S000-9-9: on the event bus and in the audit trail."""
    heard: list[Event] = []
    ledger.bus.subscribe(heard.append, "session.rejected")
    _, diagnostic = rejected(ledger)
    (event,) = heard
    assert event.payload["diagnostic"] == diagnostic
    assert event in ledger.events(event.envelope)


# Security notes.


@pytest.mark.parametrize(
    ("declaration", "beyond"),
    [({"contextWindow": 2_000_000}, "context>=300k"), ({"multimodal": {"video": True}}, "video-input")],
)
def test_security_declarations_are_untrusted(ledger: Ledger, declaration: Any, beyond: str) -> None:
    """S000-10-1, S000-10-2, S000-4-1: declarations are hints, checked against contextWindow and
    multimodal.
    """

    class Boasting(MockProvider):
        def describe_capabilities(self, model: str) -> Any:
            return declaration

    known = small_catalog(still={"video_input": False})
    session = opened(ledger, "anthropic/gpt-full", known=known, ports={"openai": Boasting()})
    session.switch_model("openai/gpt-still")
    assert last(ledger, session, "capability.capped").payload["target"] == "openai/gpt-still"
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=[ContextProvider("x", needs=(beyond,))])


def test_security_downgrades_are_audited(ledger: Ledger) -> None:
    """S000-10-3: an accepted loss is in the audit trail; a switch without a loss is not."""
    known = small_catalog(weak={"prompt_caching": False}, mini={})
    wanted = [asking("promptCaching", "preferred")]
    session = opened(ledger, known=known, context_providers=wanted)
    session.switch_model("gpt-mini")
    assert "session.downgraded" not in types(ledger, session)
    session.switch_model("gpt-weak")
    audited = last(ledger, session, "session.downgraded")
    assert audited.payload["lost"] == [{"capability": "promptCaching", "requiredBy": ["context-provider:notes"]}]
    assert [event.type for event in ledger.cause_chain(audited.id)][1] == "session.switched"


def test_no_automatic_fallback(ledger: Ledger) -> None:
    """S000-10-4: no similar model is chosen automatically."""
    error, _ = rejected(ledger)
    assert error.diagnostic.suggestion
    (row,) = ledger.read("SELECT state FROM sessions")
    assert error.diagnostic.suggestion not in row[0]


# Subagents.


def test_a_subagent_inherits_the_required_set(ledger: Ledger) -> None:
    """S000-3-11: a subagent inherits the required set of its parent."""
    parent = opened(ledger, machine=MACHINE)
    child = parent.spawn(context_providers=[ContextProvider("own", tokens=5_000)])
    assert by(child.needs) == {**by(parent.needs), "context-window>=5000>=native": ("context-provider:own",)}
    parent.detach()
    assert "tool-calling>=native" in by(child.needs)
    assert child.parent == parent.id
    opening = ledger.events(child.envelope)[0]
    assert [event.type for event in ledger.cause_chain(opening.id)][:2] == ["negotiation.decided", "session.spawned"]


def test_a_subagent_whose_model_does_not_fit(ledger: Ledger) -> None:
    """S000-3-12, S000-3-13: `Subagent/ModelCapabilityMismatch` before any request is sent."""
    port = MockProvider()
    known = small_catalog(weak={"tool_calling": False})
    parent = opened(ledger, known=known, ports={"openai": port}, machine=MACHINE)
    with pytest.raises(SpawnRejected) as caught:
        parent.spawn("gpt-weak", id="child")
    assert caught.value.code == "Subagent/ModelCapabilityMismatch"
    assert port.requests == []
    assert ledger.read("SELECT id FROM sessions") == [(parent.id,)]
    assert last(ledger, parent, "session.rejected").payload["trigger"] == "spawn"
    assert parent.target == "openai/gpt-full"


def test_a_failed_switch_is_not_a_failed_spawn(ledger: Ledger) -> None:
    """S000-3-14: a failed spawn and a failed switch are two paths."""
    known = small_catalog(weak={"tool_calling": False})
    session = opened(ledger, known=known, machine=MACHINE)
    with pytest.raises(SwitchRejected) as caught:
        session.switch_model("gpt-weak")
    assert caught.value.code == "ProviderCapability/MissingCapability"
