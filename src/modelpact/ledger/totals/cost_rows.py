"""Rows of which totals are made: one per record and currency, and sums by the hour.

A correction is a row of differences beside what it corrects, at the time of that, so that every
sum counts the work once, as it stands now.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from modelpact.ledger.costs import Attribution, CostLine, CostRecord, Unit, check_record
from modelpact.ledger.stores.base import Row, StoreConnection
from modelpact.vocabulary.errors import InputError, brief

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
_PLACES: Final = {unit: place for place, unit in enumerate(COLUMNS)}
AMOUNTS: Final = ("records", *COLUMNS.values())
SUMS: Final = ", ".join(f"SUM({name} >> 32), SUM({name} & 4294967295)" for name in AMOUNTS)
"""Sums in two halves, which no number of rows makes overflow; `join_halves` puts them together."""
_ALONE: Final = 2**36
"""From this amount on a row has sums of its own: no hour holds enough lesser ones to overflow."""
_NAMES: Final = msgspec.structs.fields(Attribution)

Amounts = list[int]
Parts = dict[tuple[str, int], Amounts]
"""Amounts by currency (none: an empty text) and whether they are estimates."""


CostRow = tuple[Any, ...]
"""Part of a record, its amounts in one currency, as the table has it: `envelope`, `sequence`,
`part`, `corrects`, `time`, `attribution`, `currency`, `estimate`, and those of `AMOUNTS`."""
ROW_KEY: Final = 3
"""How many values its key has; those that follow are places in it."""
_ROW_TIME: Final = 4
ROW_CURRENCY: Final = 6
_ROW_RECORDS: Final = 8
ROW_AMOUNTS: Final = 9


def attribution_id(who: Attribution) -> int:
    """Return the number by which rows name an attribution: the same in every store."""
    digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.astuple(who))).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def add_lines(parts: Parts, lines: Iterable[CostLine], estimate: bool, sign: int) -> None:
    """Add lines to the parts; those without a currency go with the money, if there is any."""
    listed = tuple(lines)
    home = next((line.currency for line in listed if line.currency), "")
    for line in listed:
        key = (line.currency or home, int(estimate))
        amounts = parts.setdefault(key, [0] * len(_PLACES))
        amounts[_PLACES[line.unit]] += sign * line.amount


def join_halves(halves: Sequence[int]) -> list[int]:
    """Return the sums of `AMOUNTS`, given the columns of `SUMS`."""
    return [int(high) * 2**32 + int(low) for high, low in zip(*[iter(halves)] * 2, strict=True)]


class CurrentCost(NamedTuple):
    """What the cost of an event stands at that is corrected: corrections are of the root."""

    root: str
    time: int
    parts: Parts


def current_cost(connection: StoreConnection, event: str) -> CurrentCost:
    """Return what an event's cost stands at, corrections included; or that of what it corrects."""
    root, seen = event, {event}
    while True:
        envelope, sequence = parse_event_id(root)
        rows = connection.execute(
            "SELECT corrects FROM costs WHERE envelope = ? AND sequence = ?", (envelope, sequence)
        )
        if not rows:
            raise InputError(f"cost.corrects: {brief(root)} has no cost that could be corrected")
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


def parse_event_id(event: str) -> tuple[str, int]:
    """Return the envelope and the number of an event."""
    envelope, _, number = event.rpartition(":")
    if not (number.isascii() and number.isdecimal()) or len(number) > 18:
        raise InputError(f"{brief(event)} is not the name of an event: write ENVELOPE:NUMBER")
    return envelope, int(number)


def add_amounts(parts: Parts, key: tuple[str, int], amounts: Iterable[int]) -> None:
    """Add the amounts of a row to the parts."""
    before = parts.get(key) or [0] * len(_PLACES)
    parts[key] = [one + more for one, more in zip(before, amounts, strict=True)]


def plain_rows(
    place: tuple[str, int], time: int, record: CostRecord, attribution: int
) -> Sequence[CostRow]:
    """Return the rows of a record that is no correction: one, unless its currencies are several."""
    amounts, home = [0] * len(_PLACES), ""
    for line in record.lines:
        if line.currency and line.currency != home:
            if home:
                return record_rows(place, time, record, attribution, None)
            home = line.currency
        amounts[_PLACES[line.unit]] += line.amount
    return ((*place, 0, None, time, attribution, home, int(record.estimate), 1, *amounts),)


def record_rows(
    place: tuple[str, int],
    time: int,
    record: CostRecord,
    attribution: int,
    standing: CurrentCost | None,
) -> list[CostRow]:
    """Return the rows of a record; for a correction, less what stands for the event so far."""
    parts: Parts = {}
    add_lines(parts, record.lines, record.estimate, 1)
    for key, amounts in standing.parts.items() if standing else ():
        add_amounts(parts, key, [-amount for amount in amounts])
    return [
        (
            *place,
            part,
            standing.root if standing else None,
            standing.time if standing else time,
            attribution,
            currency,
            estimate,
            int(part == 0 and not standing),
            *amounts,
        )
        for part, ((currency, estimate), amounts) in enumerate(parts.items())
    ]


def checked_rows(
    connection: StoreConnection,
    place: tuple[str, int],
    time: int,
    record: CostRecord,
    attribution: int,
) -> list[CostRow]:
    """Check a record and return its rows."""
    check_record(record, place[0])
    standing = current_cost(connection, record.corrects) if record.corrects else None
    return record_rows(place, time, record, attribution, standing)


def write_attributions(connection: StoreConnection, numbered: dict[Attribution, int]) -> None:
    """Write attributions by their numbers, those that are not there yet."""
    rows = [(number, *msgspec.structs.astuple(who)) for who, number in numbered.items()]
    connection.execute_many(_ATTRIBUTION, sorted(rows))


def write_costs(connection: StoreConnection, rows: list[CostRow], writer: str) -> None:
    """Write rows, and add them to the sums of their hours; each writer has sums of its own."""
    hours: dict[Row, list[CostRow]] = {}
    for row in rows:
        key = (row[_ROW_TIME] // HOUR * HOUR, *row[_ROW_TIME + 1 : _ROW_RECORDS])
        hours.setdefault(key, []).append(row)
    sums: list[Row] = []
    for key, those in hours.items():
        added = [row[_ROW_RECORDS:] for row in those]
        if max(map(max, added)) >= _ALONE or min(map(min, added)) <= -_ALONE:
            great = [row for row in those if _is_alone(row)]
            sums += [(*key, f"{writer}/{row[0]}:{row[1]}", *row[_ROW_RECORDS:]) for row in great]
            added = [row[_ROW_RECORDS:] for row in those if not _is_alone(row)]
        if added:
            sums.append((*key, writer, *map(sum, zip(*added, strict=True))))
    connection.execute_many(_INSERT, rows)
    connection.execute_many(_ADD, sorted(sums))


def _is_alone(row: CostRow) -> bool:
    return any(not -_ALONE < amount < _ALONE for amount in row[ROW_AMOUNTS:])


_ATTRIBUTION: Final = (
    f"INSERT INTO attributions VALUES ({', '.join('?' * (1 + len(_NAMES)))}) ON CONFLICT DO NOTHING"
)
_INSERT: Final = f"INSERT INTO costs VALUES ({', '.join('?' * 17)})"
_ADD: Final = (
    f"INSERT INTO cost_hours VALUES ({', '.join('?' * 14)}) "
    "ON CONFLICT (hour, attribution, currency, estimate, writer) DO UPDATE SET "
    + ", ".join(f"{name} = cost_hours.{name} + excluded.{name}" for name in AMOUNTS)
)
