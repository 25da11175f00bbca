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
        piece = match[0]
        while len(piece) > _LONGEST:
            cut = _safe_cut(piece, _LONGEST)
            yield piece[:cut]
            piece = piece[cut:]
        if piece:
            yield piece


def _safe_cut(piece: str, near: int) -> int:
    """Return a place near which no character that belongs to the one before it is cut off."""
    cut = near
    while cut < len(piece) and _continues(piece, cut):
        cut += 1
    return cut


def _continues(piece: str, place: int) -> bool:
    character, before = piece[place], piece[place - 1]
    if character in _JOINERS or before == "\u200d":
        return True
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Mc", "Me"):
        return True
    if 0x1F3FB <= ord(character) <= 0x1F3FF:
        return True
    return 0x1F1E6 <= ord(character) <= 0x1F1FF and 0x1F1E6 <= ord(before) <= 0x1F1FF
