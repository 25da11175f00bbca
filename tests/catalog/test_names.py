"""Names: the spellings of providers and gateways lead to one family's facts."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import Catalog, resolve
from modelpact.catalog.catalog import Overlay
from tests.conftest import catalog, fact, lineage

FAMILY = lineage(
    "one",
    fact("openai/o3", reasoning=True, tool_calling=True, context_window=200_000, seed=True),
    fact("openai/gpt-4o", reasoning=False, tool_calling=True, context_window=128_000),
    fact("anthropic/claude-opus-4", reasoning=True, tool_calling=True, context_window=200_000),
    fact("anthropic/claude-opus-4-20250514", reasoning=True, tool_calling=True, seed=False),
    fact("openrouter/openai/gpt-4o", tool_calling=False, context_window=64_000),
)


@cache
def families() -> Catalog:
    return catalog("", FAMILY)


@pytest.mark.parametrize(
    ("provider", "model", "family"),
    [
        ("openrouter", "openai/o3", "openai/o3"),
        ("openrouter", "openai/o3:free", "openai/o3"),
        ("openrouter", "OpenAI/O3", "openai/o3"),
        ("azure", "eu/o3", "openai/o3"),
        ("azure", "o3", "openai/o3"),
        ("bedrock", "anthropic.claude-opus-4-20250514-v1:0", "anthropic/claude-opus-4-20250514"),
        ("bedrock", "us.anthropic.claude-opus-4-20250514-v1:0", "anthropic/claude-opus-4-20250514"),
        ("bedrock", "eu.anthropic.claude-opus-4-v1:0", "anthropic/claude-opus-4"),
        ("vertex", "claude-opus-4@20250514", "anthropic/claude-opus-4-20250514"),
        ("vertex", "claude-opus-4@default", "anthropic/claude-opus-4"),
        ("openrouter", "openai/o3-2025-04-16", "openai/o3"),
        ("openai", "o3-2025-04-16", "openai/o3"),
        ("openai", "gpt-4o-latest", "openai/gpt-4o"),
        ("anthropic", "claude-opus-4-20991231", "anthropic/claude-opus-4"),
    ],
)
def test_spellings_lead_to_the_same_family_facts(provider: str, model: str, family: str) -> None:
    """MP-C7: spellings lead to the same family facts."""
    resolution = families().resolve(provider, model)
    assert [entry.rule for entry in resolution.trace if entry.layer == "family"] == [family]
    assert resolution.claim("tool-calling").support == "native"
    assert resolution.vendor == family.partition("/")[0]


def test_the_providers_own_limits_stay_the_providers() -> None:
    """MP-C7: the provider's own limits stay the provider's."""
    passed_on = families().resolve("openrouter", "openai/o3")
    assert passed_on.claim("reasoning").support == "native"
    window = passed_on.claim("context-window")
    assert (window.support, window.assumed, window.value) == ("unknown", "native", 200_000)
    assert passed_on.claim("seed").support == "unknown"
    own = families().resolve("openrouter", "openai/gpt-4o")
    assert own.claim("context-window").value == 64_000
    assert own.claim("tool-calling").support == "unsupported"
    assert own.claim("reasoning").support == "unsupported"


def test_a_dated_snapshot_of_the_vendor_itself_is_known() -> None:
    resolution = families().resolve("openai", "o3-2025-04-16")
    assert (resolution.claim("context-window").support, resolution.listed) == ("native", False)


def test_a_host_of_open_weights_does_not_inherit_facts_by_name() -> None:
    resolution = families().resolve("vllm", "openai/o3")
    assert {resolution.claim(name).support for name in ("reasoning", "tool-calling")} == {"unknown"}
    assert resolution.claim("reasoning").assumed == "native"


def test_rules_for_a_family_hold_under_every_spelling() -> None:
    rules = '[[rules]]\nmatch = { kind = "prefix_any", prefixes = ["o3"] }\ncaps.top_k = false'
    for provider, model in (("openrouter", "openai/o3"), ("azure", "eu/o3"), ("openai", "o3")):
        assert catalog(rules).resolve(provider, model).claim("top-k").support == "unsupported"


@pytest.mark.parametrize("alias", ["claude", "Anthropic", "ANTHROPIC", " anthropic "])
def test_provider_aliases_are_the_provider(alias: str) -> None:
    resolution = families().resolve(alias, "claude-opus-4")
    assert resolution.target == "anthropic/claude-opus-4"
    assert resolution.claim("reasoning").support == "native"


@pytest.mark.parametrize(
    ("alias", "provider"), [("claude", "anthropic"), ("google", "gemini"), ("grok", "xai"), ("openai", "openai")]
)
def test_the_bundled_catalog_knows_the_aliases(alias: str, provider: str) -> None:
    """MP-C7: provider aliases such as claude, google and grok."""
    assert resolve(alias, "x").provider_id == provider


@pytest.mark.parametrize(
    ("provider", "model", "own"),
    [
        ("openrouter", "openai/o3", ("openai", "o3")),
        ("bedrock", "us.anthropic.claude-opus-4-5-20251101-v1:0", ("anthropic", "claude-opus-4-5")),
        ("vertex", "claude-opus-4-5@20251101", ("anthropic", "claude-opus-4-5")),
        ("azure", "eu/gpt-4o", ("openai", "gpt-4o")),
        ("openai", "gpt-4o-2024-08-06", ("openai", "gpt-4o")),
    ],
)
def test_the_bundled_catalog_knows_the_spellings(provider: str, model: str, own: tuple[str, str]) -> None:
    resolution, vendor = resolve(provider, model), resolve(*own)
    assert resolution.vendor == own[0]
    for name in ("tool-calling", "image-input", "reasoning"):
        assert resolution.claim(name).support == vendor.claim(name).support != "unknown"


PIECES = ["us.", "anthropic", ".", "/", ":", "@", "-v1", "-2025", "claude-", "latest", "", "eu/"]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_spellings_cut_anywhere_never_raise(model: str) -> None:
    for provider in ("bedrock", "vertex", "openrouter", "azure"):
        assert families().resolve(provider, model).model == model


def test_an_overlay_may_name_the_real_model_with_same_as() -> None:
    overlay = {("azure", "prod-1"): Overlay({"seed": True}, "modelpact.toml", "openai/o3")}
    resolution = families().extended(overlay=overlay).resolve("azure", "prod-1")
    assert resolution.vendor == "openai"
    assert resolution.claim("reasoning").support == "native"
    assert resolution.claim("context-window").assumed == "native"
    assert resolution.claim("seed").support == "native"
    assert resolution.listed
