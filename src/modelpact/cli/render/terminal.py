"""Text for a terminal: colour, escaping of untrusted text, aligned tables, figures, progress."""

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TextIO, TypeVar

import click

from modelpact.catalog.claim import Claim
from modelpact.vocabulary.money import format_money

T = TypeVar("T")

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SUPPORT_MARKS: Final = {
    "native": ("✓", "green"),
    "emulated": ("≈", "yellow"),
    "restricted": ("!", "yellow"),
    "unsupported": ("✗", "red"),
    "unknown": ("?", "dim"),
}
_PRICE_PLACES: Final = 6
"""A price in pico-dollars per token is in millionths of a dollar per million tokens."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_SECOND: Final = 10**9
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
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
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


def warn(message: str) -> None:
    """Print a message of the program itself to standard error."""
    click.echo(f"modelpact: {escape(message)}", err=True)


def table(rows: Iterable[Sequence[str]], header: Sequence[str] = (), *, right: Iterable[int] = ()) -> str:
    """Return rows in aligned columns; `right` names the columns that are aligned to the right."""
    body = [list(row) for row in rows]
    lines = [[paint(cell, "dim") for cell in header], *body] if header else body
    if not lines:
        return ""
    widths = [0] * max(map(len, lines))
    for line in lines:
        for column, cell in enumerate(line):
            widths[column] = max(widths[column], display_width(cell))
    right_columns = set(right)
    return "\n".join(_align(line, widths, right_columns) for line in lines)


def _align(row: Sequence[str], widths: Sequence[int], right: set[int]) -> str:
    cells = []
    for column, cell in enumerate(row):
        padding = " " * (widths[column] - display_width(cell))
        cells.append(padding + cell if column in right else cell + padding)
    return "  ".join(cells).rstrip()


def support_mark(claim: Claim) -> str:
    """Return the mark of a claim: a tick, a cross, or one between them."""
    sign, colour = _SUPPORT_MARKS[claim.support]
    return paint(sign, colour)


def token_price(pico: int | None) -> str:
    """Write a price per token (in pico-dollars) in dollars per million tokens."""
    if pico is None:
        return "–"
    return format_money(pico, "USD", _PRICE_PLACES)


def token_count(count: int | None) -> str:
    """Write a number of tokens in short: 200k, 1M, 1.05M."""
    if not count:
        return "–"
    if count >= 1_000_000:
        return f"{count / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"
    return f"{count // 1000}k" if count >= 1_000 else str(count)


def bar(amount: int, largest: int, columns: int = 20) -> str:
    """Draw an amount as a bar in eighths of a column; any amount above zero is visible."""
    if amount <= 0 or largest <= 0:
        return ""
    eighths = max(1, amount * columns * 8 // largest)
    full, part = divmod(eighths, 8)
    return "█" * full + _EIGHTHS[part].strip()


def format_time(nanoseconds: int) -> str:
    """Write a time to the millisecond, in UTC."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d}"


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
