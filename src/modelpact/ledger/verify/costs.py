"""Verification of the tables of costs: each row must follow from the events."""

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Final

import msgspec

from modelpact.ledger.costs import COST_EVENT_PREFIXES, Attribution, CostRecord
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Row
from modelpact.ledger.totals.cost_rows import (
    AMOUNTS,
    COLUMNS,
    HOUR,
    ROW_AMOUNTS,
    ROW_CURRENCY,
    ROW_KEY,
    SUMS,
    CurrentCost,
    add_amounts,
    attribution_id,
    join_halves,
    record_rows,
)
from modelpact.ledger.verify.report import BreakKind, BrokenLink, TableReport

_PAGE_ROWS: Final = 2_000
_COST_TYPES: Final = " OR ".join(f"type LIKE '{prefix}%'" for prefix in COST_EVENT_PREFIXES)
_SELECT_ROWS: Final = (
    "SELECT sequence, part, corrects, time, attribution, currency, estimate, records, "
    f"{', '.join(COLUMNS.values())} FROM costs WHERE envelope = ? "
)


class _CostPayload(msgspec.Struct):
    cost: CostRecord | None = None


_decode_payload: Final = msgspec.json.Decoder(_CostPayload).decode


def verify_costs(reader: LedgerReader, envelope: str, first: int, last: int) -> TableReport:
    """Compare the cost rows of an envelope with its events from `first` to `last`."""
    expected_rows = _ExpectedRows(reader, envelope, last).by_event(first)
    proven = unproven = 0
    expected = next(expected_rows, None)
    for sequence, group in groupby(_stored_rows(reader, envelope), lambda row: row[0]):
        stored = [row[2:] for row in group]
        is_number = type(sequence) is int
        if is_number and sequence < first:
            unproven += len(stored)
            continue
        if expected is not None and is_number and expected[0] < sequence:
            break
        if expected is None or expected[0] != sequence:
            if is_number and sequence > last and _is_event(reader, envelope, sequence):
                break  # it was written since the events were verified
            message = "a cost is recorded for the event, which embeds none"
            return _broken(envelope, sequence, "edited", message)
        if expected[1] is None:
            unproven += len(stored)
        elif expected[1] != stored and sorted(map(repr, expected[1])) != sorted(map(repr, stored)):
            message = "the recorded cost is not the one that the event embeds"
            return _broken(envelope, sequence, "edited", message)
        else:
            proven += len(stored)
        expected = next(expected_rows, None)
    if expected is not None:
        message = "the cost that the event embeds is not recorded"
        return _broken(envelope, expected[0], "dropped", message)
    return TableReport("costs", proven, unproven)


def verify_cost_envelopes(reader: LedgerReader, known: Collection[str]) -> TableReport:
    """Check that there are no costs in envelopes that do not exist."""
    for (name,) in reader.read("SELECT DISTINCT envelope FROM costs"):
        if name not in known:
            message = "a cost is recorded for an envelope that does not exist"
            return _broken(name, 0, "edited", message)
    return TableReport("costs")


def verify_hourly_sums(reader: LedgerReader) -> TableReport:
    """Compare the sums of each hour with the costs, and attributions with their ids."""
    for number, *names in reader.read("SELECT * FROM attributions"):
        if (
            not all(type(name) is str for name in names)
            or attribution_id(Attribution(*names)) != number
        ):
            return _broken_sums(f"attribution {number} was edited: its names do not match its id")
    missing = reader.read(
        "SELECT attribution FROM cost_hours WHERE attribution NOT IN (SELECT id FROM attributions) "
        "LIMIT 1"
    )
    if missing:
        return _broken_sums(f"attribution {missing[0][0]} is missing")
    negated = ", ".join(f"-{name}" for name in AMOUNTS)
    differences = reader.read(
        f"SELECT hour, attribution, currency, estimate, {SUMS} FROM ("
        f"SELECT time / {HOUR} * {HOUR} AS hour, attribution, currency, estimate, "
        f"{', '.join(AMOUNTS)} FROM costs UNION ALL "
        f"SELECT hour, attribution, currency, estimate, {negated} FROM cost_hours) both_sides "
        "GROUP BY hour, attribution, currency, estimate"
    )
    for hour, _, _, _, *halves in differences:
        if any(join_halves(halves)):
            return _broken_sums(f"the sums of the hour at {hour} ns differ from its costs")
    return TableReport("cost_hours", len(differences))


