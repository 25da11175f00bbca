"""Needs: their text form, their checks, and the laws by which they merge."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.needs.need import Need, Needs, merge_needs, need
from modelpact.vocabulary.capability import CAPABILITIES
from modelpact.vocabulary.errors import InvalidNeed, ModelpactError, UnknownCapability


@st.composite
def any_need(draw: st.DrawFn, names: tuple[str, ...] = tuple(CAPABILITIES)) -> Need:
    info = CAPABILITIES[draw(st.sampled_from(names))]
    minimum: st.SearchStrategy[Any] = st.none()
    if info.kind == "limit":
        minimum |= st.integers(0, 10**12)
    elif info.kind == "choice":
        minimum |= st.sampled_from(info.choices)
    return need(
        info.id,
        level=draw(st.sampled_from(["hard", "preferred", "probed"])),
        min_support=draw(st.sampled_from(["native", "emulated"])),
        minimum=draw(minimum),
        required_by=draw(st.lists(st.sampled_from("abc"), max_size=3)),
    )


MERGEABLE = any_need(("tool-calling", "context-window", "json-mode", "streaming"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tools", Need("tool-calling")),
        ("tools:preferred", Need("tool-calling", "preferred")),
        (" tools : probed ", Need("tool-calling", "probed")),
        ("context>=200k", Need("context-window", minimum=200_000)),
        ("context ≥ 200k", Need("context-window", minimum=200_000)),
        ("context>=1.5M:preferred", Need("context-window", "preferred", minimum=1_500_000)),
        ("context>=200_000", Need("context-window", minimum=200_000)),
        ("context>=200,000", Need("context-window", minimum=200_000)),
        ("context>=128k>=native", Need("context-window", "hard", "native", 128_000)),
        ("image-input>=native", Need("image-input", min_support="native")),
        ("vision>=emulated", Need("image-input")),
        ("json-mode>=object", Need("json-mode", minimum="object")),
        ("caching=context-caching", Need("caching", minimum="context-caching")),
        ("toolCalling", Need("tool-calling")),
        ("x-host-acme-sketch:preferred", Need("x-host-acme-sketch", "preferred")),
    ],
)
def test_a_need_is_read_from_its_text(text: str, expected: Need) -> None:
    assert Need.parse(text) == expected


@pytest.mark.parametrize(
    ("parsed", "text"),
    [
        (Need("tool-calling"), "tool-calling"),
        (Need("context-window", minimum=200_000), "context-window>=200000"),
        (Need("json-mode", "preferred", "native", "object"), "json-mode>=object>=native:preferred"),
        (Need("caching", minimum="none"), "caching=none"),
    ],
)
def test_a_need_is_written_as_its_text(parsed: Need, text: str) -> None:
    assert str(parsed) == text


@given(any_need())
def test_text_round_trips(original: Need) -> None:
    """MP-W5: `Need.parse("context>=200k")` round-trips."""
    assert Need.parse(str(original), required_by=original.required_by) == original


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", ":hard", ">=5", "tools:", "tools:maybe", "tools>=", "tools>=5", "context>=many"],
        *["context>=", "context>=-1", "context>=1.5", "context>=1e5", "context>=5>=6", "tools>=="],
        *["context>=10000000000000", "json-mode>=xml", "caching=all", "tools>=restricted"],
        *["tools:hard:hard", "tools" * 200, "tools hard!"],
    ],
)
def test_malformed_texts_are_refused(text: str) -> None:
    with pytest.raises((InvalidNeed, UnknownCapability)):
        Need.parse(text)


def test_an_unknown_name_is_reported_with_the_nearest_names() -> None:
    with pytest.raises(UnknownCapability, match="tool-calling"):
        Need.parse("tool-caling>=native")


@given(st.text(max_size=80))
def test_any_text_is_a_need_or_a_typed_error(text: str) -> None:
    try:
        parsed = Need.parse(text)
    except ModelpactError:
        return
    assert Need.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "tools", "level": "must"},
        {"name": "tools", "level": None},
        {"name": "tools", "level": []},
        {"name": "tools", "min_support": "restricted"},
        {"name": "tools", "min_support": None},
        {"name": "tools", "minimum": 1},
        {"name": "context", "minimum": 1.5},
        {"name": "context", "minimum": float("nan")},
        {"name": "context", "minimum": float("inf")},
        {"name": "context", "minimum": True},
        {"name": "context", "minimum": -1},
        {"name": "context", "minimum": 10**12 + 1},
        {"name": "context", "minimum": []},
        {"name": "json-mode", "minimum": 2},
        {"name": "json-mode", "minimum": ["schema"]},
        {"name": "tools", "required_by": [1]},
        {"name": None},
        {"name": 5},
    ],
    ids=str,
)
def test_wrong_parts_are_typed_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelpactError):
        need(**wrong)


@pytest.mark.parametrize("minimum", [10**5_000, -(10**5_000)], ids=["huge", "hugely negative"])
def test_a_number_too_long_to_print_is_a_typed_error(minimum: int) -> None:
    with pytest.raises(InvalidNeed):
        need("context", minimum=minimum)


@pytest.mark.parametrize("wrong", [5, None, 1.5], ids=str)
def test_an_invalid_set_of_needs_is_a_typed_error(wrong: Any) -> None:
    with pytest.raises(InvalidNeed):
        Needs(wrong)


@pytest.mark.parametrize("wrong", [5, 1.5], ids=str)
def test_an_invalid_requirer_is_a_typed_error(wrong: Any) -> None:
    with pytest.raises(InvalidNeed):
        need("tools", required_by=wrong)


def test_needs_merge_to_the_strictest() -> None:
    """MP-N12: needs merge to the strictest level, minimum support and minimum value."""
    merged = Needs(
        [
            need("context", level="preferred", minimum="200k", required_by="a"),
            need("context", level="hard", minimum="100k", min_support="native", required_by="b"),
            need("context", level="probed", required_by=["c", "a"]),
        ]
    )
    assert list(merged) == [Need("context-window", "hard", "native", 200_000, ("a", "b", "c"))]


@pytest.mark.parametrize(
    ("first", "other", "level"),
    [
        ("hard", "preferred", "hard"),
        ("hard", "probed", "hard"),
        ("preferred", "probed", "preferred"),
        ("probed", "probed", "probed"),
    ],
)
def test_the_strictest_level_wins(first: str, other: str, level: str) -> None:
    for pair in ((first, other), (other, first)):
        assert Needs(f"tools:{each}" for each in pair)[0].level == level


def test_ordered_choices_merge_to_the_higher() -> None:
    assert Needs("json-mode>=object,json-mode>=schema,json-mode")[0].minimum == "schema"


def test_two_values_of_an_unordered_choice_cannot_be_merged() -> None:
    with pytest.raises(InvalidNeed, match=r"chat.*batch"):
        Needs(
            [
                need("caching", minimum="prompt-caching", required_by="chat"),
                need("caching", minimum="context-caching", required_by="batch"),
            ]
        )


def without_order(original: Need) -> tuple[object, ...]:
    return (
        original.capability,
        original.level,
        original.min_support,
        original.minimum,
        frozenset(original.required_by),
    )


@given(any_need(("context-window",)), any_need(("context-window",)))
def test_merging_is_commutative_up_to_order(first: Need, other: Need) -> None:
    assert without_order(merge_needs(first, other)) == without_order(merge_needs(other, first))


@given(any_need(("json-mode",)), any_need(("json-mode",)), any_need(("json-mode",)))
def test_merging_is_associative(first: Need, second: Need, third: Need) -> None:
    assert merge_needs(merge_needs(first, second), third) == merge_needs(first, merge_needs(second, third))


@given(any_need())
def test_merging_with_itself_changes_nothing(original: Need) -> None:
    assert merge_needs(original, original) == original


@given(st.lists(MERGEABLE, max_size=12))
def test_needs_hold_each_capability_once_in_the_order_of_first_mention(given: list[Need]) -> None:
    merged = Needs(given)
    order = list(dict.fromkeys(entry.capability for entry in given))
    assert [need.capability for need in merged] == order
    assert Needs(merged) == merged
    by = {name for entry in given for name in entry.required_by}
    assert {name for need in merged for name in need.required_by} == by


@given(st.lists(MERGEABLE, max_size=8), st.lists(MERGEABLE, max_size=8))
def test_adding_two_sets_equals_reading_all_their_needs(first: list[Need], other: list[Need]) -> None:
    assert Needs(first) + other == Needs([*first, *other])
    assert Needs(first) + Needs(other) == Needs([*first, *other])


def test_equal_sets_are_one_key() -> None:
    assert Needs("tools, context>=200k") == Needs(["toolCalling", need("context", minimum=200_000)])
    assert len({Needs("tools"), Needs(["tools"]), Needs("tools,tools")}) == 1
    assert Needs("tools,streaming") != Needs("streaming,tools")


def test_a_set_reads_back_from_its_text() -> None:
    merged = Needs("tools,context>=200k:preferred,json-mode>=object")
    assert Needs(str(merged)) == merged
    assert len(Needs("")) == 0


@pytest.mark.parametrize("wrong", [[5], [None], [["tools"]], [b"tools"], ["tools", 5]], ids=str)
def test_malformed_needs_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidNeed):
        Needs(wrong)
