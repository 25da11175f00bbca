"""Rendering for people: aligned tables, colour only on a terminal, money and numbers."""

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from modelpact.catalog.claim import Claim
from modelpact.ledger.money import format_money

_PRICE_PLACES: Final = 6
"""A price is in pico-dollars per token: millionths of a dollar per million tokens."""
_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_MARKS: Final = {
    "native": ("✓", "green"),
    "emulated": ("≈", "yellow"),
    "restricted": ("!", "yellow"),
    "unsupported": ("✗", "red"),
    "unknown": ("?", "dim"),
}


def colours() -> bool:
    """Tell whether to colour: on a terminal, unless NO_COLOR; always with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def paint(text: str, *styles: str) -> str:
    """Style a text where the output takes colours."""
    if not text or not styles or not colours():
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def width(text: str) -> int:
    """Return how many columns a text takes on a terminal, escape sequences not counted."""
    columns = 0
    escaped = False
    for character in text:
        if character == "\x1b":
            escaped = True
        elif escaped:
            escaped = character != "m"
        elif not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


def table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), *, right: Iterable[int] = ()
) -> str:
    """Align rows in columns; the columns named in `right` are aligned to the right."""
    listed = [list(row) for row in rows]
    everything = [list(header), *listed] if header else listed
    if not everything:
        return ""
    widths = [0] * max(len(row) for row in everything)
    for row in everything:
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], width(cell))
    flush = set(right)
    lines = []
    if header:
        lines.append(_line([paint(cell, "dim") for cell in header], widths, flush))
    lines.extend(_line(row, widths, flush) for row in listed)
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int], right: set[int]) -> str:
    cells = []
    for place, cell in enumerate(row):
        gap = " " * (widths[place] - width(cell))
        cells.append(gap + cell if place in right else cell + gap)
    return "  ".join(cells).rstrip()


def mark(claim: Claim) -> str:
    """Return a tick for a claim."""
    sign, colour = _MARKS[claim.support]
    return paint(sign, colour)


def money(pico: int | None) -> str:
    """Write a price in dollars per million tokens."""
    if pico is None:
        return "–"
    return format_money(pico, "USD", _PRICE_PLACES)


def tokens(count: int | None) -> str:
    """Write a number of tokens shortly: 200k, 1M, 1.05M."""
    if not count:
        return "–"
    if count >= 1_000_000:
        return f"{count / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"
    return f"{count // 1000}k" if count >= 1_000 else str(count)


def clip(text: str, columns: int) -> str:
    """Shorten a text to so many columns."""
    return text if len(text) <= columns else text[: columns - 1] + "…"
