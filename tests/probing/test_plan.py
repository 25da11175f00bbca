"""Probe plans: the calls of a probe, and what they may cost."""

import zlib
from base64 import b64decode

import pytest

from modelpact.catalog.catalog import default_catalog
from modelpact.conversation.request import Request
from modelpact.emulation.json_text import NoJson
from modelpact.probing import plan_probe
from modelpact.probing.calls import NotStreamed, ProbeStopped, UnreadableResponse
from modelpact.probing.trials import COLOURS, ProbeResponse, Trial, TrialOutcome, picture
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName


def test_the_estimate_covers_every_attempt() -> None:
    plan = plan_probe(default_catalog().resolve("openai/gpt-4o"))
    assert plan.calls <= plan.max_calls
    assert plan.money is not None
    output = plan.resolution.price.output if plan.resolution.price else 0
    assert plan.money >= plan.usage.output * (output or 0) // 1_000
    assert "context-window" not in plan.capabilities


def test_the_window_is_probed_only_on_request() -> None:
    resolution = default_catalog().resolve("openai/gpt-4o")
    with_window = plan_probe(resolution, context_window=True)
    assert "context-window" in with_window.capabilities
    assert with_window.money is not None
    plain = plan_probe(resolution).money
    assert plain is not None
    assert with_window.money > 2 * plain
    assert plan_probe(resolution, ["context"]).capabilities == ("context-window",)


def test_capabilities_are_named_by_any_alias() -> None:
    resolution = default_catalog().resolve("openai/gpt-4o")
    plan = plan_probe(resolution, ["tools", "vision"])
    assert set(plan.capabilities) == {"tool-calling", "image-input"}
    assert "reasoning" in plan_probe(resolution, ["reasoning"]).capabilities


def test_a_capability_that_cannot_be_probed() -> None:
    with pytest.raises(UnknownName, match="cannot be probed over anthropic"):
        plan_probe(default_catalog().resolve("anthropic/claude-opus-4-5"), ["seed"])
    with pytest.raises(UnknownName, match="batch-api"):
        plan_probe(default_catalog().resolve("openai/gpt-4o"), ["batch-api"])


def test_a_provider_without_a_known_api_cannot_be_probed() -> None:
    with pytest.raises(InputError, match="cannot be probed: modelpact has no probes for its API"):
        plan_probe(default_catalog().resolve("nobody-knows/this"))


def test_a_model_of_unknown_price_has_no_estimate_in_money() -> None:
    assert plan_probe(default_catalog().resolve("mock/demo")).money is None


@pytest.mark.parametrize("colour", COLOURS)
def test_pictures_are_of_one_colour(colour: str) -> None:
    content = b64decode(picture(colour))
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    start = content.index(b"IDAT") + 4
    size = int.from_bytes(content[start - 8 : start - 4])
    lines = zlib.decompress(content[start : start + size])
    assert lines == (b"\x00" + bytes(COLOURS[colour]) * 32) * 32


def test_a_model_that_refuses_to_answer_is_inconclusive() -> None:
    from modelpact.conversation.response import Response

    trial = Trial("seed", Request("m", ()), lambda _: TrialOutcome("ignored", "nothing came"))
    assert trial.outcome(ProbeResponse(Response(stop_reason="refusal"))).verdict == "inconclusive"
    assert trial.outcome(ProbeResponse(Response())).verdict == "ignored"


@pytest.mark.parametrize("error", [ProbeStopped, UnreadableResponse, NotStreamed, NoJson])
def test_errors_that_reach_callers_are_modelpact_errors(error: type[Exception]) -> None:
    """Every error that modelpact raises on purpose is a `ModelpactError`."""
    assert issubclass(error, ModelpactError)
