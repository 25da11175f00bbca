"""Invocations and providers held against the events that tell of them."""

import hashlib
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, Final

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
    parse_event_id,
    record_rows,
)
from modelpact.ledger.verify.importer import last_imported
from modelpact.ledger.verify.report import BrokenLink, Kind, TableReport
from modelpact.vocabulary.errors import InputError

REGISTRY: Final = "registry"
"""The envelope in which providers come and go."""
_PAGE: Final = 500
_ENDS: Final = ("capability.completed", "capability.failed", "capability.cancelled")
_LISTED_ENDS: Final = ", ".join(f"'{one}'" for one in _ENDS)
_COLUMNS: Final = (
    "id, provider, capability, semantics, envelope, event, input, attribution, "
    "state, settled_by, output, error"
)
_TRIES: Final = 5


class _EventFacts(msgspec.Struct):
    """What an event tells of an invocation or a provider."""

    invocation: str = ""
    provider: str = ""
    capability: str = ""
    semantics: str = ""
    input: str = ""
    attribution: dict[str, Any] = {}
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    registration: Any = None


_DECODE: Final = msgspec.json.Decoder(_EventFacts).decode


def agrees(stored: Any, told: Any) -> bool:
    """Tell whether a JSON text is what an event embeds, or names by its digest."""
    if not isinstance(stored, str):
        return stored is told
    if isinstance(told, str):
        digest = hashlib.sha256(stored.encode("utf-8", "surrogatepass")).hexdigest()
        return told in (stored, f"sha256:{digest}")
    try:
        return bool(msgspec.json.decode(stored) == told)
    except (msgspec.DecodeError, RecursionError):
        return False


def _told(
    reader: LedgerReader, envelope: str, types: Collection[str], after: int, last: int
) -> Iterator[list[tuple[int, str, _EventFacts]]]:
    """Yield what events of some types tell, a page at a time."""
    listed = ", ".join(f"'{one}'" for one in types)
    while True:
        page = reader.read(
            "SELECT sequence, type, payload FROM events WHERE envelope = ? AND sequence > ? "
            f"AND sequence <= ? AND type IN ({listed}) ORDER BY sequence LIMIT ?",
            (envelope, after, last, _PAGE),
        )
        if not page:
            return
        found = []
        for sequence, kind, payload in page:
            try:
                found.append((sequence, kind, _DECODE(payload)))
            except (msgspec.DecodeError, RecursionError):
                continue  # somebody else's event, which tells of something else
        yield found
        after = page[-1][0]


def verify_invocations(reader: LedgerReader, envelope: str, first: int, last: int) -> TableReport:
    """Look whether the invocations are what the events of an envelope tell of them."""
    imported = last_imported(reader.read, envelope)
    rows = 0
    for page in _told(reader, envelope, ("capability.invoked", *_ENDS), first - 1, last):
        names = sorted({told.invocation for _, _, told in page if told.invocation})
        marks = ", ".join("?" * len(names))
        sql = f"SELECT {_COLUMNS} FROM invocations WHERE id IN ({marks})"
        kept = {row[0]: row for row in reader.read(sql, names)} if names else {}
        for sequence, kind, told in page:
            row = kept.get(told.invocation)
            name = f"{envelope}:{sequence}"
            if row is None:
                if told.invocation and sequence > imported:
                    return _broken("dropped", name, f"invocation {told.invocation} is missing")
                continue
            wrong = _wrong(row, name, kind, told)
            if wrong:
                said = f"{wrong} of invocation {told.invocation} is not what it says"
                return _broken("edited", name, said)
            rows += kind == "capability.invoked"
    return TableReport("invocations", rows)


def _wrong(row: Row, event: str, kind: str, told: _EventFacts) -> str:
    """Return what in a row contradicts an event, or an empty text."""
    _, provider, capability, semantics, envelope, opened, given, who, state, end, out, error = row
    if kind == "capability.invoked":
        facts = {
            "the provider": provider == told.provider,
            "the capability": capability == told.capability,
            "the way": semantics == told.semantics,
            "the envelope": envelope == event.rpartition(":")[0],
            "the event": opened == event,
            "the input": agrees(given, told.input),
            "the attribution": agrees(who, told.attribution),
        }
    else:
        facts = {
            "the end": end == event,
            "the state": kind == f"capability.{state}",
            "the output": agrees(out, told.output),
            "the error": error == (told.reason if state == "cancelled" else told.error),
        }
    return next((name for name, holds in facts.items() if not holds), "")