class _ExpectedRows:
    """The cost rows that follow from the events of an envelope."""

    def __init__(self, reader: LedgerReader, envelope: str, last: int) -> None:
        self.reader = reader
        self.envelope = envelope
        self.last = last
        self.roots: dict[str, str] = {}
        """The event that a correction finally corrects, by the id of the correction."""
        self.current: dict[str, CurrentCost | None] = {}
        """The current cost of each event that is corrected; None until it is read."""
        self.attribution_ids: dict[Attribution, int] = {}
        for _, _, record in self.records("type = 'cost.corrected'"):
            self.current[record.corrects] = None

    def by_event(self, first: int) -> Iterator[tuple[int, list[Row] | None]]:
        """Yield the rows of each event that has any; None if they rest on archived events."""
        for sequence, time, record in self.records(_COST_TYPES, first - 1):
            event = f"{self.envelope}:{sequence}"
            corrected = self.cost_of(record.corrects) if record.corrects else None
            if corrected is None and record.corrects:
                if first > 1:
                    yield sequence, None  # the event that it corrects may be in the archive
                continue
            number = self.number(record.attribution)
            rows = record_rows((self.envelope, sequence), time, record, number, corrected)
            if corrected is not None:
                self.roots[event] = corrected.root
            root = self.roots.get(event, event)
            if root in self.current:
                cost = self.current.get(root) or CurrentCost(root, time, {})
                for row in rows:
                    currency, estimate = row[ROW_CURRENCY : ROW_CURRENCY + 2]
                    add_amounts(cost.parts, (currency, estimate), row[ROW_AMOUNTS:])
                self.current[root] = cost
            if rows:
                yield sequence, [row[ROW_KEY:] for row in rows]

    def records(self, types: str, after: int = 0) -> Iterator[tuple[int, int, CostRecord]]:
        """Yield the sequence numbers and times of events, with the records they embed."""
        while True:
            page = self.reader.read(
                "SELECT sequence, time, payload FROM events WHERE envelope = ? AND sequence > ? "
                f"AND sequence <= ? AND ({types}) ORDER BY sequence LIMIT ?",
                (self.envelope, after, self.last, _PAGE_ROWS),
            )
            for sequence, time, payload in page:
                try:
                    record = _decode_payload(payload).cost
                except (msgspec.DecodeError, RecursionError):
                    continue  # its field `cost` is not a cost record
                if record is not None:
                    yield sequence, time, record
            if not page:
                return
            after = page[-1][0]

    def cost_of(self, event: str) -> CurrentCost | None:
        """Return the current cost of an event that is corrected, if that event is present."""
        return self.current.get(self.roots.get(event, event))

    def number(self, attribution: Attribution) -> int:
        """Return the id of an attribution."""
        number = self.attribution_ids.get(attribution)
        if number is None:
            number = self.attribution_ids[attribution] = attribution_id(attribution)
        return number


def _stored_rows(reader: LedgerReader, envelope: str) -> Iterator[Row]:
    """Yield the cost rows of an envelope in order."""
    page = reader.read(f"{_SELECT_ROWS} ORDER BY sequence, part LIMIT ?", (envelope, _PAGE_ROWS))
    while page:
        yield from page
        page = reader.read(
            f"{_SELECT_ROWS} AND (sequence, part) > (?, ?) ORDER BY sequence, part LIMIT ?",
            (envelope, *page[-1][:2], _PAGE_ROWS),
        )


def _is_event(reader: LedgerReader, envelope: str, sequence: int) -> bool:
    sql = "SELECT 1 FROM events WHERE envelope = ? AND sequence = ?"
    return bool(reader.read(sql, (envelope, sequence)))


def _broken(envelope: str, sequence: object, kind: BreakKind, message: str) -> TableReport:
    return TableReport("costs", broken=BrokenLink(kind, 0, f"{envelope}:{sequence}", message))


def _broken_sums(message: str) -> TableReport:
    return TableReport("cost_hours", broken=BrokenLink("edited", 0, "", message))
