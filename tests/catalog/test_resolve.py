"""Resolution: layers and their order, what is assumed, what stays in sight."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import Catalog, InputError, default_catalog, negotiate, resolve
from modelpact.catalog.build import Fact
from modelpact.catalog.catalog import Overlay
from modelpact.catalog.claim import Claim, Evidence
from modelpact.catalog.facts import Layer
from modelpact.catalog.statement import compile_statement
from tests.conftest import catalog, claims, fact, lineage

LAYERED = """
[defaults]
input_modalities = ["text", "image"]

[[rules]]
name = "the rule"
match = { kind = "prefix_any", prefixes = ["gpt-"] }
caps.streaming = true
caps.seed = true
caps.n = true
caps.top_k = true
caps.context_window = 1000
source = "https://rule.example"
date = "2025-05-05"

[[corrections]]
name = "the correction"
match = { kind = "exact", model = "gpt-x" }
caps.n = true
caps.top_k = false
source = "https://correction.example"
"""


def layered() -> Catalog:
    """A model of which every layer says something; each takes back what the one before said."""
    stated = fact("openai/gpt-x", seed=False, n=False, top_k=True, context_window=2000)
    fields = {"top_p": False, "logprobs": True}
    evidence = Layer(Evidence("evidence", rule="probe"), fields, compile_statement(fields))
    return catalog(LAYERED, lineage("one", stated)).extended(
        evidence={("openai", "gpt-x"): (evidence,)},
        overlay={("openai", "gpt-x"): Overlay({"logprobs": False}, "modelpact.toml")},
    )


@pytest.mark.parametrize(
    ("name", "support", "layer"),
    [
        ("image-input", "unknown", "defaults"),
        ("streaming", "native", "rule"),
        ("seed", "unsupported", "facts"),
        ("context-window", "native", "facts"),
        ("n", "native", "correction"),
        ("top-k", "unsupported", "correction"),
        ("top-p", "unsupported", "evidence"),
        ("logprobs", "unsupported", "overlay"),
    ],
)
def test_each_layer_overwrites_the_one_before(name: str, support: str, layer: str) -> None:
    """MP-C1, MP-C5: defaults, rules, facts, corrections, evidence, overlay."""
    claim = layered().resolve("openai", "gpt-x").claim(name)
    assert claim.support == support
    assert claim.evidence is not None
    assert claim.evidence.layer == layer


def test_the_trace_names_every_layer() -> None:
    """MP-C1: each layer leaves its name in the trace."""
    trace = layered().resolve("openai", "gpt-x").trace
    assert [entry.layer for entry in trace] == [*["defaults", "rule", "facts", "correction", "evidence", "overlay"]]
    assert trace[1].rule == "the rule"
    assert (trace[1].source, trace[1].date) == ("https://rule.example", "2025-05-05")
    assert trace[2].fields["context-window"] == {"one": 2000}
    assert trace[5].source == "modelpact.toml"


def test_evidence_says_which_rule_from_which_source_on_which_date() -> None:
    """MP-W4: evidence is layer, rule, source and date."""
    evidence = layered().resolve("openai", "gpt-x").claim("streaming").evidence
    assert evidence == Evidence("rule", "the rule", "https://rule.example", "2025-05-05")


def test_a_default_alone_is_an_assumption_and_never_a_yes() -> None:
    """MP-C2: what is assumed is shown, and counts as unknown."""
    resolution = layered().resolve("openai", "gpt-other")
    claim = resolution.claim("image-input")
    assert (claim.support, claim.assumed, claim.known) == ("unknown", "native", False)
    assert resolution.claim("audio-input").assumed == "unsupported"
    assert resolution.capabilities.input_modalities == ("text", "image")
    assert not negotiate("vision", resolution).ok
    assert negotiate("vision", resolution).findings[0].reason == "unknown"


def test_a_missing_field_is_not_a_no() -> None:
    """MP-C3: a missing field is silence, not a no."""
    claim = layered().resolve("openai", "gpt-x").claim("citations")
    assert claim == Claim("citations")


def test_a_later_unknown_overrides_an_earlier_yes() -> None:
    overlay = {("openai", "gpt-x"): Overlay({"streaming": "unknown"}, "modelpact.toml")}
    resolution = catalog(LAYERED).extended(overlay=overlay).resolve("openai", "gpt-x")
    assert resolution.claim("streaming").support == "unknown"
    assert not negotiate("streaming", resolution).ok


@given(st.text(max_size=40), st.text(max_size=60), st.none() | st.text(max_size=12))
def test_unknown_names_never_raise(provider: str, model: str, api: str | None) -> None:
    resolution = default_catalog().resolve(provider, model, api)
    assert len(list(resolution)) > 50
    assert resolution.capabilities.output_modalities is not None
    assert resolution.trace[0].layer == "defaults"


@pytest.mark.parametrize("wrong", [(None, "m"), ("p", None), (5, "m"), ("p", b"m"), ([], "m"), ("p", "m", 5)], ids=str)
def test_names_that_are_no_strings_are_input_errors(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(InputError):
        resolve(*wrong)


@pytest.mark.parametrize("target", ["", "openai", "/gpt", "openai/", 5, None, " / "])
def test_a_target_has_a_provider_and_a_model(target: Any) -> None:
    with pytest.raises(InputError):
        default_catalog().split(target)


def test_a_model_may_have_slashes_of_its_own() -> None:
    assert default_catalog().split("openrouter/openai/o3") == ("openrouter", "openai/o3")


def test_configured_providers_have_the_facts_of_their_kind_under_their_own_name() -> None:
    """A provider of the configuration has the facts of its `kind`."""
    rules = '[[rules]]\nscope.providers = ["vllm"]\nmatch = { kind = "any" }\ncaps.n = true'
    overlay = {("local", "mine"): Overlay({"context_window": 32_768}, "modelpact.toml")}
    source = catalog(rules).extended(overlay=overlay, configured={"local": "vllm"})
    resolution = source.resolve("local", "mine")
    assert resolution.target == "local/mine"
    assert resolution.claim("n").support == "native"
    assert resolution.claim("context-window").value == 32_768
    assert source.resolve("vllm", "mine").claim("context-window").support == "unknown"


def test_extending_leaves_the_catalog_as_it_was() -> None:
    before = catalog(LAYERED)
    extended = before.extended(overlay={("openai", "gpt-x"): Overlay({"seed": False}, "x")})
    assert before.resolve("openai", "gpt-x").claim("seed").support == "native"
    assert extended.resolve("openai", "gpt-x").claim("seed").support == "unsupported"


def test_disputed_votes_are_kept_and_the_cautious_value_wins() -> None:
    """MP-C4: the disagreement stays visible and the more cautious value wins."""
    yes = fact("openai/m", tool_calling=True, context_window=200_000, seed=True)
    no = fact("openai/m", tool_calling=False, context_window=128_000)
    resolution = catalog("", lineage("a", yes), lineage("b", no)).resolve("openai", "m")
    tools, window, seed = (resolution.claim(name) for name in ("tools", "context-window", "seed"))
    assert (tools.support, window.value, seed.support) == ("unsupported", 128_000, "native")
    assert tools.evidence is not None
    assert window.evidence is not None
    assert seed.evidence is not None
    votes = {vote.lineage: vote.value for vote in window.evidence.votes}
    assert votes == {"a": 200_000, "b": 128_000}
    assert tools.evidence.disputed
    assert window.evidence.disputed
    assert not seed.evidence.disputed
    assert resolution.trace[1].fields["tool-calling"] == {"a": True, "b": False}


def test_constraints_come_with_the_models_they_are_for() -> None:
    rules = """
    [[constraints]]
    name = "not both"
    match = { kind = "prefix_any", prefixes = ["gemini-2"] }
    excludes = ["structured-output", "tool-calling"]
    """
    source = catalog(rules)
    assert [constraint.name for constraint in source.resolve("vertex", "gemini-2.5").constraints] == ["not both"]
    assert source.resolve("vertex", "gemini-3").constraints == ()


def test_repeated_resolution_is_the_same_and_cannot_be_modified() -> None:
    source = layered()
    resolution = source.resolve("openai", "gpt-x")
    assert source.resolve("openai", "gpt-x") is resolution
    before = msgspec.json.encode([resolution.trace, list(resolution)])
    for entry in resolution.trace:
        entry.fields.clear()
    with pytest.raises(AttributeError):
        resolution.claim("seed").support = "native"  # type: ignore[misc]
    assert msgspec.json.encode([resolution.trace, list(resolution)]) == before


def test_dates_and_status_are_the_providers_own() -> None:
    stated = Fact("openai", "m", {"seed": True}, None, "2025-01-02", "2027-03-04", "beta")
    earlier = Fact("openai", "m", {"seed": True}, None, "", "2026-05-06")
    source = catalog("", lineage("a", stated), lineage("b", earlier))
    resolution = source.resolve("openai", "m")
    assert (resolution.released, resolution.retires, resolution.status) == ("2025-01-02", "2026-05-06", "beta")
    passed_on = source.resolve("openrouter", "openai/m")
    assert (passed_on.released, passed_on.retires, passed_on.price) == ("", "", None)


def test_claims_can_be_looked_up_by_alias() -> None:
    resolution = layered().resolve("openai", "gpt-x")
    assert resolution.claim("contextWindow") == resolution.claim("context") == resolution.claim("context-window")
    assert claims({"tools": "native"}).claim("tool-calling").support == "native"
