"""Costs held against the events: every row made again from what the events embed."""

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Final

import msgspec

from modelpact.ledger.cost_rows import (
    AMOUNTS,
    COLUMNS,
    HOUR,
    ROW_AMOUNTS,
    ROW_CURRENCY,
    ROW_KEY,
    SUMS,
    Standing,
    add_amounts,
    attribution_id,
    record_rows,
    whole_sums,
)
from modelpact.ledger.costs import COSTED, Attribution, CostRecord
from modelpact.ledger.reader import Reader
from modelpact.ledger.report import Broken, Kind, TableReport
from modelpact.ledger.store import Row

_PAGE: Final = 2_000


class _Embedding(msgspec.Struct):
    cost: CostRecord | None = None


_DECODE: Final = msgspec.json.Decoder(_Embedding).decode
_TYPES: Final = " OR ".join(f"type LIKE '{start}%'" for start in COSTED)
_ROWS: Final = (
    "SELECT sequence, part, corrects, time, attribution, currency, estimate, records, "
    f"{', '.join(COLUMNS.values())} FROM costs WHERE envelope = ? "
)


def check_costs(reader: Reader, envelope: str, first: int, last: int) -> TableReport:
    """Hold the cost rows of an envelope against its events, from one that is here to another."""
    wanted = _Expected(reader, envelope, last).rows(first)
    rows = unproven = 0
    ahead = next(wanted, None)
    for sequence, found in groupby(_rows(reader, envelope), lambda row: row[0]):
        standing = [row[2:] for row in found]
        numbered = type(sequence) is int
        if numbered and sequence < first:
            unproven += len(standing)
            continue
        if ahead is not None and numbered and ahead[0] < sequence:
            break
        if ahead is None or ahead[0] != sequence:
            if numbered and sequence > last and _is_event(reader, envelope, sequence):
                break  # it was written since the events were verified
            return _broken(envelope, sequence, "edited", "it embeds no cost, and one is recorded")
        if ahead[1] is None:
            unproven += len(standing)
        elif ahead[1] != standing and sorted(map(repr, ahead[1])) != sorted(map(repr, standing)):
            said = "the cost that is recorded is not the one that it embeds"
            return _broken(envelope, sequence, "edited", said)
        else:
            rows += len(standing)
        ahead = next(wanted, None)
    if ahead is not None:
        return _broken(envelope, ahead[0], "dropped", "its cost is not among the costs")
    return TableReport("costs", rows, unproven)


def _broken(envelope: str, sequence: object, kind: Kind, said: str) -> TableReport:
    return TableReport("costs", broken=Broken(kind, 0, f"{envelope}:{sequence}", said))


def _is_event(reader: Reader, envelope: str, sequence: int) -> bool:
    sql = "SELECT 1 FROM events WHERE envelope = ? AND sequence = ?"
    return bool(reader.read(sql, (envelope, sequence)))


def _rows(reader: Reader, envelope: str) -> Iterator[Row]:
    """Yield the rows of an envelope in order."""
    page = reader.read(f"{_ROWS} ORDER BY sequence, part LIMIT ?", (envelope, _PAGE))
    while page:
        yield from page
        page = reader.read(
            f"{_ROWS} AND (sequence, part) > (?, ?) ORDER BY sequence, part LIMIT ?",
            (envelope, *page[-1][:2], _PAGE),
        )


