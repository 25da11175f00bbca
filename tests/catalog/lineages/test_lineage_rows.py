"""Price arithmetic, collecting and writing rows."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from modelpact.catalog.lineages.rows import (
    BadRowError,
    Collector,
    Row,
    encode,
    iso_date,
    join_prices,
    pico_per_million,
    pico_per_token,
    provider_names,
    token_count,
)


def row(model: str, **caps: object) -> Row:
    return {"provider": "acme", "model": model, "caps": caps}


@pytest.mark.parametrize(
    ("usd", "pico"),
    [
        (Decimal("1e-06"), 1_000_000),
        (Decimal("2.5e-07"), 250_000),
        (Decimal("2.4999999999999998e-07"), 250_000),
        (Decimal("0.1e-12"), 0),
        (Decimal("0.5e-12"), 0),
        (Decimal("1.5e-12"), 2),
        (Decimal("2.5e-12"), 2),
        (0, 0),
        (1, 10**12),
    ],
)
def test_a_token_price_is_exact_and_rounds_half_to_even(usd: object, pico: int) -> None:
    assert pico_per_token(usd, "price") == pico


def test_one_dollar_a_million_is_a_million_pico() -> None:
    assert pico_per_million(1, "price") == 1_000_000
    assert pico_per_million(Decimal("0.0375"), "price") == 37_500


@pytest.mark.parametrize("bad", ["1", 1.0, True, None, Decimal(-1), -1, Decimal("NaN")])
def test_an_invalid_price_refuses_the_row(bad: object) -> None:
    with pytest.raises(BadRowError, match="price is"):
        pico_per_token(bad, "price")


def test_each_tier_is_complete_and_ascending() -> None:
    base = {"input": 1, "output": 4, "cache_read": 0}
    price = join_prices(base, {500: {"output": 9}, 200: {"input": 2}})
    assert price == {
        **base,
        "tiers": [[200, {"input": 2, "output": 4, "cache_read": 0}], [500, {"input": 2, "output": 9, "cache_read": 0}]],
    }


def test_a_tier_that_changes_nothing_is_left_out_and_no_base_is_no_price() -> None:
    assert join_prices({"input": 1}, {200: {"input": 1}}) == {"input": 1}
    assert join_prices({}, {200: {"input": 1}}) is None


def test_zero_tokens_are_no_vote_and_other_types_are_refused() -> None:
    assert token_count(0, "limit") is None
    assert token_count(8192, "limit") == 8192
    for bad in ("8192", 8192.0, True, -1):
        with pytest.raises(BadRowError):
            token_count(bad, "limit")


def test_dates_need_a_day() -> None:
    assert iso_date("2026-02-28", "day") == "2026-02-28"
    assert iso_date("2026-02", "day") is None
    with pytest.raises(BadRowError, match="not a date"):
        iso_date("2025-25-11", "day")


def test_equal_duplicates_merge_and_the_lower_rank_wins_a_conflict() -> None:
    out = Collector({})
    out.add("x/a", row("a", reasoning=True), (1,))
    out.add("a", row("a", reasoning=True), (0,))
    out.add("x/b", row("b", reasoning=True), (1,))
    out.add("b", row("b", reasoning=False), (0,))
    result = out.finish({})
    assert [each["caps"]["reasoning"] for each in result.rows] == [True, False]
    assert [(each.name, each.reason) for each in result.skipped] == [("x/b", "duplicate of b, differs in reasoning")]


def test_unknown_providers_are_counted() -> None:
    out = Collector({"Acme": "acme"})
    assert out.provider("Acme") == "acme"
    assert out.provider("other") is None
    assert out.provider("other") is None
    assert out.finish({}).unmapped == {"other": 2}


def test_lines_are_sorted_compact_and_not_escaped() -> None:
    written = encode({"lineage": "x"}, [{"model": "é", "caps": {"b": 1, "a": [1, 2]}}])
    assert written.decode() == '{"lineage":"x"}\n{"caps":{"a":[1,2],"b":1},"model":"é"}\n'
    assert [json.loads(line) for line in written.splitlines()]


def test_provider_names_come_from_the_table_once(tmp_path: Path) -> None:
    table = tmp_path / "providers.toml"
    entry = '[[providers]]\nid = "{}"\nlineages = {{ litellm = ["{}"] }}\n'
    table.write_text(entry.format("acme", "acme_ai") + '[[providers]]\nid = "mock"\n')
    assert provider_names(table, "litellm") == {"acme_ai": "acme"}
    assert provider_names(table, "models-dev") == {}
    table.write_text(entry.format("acme", "acme_ai") + entry.format("other", "acme_ai"))
    with pytest.raises(ValueError, match="claimed by two"):
        provider_names(table, "litellm")
