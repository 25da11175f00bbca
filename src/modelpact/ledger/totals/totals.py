"""Totals of costs: from the sums of whole hours, and from single records at the edges."""

from typing import Final, Literal, get_args

import msgspec

from modelpact.ledger.costs import Unit
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.totals.cost_rows import COLUMNS, HOUR, SUMS, join_halves

Grouping = Literal["provider", "model", "intent", "worker", "function"]
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)


class CostTotal(msgspec.Struct, frozen=True):
    """The cost of one provider, model, intent, worker or function, in one currency."""

    name: str
    currency: str
    """Empty if there is no money."""
    records: int
    amounts: dict[Unit, int]
    estimated: dict[Unit, int]
    """The part of the amounts that is estimated and not corrected yet."""

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
    """Return totals, the most expensive first. A correction counts at the time of the work.

    `envelope` limits them to the work of one envelope.
    """
    start, end = since or 0, until if until is not None else 2**62
    first_hour = min(-(-start // HOUR) * HOUR, end)
    last_hour = max(end // HOUR * HOUR, first_hour)
    spans = (
        (("costs", "time", start, end),)  # the sums of hours do not distinguish envelopes
        if envelope is not None
        else (
            ("cost_hours", "hour", first_hour, last_hour),
            ("costs", "time", start, first_hour),
            ("costs", "time", last_hour, end),
        )
    )
    condition = "" if envelope is None else "envelope = ? AND "
    sums: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for table, column, low, high in spans:
        if low >= high:
            continue
        rows = reader.read(
            f"SELECT a.{GROUPINGS[GROUPINGS.index(by)]}, c.* FROM (SELECT attribution, currency, "
            f"estimate, {SUMS} FROM {table} WHERE {condition}{column} >= ? AND {column} < ? "
            "GROUP BY attribution, currency, estimate) c "
            "JOIN attributions a ON a.id = c.attribution",
            (low, high) if envelope is None else (envelope, low, high),
        )
        for name, _, currency, estimate, *halves in rows:
            if type(name) is not str or type(currency) is not str:
                raise LedgerError("costs were edited in the store: run `modelpact audit verify`")
            amounts = join_halves(halves)
            total, estimated = sums.setdefault(
                (name, currency), ([0] * len(amounts), [0] * len(amounts))
            )
            for index, amount in enumerate(amounts):
                total[index] += amount
                estimated[index] += amount if estimate else 0
    totals = [
        CostTotal(
            name,
            currency,
            total[0],
            dict(zip(COLUMNS, total[1:], strict=True)),
            dict(zip(COLUMNS, estimated[1:], strict=True)),
        )
        for (name, currency), (total, estimated) in sums.items()
    ]
    return sorted(
        totals, key=lambda total: (total.currency, -total.money, -total.records, total.name)
    )
