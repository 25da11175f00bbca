"""The capability gate of the OpenWOP specification (docs/spec/openwop.md)."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.dispatch.gate import CapabilityNotProvided, Gate, GateDecision, GateEvent, catalog_check
from modelpact.needs.dialects import FallbackModel, NodeModule
from modelpact.vocabulary.dialects import OPENWOP

Claims = dict[str, set[str]]
FALLBACK = FallbackModel("openai", "big")


def gate(claims: Claims, **how: Any) -> Gate:
    def lacks(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        has = claims.get(f"{provider}/{model}", set())
        return tuple(name for name in required if name not in has)

    return Gate(lacks, **{"supported": ("openai", "acme"), **how})


def module(*required: str, fallback: FallbackModel | None = None) -> NodeModule:
    return NodeModule("core.ai.callPrompt", required, fallback)


def decide(under_test: Gate, node: NodeModule) -> GateDecision:
    return under_test.decide(node, "acme", "small", node_id="n1")


SUBSTITUTABLE: Claims = {"openai/big": {"structured-output", "reasoning"}}


class TestFlow:
    """The dispatch flow, section B."""

    def test_step_2_all_met(self) -> None:
        """S001-B8: all are met, so the node is dispatched normally."""
        under_test = gate({"acme/small": {"reasoning"}})
        decision = decide(under_test, module("reasoning", fallback=FALLBACK))
        assert decision == GateDecision("dispatch", "acme", "small", ("acme", "small"))

    def test_no_requirements(self) -> None:
        assert decide(gate({}), module()).route == "dispatch"

    def test_step_3_substitution(self) -> None:
        """S001-B9: the fallback is substituted, with an event."""
        decision = decide(gate(SUBSTITUTABLE), module("structured-output", "reasoning", fallback=FALLBACK))
        assert (decision.route, decision.provider, decision.model) == ("substitute", "openai", "big")
        assert decision.event == GateEvent(
            "model.capability.substituted",
            {
                "nodeId": "n1",
                "originalProvider": "acme",
                "originalModel": "small",
                "fallbackProvider": "openai",
                "fallbackModel": "big",
                "missingCapabilities": ["structured-output", "reasoning"],
            },
        )

    def test_step_4_no_fallback_declared(self) -> None:
        """S001-B6, S001-B10, S001-D7: no fallback is declared, so none was attempted."""
        decision = decide(gate(SUBSTITUTABLE), module("reasoning"))
        assert decision.route == "refuse"
        assert decision.event == GateEvent(
            "model.capability.insufficient",
            {
                "nodeId": "n1",
                "provider": "acme",
                "model": "small",
                "missingCapabilities": ["reasoning"],
                "fallbackAttempted": False,
            },
        )

    @pytest.mark.parametrize(
        ("how", "attempted"),
        [
            ({"supported": ("acme",)}, False),
            ({"substitution": False}, False),
            ({"can_authenticate": lambda _: False}, True),
        ],
        ids=["provider not supported", "substitution off", "no credential"],
    )
    def test_step_4_a_fallback_that_cannot_be_used(self, how: Any, attempted: bool) -> None:
        """S001-B10, S001-D7, S001-E8: a fallback that cannot be used is a refusal."""
        decision = decide(gate(SUBSTITUTABLE, **how), module("reasoning", fallback=FALLBACK))
        assert (decision.route, decision.fallback_attempted) == ("refuse", attempted)

    def test_the_fallbacks_full_set_is_checked(self) -> None:
        """S001-Q3: the fallback must have everything that is required."""
        decision = decide(
            gate({"acme/small": {"long-context"}, "openai/big": {"reasoning"}}),
            module("reasoning", "long-context", fallback=FALLBACK),
        )
        assert (decision.route, decision.fallback_attempted) == ("refuse", True)
        assert decision.missing == ("reasoning",), "what the active model lacks, not the fallback"

    def test_missing_capabilities_are_in_the_order_required_each_once(self) -> None:
        decision = decide(gate({}), module("reasoning", "long-context", "reasoning"))
        assert decision.missing == ("reasoning", "long-context")

    def test_the_order_is_check_event_call(self) -> None:
        """S001-B12: check, substitution, telemetry, then dispatch."""
        steps: list[str] = []

        def call(provider: str, model: str) -> str:
            steps.append(f"called {provider}/{model}")
            return "answer"

        answer = gate(SUBSTITUTABLE).dispatch(
            module("reasoning", fallback=FALLBACK), "acme", "small", call, tell=lambda event: steps.append(event.type)
        )
        assert answer == "answer"
        assert steps == ["model.capability.substituted", "called openai/big"]

    def test_a_refusal_emits_its_event_and_calls_nothing(self) -> None:
        """S001-B14: an unsuitable model is not called."""
        emitted: list[str] = []

        def call(provider: str, model: str) -> None:
            raise AssertionError("called")

        with pytest.raises(CapabilityNotProvided, match=r"n7: acme/small lacks reasoning") as caught:
            gate({}).dispatch(
                module("reasoning"), "acme", "small", call, tell=lambda event: emitted.append(event.type), node_id="n7"
            )
        assert caught.value.code == "capability_not_provided"
        assert emitted == ["model.capability.insufficient"]

    def test_nothing_is_called_if_the_event_cannot_be_emitted(self) -> None:
        """S001-B13: no substitution without its event."""

        def tell(event: GateEvent) -> None:
            raise OSError("the log is full")

        called: list[str] = []
        with pytest.raises(OSError, match="full"):
            gate(SUBSTITUTABLE).dispatch(
                module("reasoning", fallback=FALLBACK),
                "acme",
                "small",
                lambda provider, model: called.append(model),
                tell=tell,
            )
        assert called == []

    def test_dispatch_async(self) -> None:
        steps: list[str] = []

        async def call(provider: str, model: str) -> str:
            steps.append(model)
            return model

        async def tell(event: GateEvent) -> None:
            steps.append(event.type)

        async def run() -> None:
            under_test = gate(SUBSTITUTABLE)
            substitutable = module("reasoning", fallback=FALLBACK)
            assert await under_test.dispatch_async(substitutable, "acme", "small", call, tell=tell) == "big"
            with pytest.raises(CapabilityNotProvided):
                await under_test.dispatch_async(module("reasoning"), "acme", "small", call, tell=tell)

        asyncio.run(run())
        assert steps == ["model.capability.substituted", "big", "model.capability.insufficient"]

    def test_a_gate_that_is_off_dispatches_everything(self) -> None:
        """S001-E3: without support, dispatch proceeds without a check."""
        under_test = gate({}, on=False)
        assert decide(under_test, module("reasoning")).route == "dispatch"
        assert under_test.advertised([module("reasoning")]) == ()


class TestRegistry:
    """The capability identifiers, section C."""

    def test_the_catalog_answers_for_the_five_identifiers(self) -> None:
        five = tuple(OPENWOP.ids)
        assert five == ("structured-output", "discriminator-enum", "long-context", "reasoning", "function-calling")
        assert catalog_check()("anthropic", "claude-opus-4-5", five) == ()
        assert "reasoning" in catalog_check()("openai", "gpt-4o-mini", five)
        assert catalog_check()("openai", "gpt-4o-mini", ("long-context",)) == ("long-context",)

    def test_an_unknown_capability_is_missing(self) -> None:
        assert catalog_check()("openai", "gpt-99-nobody-knows", ("reasoning",)) == ("reasoning",)
        assert catalog_check()("nobody", "anything", tuple(OPENWOP.ids)) == tuple(OPENWOP.ids)

    def test_host_extensions_and_unregistered_ids_are_never_met_by_chance(self) -> None:
        odd = ("x-host-acme-magic", "vision-input", "NOT AN ID")
        assert catalog_check()("anthropic", "claude-opus-4-5", odd) == odd

    def test_advertised_is_what_the_modules_reference(self) -> None:
        """S001-C8: only what modules reference is advertised."""
        modules = [module("x-host-acme-a", "reasoning"), module("structured-output"), module()]
        assert gate({}).advertised(modules) == ("structured-output", "reasoning", "x-host-acme-a")
        assert gate({}).advertised([]) == ()


class TestRedaction:
    """Redaction, section F: the fallback pair or nothing (S001-F2, S001-F3)."""

    def test_the_pair_is_redacted_and_still_called(self) -> None:
        under_test = gate(SUBSTITUTABLE, redact=True)
        decision = decide(under_test, module("reasoning", fallback=FALLBACK))
        assert decision.event is not None
        assert decision.event.payload == {
            "nodeId": "n1",
            "originalProvider": "acme",
            "originalModel": "small",
            "fallbackProvider": "[REDACTED]",
            "fallbackModel": "[REDACTED]",
            "missingCapabilities": ["reasoning"],
        }
        assert (decision.provider, decision.model) == ("openai", "big")

    def test_the_outcome_is_redacted_like_the_event(self) -> None:
        decision = decide(gate(SUBSTITUTABLE, redact=True), module("reasoning", fallback=FALLBACK))
        assert "openai" not in str(decision.to_json())
        assert "big" not in str(decision.to_json())

    def test_a_refusal_is_never_redacted(self) -> None:
        decision = decide(gate({}, redact=True), module("reasoning", fallback=FALLBACK))
        assert "REDACTED" not in str(decision.to_json())


_IDS = st.sampled_from([*OPENWOP.ids, "x-host-acme-a"])
_SETS = st.sets(_IDS)


@given(
    required=st.lists(_IDS, max_size=8),
    active=_SETS,
    other=_SETS,
    declared=st.booleans(),
    supported=st.booleans(),
    credential=st.booleans(),
    substitution=st.booleans(),
    redact=st.booleans(),
)
def test_the_flow_holds_for_every_case(
    required: list[str],
    active: set[str],
    other: set[str],
    declared: bool,
    supported: bool,
    credential: bool,
    substitution: bool,
    redact: bool,
) -> None:
    """The four steps of section B as one function, with the redaction of section F."""
    under_test = gate(
        {"acme/small": active, "openai/big": other},
        supported=("openai",) if supported else (),
        can_authenticate=lambda _: credential,
        substitution=substitution,
        redact=redact,
    )
    decision = decide(under_test, module(*required, fallback=FALLBACK if declared else None))
    missing = [name for name in dict.fromkeys(required) if name not in active]
    tried = declared and supported and substitution
    if not missing:
        assert decision.route == "dispatch"
        assert decision.event is None
        return
    assert decision.event is not None
    assert decision.event.payload["missingCapabilities"] == missing
    if tried and credential and other.issuperset(required):
        assert decision.route == "substitute"
        hidden = [decision.event.payload[key] == "[REDACTED]" for key in decision.event.payload]
        assert sum(hidden) == (2 if redact else 0)
    else:
        assert decision.route == "refuse"
        assert decision.event.payload["fallbackAttempted"] is tried
