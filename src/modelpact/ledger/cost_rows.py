"""Rows of which totals are made: one per record and currency, and sums by the hour.

A correction is a row of differences beside what it corrects, at the time of that, so that every
sum counts the work once, as it stands now.
"""

import hashlib
from collections.abc import Iterable, Sequence
from operator import add
from typing import Final, NamedTuple

import msgspec

from modelpact.ledger.costs import Attribution, CostLine, CostRecord, Unit, check_record
from modelpact.ledger.store import Connection, Row
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
"""Sums in two halves, which no number of rows makes overflow; `whole_sums` puts them together."""
_ALONE: Final = 2**36
"""From this amount on a row has sums of its own: no hour holds enough lesser ones to overflow."""
_NAMES: Final = msgspec.structs.fields(Attribution)

Amounts = list[int]
Parts = dict[tuple[str, int], Amounts]
"""Amounts by currency (none: an empty text) and whether they are estimates."""


class CostRow(NamedTuple):
    """Part of a record: its amounts in one currency."""

    envelope: str
    sequence: int
    part: int
    corrects: str | None
    time: int
    attribution: Attribution
    currency: str
    estimate: int
    records: int
    amounts: tuple[int, ...]


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


def whole_sums(halves: Sequence[int]) -> list[int]:
    """Return the sums of `AMOUNTS`, given the columns of `SUMS`."""
    return [int(high) * 2**32 + int(low) for high, low in zip(*[iter(halves)] * 2, strict=True)]


class Standing(NamedTuple):
    """What the cost of an event stands at that is corrected: corrections are of the root."""

    root: str
    time: int
    parts: Parts


def standing_cost(connection: Connection, event: str) -> Standing:
    """Return what an event's cost stands at, corrections included; or that of what it corrects."""
    root, seen = event, {event}
    while True:
        envelope, sequence = event_place(root)
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
    return Standing(root, rows[0][0], parts)


def event_place(event: str) -> tuple[str, int]:
    """Return the envelope and the number of an event."""
    envelope, _, number = event.rpartition(":")
    if not (number.isascii() and number.isdecimal()) or len(number) > 18:
        raise InputError(f"{brief(event)} is not the name of an event: write ENVELOPE:NUMBER")
    return envelope, int(number)


def add_amounts(parts: Parts, key: tuple[str, int], amounts: Iterable[int]) -> None:
    """Add the amounts of a row to the parts."""
    before = parts.get(key) or [0] * len(_PLACES)
    parts[key] = [one + more for one, more in zip(before, amounts, strict=True)]


def plain_rows(envelope: str, sequence: int, time: int, record: CostRecord) -> Sequence[CostRow]:
    """Return the rows of a record that is no correction: one, unless its currencies are several."""
    amounts, home = [0] * len(_PLACES), ""
    for line in record.lines:
        if line.currency and line.currency != home:
            if home:
                return record_rows((envelope, sequence), time, record, None)
            home = line.currency
        amounts[_PLACES[line.unit]] += line.amount
    row = CostRow(
        envelope,
        sequence,
        0,
        None,
        time,
        record.attribution,
        home,
        int(record.estimate),
        1,
        tuple(amounts),
    )
    return (row,)


def record_rows(
    place: tuple[str, int], time: int, record: CostRecord, standing: Standing | None
) -> list[CostRow]:
    """Return the rows of a record; for a correction, less what stands for the event so far."""
    parts: Parts = {}
    add_lines(parts, record.lines, record.estimate, 1)
    for key, amounts in standing.parts.items() if standing else ():
        add_amounts(parts, key, [-amount for amount in amounts])
    return [
        CostRow(
            *place,
            part,
            standing.root if standing else None,
            standing.time if standing else time,
            record.attribution,
            currency,
            estimate,
            int(part == 0 and not standing),
            tuple(amounts),
        )
        for part, ((currency, estimate), amounts) in enumerate(parts.items())
    ]


def checked_rows(
    connection: Connection, place: tuple[str, int], time: int, record: CostRecord
) -> list[CostRow]:
    """Check a record and return its rows."""
    check_record(record, place[0])
    standing = standing_cost(connection, record.corrects) if record.corrects else None
    return record_rows(place, time, record, standing)


def write_costs(
    connection: Connection, rows: list[CostRow], writer: str, known: dict[Attribution, int]
) -> None:
    """Write rows, and add them to the sums of their hours; each writer has sums of its own.

    `known` are the numbers of the attributions that are in the store.
    """
    unknown = {row.attribution for row in rows if row.attribution not in known}
    ids = {who: attribution_id(who) for who in unknown}
    if ids:
        fresh = [(number, *msgspec.structs.astuple(who)) for who, number in ids.items()]
        marks = ", ".join("?" * (1 + len(_NAMES)))
        sql = f"INSERT INTO attributions VALUES ({marks}) ON CONFLICT DO NOTHING"
        connection.many(sql, sorted(fresh))
        known.update(ids)
    written: list[Row] = []
    hours: dict[Row, tuple[int, ...]] = {}
    for envelope, sequence, part, corrects, time, who, currency, estimate, count, amounts in rows:
        number = known[who]
        written.append(
            (
                envelope,
                sequence,
                part,
                corrects,
                time,
                number,
                currency,
                estimate,
                count,
                *amounts,
            )
        )
        whose = writer
        if max(amounts) >= _ALONE or min(amounts) <= -_ALONE:
            whose = f"{writer}/{envelope}:{sequence}"
        key = (time // HOUR * HOUR, number, currency, estimate, whose)
        sums = hours.get(key)
        added = (count, *amounts)
        hours[key] = added if sums is None else tuple(map(add, sums, added))
    connection.many(_INSERT, written)
    connection.many(_ADD, [(*key, *hours[key]) for key in sorted(hours)])


_INSERT: Final = f"INSERT INTO costs VALUES ({', '.join('?' * 17)})"
_ADD: Final = (
    f"INSERT INTO cost_hours VALUES ({', '.join('?' * 14)}) "
    "ON CONFLICT (hour, attribution, currency, estimate, writer) DO UPDATE SET "
    + ", ".join(f"{name} = cost_hours.{name} + excluded.{name}" for name in AMOUNTS)
)
