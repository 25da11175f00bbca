"""Streamed text: chunks, stop sequences, and the thinking that emulated reasoning asks for."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from modelpact.vocabulary.errors import InputError

THINKING_PROMPT: Final = (
    "Think step by step before answering. Write your thinking between <thinking> and </thinking>, "
    "then write the answer alone."
)
_OPEN_THINKING: Final = "<thinking>"
_CLOSE_THINKING: Final = "</thinking>"
_WORD: Final = re.compile(r"\s*\S+|\s+")
_MAX_CHUNK: Final = 24
_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f\u20e3")
_MAX_PREFIX_CHARACTERS: Final = 100_000
"""The size up to which all prefixes of the stop sequences are kept in a set."""


class StopScanner:
    """Cuts streamed text exactly as `first_stop` cuts the whole text, however it is chunked.

    Text that may be the beginning of a stop sequence is held back until it is known not to be.
    """

    __slots__ = ("_find_start", "_held", "_longest", "_prefixes", "_stops", "stopped_by")

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if not all(isinstance(stop, str) and stop for stop in self._stops):
            raise InputError("stop: a stop sequence must be a string that is not empty")
        self._longest = max(map(len, self._stops), default=0)
        first_characters = "".join(sorted({re.escape(stop[0]) for stop in self._stops}))
        self._find_start = re.compile(f"[{first_characters}]" if first_characters else r"(?!)").search
        self._prefixes: frozenset[str] | None = None
        if sum(len(stop) ** 2 for stop in self._stops) <= _MAX_PREFIX_CHARACTERS:
            self._prefixes = frozenset(stop[:length] for stop in self._stops for length in range(1, len(stop)))
        self._held = ""
        self.stopped_by = ""

    def feed(self, chunk: str) -> str:
        """Read a chunk and return the text that is certain."""
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
            if self._is_prefix(chunk[start:]):
                self._held = chunk[start:]
                return chunk[:start]
            match = self._find_start(chunk, start + 1)
        self._held = ""
        return chunk

    def finish(self) -> str:
        """Return the text held back: the stream has ended without a stop sequence."""
        held, self._held = self._held, ""
        return held

    def _is_prefix(self, text: str) -> bool:
        """Whether a stop sequence begins with the text."""
        if self._prefixes is not None:
            return text in self._prefixes
        return any(stop.startswith(text) for stop in self._stops)

    def _cut(self, text: str) -> str:
        cut = first_stop(text, self._stops)
        assert cut is not None
        self._held, self.stopped_by = "", cut[1]
        return text[: cut[0]]


class ThinkingSplitter:
    """Splits streamed text into pairs (is thinking, text).

    The texts together are the same however the stream is chunked. Newlines next to a tag belong to
    the tag.
    """

    __slots__ = ("_held", "_newlines", "_space", "_state")

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""
        """Text that may be the beginning of a tag."""
        self._space: list[str] = []
        self._newlines = 0

    def feed(self, chunk: str) -> list[tuple[bool, str]]:
        """Read a chunk and return the text that is certain."""
        parts: list[tuple[bool, str]] = []
        text = chunk
        if self._state == "before":
            text = self._before(text)
        if self._state == "opened":
            text = text.lstrip("\n")
            if text:
                self._state = "inside"
        if self._state == "inside":
            text = self._inside(text, parts)
        if self._state == "gap":
            text = text.lstrip()
            if text:
                self._state = "answer"
        if self._state == "answer" and text:
            parts.append((False, text))
        return parts

    def _before(self, chunk: str) -> str:
        """Look for the opening tag; return the text after it, or nothing yet."""
        if not self._held:
            start = chunk.lstrip()
            self._space.append(chunk[: len(chunk) - len(start)])
            chunk = start
        start = self._held + chunk
        self._held = ""
        if start.startswith(_OPEN_THINKING):
            self._state = "opened"
            return start[len(_OPEN_THINKING) :]
        if _OPEN_THINKING.startswith(start):
            self._held = start
            return ""
        self._state = "answer"
        return "".join(self._space) + start

    def _inside(self, chunk: str, parts: list[tuple[bool, str]]) -> str:
        """Read thinking; return the text after the closing tag, or nothing yet."""
        text = self._held + chunk
        close = text.find(_CLOSE_THINKING)
        end = close if close >= 0 else _partial_tag(text, _CLOSE_THINKING)
        thinking = text[:end].rstrip("\n")
        if thinking:
            parts.append((True, "\n" * self._newlines + thinking))
            self._newlines = 0
        self._newlines += end - len(thinking)
        if close < 0:
            self._held = text[end:]
            return ""
        self._held, self._state = "", "gap"
        return text[close + len(_CLOSE_THINKING) :]

    def finish(self) -> list[tuple[bool, str]]:
        """Return the text held back."""
        held, self._held = self._held, ""
        if self._state == "inside":
            held = "\n" * self._newlines + held
        elif self._state == "before":
            held = "".join(self._space) + held
        return [(self._state == "inside", held)] if held else []


def first_stop(text: str, stops: Iterable[str]) -> tuple[int, str] | None:
    """Return where the text is cut and by which stop sequence, or None.

    The stop sequence that ends first wins, as it does for a model that writes one token at a time.
    """
    best: tuple[int, int, str] | None = None
    for stop in stops:
        start = text.find(stop) if best is None else text.find(stop, 0, best[0])
        if start >= 0:
            match = (start + len(stop), start, stop)
            if best is None or match < best:
                best = match
    return None if best is None else (best[1], best[2])


def split_chunks(text: str) -> Iterator[str]:
    """Yield chunks that together are the text, cut between words in any script.

    Long runs without spaces are cut too, but never inside a character that users see as one.
    """
    for match in _WORD.finditer(text):
        start, end = match.span()
        while end - start > _MAX_CHUNK:
            cut = _safe_cut(text, start + _MAX_CHUNK, end)
            yield text[start:cut]
            start = cut
        if start < end:
            yield text[start:end]


def split_thinking(text: str) -> tuple[str, str]:
    """Return the thinking at the beginning of a response, and the text after it."""
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(text), *splitter.finish()]
    thinking = "".join(part for is_thinking, part in parts if is_thinking)
    return thinking, "".join(part for is_thinking, part in parts if not is_thinking)


def _safe_cut(text: str, near: int, end: int) -> int:
    """Return the first position from `near` on that is not inside a visible character."""
    cut = near
    while cut < end and _continues(text[cut], text[cut - 1]):
        cut += 1
    return cut


def _continues(character: str, previous: str) -> bool:
    if character in _JOINERS or previous == "\u200d" or (previous, character) == ("\r", "\n"):
        return True
    if unicodedata.category(character) in ("Mn", "Mc", "Me"):
        return True
    code = ord(character)
    if 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F or 0x1160 <= code <= 0x11FF:
        return True  # skin tones, the letters of flags, the ends of Hangul syllables
    return 0x1F1E6 <= code <= 0x1F1FF and 0x1F1E6 <= ord(previous) <= 0x1F1FF


def _partial_tag(text: str, tag: str) -> int:
    """Return where the beginning of a tag starts at the end of the text, or the text's length."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return len(text) - length
    return len(text)
