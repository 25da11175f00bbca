"""The index: bit sets and numbers that agree with the resolutions they summarise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import Catalog, Price, default_catalog
from modelpact.catalog.build import Fact
from modelpact.catalog.snapshot import INDEXED, LIMITS, Index, IndexContent, limit_value, pack
from modelpact.vocabulary.capability import satisfies
from tests.conftest import catalog, fact, lineage


def small() -> Catalog:
    """Five models of three providers, in the index in this order."""
    rules = """
    [[rules]]
    match = { kind = "exact", model = "m3" }
    caps.streaming = "emulated"
    """
    facts = [
        fact("anthropic/m1", Price(1, 2), streaming=True, context_window=100),
        fact("gemini/m2", streaming=False, context_window=200),
        fact("openai/m3", Price(3, 4), context_window=300),
        Fact("openai", "m4", {"streaming": True}, status="deprecated"),
        Fact("openai", "m5", {"max_output": 5}, retires="2025-12-31"),
    ]
    return catalog(rules, lineage("one", *facts, date="2026-01-01"))


def places(bits: int) -> list[int]:
    return list(small().index.positions(bits))


def test_models_stand_in_order_of_provider_and_name() -> None:
    index = small().index
    assert index.size == 5
    assert list(index.locate(range(5))) == [
        (0, "anthropic", 0),
        (1, "gemini", 0),
        (2, "openai", 0),
        (3, "openai", 1),
        (4, "openai", 2),
    ]


def test_flags_by_minimum_support() -> None:
    index = small().index
    assert places(index.having("streaming", "native")) == [0, 3]
    assert places(index.having("streaming", "emulated")) == [0, 2, 3]
    assert index.having("citations", "emulated") == 0
    assert index.having("no-such-thing", "native") == 0


@pytest.mark.parametrize(
    ("minimum", "expected"), [(0, [0, 1, 2, 3, 4]), (1, [0, 1, 2]), (200, [1, 2]), (201, [2]), (10**12, [])]
)
def test_limits_by_minimum(minimum: int, expected: list[int]) -> None:
    assert places(small().index.at_least("context-window", minimum)) == expected


def test_retired_models_are_marked() -> None:
    assert places(small().index.retired) == [3, 4]


@pytest.mark.parametrize(
    ("provider", "expected"), [("anthropic", [0]), ("gemini", [1]), ("openai", [2, 3, 4]), ("vllm", []), ("nobody", [])]
)
def test_models_of_a_provider(provider: str, expected: list[int]) -> None:
    assert places(small().index.of_provider(provider)) == expected


def test_prices() -> None:
    index = small().index
    assert [index.price(place) for place in range(5)] == [3, -1, 7, -1, -1]


def test_repeated_negotiation_gives_the_same_verdict() -> None:
    index = small().index
    for _ in range(2):
        assert places(index.at_least("context-window", 200)) == [1, 2]
        assert places(index.at_least("max-output", 5)) == [4]
        assert places(index.having("streaming", "native")) == [0, 3]


def test_an_empty_catalog_has_an_empty_index() -> None:
    index = catalog("").index
    assert (index.size, index.everything, index.retired) == (0, 0, 0)
    assert index.at_least("context-window", 1) == 0
    assert list(index.locate(index.positions(index.everything))) == []


@given(st.lists(st.booleans(), max_size=200))
def test_packed_bits_come_back(bits: list[bool]) -> None:
    packed = int.from_bytes(pack(bits), "little")
    content = IndexContent({"p": len(bits)}, {}, {}, {}, [], b"")
    expected = [place for place, bit in enumerate(bits) if bit]
    assert list(Index(content).positions(packed)) == expected


@given(st.lists(st.integers(0, 6), max_size=8), st.data())
def test_positions_are_located_for_any_counts(counts: list[int], data: st.DataObject) -> None:
    index = Index(IndexContent({f"p{n}": c for n, c in enumerate(counts)}, {}, {}, {}, [], b""))
    flat = [(f"p{n}", within) for n, count in enumerate(counts) for within in range(count)]
    chosen = data.draw(st.sets(st.sampled_from(range(len(flat))))) if flat else set()
    located = list(index.locate(sorted(chosen)))
    assert located == [(place, *flat[place]) for place in sorted(chosen)]


def test_the_bundled_index_agrees_with_its_resolutions() -> None:
    source = default_catalog()
    index = source.index
    chosen = sorted(random.Random(4).sample(range(index.size), 150))
    native = {name: set(index.positions(index.having(name, "native"))) for name in INDEXED}
    accepted = {name: set(index.positions(index.having(name, "emulated"))) for name in INDEXED}
    for place, provider, within in index.locate(chosen):
        resolution = source.resolve(provider, source.models.names(provider)[within])
        for name in INDEXED:
            claim = resolution.claim(name)
            assert (place in native[name]) is (claim.support == "native")
            assert (place in accepted[name]) is satisfies(claim.support, "emulated")
        for name in LIMITS:
            value = limit_value(resolution.claim(name))
            assert bool(index.at_least(name, value + 1) >> place & 1) is False
            assert value == 0 or bool(index.at_least(name, value) >> place & 1)


def test_the_bundled_index_covers_every_model() -> None:
    source = default_catalog()
    counted = sum(len(source.models.names(name)) for name in source.models.providers)
    assert source.index.size == counted > 5_000
