"""Facts: votes of public catalogs, kept apart, merged with caution; prices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import Price
from modelpact.catalog.build import Fact, build, merge, read_lineages
from modelpact.catalog.facts import highest_price, most_cautious, sorting_price, vote_row
from modelpact.catalog.snapshot import BUNDLED
from modelpact.catalog.sources import read_sources
from modelpact.catalog.statement import NATIVE, UNSUPPORTED, Stated
from tests.conftest import catalog, fact, lineage

FLAGS = ["tool_calling", "streaming", "image_input", "reasoning", "top_k", "web_search"]
LIMITS = ["context_window", "max_input", "max_output"]
STATEMENTS = st.fixed_dictionaries(
    {}, optional={**{name: st.booleans() for name in FLAGS}, **{name: st.integers(1, 10**12) for name in LIMITS}}
)


@given(STATEMENTS)
def test_a_vote_states_the_same_as_its_statement(caps: dict[str, int | bool]) -> None:
    row = vote_row(0, caps, None)
    for field in (*FLAGS, *LIMITS):
        stated = row.stated(field.replace("_", "-"))
        value = caps.get(field)
        if value is None:
            assert stated is None
        elif field in LIMITS:
            assert stated == Stated("native", value)
        else:
            assert stated == (NATIVE if value else UNSUPPORTED)


@given(STATEMENTS, STATEMENTS)
def test_merged_facts_promise_no_more_than_any_lineage(
    first: dict[str, int | bool], other: dict[str, int | bool]
) -> None:
    """MP-C4, MP-C3: the more cautious value wins; a missing field is silence."""
    records = merge([lineage("a", fact("openai/m", **first)), lineage("b", fact("openai/m", **other))])
    record = records["openai"]["m"]
    for field in FLAGS:
        votes = [caps[field] for caps in (first, other) if field in caps]
        expected = (NATIVE if all(votes) else UNSUPPORTED) if votes else None
        assert record.stated(field.replace("_", "-")) == expected


@pytest.mark.parametrize("value", ["unknown", "emulated", {"restricted": "on request"}], ids=str)
def test_a_vote_that_is_not_a_plain_yes_is_not_read_as_native(value: object) -> None:
    """The grammar of statements has these values, so a lineage may use them."""
    resolution = catalog("", lineage("a", fact("openai/m", tool_calling=value))).resolve("openai", "m")
    assert resolution.claim("tool-calling").support != "native"


@pytest.mark.parametrize("field", ["x-host-acme-sketch", "tool_read"])
def test_every_valid_statement_can_be_stored_as_a_vote(field: str) -> None:
    source = catalog("", lineage("a", Fact("openai", "m", {field: True})))
    claim = source.resolve("openai", "m").claim(field.replace("_", "-"))
    assert claim.support == "native"


def test_efforts_are_kept_and_the_common_ones_win() -> None:
    first = fact("openai/m", reasoning_effort=["low", "medium", "high"])
    other = fact("openai/m", reasoning_effort=["minimal", "low", "high"])
    silent = fact("openai/m", reasoning_effort=True)
    merged = catalog("", lineage("a", first), lineage("b", other), lineage("c", silent))
    claim = merged.resolve("openai", "m").claim("reasoning-effort")
    assert (claim.support, claim.value) == ("native", ("low", "high"))
    assert claim.evidence is not None
    assert len(claim.evidence.votes) == 3


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([NATIVE, NATIVE], NATIVE),
        ([NATIVE, UNSUPPORTED], UNSUPPORTED),
        ([Stated("native", 5), Stated("native", 3), Stated("native", 9)], Stated("native", 3)),
        ([Stated("native", 5), UNSUPPORTED], UNSUPPORTED),
        ([Stated("native", "max-tokens")], Stated("native", "max-tokens")),
    ],
)
def test_the_most_cautious(statements: list[Stated], expected: Stated) -> None:
    assert most_cautious(statements) == expected
    assert most_cautious(statements[::-1]) == expected


def windows(*statements: dict[str, int]) -> tuple[object, object]:
    names = "abc"
    lineages = [lineage(name, fact("openai/m", **caps)) for name, caps in zip(names, statements, strict=False)]
    resolution = catalog("", *lineages).resolve("openai", "m")
    return resolution.claim("context-window").value, resolution.claim("max-input").value


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([{"max_input": 8}], (8, None)),
        ([{"max_input": 8, "context_window": 10}], (10, 8)),
        ([{"max_input": 8}, {"context_window": 8}], (8, None)),
        ([{"max_input": 8}, {"context_window": 10, "max_output": 2}], (10, 8)),
        ([{"max_input": 8}, {"context_window": 10, "max_input": 8}], (10, 8)),
        ([{"max_input": 8}, {"context_window": 9, "max_output": 2}], (8, None)),
    ],
)
def test_a_lone_input_limit_is_the_window_unless_others_show_otherwise(
    statements: list[dict[str, int]], expected: tuple[object, object]
) -> None:
    assert windows(*statements) == expected


def test_the_highest_price_is_taken_for_each_part() -> None:
    tiers = ((200_000, Price(9, 9)),)
    offers = [Price(1, 5, None, 3), Price(2, 4, 7, tiers=tiers)]
    assert highest_price(offers) == Price(2, 5, 7, 3, tiers)
    resolution = catalog(
        "", lineage("a", fact("openai/m", Price(1, 5))), lineage("b", fact("openai/m", Price(2, 4)))
    ).resolve("openai", "m")
    assert resolution.price == Price(2, 5)


@pytest.mark.parametrize(
    ("price", "expected"), [(None, -1), (Price(), -1), (Price(5), -1), (Price(5, 6), 11), (Price(0, 0), 0)]
)
def test_prices_sort_by_input_and_output_together(price: Price | None, expected: int) -> None:
    assert sorting_price(price) == expected


def test_facts_by_a_clause_join_every_model_it_takes_in() -> None:
    by_clause = Fact("openai", "gpt-4o", {}, Price(1, 2), match={"or": [{"starts_with": "GPT-4o"}]})
    named = [fact("openai/gpt-4o", seed=True), fact("openai/gpt-4o-mini", seed=True)]
    other = fact("openai/o3", seed=True)
    source = catalog("", lineage("a", *named, other), lineage("b", by_clause))
    assert source.resolve("openai", "gpt-4o").price == Price(1, 2)
    assert source.resolve("openai", "gpt-4o-mini").price == Price(1, 2)
    assert source.resolve("openai", "o3").price is None


def test_facts_by_a_clause_list_no_models_of_their_own() -> None:
    alone = Fact("openai", "gpt-9", {}, Price(1, 2), match={"equals": "gpt-9"})
    source = catalog("", lineage("b", alone))
    assert not source.resolve("openai", "gpt-9").listed
    assert source.index.size == 0


@pytest.mark.parametrize(
    ("clause", "matched"),
    [
        ({"equals": "GPT-4"}, {"gpt-4"}),
        ({"starts_with": "gpt-4"}, {"gpt-4", "gpt-4-turbo"}),
        ({"ends_with": "turbo"}, {"gpt-4-turbo"}),
        ({"contains": "pt-4"}, {"gpt-4", "gpt-4-turbo"}),
        ({"regex": "^gpt-[0-9]$"}, {"gpt-4"}),
        ({"and": [{"starts_with": "gpt"}, {"ends_with": "turbo"}]}, {"gpt-4-turbo"}),
        ({"or": [{"equals": "o3"}, {"equals": "gpt-4"}]}, {"o3", "gpt-4"}),
    ],
)
def test_clauses(clause: dict[str, object], matched: set[str]) -> None:
    names = ("gpt-4", "gpt-4-turbo", "o3")
    facts = [fact(f"openai/{name}", seed=True) for name in names]
    priced = Fact("openai", "none", {}, Price(1, 2), match=clause)
    source = catalog("", lineage("a", *facts), lineage("b", priced))
    assert {name for name in names if source.resolve("openai", name).price} == matched


def test_the_order_of_lineages_and_facts_does_not_change_the_bytes() -> None:
    """Building the snapshot again gives the same bytes."""
    sources = read_sources()
    a = lineage("a", fact("openai/x", seed=True), fact("openai/y", seed=True))
    b = lineage("b", fact("openai/x", seed=False), fact("anthropic/z", n=True))
    turned = lineage("a", fact("openai/y", seed=True), fact("openai/x", seed=True))
    assert build(sources, [a, b]) == build(sources, [b, turned])


@pytest.mark.slow
def test_the_bundled_snapshot_is_what_the_sources_make() -> None:
    assert build(read_sources(), read_lineages()) == BUNDLED.read_bytes()
