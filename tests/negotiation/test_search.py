"""Search: the index answers as every model would; suggestions really satisfy."""

import random

import pytest

from modelpact import Catalog, Needs, Price, Verdict, default_catalog, find_models, negotiate, suggest
from modelpact.catalog.build import Fact
from modelpact.catalog.catalog import Overlay
from modelpact.negotiation.search import surely_meets
from tests.conftest import catalog, fact, lineage

CHEAP, DEAR, FREE = Price(1, 1), Price(500, 500), Price(0, 0)
TEXT = {"output_modalities": ["text"]}
GOOD = {"tool_calling": True, "context_window": 200_000, **TEXT}


def small() -> Catalog:
    """A few priced models of three providers, known to two sources."""
    facts = [
        fact("openai/gpt-cheap", CHEAP, **GOOD),
        fact("openai/gpt-dear", DEAR, **GOOD),
        fact("openai/gpt-free", FREE, **GOOD),
        fact("openai/gpt-mute", CHEAP, **{**GOOD, "tool_calling": False}),
        fact("openai/gpt-dim", CHEAP, **{**GOOD, "context_window": 8_000}),
        fact("anthropic/claude-cheap", CHEAP, **GOOD),
        fact("openrouter/anthropic/claude-cheap", Price(0, 1), **GOOD),
        Fact("openai", "gpt-gone", GOOD, CHEAP, status="deprecated"),
        Fact("openai", "gpt-late", GOOD, CHEAP, retires="2026-01-01"),
        Fact("openai", "gpt-soon", GOOD, Price(400, 400), retires="2099-01-01"),
    ]
    return catalog("", lineage("one", *facts), lineage("two", *facts))


def every_model(source: Catalog) -> list[str]:
    models = source.models
    return [f"{name}/{model}" for name in models.providers for model in models.names(name)]


def test_finds_what_is_known_to_meet_every_hard_need() -> None:
    targets = find_models("tools,context>=100k,seed:preferred,n:probed", catalog=small())
    assert targets == [
        "anthropic/claude-cheap",
        "openai/gpt-cheap",
        "openai/gpt-dear",
        "openai/gpt-free",
        "openai/gpt-soon",
        "openrouter/anthropic/claude-cheap",
    ]


def test_without_needs_it_lists_everything_but_the_retired() -> None:
    source = small()
    gone = {"openai/gpt-gone", "openai/gpt-late"}
    assert set(find_models(catalog=source)) == set(every_model(source)) - gone
    assert set(find_models(catalog=source, retired=True)) == set(every_model(source))


def test_a_provider_may_be_named_by_its_alias() -> None:
    for name in ("anthropic", "claude", "Anthropic"):
        assert find_models(provider=name, catalog=small()) == ["anthropic/claude-cheap"]
    assert find_models(provider="nobody", catalog=small()) == []


def test_by_price_the_cheapest_come_first_and_the_unpriced_last() -> None:
    targets = find_models("tools,context>=100k", provider="openai", sort="price", catalog=small())
    assert targets == ["openai/gpt-cheap", "openai/gpt-soon", "openai/gpt-dear", "openai/gpt-free"]


NEED_TEXTS = [
    *["tools", "tools>=native", "structured-output", "streaming", "vision", "pdf", "reasoning"],
    *["context>=100k", "context>=1M", "context", "max-output>=8k", "max-input>=100k", "n"],
    *["prompt-caching", "context-caching", "computer-use", "web-search", "temperature", "seed"],
    *["multimodal", "long-context", "discriminator-enum", "parallel-tool-calls", "tool-choice"],
    *["json-mode>=schema", "json-mode>=object", "caching=prompt-caching", "embedding", "speech"],
    *["token-limit-param=max-tokens", "citations", "assistant-prefill", "top-p", "logprobs"],
]


def by_asking(source: Catalog, needs: Needs, targets: list[str]) -> set[str]:
    return {target for target in targets if surely_meets(needs, source.resolve(*source.split(target)))}


@pytest.mark.parametrize("text", NEED_TEXTS)
def test_the_index_agrees_with_resolution_for_one_need(text: str) -> None:
    source = default_catalog()
    targets = random.Random(text).sample(every_model(source), 300)
    matches = set(find_models(text, retired=True))
    assert matches & set(targets) == by_asking(source, Needs(text), targets)


@pytest.mark.parametrize("seed", range(12))
def test_the_index_agrees_with_resolution_for_several_needs(seed: int) -> None:
    source = default_catalog()
    chance = random.Random(seed)
    needs = Needs(chance.sample(NEED_TEXTS, 3))
    targets = chance.sample(every_model(source), 300)
    matches = set(find_models(needs, retired=True))
    assert matches & set(targets) == by_asking(source, needs, targets)


def test_models_on_which_the_needs_exclude_each_other_are_not_found() -> None:
    """MP-N13: needs that are each met but conflict are a miss."""
    rules = """
    [[constraints]]
    match = { kind = "prefix_any", prefixes = ["gpt-"] }
    excludes = ["structured-output", "tool-calling"]
    """
    caps = {"tool_calling": True, "structured_output": True}
    facts = lineage("one", fact("openai/gpt-x", **caps), fact("anthropic/claude-x", **caps))
    source = catalog(rules, facts)
    assert find_models("tools", catalog=source) == ["anthropic/claude-x", "openai/gpt-x"]
    assert find_models("tools,structured-output", catalog=source) == ["anthropic/claude-x"]


def test_every_found_model_of_the_bundled_catalog_meets_the_needs() -> None:
    source = default_catalog()
    for text in ("tools,structured-output", "tools,structured-output,context>=200k"):
        targets = find_models(text)
        assert set(targets) == by_asking(source, Needs(text), targets)
        assert len(targets) > 100


