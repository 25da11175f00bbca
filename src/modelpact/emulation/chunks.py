"""Chunks: a whole text as the pieces of a stream, cut between words in any script."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_PIECE: Final = re.compile(r"\s*\S+|\s+")
_LONGEST: Final = 24
_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f\u20e3")


def chunks(text: str) -> Iterator[str]:
    """Yield pieces that together are the text; long runs without spaces are cut too."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        while end - start > _LONGEST:
            cut = _safe_cut(text, start + _LONGEST, end)
            yield text[start:cut]
            start = cut
        if start < end:
            yield text[start:end]


def _safe_cut(text: str, near: int, end: int) -> int:
    """Return a place from `near` on where no character is parted from those that belong to it."""
    cut = near
    while cut < end and _continues(text[cut], text[cut - 1]):
        cut += 1
    return cut


def _continues(character: str, before: str) -> bool:
    if character in _JOINERS or before == "\u200d" or (before, character) == ("\r", "\n"):
        return True
    if unicodedata.category(character) in ("Mn", "Mc", "Me"):
        return True
    code = ord(character)
    if 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F or 0x1160 <= code <= 0x11FF:
        return True  # skin tones, the letters of flags, the ends of Hangul syllables
    return 0x1F1E6 <= code <= 0x1F1FF and 0x1F1E6 <= ord(before) <= 0x1F1FF
