"""Chunks: a whole text as the pieces of a stream, cut between words in any script."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from modelpact.vocabulary.errors import InputError

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


_MOST_BEGINNINGS: Final = 100_000
"""Characters of all beginnings of stop sequences together, up to which they are kept."""


def first_stop(text: str, stops: Iterable[str]) -> tuple[int, str] | None:
    """Return where the text is cut and by which stop sequence, or None."""
    best: tuple[int, int, str] | None = None
    for stop in stops:
        start = text.find(stop) if best is None else text.find(stop, 0, best[0])
        if start >= 0:
            found = (start + len(stop), start, stop)
            if best is None or found < best:
                best = found
    return None if best is None else (best[1], best[2])


class StopScanner:
    """Cuts streamed text exactly as `first_stop` cuts the whole, however it is chunked.

    Text that may be the beginning of a stop sequence is held back until it is known not to be.
    """

    __slots__ = ("_beginnings", "_find_start", "_held", "_longest", "_stops", "stopped_by")

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if not all(isinstance(stop, str) and stop for stop in self._stops):
            raise InputError("stop: a stop sequence is a text that is not empty")
        self._longest = max(map(len, self._stops), default=0)
        firsts = "".join(sorted({re.escape(stop[0]) for stop in self._stops}))
        self._find_start = re.compile(f"[{firsts}]" if firsts else r"(?!)").search
        self._beginnings: frozenset[str] | None = None
        if sum(len(stop) ** 2 for stop in self._stops) <= _MOST_BEGINNINGS:
            self._beginnings = frozenset(
                stop[:length] for stop in self._stops for length in range(1, len(stop))
            )
        self._held = ""
        self.stopped_by = ""

    def feed(self, chunk: str) -> str:
        """Take a chunk and return the text that is certain."""
        if self.stopped_by:
            return ""
        if self._held:
            chunk = self._held + chunk
        elif self._find_start(chunk) is None:
            return chunk
        for stop in self._stops:
            if stop in chunk:
                return self._cut(chunk)
        match = self._find_start(chunk, max(0, len(chunk) - self._longest + 1))
        while match is not None:
            start = match.start()
            if self._begins(chunk[start:]):
                self._held = chunk[start:]
                return chunk[:start]
            match = self._find_start(chunk, start + 1)
        self._held = ""
        return chunk

    def _begins(self, end: str) -> bool:
        """Tell whether a stop sequence begins with that text."""
        if self._beginnings is not None:
            return end in self._beginnings
        return any(stop.startswith(end) for stop in self._stops)

    def _cut(self, text: str) -> str:
        cut = first_stop(text, self._stops)
        assert cut is not None
        self._held, self.stopped_by = "", cut[1]
        return text[: cut[0]]

    def finish(self) -> str:
        """Return what was held back: the text has ended, and no stop sequence came."""
        held, self._held = self._held, ""
        return held
