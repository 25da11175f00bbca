"""Canonical JSON as in RFC 8785, and the hashes of events over it."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modelpact.ledger.canonical import MAX_SAFE_INTEGER, NotCanonical, canonical, canonical_text
from modelpact.ledger.event import STANDARD_TYPES, check_name, check_type, event_body, event_hash
from modelpact.vocabulary.errors import InputError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@example({"\U0001f600": 1, "\ufb33": 2, "\u20ac": 3, "\r": 4, "1": 5, "\x80": 6, "\u00f6": 7})
@example({"a": '\x00\x1f\x7f\x80\u2028\u2029"\\/', "": [[], {}, ()]})
def test_both_encoders_agree(value: Any) -> None:
    assert canonical(value) == canonical_text(value).encode()


def test_keys_are_in_the_order_of_utf_16_code_units() -> None:
    """The example of RFC 8785, section 3.2.3."""
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\u00f6": 7}
    keys = list(json.loads(canonical(value)))
    assert keys == ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@given(VALUES)
def test_canonical_json_reads_back(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.0, "float"),
        ({"a": [1.5]}, "fractions"),
        (MAX_SAFE_INTEGER + 1, "larger than"),
        ({"a": -MAX_SAFE_INTEGER - 1}, "larger than"),
        ({1: 2}, "key is a int"),
        ({"a": b""}, "bytes"),
        ({"a": {1, 2}}, "set"),
        ("\ud800", "UTF-8"),
        ({"\udfff": 1}, "UTF-8"),
    ],
)
def test_values_without_a_canonical_form_are_refused(value: Any, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        canonical(value)


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    with pytest.raises(NotCanonical, match="nested"):
        canonical(deep)


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20)


@given(
    NAMES.filter(str.isprintable),
    st.integers(1, 10**9),
    st.integers(0, 2**62),
    st.none() | NAMES.filter(str.isprintable),
    st.dictionaries(TEXTS, VALUES, max_size=4),
)
def test_the_hash_of_an_event_is_that_of_its_canonical_json(
    envelope: str, sequence: int, time: int, cause: str | None, payload: dict[str, Any]
) -> None:
    """MP-P4: envelopes are hash-chained over canonical JSON (RFC 8785) with SHA-256."""
    previous = hashlib.sha256(b"before").hexdigest()
    event = {
        "cause": cause,
        "envelope": envelope,
        "payload": payload,
        "previous": previous,
        "sequence": sequence,
        "time": str(time),
        "type": "run.started",
    }
    fields = (envelope, sequence, "run.started", time, cause, canonical(payload), previous)
    assert event_body(*fields) == canonical_text(event).encode()
    assert event_hash(*fields) == hashlib.sha256(canonical_text(event).encode()).hexdigest()


def test_standard_types_cannot_be_redefined_and_custom_ones_are_namespaced() -> None:
    assert all(check_type(name) == name for name in STANDARD_TYPES)
    assert check_type("acme.invoice.sent") == "acme.invoice.sent"
    for name in ("capability.dreamt", "run.custom", "plain", "Acme.x", "acme.", "a..b", "a" * 200):
        with pytest.raises(InputError):
            check_type(name)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a\x00", "\ud800", "x" * 257, 7, None])
def test_names_that_cannot_be_printed_are_refused(name: Any) -> None:
    with pytest.raises(InputError, match="envelope"):
        check_name(name)