class _Expected:
    """The rows that the events of an envelope make; what is corrected later is remembered."""

    def __init__(self, reader: Reader, envelope: str, last: int) -> None:
        self.reader = reader
        self.envelope = envelope
        self.last = last
        self.roots: dict[str, str] = {}
        self.standing: dict[str, Standing | None] = {}
        self.numbers: dict[Attribution, int] = {}
        for _, _, record in self.records("type = 'cost.corrected'"):
            self.standing[record.corrects] = None

    def records(self, types: str, after: int = 0) -> Iterator[tuple[int, int, CostRecord]]:
        """Yield the numbers and times of events, with the records that they embed."""
        while True:
            page = self.reader.read(
                "SELECT sequence, time, payload FROM events WHERE envelope = ? AND sequence > ? "
                f"AND sequence <= ? AND ({types}) ORDER BY sequence LIMIT ?",
                (self.envelope, after, self.last, _PAGE),
            )
            for sequence, time, payload in page:
                try:
                    record = _DECODE(payload).cost
                except (msgspec.DecodeError, RecursionError):
                    continue  # what it has under that name is no cost record
                if record is not None:
                    yield sequence, time, record
            if not page:
                return
            after = page[-1][0]

    def rows(self, first: int) -> Iterator[tuple[int, list[Row] | None]]:
        """Yield the rows of each event that has any; None where that cannot be told from here."""
        for sequence, time, record in self.records(_TYPES, first - 1):
            name = f"{self.envelope}:{sequence}"
            standing = self.corrected(record.corrects) if record.corrects else None
            if standing is None and record.corrects:
                if first > 1:
                    yield sequence, None  # what it corrects may be in the archive
                continue
            number = self.number(record.attribution)
            made = record_rows((self.envelope, sequence), time, record, number, standing)
            if standing is not None:
                self.roots[name] = standing.root
            root = self.roots.get(name, name)
            if root in self.standing:
                before = self.standing.get(root) or Standing(root, time, {})
                for row in made:
                    currency, estimate = row[ROW_CURRENCY : ROW_CURRENCY + 2]
                    add_amounts(before.parts, (currency, estimate), row[ROW_AMOUNTS:])
                self.standing[root] = before
            if made:
                yield sequence, [row[ROW_KEY:] for row in made]

    def corrected(self, event: str) -> Standing | None:
        """Return what stands for an event that is corrected, if its beginning is here."""
        return self.standing.get(self.roots.get(event, event))

    def number(self, who: Attribution) -> int:
        """Return the number of an attribution."""
        number = self.numbers.get(who)
        if number is None:
            number = self.numbers[who] = attribution_id(who)
        return number


def check_sums(reader: Reader) -> TableReport:
    """Hold the sums of each hour against the costs, and the names in them against their numbers."""
    for number, *names in reader.read("SELECT * FROM attributions"):
        same = all(type(one) is str for one in names)
        same = same and attribution_id(Attribution(*names)) == number
        if not same:
            return _wrong_sums(f"attribution {number} names others than it did")
    lost = reader.read(
        "SELECT attribution FROM cost_hours WHERE attribution NOT IN (SELECT id FROM attributions) "
        "LIMIT 1"
    )
    if lost:
        return _wrong_sums(f"attribution {lost[0][0]} is missing")
    minus = ", ".join(f"-{name}" for name in AMOUNTS)
    rows = reader.read(
        f"SELECT hour, attribution, currency, estimate, {SUMS} FROM ("
        f"SELECT time / {HOUR} * {HOUR} AS hour, attribution, currency, estimate, "
        f"{', '.join(AMOUNTS)} FROM costs UNION ALL "
        f"SELECT hour, attribution, currency, estimate, {minus} FROM cost_hours) both_sides "
        "GROUP BY hour, attribution, currency, estimate"
    )
    for hour, _, _, _, *halves in rows:
        if any(whole_sums(halves)):
            return _wrong_sums(f"the sums of the hour that begins at {hour} ns are not its costs")
    return TableReport("cost_hours", len(rows))


def _wrong_sums(said: str) -> TableReport:
    return TableReport("cost_hours", broken=Broken("edited", 0, "", said))


def check_strays(reader: Reader, known: Collection[str]) -> TableReport:
    """Look for costs in envelopes that are not there."""
    for (name,) in reader.read("SELECT DISTINCT envelope FROM costs"):
        if name not in known:
            return _broken(name, 0, "edited", "a cost is recorded, and there is no such envelope")
    return TableReport("costs")