@pytest.mark.parametrize("name", ["x-host-acme-sketch", "tool-read"])
def test_capabilities_that_only_rules_state_are_found_too(name: str) -> None:
    field = name.replace("-", "_") if name == "tool-read" else name
    rules = f'[[rules]]\nmatch = {{ kind = "any" }}\ncaps.{field} = true'
    source = catalog(rules, lineage("one", fact("openai/gpt-x", seed=True)))
    assert surely_meets(Needs(name), source.resolve("openai", "gpt-x"))
    assert find_models(name, catalog=source) == ["openai/gpt-x"]


def test_the_overlay_of_the_operator_decides_a_search() -> None:
    overlay = {
        ("openai", "gpt-mute"): Overlay({"tool_calling": True}, "modelpact.toml"),
        ("openai", "gpt-cheap"): Overlay({"tool_calling": False}, "modelpact.toml"),
        ("local", "mine"): Overlay({"tool_calling": True}, "modelpact.toml"),
    }
    source = small().extended(overlay=overlay, configured={"local": "vllm"})
    targets = find_models("tools", catalog=source)
    assert "openai/gpt-mute" in targets
    assert "openai/gpt-cheap" not in targets
    assert "local/mine" in targets
    assert find_models("tools", provider="local", catalog=source) == ["local/mine"]
    assert targets == sorted(targets)


def test_an_overlay_does_not_bring_a_retired_model_back() -> None:
    overlay = {("openai", "gpt-gone"): Overlay({"seed": True}, "modelpact.toml")}
    source = small().extended(overlay=overlay)
    assert "openai/gpt-gone" not in find_models("tools", catalog=source)
    assert "openai/gpt-gone" in find_models("tools", catalog=source, retired=True)


def suggest_instead(needs: Needs, rejected: str, *current: str, catalog: Catalog | None = None) -> Verdict | None:
    """Suggest a model in place of a rejected one, as a diagnosis does."""
    provider = rejected.partition("/")[0]
    exclude = (rejected, *current)
    return suggest(needs, prefer_provider=provider, exclude=exclude, catalog=catalog)


def test_a_suggestion_is_of_the_same_provider_first_then_the_cheapest() -> None:
    """MP-N18: the same provider first, then price."""
    suggestion = suggest_instead(Needs("tools"), "openai/gpt-mute", catalog=small())
    assert suggestion is not None
    assert suggestion.target == "openai/gpt-cheap"


def test_a_vendor_is_suggested_if_the_provider_has_no_fitting_model() -> None:
    suggestion = suggest_instead(Needs("tools"), "azure/whatever", catalog=small())
    assert suggestion is not None
    assert suggestion.target in ("anthropic/claude-cheap", "openai/gpt-cheap")


def test_the_current_model_is_never_suggested() -> None:
    """Diagnostic: "Previous … (still in force)"; a suggestion is a way on from there."""
    for current in ("openai/gpt-cheap", "OpenAI/GPT-cheap"):
        suggestion = suggest_instead(Needs("tools"), "openai/gpt-mute", current, catalog=small())
        assert suggestion is not None
        assert suggestion.target == "openai/gpt-dim"
    assert suggest_instead(Needs("tools"), "OPENAI/gpt-CHEAP", catalog=small()).target != (  # type: ignore[union-attr]
        "openai/gpt-cheap"
    )


def test_bundled_mock_models_are_suggested_for_the_mock_provider() -> None:
    suggestion = suggest_instead(Needs("tools"), "mock/small")
    assert suggestion is not None
    assert suggestion.target == "mock/demo"
    beyond = suggest_instead(Needs("tools"), "mock/small", "mock/demo")
    assert beyond is not None
    assert not beyond.target.startswith("mock/")


def test_a_suggestion_never_moves_local_work_to_a_cloud_provider() -> None:
    assert suggest_instead(Needs("tools"), "vllm/whatever", catalog=small()) is None


def test_the_model_itself_is_not_suggested() -> None:
    needs = Needs("tools,context>=100k")
    suggestion = suggest_instead(needs, "openai/gpt-cheap", catalog=small())
    assert suggestion is not None
    assert suggestion.target == "openai/gpt-soon"


def test_nothing_is_suggested_where_nothing_satisfies() -> None:
    assert suggest_instead(Needs("tools,context>=900k"), "openai/gpt-mute", catalog=small()) is None


REJECTED = ["openai/gpt-4", "anthropic/claude-3-haiku-20240307", "nobody/nothing", "mistral/x"]


@pytest.mark.parametrize("rejected", REJECTED)
@pytest.mark.parametrize("text", ["tools,structured-output", "context>=1M", "vision,reasoning,tools", "tools>=native"])
def test_a_suggestion_really_satisfies(text: str, rejected: str) -> None:
    """MP-N18: a suggestion is a model that really satisfies the set."""
    source = default_catalog()
    suggestion = suggest_instead(Needs(text), rejected)
    assert suggestion is not None
    assert suggestion.target != rejected
    fresh = negotiate(text, suggestion.target)
    assert fresh.ok
    assert not fresh.missing
    target = source.resolve(*source.split(suggestion.target))
    assert surely_meets(Needs(text), target)
    assert target.status != "deprecated"
    assert suggestion.target in find_models(text)


def test_the_bundled_catalog_suggests_of_the_same_provider() -> None:
    suggestion = suggest_instead(Needs("tools,context>=100k"), "anthropic/claude-2.1")
    assert suggestion is not None
    assert suggestion.target.startswith("anthropic/")
