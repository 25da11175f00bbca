"""Aligned tables, and the figures in them: prices, token counts, bars."""

from collections.abc import Iterable, Sequence
from typing import Final

from modelpact.catalog.claim import Claim
from modelpact.cli.render.terminal import display_width, paint
from modelpact.vocabulary.money import format_money

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


def table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), *, right: Iterable[int] = ()
) -> str:
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
