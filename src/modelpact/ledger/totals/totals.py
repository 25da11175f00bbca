"""Totals of costs: by the hour where whole hours count, by the record at the edges."""

from typing import Final, Literal

import msgspec

from modelpact.ledger.costs import Unit
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import LedgerError
from modelpact.ledger.totals.cost_rows import COLUMNS, HOUR, SUMS, join_halves

Grouping = Literal["provider", "model", "intent", "worker", "function"]
GROUPINGS: Final[tuple[Grouping, ...]] = ("provider", "model", "intent", "worker", "function")


class CostTotal(msgspec.Struct, frozen=True):
    """What one provider, model, intent, worker or function cost, in one currency."""

    name: str
    currency: str
    """Empty where there was no money."""
    records: int
    amounts: dict[Unit, int]
    estimated: dict[Unit, int]
    """How much of the amounts is estimates that nothing has corrected yet."""

    @property
    def money(self) -> int:
        """The cost in nano-units of the currency."""
        return self.amounts["currency"]


def cost_totals(
    reader: LedgerReader,
    by: Grouping,
    *,
    since: int | None = None,
    until: int | None = None,
    envelope: str | None = None,
) -> list[CostTotal]:
    """Return totals, the dearest first; each correction counts once, when its work was done.

    `envelope` narrows them to the work of one envelope.
    """
    start, end = since or 0, until if until is not None else 2**62
    first = min(-(-start // HOUR) * HOUR, end)
    last = max(end // HOUR * HOUR, first)
    found: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    spans = (
        (("costs", "time", start, end),)  # the sums of the hours know no envelopes
        if envelope is not None
        else (
            ("cost_hours", "hour", first, last),
            ("costs", "time", start, first),
            ("costs", "time", last, end),
        )
    )
    within = "" if envelope is None else "envelope = ? AND "
    for table, column, low, high in spans:
        if low >= high:
            continue
        rows = reader.read(
            f"SELECT a.{GROUPINGS[GROUPINGS.index(by)]}, c.* FROM (SELECT attribution, "
            f"currency, estimate, "
            f"{SUMS} FROM {table} WHERE {within}{column} >= ? AND {column} < ? "
            "GROUP BY attribution, currency, estimate) c "
            "JOIN attributions a ON a.id = c.attribution",
            (low, high) if envelope is None else (envelope, low, high),
        )
        for name, _, currency, estimate, *halves in rows:
            if type(name) is not str or type(currency) is not str:
                raise LedgerError("costs were edited in the store: see `modelpact audit verify`")
            sums = join_halves(halves)
            everything, guessed = found.setdefault(
                (name, currency), ([0] * len(sums), [0] * len(sums))
            )
            for place, amount in enumerate(sums):
                everything[place] += amount
                guessed[place] += amount if estimate else 0
    totals = [
        CostTotal(
            name,
            currency,
            everything[0],
            dict(zip(COLUMNS, everything[1:], strict=True)),
            dict(zip(COLUMNS, guessed[1:], strict=True)),
        )
        for (name, currency), (everything, guessed) in found.items()
    ]
    return sorted(totals, key=lambda one: (one.currency, -one.money, -one.records, one.name))
