"""Canonical JSON (RFC 8785), for values without fractions, so that every hash has one input."""

import json
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest whole number that every JSON reader reads exactly."""

_DEEPEST: Final = 64
_DEEPEST_SAFE: Final = 32
_FAST: Final = msgspec.json.Encoder(order="sorted")


class NotCanonical(InputError):
    """A value that has no canonical form here: fractions, huge numbers, lone surrogates."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value of objects, lists, texts, whole numbers and truths."""
    try:
        plain = _check(value, 0)
        return _FAST.encode(value) if plain else reference(value).encode()
    except UnicodeEncodeError:
        raise NotCanonical("a text has a character that UTF-8 cannot carry") from None


def canonical_unchecked(value: Any) -> bytes:
    """Return the canonical JSON of a value that is known to be plain, without looking through it.

    That is keys in ASCII, texts, and whole numbers within bounds.
    """
    try:
        return _FAST.encode(value)
    except UnicodeEncodeError:
        raise NotCanonical("a text has a character that UTF-8 cannot carry") from None


def canonical_safe(value: Any, depth: int = 0) -> Any:
    """Return a value with everything that has no canonical form replaced by text.

    Fractions and huge numbers become their decimal text, lone surrogates become `?`, and what is
    nested too deep becomes an ellipsis.
    """
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if depth > _DEEPEST_SAFE:
        return "…"
    if isinstance(value, dict):
        return {str(name): canonical_safe(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical_safe(inner, depth + 1) for inner in value]
    return value


def _check(value: Any, depth: int) -> bool:
    """Tell whether the fast encoder sorts this as the standard does; raise if nothing may."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            raise NotCanonical("a number is larger than 2^53 - 1: write it as a text")
        return True
    if depth >= _DEEPEST:
        raise NotCanonical(f"nested more than {_DEEPEST} deep")
    if kind is dict:
        plain = True
        for key, one in value.items():
            if type(key) is not str:
                raise NotCanonical(f"a key is a {type(key).__name__}, not a text")
            if not key.isascii():
                plain = False
            inner = type(one)  # most values are texts and numbers: they cost no call
            if inner is str or (inner is int and -MAX_SAFE_INTEGER <= one <= MAX_SAFE_INTEGER):
                continue
            if not _check(one, depth + 1):
                plain = False
        return plain
    if kind is list or kind is tuple:
        plain = True
        for one in value:
            if not _check(one, depth + 1):
                plain = False
        return plain
    raise NotCanonical(f"a {kind.__name__} has no canonical form; fractions are not allowed")


def reference(value: Any) -> str:
    """Write canonical JSON the plain way: the standard's order is that of UTF-16 code units."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(key)}:{reference(value[key])}" for key in keys) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(reference, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
