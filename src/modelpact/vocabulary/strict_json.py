"""Strict JSON: whatever two parsers could read differently is refused."""

import codecs
import json
import re
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding bytes that are not JSON: by their syntax, encoding or depth."""
_SUSPECT: Final = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?0*[1-9]\d\d|\d{309}")
"""Text that may be a lone surrogate or an infinite number: valid JSON that cannot be written."""


def parse_json(data: bytes, name: str) -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN, no lone surrogates.

    Infinite numbers and deep nesting are refused too.
    """
    # A body that encodes to the same bytes had no duplicate key. Most bodies that programs write
    # are like that, and this check is much cheaper than the careful parser.
    try:
        value = msgspec.json.decode(data)
        if msgspec.json.encode(value) == data:
            return value
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError):
        pass  # the careful parser reports what is wrong, and where

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputError(f"{name}: the key {duplicate!r:.80} occurs twice in one object")
        return value

    def no_constant(text: str) -> Any:
        raise InputError(f"{name}: {text} is not JSON")

    if data.startswith(codecs.BOM_UTF8):
        raise InputError(f"{name} begins with a byte order mark: leave it out")
    try:
        # The parser itself would also accept UTF-16 and lone surrogates.
        text = data.decode()
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
        if _SUSPECT.search(data):
            _check_writable(value, name)
        return value
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{name} is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} is not JSON that can be read: {error}") from None


def _check_writable(value: Any, name: str) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise InputError(f"{name}: a number is too large, such as 1e400") from None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(text[error.start]):04x}"
        raise InputError(f"{name}: {surrogate} is half a character: its other half is missing") from None
