"""Writes to a terminal: colour, escaping of untrusted text, column widths, a progress bar."""

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TextIO, TypeVar

T = TypeVar("T")

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_REDRAW_S: Final = 0.1
_ITEMS_PER_CHECK: Final = 2_000
_BAR_COLUMNS: Final = 30


def use_colour() -> bool:
    """Return whether to use colour: on a terminal unless NO_COLOR, always with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def paint(text: str, *styles: str) -> str:
    """Return the text in the given styles, or unchanged where colour is off."""
    if not text or not styles or not use_colour():
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def escape(text: str, keep: str = "\n") -> str:
    """Return the text with control characters escaped, except those in `keep`.

    A terminal would obey control characters in names and texts from elsewhere.
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def escape_line(text: str) -> str:
    """Return the text with control characters escaped, line ends included."""
    return escape(text).replace("\n", "\\n")


def clip(text: str, columns: int) -> str:
    """Cut a text that is longer than so many columns, with an ellipsis."""
    return text if len(text) <= columns else text[: columns - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 need`, `2 needs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def display_width(text: str) -> int:
    """Return how many columns a text takes on a terminal, without its escape sequences."""
    columns = 0
    in_escape = False
    for char in text:
        if char == "\x1b":
            in_escape = True
        elif in_escape:
            in_escape = char != "m"
        elif not unicodedata.combining(char):
            columns += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return columns


class Progress:
    """A progress bar on standard error; it draws nothing where that is not a terminal."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self._stream = stream or sys.stderr
        self._enabled = self._stream.isatty()
        self._next_draw = time.monotonic() + _REDRAW_S
        self._drawn = False

    def update(self, done: int) -> None:
        """Draw the bar anew, at most ten times a second."""
        now = time.monotonic()
        if not self._enabled or now < self._next_draw:
            return
        self._next_draw = now + _REDRAW_S
        self._drawn = True
        share = min(1.0, done / self.total) if self.total else 0.0
        full = round(share * _BAR_COLUMNS)
        bar = "█" * full + "░" * (_BAR_COLUMNS - full)
        self._stream.write(f"\r{self.label} {bar} {share:4.0%}")
        self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def track(self, items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """Yield the items, and advance the bar by the size of each."""
        done = 0
        try:
            for count, item in enumerate(items, 1):
                done += size(item)
                if count % _ITEMS_PER_CHECK == 0:
                    self.update(done)
                yield item
        finally:
            self.close()
