"""The dispatch gate: seed 001 §B (flow), §C (registry), §D (events), §E and §F."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.dispatch.gate import (
    CapabilityNotProvided,
    Gate,
    GateDecision,
    GateEvent,
    catalog_check,
)
from modelpact.needs.node_modules import FallbackModel, NodeModule
from modelpact.vocabulary.dialects import OPENWOP

Claims = dict[str, set[str]]
FALLBACK = FallbackModel("openai", "big")


def gate(claims: Claims, **how: Any) -> Gate:
    def lacks(provider: str, model: str, required: tuple[str, ...]) -> tuple[str, ...]:
        has = claims.get(f"{provider}/{model}", set())
        return tuple(one for one in required if one not in has)

    return Gate(lacks, **{"supported": ("openai", "acme"), **how})


def module(*required: str, fallback: FallbackModel | None = None) -> NodeModule:
    return NodeModule("core.ai.callPrompt", required, fallback)


def decide(made: Gate, one: NodeModule) -> GateDecision:
    return made.decide(one, "acme", "small", node_id="n1")


SUBSTITUTABLE: Claims = {"openai/big": {"structured-output", "reasoning"}}


class TestFlow:
    """§B, "Dispatch flow (normative)"."""

    def test_step_2_all_met(self) -> None:
        """ "If all required capabilities are met: dispatch normally." """
        made = gate({"acme/small": {"reasoning"}})
        decision = decide(made, module("reasoning", fallback=FALLBACK))
        assert decision == GateDecision("dispatch", "acme", "small", ("acme", "small"))

    def test_no_requirements(self) -> None:
        assert decide(gate({}), module()).route == "dispatch"

    def test_step_3_substitution(self) -> None:
        """ "substitute and emit model.capability.substituted; dispatch with the fallback" """
        decision = decide(
            gate(SUBSTITUTABLE), module("structured-output", "reasoning", fallback=FALLBACK)
        )
        assert (decision.route, decision.provider, decision.model) == (
            "substitute",
            "openai",
            "big",
        )
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
        """ "no fallbackModel declared": insufficient, `fallbackAttempted` false."""
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
        """ "OR the host cannot authenticate to the fallback"; §E: off means refuse."""
        decision = decide(gate(SUBSTITUTABLE, **how), module("reasoning", fallback=FALLBACK))
        assert (decision.route, decision.fallback_attempted) == ("refuse", attempted)

    def test_the_fallbacks_full_set_is_checked(self) -> None:
        """Question 3: "MUST evaluate the fallback model's full capability set … and refuse"."""
        decision = decide(
            gate({"acme/small": {"long-context"}, "openai/big": {"reasoning"}}),
            module("reasoning", "long-context", fallback=FALLBACK),
        )
        assert (decision.route, decision.fallback_attempted) == ("refuse", True)
        assert decision.missing == ("reasoning",), "what the active model lacks, not the fallback"

    def test_missing_capabilities_are_in_the_order_required_each_once(self) -> None:
        decision = decide(gate({}), module("reasoning", "long-context", "reasoning"))
        assert decision.missing == ("reasoning", "long-context")

    def test_the_order_is_check_tell_call(self) -> None:
        """ "capability check → optional substitution → emit telemetry → dispatch or refuse" """
        steps: list[str] = []

        def call(provider: str, model: str) -> str:
            steps.append(f"called {provider}/{model}")
            return "answer"

        answer = gate(SUBSTITUTABLE).dispatch(
            module("reasoning", fallback=FALLBACK),
            "acme",
            "small",
            call,
            tell=lambda event: steps.append(event.type),
        )
        assert answer == "answer"
        assert steps == ["model.capability.substituted", "called openai/big"]

    def test_a_refusal_is_told_and_nothing_is_called(self) -> None:
        """ "MUST NOT dispatch with an unsuitable model and hope for the best" """
        told: list[str] = []

        def call(provider: str, model: str) -> None:
            raise AssertionError("called")

        with pytest.raises(
            CapabilityNotProvided, match=r"n7: acme/small lacks reasoning"
        ) as caught:
            gate({}).dispatch(
                module("reasoning"),
                "acme",
                "small",
                call,
                tell=lambda event: told.append(event.type),
                node_id="n7",
            )
        assert caught.value.code == "capability_not_provided"
        assert told == ["model.capability.insufficient"]

    def test_what_cannot_be_told_is_not_done(self) -> None:
        """ "Hosts MUST NOT substitute silently (no event emission)" """

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

    def test_asynchronously(self) -> None:
        steps: list[str] = []

        async def call(provider: str, model: str) -> str:
            steps.append(model)
            return model

        async def tell(event: GateEvent) -> None:
            steps.append(event.type)

        async def run() -> None:
            made = gate(SUBSTITUTABLE)
            one = module("reasoning", fallback=FALLBACK)
            assert await made.dispatch_async(one, "acme", "small", call, tell=tell) == "big"
            with pytest.raises(CapabilityNotProvided):
                await made.dispatch_async(module("reasoning"), "acme", "small", call, tell=tell)

        asyncio.run(run())
        assert steps == ["model.capability.substituted", "big", "model.capability.insufficient"]

    def test_a_gate_that_is_off_lets_everything_through(self) -> None:
        """§E: when false, "dispatch proceeds without capability checks"."""
        made = gate({}, on=False)
        assert decide(made, module("reasoning")).route == "dispatch"
        assert made.advertised([module("reasoning")]) == ()


class TestRegistry:
    """§C."""

    def test_the_catalog_answers_for_the_five_identifiers(self) -> None:
        five = tuple(OPENWOP.ids)
        assert five == (
            "structured-output",
            "discriminator-enum",
            "long-context",
            "reasoning",
            "function-calling",
        )
        assert catalog_check()("anthropic", "claude-opus-4-5", five) == ()
        assert "reasoning" in catalog_check()("openai", "gpt-4o-mini", five)
        assert catalog_check()("openai", "gpt-4o-mini", ("long-context",)) == ("long-context",)

    def test_what_is_not_known_is_lacking(self) -> None:
        assert catalog_check()("openai", "gpt-99-nobody-knows", ("reasoning",)) == ("reasoning",)
        assert catalog_check()("nobody", "anything", tuple(OPENWOP.ids)) == tuple(OPENWOP.ids)

    def test_host_extensions_and_unregistered_ids_are_never_met_by_chance(self) -> None:
        odd = ("x-host-acme-magic", "vision-input", "NOT AN ID")
        assert catalog_check()("anthropic", "claude-opus-4-5", odd) == odd

    def test_advertised_is_what_the_modules_reference(self) -> None:
        """ "MUST reflect only the capability identifiers the host actually gates on" """
        modules = [module("x-host-acme-a", "reasoning"), module("structured-output"), module()]
        assert gate({}).advertised(modules) == ("structured-output", "reasoning", "x-host-acme-a")
        assert gate({}).advertised([]) == ()


class TestRedaction:
    """§F: all-or-nothing for the pair, and nothing else ever."""

    def test_the_pair_is_redacted_and_still_called(self) -> None:
        made = gate(SUBSTITUTABLE, redact=True)
        decision = decide(made, module("reasoning", fallback=FALLBACK))
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

    def test_the_outcome_does_not_tell_what_the_event_hides(self) -> None:
        shown = decide(gate(SUBSTITUTABLE, redact=True), module("reasoning", fallback=FALLBACK))
        assert "openai" not in str(shown.to_json())
        assert "big" not in str(shown.to_json())

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
    """§B's four steps as one table, with §F's rule over it."""
    made = gate(
        {"acme/small": active, "openai/big": other},
        supported=("openai",) if supported else (),
        can_authenticate=lambda _: credential,
        substitution=substitution,
        redact=redact,
    )
    decision = decide(made, module(*required, fallback=FALLBACK if declared else None))
    missing = [one for one in dict.fromkeys(required) if one not in active]
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
