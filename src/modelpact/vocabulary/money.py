"""Money as text. Amounts are whole numbers of a small unit, so nothing is ever rounded here."""

from typing import Final

NANO_PLACES: Final = 9
"""Decimal places of an amount in nano-units, the unit of every cost record."""


def format_decimal(amount: int, places: int = NANO_PLACES, *, min_digits: int = 0) -> str:
    """Return `amount` / 10^`places` for programs to read: `0.0125`, `3`, `-1.5`.

    The text is exact. It has no trailing zeros beyond `min_digits` digits after the point.
    """
    whole, fraction = divmod(abs(amount), 10**places)
    digits = str(fraction).zfill(places).rstrip("0").ljust(min_digits, "0")
    sign = "-" if amount < 0 else ""
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def format_money(amount: int, currency: str, places: int = NANO_PLACES) -> str:
    """Return an amount for people to read: `$1,234.50`, `−0.0125 EUR`.

    The text is exact and has at least two digits after the point. Characters that a terminal would
    act on are escaped in the currency: someone may have edited it in the store.
    """
    whole, _, digits = format_decimal(abs(amount), places, min_digits=2).partition(".")
    sign = "−" if amount < 0 else ""
    if currency == "USD":
        return f"{sign}${int(whole):,}.{digits}"
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in currency)
    return f"{sign}{int(whole):,}.{digits} {escaped}"
