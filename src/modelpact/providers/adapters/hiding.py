"""Hiding a key in what others say: whole or in part, and in the spellings that echo it."""

import base64
import re
from functools import lru_cache
from typing import Final

from modelpact.vocabulary.redaction import REDACTED

_SHORTEST: Final = 8
"""So many characters of a key in a row are taken for a part of it."""
_ESCAPED: Final = re.compile(r"%([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\s+|.", re.DOTALL)


def hidden(text: str, key: str) -> str:
    """Return a text without a key: in any case, cut, split by space, escaped, or in base64."""
    if not key:
        return text
    if len(key) < _SHORTEST:
        return text.replace(key, REDACTED)
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _ESCAPED.finditer(text):
        code = found[1] or found[2]
        letter = chr(int(code, 16)) if code else found[0]
        if not letter.isspace():
            letters.append(letter.lower() if len(letter.lower()) == 1 else letter)
            places.append(found.span())
    plain, parts = "".join(letters), _parts(key)
    shown, done, at = [], 0, 0
    while at + _SHORTEST <= len(plain):
        if plain[at : at + _SHORTEST] not in parts:
            at += 1
            continue
        end = at + _SHORTEST
        while end < len(plain) and plain[end - _SHORTEST + 1 : end + 1] in parts:
            end += 1
        shown += [text[done : places[at][0]], REDACTED]
        done, at = places[end - 1][1], end
    return "".join([*shown, text[done:]])


@lru_cache(maxsize=64)
def _parts(key: str) -> frozenset[str]:
    """Return every run of characters by which a key is known, in lower case."""
    data = key.encode("utf-8", "replace")
    spelled = [key]
    for shift in range(3):  # where it may begin within the three bytes that base64 takes at once
        whole = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        inner = whole[4:-1] if shift else whole[:-1]  # its edges depend on what stands beside it
        spelled += [inner, inner.replace("+", "-").replace("/", "_")]
    return frozenset(
        one[at : at + _SHORTEST].lower()
        for one in spelled
        for at in range(len(one) - _SHORTEST + 1)
    )
