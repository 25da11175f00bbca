"""Strict JSON: what cannot be written again is not read."""

import json
from typing import Any

import pytest

from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import parse_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'{"a":"\ud800"}', r"\ud800"),
        (r'{"\uDFFFx":1}', r"\udfff"),
        (r'["\ude00\ud83d"]', r"\ude00"),
        ('{"a":1e400}', "too large"),
        ("[-1E+0999]", "too large"),
        (f"[{'9' * 400}.5]", "too large"),
        ('{"a":1,"a":2}', "twice"),
        ("[NaN]", "NaN"),
    ],
)
def test_what_nobody_can_write_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_json(text.encode(), "the body")
    assert message in str(error.value)
    str(error.value).encode()


@pytest.mark.parametrize(
    "value", ["\U0001f600", {"ok": "1e400", "\\ud800": "a text of six characters"}, [1e308, 1e-400, 10**40, "e100"]]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_only_looks_like_it_is_read(value: Any, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode(), "it") == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        ('{"a": 1}'.encode("utf-32"), "not UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "not JSON"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": "\xc0\xaf"}', "not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
    ],
)
def test_what_is_not_plain_utf8_is_refused(data: bytes, message: str) -> None:
    """Other parsers would read something else, or nothing."""
    with pytest.raises(InputError, match=message):
        parse_json(data, "the body")
