"""Rows of which totals are made: one per record and currency, and sums by the hour.

A correction is a row of differences beside what it corrects, at the time of that, so that every
sum counts the work once, as it stands now.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from modelpact.ledger.costs import Attribution, CostLine, CostRecord, Unit
from modelpact.ledger.store import Connection, Row

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
SUMS: Final = ", ".join(f"SUM({name})" for name in ("records", *COLUMNS.values()))
_NAMES: Final = msgspec.structs.fields(Attribution)

Amounts = list[int]
Parts = dict[tuple[str, int], Amounts]
"""Amounts by currency (none: an empty text) and whether they are estimates."""


class CostRow(msgspec.Struct, frozen=True):
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


def standing_cost(connection: Connection, event: str) -> tuple[Parts, int | None]:
    """Return what an event's cost stands at, corrections included, and the time of it."""
    envelope, _, number = event.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return {}, None
    columns = ", ".join(COLUMNS.values())
    rows = connection.execute(
        f"SELECT time, currency, estimate, {columns} FROM costs "
        "WHERE (envelope = ? AND sequence = ?) OR corrects = ?",
        (envelope, int(number), event),
    )
    parts: Parts = {}
    for _, currency, estimate, *amounts in rows:
        before = parts.get((currency, estimate), [0] * len(amounts))
        parts[currency, estimate] = [one + more for one, more in zip(before, amounts, strict=True)]
    return parts, min((row[0] for row in rows), default=None)


def record_rows(
    place: tuple[str, int], time: int, record: CostRecord, standing: tuple[Parts, int | None]
) -> list[CostRow]:
    """Return the rows of a record; for a correction, less what stands for the event so far."""
    parts: Parts = {}
    before, since = standing
    add_lines(parts, record.lines, record.estimate, 1)
    if before:
        for key, amounts in before.items():
            mine = parts.setdefault(key, [0] * len(amounts))
            parts[key] = [one - less for one, less in zip(mine, amounts, strict=True)]
    else:
        add_lines(parts, record.replaced, False, -1)
    return [
        CostRow(
            *place,
            part,
            record.corrects or None,
            time if since is None else since,
            record.attribution,
            currency,
            estimate,
            int(part == 0 and not record.corrects),
            tuple(amounts),
        )
        for part, ((currency, estimate), amounts) in enumerate(parts.items())
    ]


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
    hours: dict[Row, list[int]] = {}
    for row in rows:
        number = known[row.attribution]
        written.append(
            (
                row.envelope,
                row.sequence,
                row.part,
                row.corrects,
                row.time,
                number,
                row.currency,
                row.estimate,
                row.records,
                *row.amounts,
            )
        )
        key = (row.time // HOUR * HOUR, number, row.currency, row.estimate, writer)
        sums = hours.get(key)
        if sums is None:
            hours[key] = [row.records, *row.amounts]
        else:
            sums[0] += row.records
            for place, amount in enumerate(row.amounts, 1):
                sums[place] += amount
    connection.many(_INSERT, written)
    connection.many(_ADD, [(*key, *hours[key]) for key in sorted(hours)])


_INSERT: Final = f"INSERT INTO costs VALUES ({', '.join('?' * 17)})"
_ADD: Final = (
    f"INSERT INTO cost_hours VALUES ({', '.join('?' * 14)}) "
    "ON CONFLICT (hour, attribution, currency, estimate, writer) DO UPDATE SET "
    + ", ".join(
        f"{name} = cost_hours.{name} + excluded.{name}" for name in ("records", *COLUMNS.values())
    )
)
