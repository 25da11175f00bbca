"""Readers: needs from the dialects' JSON, each error naming its place."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.needs.dialects import read_abp, read_openwop, read_stud
from modelpact.needs.need import Need, Needs
from modelpact.vocabulary.errors import InputError, ModelpactError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def test_stud_requirements_are_read() -> None:
    """MP-J1, MP-N8: name, level, minimum and requiredBy; native by default."""
    needs = read_stud(
        [
            {"name": "toolCalling", "level": "hard", "requiredBy": "sm:review"},
            {"name": "contextWindow", "level": "preferred", "minimum": 8000},
            {"name": "streaming", "level": "probed", "requiredBy": ["hook:a", "hook:b"]},
        ]
    )
    assert list(needs) == [
        Need("tool-calling", "hard", "native", None, ("sm:review",)),
        Need("context-window", "preferred", "native", 8000),
        Need("streaming", "probed", "native", None, ("hook:a", "hook:b")),
    ]


def test_abp_requirements_are_read() -> None:
    """MP-J2, S002-1-3: `min_support` is `native` or `emulated`; every entry is required."""
    needs = read_abp(
        {
            "required": [
                {"capability": "tool_read", "min_support": "native"},
                {"capability": "extended_thinking", "min_support": "emulated"},
            ]
        }
    )
    assert list(needs) == [Need("tool-read", min_support="native"), Need("reasoning")]
    assert read_abp({"required": []}) == Needs()


def test_openwop_requirements_are_read() -> None:
    """MP-N8: minimum support defaults to native in stud and openwop."""
    needs = read_openwop(["function-calling", "x-host-acme-sketch"], required_by="node-1")
    assert list(needs) == [
        Need("tool-calling", "hard", "native", None, ("node-1",)),
        Need("x-host-acme-sketch", "hard", "native", None, ("node-1",)),
    ]


def test_several_requirements_for_one_capability_merge() -> None:
    preferred = {"name": "contextWindow", "level": "preferred", "minimum": 9, "requiredBy": "a"}
    other = {"name": "contextWindow", "level": "hard", "minimum": 5, "requiredBy": "b"}
    assert list(read_stud([preferred, other])) == [Need("context-window", "hard", "native", 9, ("a", "b"))]


GOOD = {"name": "streaming", "level": "hard"}


@pytest.mark.parametrize(
    ("requirements", "place"),
    [
        (None, "requirements"),
        ("streaming", "requirements"),
        ({"streaming": "hard"}, "requirements"),
        ([GOOD, "streaming"], r"requirements\[1\]"),
        ([GOOD, {"level": "hard"}], r"requirements\[1\]: name is missing"),
        ([{"name": "streaming"}], r"requirements\[0\]: level is missing"),
        ([{"name": 5, "level": "hard"}], r"requirements\[0\].name"),
        ([{"name": "streaming", "level": "must"}], r"requirements\[0\].level"),
        ([{"name": "streaming", "level": "absent"}], r"requirements\[0\].level"),
        ([{**GOOD, "minimum": 5}], r"requirements\[0\].minimum"),
        ([{"name": "contextWindow", "level": "hard", "minimum": "5"}], r"\[0\].minimum"),
        ([{"name": "contextWindow", "level": "hard", "minimum": True}], r"\[0\].minimum"),
        ([{"name": "contextWindow", "level": "hard", "minimum": 1.5}], r"\[0\].minimum"),
        ([{**GOOD, "requiredBy": 5}], r"requirements\[0\].requiredBy"),
        ([{**GOOD, "requiredBy": ["a", 5]}], r"requirements\[0\].requiredBy"),
        ([{**GOOD, "required_by": "a"}], "requiredBy"),
        ([{"name": "tool_calling", "level": "hard"}], "toolCalling"),
    ],
)
def test_stud_errors_name_their_place(requirements: Any, place: str) -> None:
    with pytest.raises(InputError, match=place):
        read_stud(requirements)


@pytest.mark.parametrize(
    ("requirements", "place"),
    [
        (None, "requirements"),
        ([], "requirements"),
        ({"require": []}, "required"),
        ({"required": {}}, "requirements.required"),
        ({"required": [5]}, r"required\[0\]"),
        ({"required": [{"capability": "streaming"}]}, "min_support is missing"),
        ({"required": [{"min_support": "native"}]}, "capability is missing"),
        ({"required": [{"capability": "streaming", "min_support": "restricted"}]}, "native or emulated"),
        ({"required": [{"capability": "Streaming", "min_support": "native"}]}, "streaming"),
        ({"required": [{"capability": "streaming", "min_support": "native", "level": "hard"}]}, "level"),
    ],
)
def test_abp_errors_name_their_place(requirements: Any, place: str) -> None:
    with pytest.raises(InputError, match=place):
        read_abp(requirements)


@pytest.mark.parametrize("wrong", [None, "reasoning", b"x", {}, 5, [5], ["tool-calling"], [None]])
def test_openwop_takes_a_list_of_its_own_ids(wrong: Any) -> None:
    with pytest.raises(InputError):
        read_openwop(wrong)


@pytest.mark.parametrize("reader", [read_stud, read_abp, read_openwop])
@given(given_json=JSON)
def test_any_json_is_needs_or_a_typed_error(reader: Callable[[Any], Needs], given_json: object) -> None:
    for shape in (given_json, [given_json], {"required": [given_json]}):
        try:
            assert isinstance(reader(shape), Needs)
        except ModelpactError as error:
            message = str(error)
        else:
            continue
        assert message