def _broken(kind: Kind, event: str, said: str) -> TableReport:
    return TableReport("invocations", broken=BrokenLink(kind, 0, event, said))


def verify_invocation_events(reader: LedgerReader, left: dict[str, int]) -> TableReport:
    """Look for invocations that no event tells of; `left`: where events are left from, if not all.

    One statement, so that what is written meanwhile is seen whole or not at all.
    """
    place = "CAST(SUBSTR({0}, LENGTH(i.envelope) + 2) AS BIGINT)"
    named = "REPLACE({0}.payload, '\"invocation\":\"' || i.id || '\"', '') = {0}.payload"
    rows = reader.read(
        "SELECT i.id, i.envelope, i.event FROM invocations i "
        f"LEFT JOIN events a ON a.envelope = i.envelope AND a.sequence = {place.format('i.event')} "
        "LEFT JOIN events b ON b.envelope = i.envelope "
        f"AND b.sequence = {place.format('i.settled_by')} "
        f"WHERE a.sequence IS NULL OR a.type <> 'capability.invoked' OR {named.format('a')} "
        "OR (i.state = 'open') <> (i.settled_by IS NULL) OR (i.settled_by IS NOT NULL AND "
        f"(b.sequence IS NULL OR b.type NOT IN ({_LISTED_ENDS}) OR {named.format('b')}))"
    )
    unproven = 0
    for identity, envelope, event in rows:
        try:
            gone = parse_event_id(event)[1] < left.get(envelope, 0)
        except (InputError, AttributeError):
            gone = False
        if not gone:
            return _broken("edited", str(event), f"invocation {identity} is not what it tells of")
        unproven += 1
    return TableReport("invocations", unproven=unproven)


def verify_providers(reader: LedgerReader, first: int) -> TableReport:
    """Look whether the providers are those that the registry's events tell of."""
    for _ in range(_TRIES):
        before = _providers(reader)
        found = _check_providers(reader, before, first)
        if found.ok or before == _providers(reader):
            return found  # else somebody registered meanwhile
    return found


def _providers(reader: LedgerReader) -> list[Row]:
    return reader.read("SELECT id, state, registration, event FROM providers ORDER BY id")


def _check_providers(reader: LedgerReader, kept: list[Row], first: int) -> TableReport:
    registered: dict[str, tuple[int, Any]] = {}
    active: dict[str, bool] = {}
    types = ("provider.registered", "provider.deregistered")
    for page in _told(reader, REGISTRY, types, first - 1, 2**62):
        for sequence, kind, told in page:
            active[told.provider] = kind == types[0]
            if active[told.provider]:
                registered[told.provider] = (sequence, told.registration)
    unproven = 0
    for name, state, text, event in kept:
        sequence, registration = registered.pop(name, (0, None))
        if not sequence and first > 1:
            unproven += 1
        elif not sequence or event != f"{REGISTRY}:{sequence}" or not agrees(text, registration):
            return _wrong_provider(str(event), f"{name} is not registered so")
        elif (state == "active") != active[name]:
            return _wrong_provider(str(event), f"{name} is marked as {state}, and is not")
    imported = last_imported(reader.read, REGISTRY)
    for name, (sequence, _) in registered.items():
        if sequence > imported:
            return _wrong_provider(f"{REGISTRY}:{sequence}", f"{name} is missing")
    return TableReport("providers", len(kept) - unproven, unproven)


def _wrong_provider(event: str, said: str) -> TableReport:
    return TableReport("providers", broken=BrokenLink("edited", 0, event, said))


_CHECK_COSTS_PAGE: Final = 2_000


class _Embedding(msgspec.Struct):
    cost: CostRecord | None = None


_CHECK_COSTS_DECODE: Final = msgspec.json.Decoder(_Embedding).decode
_TYPES: Final = " OR ".join(f"type LIKE '{start}%'" for start in COST_EVENT_PREFIXES)
_ROWS: Final = (
    "SELECT sequence, part, corrects, time, attribution, currency, estimate, records, "
    f"{', '.join(COLUMNS.values())} FROM costs WHERE envelope = ? "
)


