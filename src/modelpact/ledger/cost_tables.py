"""The tables of costs: a row for each record and currency, sums by the hour, and totals.

A correction is a row of differences, with the time of the event that it corrects. So every sum
counts the work once, at its current cost.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from modelpact.ledger.costs import Attribution, CostRecord, Unit
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import parse_event_id
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Row, StoreConnection
from modelpact.vocabulary.errors import InputError, brief

Grouping = Literal["provider", "model", "intent", "worker", "function"]
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)
HOUR: Final = 3_600 * 10**9
COLUMNS: Final[dict[Unit, str]] = {
    "currency": "money",
    "tokens.input": "tokens_input",
    "tokens.output": "tokens_output",
    "tokens.reasoning": "tokens_reasoning",
    "tokens.cache-read": "tokens_cache_read",
    "tokens.cache-write": "tokens_cache_write",
    "time": "duration",
    "discrete": "pieces",
}
AMOUNTS: Final = ("records", *COLUMNS.values())
SUMS: Final = ", ".join(f"SUM({name} >> 32), SUM({name} & 4294967295)" for name in AMOUNTS)
"""Sums in two halves, so that no number of rows makes them overflow. See `join_halves`."""
_INDEXES: Final = {unit: index for index, unit in enumerate(COLUMNS)}
_LARGE: Final = 2**36
"""A row with an amount this large gets its own sums. Smaller ones cannot overflow an hour."""
_INSERT_ATTRIBUTION: Final = (
    f"INSERT INTO attributions VALUES ({', '.join('?' * (1 + len(Attribution.__struct_fields__)))})"
    " ON CONFLICT DO NOTHING"
)
_INSERT_COST: Final = f"INSERT INTO costs VALUES ({', '.join('?' * 17)})"
_ADD_TO_HOUR: Final = (
    f"INSERT INTO cost_hours VALUES ({', '.join('?' * 14)}) "
    "ON CONFLICT (hour, attribution, currency, estimate, writer) DO UPDATE SET "
    + ", ".join(f"{name} = cost_hours.{name} + excluded.{name}" for name in AMOUNTS)
)

Parts = dict[tuple[str, int], list[int]]
"""The amounts of a cost, by currency (empty if there is no money) and whether it is estimated."""
CostRow = tuple[Any, ...]
"""A row of the table `costs`, the amounts of a record in one currency: `envelope`, `sequence`,
`part`, `corrects`, `time`, `attribution`, `currency`, `estimate`, and then `AMOUNTS`."""
ROW_KEY: Final = 3
"""How many values the key of a row has. The following constants are indexes in a row."""
_ROW_TIME: Final = 4
ROW_CURRENCY: Final = 6
_ROW_RECORDS: Final = 8
ROW_AMOUNTS: Final = 9


class CurrentCost(NamedTuple):
    """The cost of an event including all corrections, which refer to the root."""

    root: str
    """The event that was corrected first."""
    time: int
    parts: Parts


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

    @property
    def is_estimated(self) -> bool:
        """Whether any part of it is estimated and not corrected yet."""
        return any(self.estimated.values())


def attribution_id(attribution: Attribution) -> int:
    """Return the id that rows have for an attribution. It is the same in every store."""
    names = msgspec.structs.astuple(attribution)
    digest = hashlib.sha256(msgspec.json.encode(names)).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def current_cost(connection: StoreConnection, event: str) -> CurrentCost:
    """Return the current cost of an event. For a correction, that of the event it corrects."""
    root, seen = event, {event}
    while True:
        envelope, sequence = parse_event_id(root)
        rows = connection.execute(
            "SELECT corrects FROM costs WHERE envelope = ? AND sequence = ?", (envelope, sequence)
        )
        if not rows:
            raise InputError(f"cost.corrects: {brief(root)} has no cost to correct")
        if rows[0][0] is None or rows[0][0] in seen:
            break
        root = rows[0][0]
        seen.add(root)
    columns = ", ".join(COLUMNS.values())
    rows = connection.execute(
        f"SELECT time, currency, estimate, {columns} FROM costs "
        "WHERE (envelope = ? AND sequence = ?) OR corrects = ? ORDER BY sequence, part",
        (envelope, sequence, root),
    )
    parts: Parts = {}
    for _, currency, estimate, *amounts in rows:
        add_amounts(parts, (currency, estimate), amounts)
    return CurrentCost(root, rows[0][0], parts)


def add_amounts(parts: Parts, key: tuple[str, int], amounts: Iterable[int]) -> None:
    """Add the amounts of a row to the parts of a cost."""
    before = parts.get(key) or [0] * len(_INDEXES)
    parts[key] = [left + right for left, right in zip(before, amounts, strict=True)]


def join_halves(halves: Sequence[int]) -> list[int]:
    """Return the sums of `AMOUNTS`, given the columns of `SUMS`."""
    return [int(high) * 2**32 + int(low) for high, low in zip(*[iter(halves)] * 2, strict=True)]


def plain_rows(key: tuple[str, int], time: int, record: CostRecord, attribution: int) -> Sequence[CostRow]:
    """Return the rows of a record that is not a correction: one for each currency."""
    amounts, currency = [0] * len(_INDEXES), ""
    for line in record.lines:
        if line.currency and line.currency != currency:
            if currency:
                return record_rows(key, time, record, attribution, None)
            currency = line.currency
        amounts[_INDEXES[line.unit]] += line.amount
    return ((*key, 0, None, time, attribution, currency, int(record.estimate), 1, *amounts),)


def record_rows(
    key: tuple[str, int], time: int, record: CostRecord, attribution: int, corrected: CurrentCost | None
) -> list[CostRow]:
    """Return the rows of a record. Those of a correction are differences to the current cost."""
    parts: Parts = {}
    default = next((line.currency for line in record.lines if line.currency), "")
    for line in record.lines:  # tokens and times go with the first currency
        part = (line.currency or default, int(record.estimate))
        amounts = parts.setdefault(part, [0] * len(_INDEXES))
        amounts[_INDEXES[line.unit]] += line.amount
    for part, amounts in corrected.parts.items() if corrected else ():
        add_amounts(parts, part, [-amount for amount in amounts])
    return [
        (
            *key,
            number,
            corrected.root if corrected else None,
            corrected.time if corrected else time,
            attribution,
            currency,
            estimate,
            int(number == 0 and not corrected),
            *amounts,
        )
        for number, ((currency, estimate), amounts) in enumerate(parts.items())
    ]


def write_attributions(connection: StoreConnection, ids: dict[Attribution, int]) -> None:
    """Insert attributions that are not in the store yet."""
    rows = [(number, *msgspec.structs.astuple(attribution)) for attribution, number in ids.items()]
    connection.execute_many(_INSERT_ATTRIBUTION, sorted(rows))


def write_costs(connection: StoreConnection, rows: list[CostRow], writer: str) -> None:
    """Insert rows and add them to the sums of their hours. Each writer has its own sums."""
    hours: dict[Row, list[CostRow]] = {}
    for row in rows:
        key = (row[_ROW_TIME] // HOUR * HOUR, *row[_ROW_TIME + 1 : _ROW_RECORDS])
        hours.setdefault(key, []).append(row)
    sums: list[Row] = []
    for key, in_hour in hours.items():
        amounts = [row[_ROW_RECORDS:] for row in in_hour]
        if max(map(max, amounts)) >= _LARGE or min(map(min, amounts)) <= -_LARGE:
            large = [row for row in in_hour if _is_large(row)]
            sums += [(*key, f"{writer}/{row[0]}:{row[1]}", *row[_ROW_RECORDS:]) for row in large]
            amounts = [row[_ROW_RECORDS:] for row in in_hour if not _is_large(row)]
        if amounts:
            sums.append((*key, writer, *map(sum, zip(*amounts, strict=True))))
    connection.execute_many(_INSERT_COST, rows)
    connection.execute_many(_ADD_TO_HOUR, sorted(sums))


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
            total, estimated = sums.setdefault((name, currency), ([0] * len(amounts), [0] * len(amounts)))
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
    return sorted(totals, key=lambda total: (total.currency, -total.money, -total.records, total.name))


def _is_large(row: CostRow) -> bool:
    return any(not -_LARGE < amount < _LARGE for amount in row[ROW_AMOUNTS:])
