"""Costs: what an invocation cost, in whole units, and for whom.

Money is in nano-units of a currency, rounded half-even once. A correction is a record of its own
that names the event it corrects. Totals count it once.
"""

import re
from typing import Any, Final, Literal, get_args

import msgspec

from modelpact.catalog.facts import Price
from modelpact.conversation.response import Usage
from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.vocabulary.errors import InputError, brief

Unit = Literal[
    "currency",
    "tokens.input",
    "tokens.output",
    "tokens.reasoning",
    "tokens.cache-read",
    "tokens.cache-write",
    "time",
    "discrete",
]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
MAX_LINES: Final = 32
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


class CostLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount of one unit: nano-units of a currency, tokens, nanoseconds, or pieces."""

    unit: Unit
    amount: int
    currency: str = ""


class Attribution(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cost was for, and who caused it."""

    provider: str = ""
    model: str = ""
    capability: str = ""
    worker: str = ""
    role: str = ""
    intent: str = ""
    function: str = ""
    workforce: str = ""


class CostRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cost of one invocation. `corrects` names the event whose record this one replaces."""

    lines: tuple[CostLine, ...]
    attribution: Attribution = Attribution()
    estimate: bool = False
    corrects: str = ""
    replaced: tuple[CostLine, ...] = ()
    """The lines that a correction replaces, for readers of the event. Totals do not use them."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as an event embeds it."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data


def check_lines(lines: Any, where: str = "cost") -> tuple[CostLine, ...]:
    """Read cost lines that a provider reports. Errors name the line.

    There is one line for each unit and currency, so the limit of a line limits the record.
    """
    if not isinstance(lines, (list, tuple)) or not lines:
        raise InputError(f"{where}: expected at least one line with a unit and an amount")
    if len(lines) > MAX_LINES:
        raise InputError(f"{where}: has {len(lines):,} lines, and the maximum is {MAX_LINES}")
    checked: dict[tuple[str, str], CostLine] = {}
    for index, data in enumerate(lines):
        try:
            line = msgspec.convert(data, CostLine)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}[{index}]: {error}") from None
        if not 0 <= line.amount <= MAX_SAFE_INTEGER:
            raise InputError(f"{where}[{index}].amount: {brief(line.amount)} is out of range")
        if (line.unit == "currency") != bool(line.currency):
            raise InputError(f"{where}[{index}]: the unit currency, and no other, needs a field currency")
        if line.currency and not _CURRENCY.fullmatch(line.currency):
            raise InputError(f"{where}[{index}].currency: expected three capital letters, not {brief(line.currency)}")
        if (line.unit, line.currency) in checked:
            raise InputError(f"{where}[{index}]: {line.unit} appears twice; add its amounts to one line")
        checked[line.unit, line.currency] = line
    return tuple(checked.values())


def check_record(record: CostRecord, envelope: str) -> None:
    """Raise if a record cannot be stored. A correction must be in the envelope of its event."""
    check_lines(record.lines, "cost.lines")
    if record.corrects and record.corrects.rpartition(":")[0] != envelope:
        raise InputError(
            f"cost.corrects: {brief(record.corrects)} is not an event of {envelope}, the envelope of the correction"
        )


def divide_half_even(amount: int, divisor: int) -> int:
    """Divide integers and round half to even."""
    quotient, remainder = divmod(amount, divisor)
    twice = 2 * remainder
    if twice > divisor or (twice == divisor and quotient % 2):
        quotient += 1
    return quotient


def usage_lines(usage: Usage) -> tuple[CostLine, ...]:
    """Return the token counts of a usage that are not zero, as cost lines."""
    lines = [CostLine("tokens.input", usage.input)] if usage.input else []
    if usage.output:
        lines.append(CostLine("tokens.output", usage.output))
    if usage.reasoning:
        lines.append(CostLine("tokens.reasoning", usage.reasoning))
    if usage.cache_read:
        lines.append(CostLine("tokens.cache-read", usage.cache_read))
    if usage.cache_write:
        lines.append(CostLine("tokens.cache-write", usage.cache_write))
    return tuple(lines)


def price_cost(price: Price, usage: Usage) -> CostLine | None:
    """Return what a usage costs at a price, in nano-dollars, or None if the price is unknown.

    Cached input tokens are part of the input and have their own prices.
    """
    for above, tier in price.tiers:
        if usage.input > above:
            price = tier
    if price.input is None or price.output is None:
        return None
    read = min(usage.cache_read, usage.input)
    written = min(usage.cache_write, usage.input - read)
    uncached = usage.input - read - written
    pico = uncached * price.input + usage.output * price.output
    pico += read * (price.input if price.cache_read is None else price.cache_read)
    pico += written * (price.input if price.cache_write is None else price.cache_write)
    return CostLine("currency", divide_half_even(pico, 1_000), "USD")


def cost_of(price: Price | None, usage: Usage) -> tuple[CostLine, ...]:
    """Return what a usage costs: its tokens, and money where the price is known.

    Clients and providers may state any usage, so each amount is cut to the largest that the ledger
    can store.
    """
    money = None if price is None else price_cost(price, usage)
    lines = usage_lines(usage)
    if money is not None:
        lines = (*lines, money)
    for line in lines:
        if line.amount > MAX_SAFE_INTEGER:
            return tuple(map(_bounded, lines))
    return lines


def money_of(lines: tuple[CostLine, ...]) -> int | None:
    """Return the money among cost lines, in nano-units of its currency, or None."""
    for line in lines:
        if line.unit == "currency":
            return line.amount
    return None


def _bounded(line: CostLine) -> CostLine:
    return CostLine(line.unit, min(line.amount, MAX_SAFE_INTEGER), line.currency)