def verify_costs(reader: LedgerReader, envelope: str, first: int, last: int) -> TableReport:
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
            return _check_costs_broken(
                envelope, sequence, "edited", "it embeds no cost, and one is recorded"
            )
        if ahead[1] is None:
            unproven += len(standing)
        elif ahead[1] != standing and sorted(map(repr, ahead[1])) != sorted(map(repr, standing)):
            said = "the cost that is recorded is not the one that it embeds"
            return _check_costs_broken(envelope, sequence, "edited", said)
        else:
            rows += len(standing)
        ahead = next(wanted, None)
    if ahead is not None:
        return _check_costs_broken(envelope, ahead[0], "dropped", "its cost is not among the costs")
    return TableReport("costs", rows, unproven)


def _check_costs_broken(envelope: str, sequence: object, kind: Kind, said: str) -> TableReport:
    return TableReport("costs", broken=BrokenLink(kind, 0, f"{envelope}:{sequence}", said))


def _is_event(reader: LedgerReader, envelope: str, sequence: int) -> bool:
    sql = "SELECT 1 FROM events WHERE envelope = ? AND sequence = ?"
    return bool(reader.read(sql, (envelope, sequence)))


def _rows(reader: LedgerReader, envelope: str) -> Iterator[Row]:
    """Yield the rows of an envelope in order."""
    page = reader.read(f"{_ROWS} ORDER BY sequence, part LIMIT ?", (envelope, _CHECK_COSTS_PAGE))
    while page:
        yield from page
        page = reader.read(
            f"{_ROWS} AND (sequence, part) > (?, ?) ORDER BY sequence, part LIMIT ?",
            (envelope, *page[-1][:2], _CHECK_COSTS_PAGE),
        )


class _Expected:
    """The rows that the events of an envelope make; what is corrected later is remembered."""

    def __init__(self, reader: LedgerReader, envelope: str, last: int) -> None:
        self.reader = reader
        self.envelope = envelope
        self.last = last
        self.roots: dict[str, str] = {}
        self.standing: dict[str, CurrentCost | None] = {}
        self.numbers: dict[Attribution, int] = {}
        for _, _, record in self.records("type = 'cost.corrected'"):
            self.standing[record.corrects] = None

    def records(self, types: str, after: int = 0) -> Iterator[tuple[int, int, CostRecord]]:
        """Yield the numbers and times of events, with the records that they embed."""
        while True:
            page = self.reader.read(
                "SELECT sequence, time, payload FROM events WHERE envelope = ? AND sequence > ? "
                f"AND sequence <= ? AND ({types}) ORDER BY sequence LIMIT ?",
                (self.envelope, after, self.last, _CHECK_COSTS_PAGE),
            )
            for sequence, time, payload in page:
                try:
                    record = _CHECK_COSTS_DECODE(payload).cost
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
                before = self.standing.get(root) or CurrentCost(root, time, {})
                for row in made:
                    currency, estimate = row[ROW_CURRENCY : ROW_CURRENCY + 2]
                    add_amounts(before.parts, (currency, estimate), row[ROW_AMOUNTS:])
                self.standing[root] = before
            if made:
                yield sequence, [row[ROW_KEY:] for row in made]

    def corrected(self, event: str) -> CurrentCost | None:
        """Return what stands for an event that is corrected, if its beginning is here."""
        return self.standing.get(self.roots.get(event, event))

    def number(self, who: Attribution) -> int:
        """Return the number of an attribution."""
        number = self.numbers.get(who)
        if number is None:
            number = self.numbers[who] = attribution_id(who)
        return number


def verify_hourly_sums(reader: LedgerReader) -> TableReport:
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
        if any(join_halves(halves)):
            return _wrong_sums(f"the sums of the hour that begins at {hour} ns are not its costs")
    return TableReport("cost_hours", len(rows))


def _wrong_sums(said: str) -> TableReport:
    return TableReport("cost_hours", broken=BrokenLink("edited", 0, "", said))


def verify_cost_envelopes(reader: LedgerReader, known: Collection[str]) -> TableReport:
    """Look for costs in envelopes that are not there."""
    for (name,) in reader.read("SELECT DISTINCT envelope FROM costs"):
        if name not in known:
            return _check_costs_broken(
                name, 0, "edited", "a cost is recorded, and there is no such envelope"
            )
    return TableReport("costs")
