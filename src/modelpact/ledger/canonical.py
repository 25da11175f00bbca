"""Canonical JSON (RFC 8785) for values without fractions, so that every hash has one input."""

import json
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader reads exactly."""

_MAX_DEPTH: Final = 64
_MAX_SAFE_DEPTH: Final = 32
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_NOT_UTF8: Final = "a text contains a character that UTF-8 cannot encode"


class NotCanonical(InputError):
    """The value has no canonical form: a fraction, a huge number or a lone surrogate."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value of objects, lists, texts, integers and booleans."""
    try:
        plain = _check(value, 0)
        return _SORTED.encode(value) if plain else canonical_text(value).encode()
    except UnicodeEncodeError:
        raise NotCanonical(_NOT_UTF8) from None


def canonical_unchecked(value: Any) -> bytes:
    """Return the canonical JSON of a value without checking it.

    The caller vouches that it has only ASCII keys, texts, and integers up to `MAX_SAFE_INTEGER`.
    """
    try:
        return _SORTED.encode(value)
    except UnicodeEncodeError:
        raise NotCanonical(_NOT_UTF8) from None


def canonical_safe(value: Any, depth: int = 0) -> Any:
    """Return a value with everything that has no canonical form replaced by text.

    Fractions and huge numbers become their decimal text, lone surrogates become `?`, and what is
    nested too deep becomes an ellipsis.
    """
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if depth > _MAX_SAFE_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {str(name): canonical_safe(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical_safe(inner, depth + 1) for inner in value]
    return value


def canonical_text(value: Any) -> str:
    """Return canonical JSON with keys in the order of RFC 8785: by UTF-16 code units.

    It is slower than the encoder that `canonical` uses when all keys are ASCII.
    """
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(key)}:{canonical_text(value[key])}" for key in keys) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _check(value: Any, depth: int) -> bool:
    """Tell whether the fast encoder sorts a value as RFC 8785 does. Raise if it has no form."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            raise NotCanonical("a number is larger than 2^53 - 1: write it as text")
        return True
    if depth >= _MAX_DEPTH:
        raise NotCanonical(f"nested more than {_MAX_DEPTH} deep")
    if kind is dict:
        plain = True
        for key, item in value.items():
            if type(key) is not str:
                raise NotCanonical(f"a key is a {type(key).__name__}, not text")
            if not key.isascii():
                plain = False
            inner = type(item)  # most values are texts and numbers: they cost no call
            if inner is str or (inner is int and -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER):
                continue
            if not _check(item, depth + 1):
                plain = False
        return plain
    if kind is list or kind is tuple:
        plain = True
        for item in value:
            if not _check(item, depth + 1):
                plain = False
        return plain
    raise NotCanonical(f"a {kind.__name__} has no canonical form; fractions are not allowed")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
