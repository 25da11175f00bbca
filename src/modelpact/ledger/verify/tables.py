"""Verification of the tables beside the events: whether users read there what the events say."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Final

import msgspec

from modelpact.ledger.cost_tables import (
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
from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.errors import LedgerError, LedgerUnavailable
from modelpact.ledger.event import COST_EVENT_PREFIXES, parse_event_id
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Row
from modelpact.ledger.verify.archive import last_imported
from modelpact.ledger.verify.verifier import BreakKind, BrokenLink, TableReport, VerifyReport
from modelpact.vocabulary.errors import InputError

REGISTRY: Final = "registry"
"""The envelope in which providers are registered and deregistered."""
_MAX_ATTEMPTS: Final = 5
_PAGE_ROWS: Final = 500
_INVOKED: Final = "capability.invoked"
_SETTLED: Final = ("capability.completed", "capability.failed", "capability.cancelled")
_REGISTERED: Final = "provider.registered"
_DEREGISTERED: Final = "provider.deregistered"
_COST_TYPES: Final = " OR ".join(f"type LIKE '{prefix}%'" for prefix in COST_EVENT_PREFIXES)
_SELECT_COSTS: Final = (
    "SELECT sequence, part, corrects, time, attribution, currency, estimate, records, "
    f"{', '.join(COLUMNS.values())} FROM costs WHERE envelope = ? "
)
_SELECT_INVOCATIONS: Final = (
    "SELECT id, provider, capability, semantics, envelope, event, input, attribution, "
    "state, settled_by, output, error FROM invocations WHERE id IN "
)


class _Facts(msgspec.Struct):
    """What the payload of an event says about an invocation or a provider."""

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


class _CostPayload(msgspec.Struct):
    cost: CostRecord | None = None


_decode_facts: Final = msgspec.json.Decoder(_Facts).decode
_decode_payload: Final = msgspec.json.Decoder(_CostPayload).decode


def verify_tables(reader: LedgerReader, reports: Mapping[str, VerifyReport], *, complete: bool) -> list[TableReport]:
    """Compare the tables that users read with the events of envelopes that were verified.

    `complete`: the reports cover all envelopes, so the tables may contain nothing else.
    """
    checks: list[tuple[str, Callable[[], TableReport]]] = []
    for name, report in reports.items():
        if report.events and (report.ok or report.unsigned):
            span = (report.first, report.events)
            checks.append(("costs", partial(verify_costs, reader, name, *span)))
            checks.append(("invocations", partial(verify_invocations, reader, name, *span)))
    if complete:
        first = {name: report.first for name, report in reports.items()}
        checks += [
            ("costs", partial(verify_cost_envelopes, reader, reports.keys())),
            ("cost_hours", partial(verify_hourly_sums, reader)),
            ("invocations", partial(verify_invocation_events, reader, first)),
            ("providers", partial(verify_providers, reader, first.get(REGISTRY, 1))),
        ]
    results: dict[str, TableReport] = {}
    for table, check in checks:
        try:
            result = check()
        except LedgerUnavailable:
            raise
        except LedgerError as error:
            message = f"the table cannot be read: {error}"
            result = TableReport(table, broken=BrokenLink("edited", 0, "", message))
        results[table] = results[table] + result if table in results else result
    return [result for result in results.values() if result.rows or result.unproven or result.broken]


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
            return _broken("costs", "edited", f"{envelope}:{sequence}", message)
        if expected[1] is None:
            unproven += len(stored)
        elif expected[1] != stored and sorted(map(repr, expected[1])) != sorted(map(repr, stored)):
            message = "the recorded cost is not the one that the event embeds"
            return _broken("costs", "edited", f"{envelope}:{sequence}", message)
        else:
            proven += len(stored)
        expected = next(expected_rows, None)
    if expected is not None:
        message = "the cost that the event embeds is not recorded"
        return _broken("costs", "dropped", f"{envelope}:{expected[0]}", message)
    return TableReport("costs", proven, unproven)


def verify_cost_envelopes(reader: LedgerReader, known: Collection[str]) -> TableReport:
    """Check that there are no costs in envelopes that do not exist."""
    for (name,) in reader.read("SELECT DISTINCT envelope FROM costs"):
        if name not in known:
            message = "a cost is recorded for an envelope that does not exist"
            return _broken("costs", "edited", f"{name}:{0}", message)
    return TableReport("costs")


def verify_hourly_sums(reader: LedgerReader) -> TableReport:
    """Compare the sums of each hour with the costs, and attributions with their ids."""
    for number, *names in reader.read("SELECT * FROM attributions"):
        if not all(type(name) is str for name in names) or attribution_id(Attribution(*names)) != number:
            return _broken(
                "cost_hours", "edited", "", f"attribution {number} was edited: its names do not match its id"
            )
    missing = reader.read(
        "SELECT attribution FROM cost_hours WHERE attribution NOT IN (SELECT id FROM attributions) LIMIT 1"
    )
    if missing:
        return _broken("cost_hours", "edited", "", f"attribution {missing[0][0]} is missing")
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
            return _broken("cost_hours", "edited", "", f"the sums of the hour at {hour} ns differ from its costs")
    return TableReport("cost_hours", len(differences))


def verify_invocations(reader: LedgerReader, envelope: str, first: int, last: int) -> TableReport:
    """Compare the invocations that the events of an envelope mention with those events."""
    imported = last_imported(reader.read, envelope)
    proven = 0
    for page in _read_facts(reader, envelope, (_INVOKED, *_SETTLED), first - 1, last):
        ids = sorted({facts.invocation for _, _, facts in page if facts.invocation})
        sql = f"{_SELECT_INVOCATIONS}({', '.join('?' * len(ids))})"
        stored = {row[0]: row for row in reader.read(sql, ids)} if ids else {}
        for sequence, kind, facts in page:
            row = stored.get(facts.invocation)
            event = f"{envelope}:{sequence}"
            if row is None:
                if facts.invocation and sequence > imported:
                    message = f"invocation {facts.invocation} is missing"
                    return _broken("invocations", "dropped", event, message)
                continue
            field = _contradiction(row, event, kind, facts)
            if field:
                message = f"the {field} of invocation {facts.invocation} differs from the event"
                return _broken("invocations", "edited", event, message)
            proven += kind == _INVOKED
    return TableReport("invocations", proven)


def verify_invocation_events(reader: LedgerReader, first: Mapping[str, int]) -> TableReport:
    """Check that every invocation has its events. `first` has the first event of each envelope.

    One statement reads everything, so it sees what is written meanwhile completely or not at all.
    """
    sequence = "CAST(SUBSTR({0}, LENGTH(i.envelope) + 2) AS BIGINT)"
    lacks_id = "REPLACE({0}.payload, '\"invocation\":\"' || i.id || '\"', '') = {0}.payload"
    settled_types = ", ".join(f"'{kind}'" for kind in _SETTLED)
    rows = reader.read(
        "SELECT i.id, i.envelope, i.event FROM invocations i LEFT JOIN events a "
        f"ON a.envelope = i.envelope AND a.sequence = {sequence.format('i.event')} "
        "LEFT JOIN events b ON b.envelope = i.envelope "
        f"AND b.sequence = {sequence.format('i.settled_by')} "
        f"WHERE a.sequence IS NULL OR a.type <> '{_INVOKED}' OR {lacks_id.format('a')} "
        "OR (i.state = 'open') <> (i.settled_by IS NULL) OR (i.settled_by IS NOT NULL AND "
        f"(b.sequence IS NULL OR b.type NOT IN ({settled_types}) OR {lacks_id.format('b')}))"
    )
    unproven = 0
    for identity, envelope, event in rows:
        try:
            archived = parse_event_id(event)[1] < first.get(envelope, 0)
        except (InputError, AttributeError):
            archived = False
        if not archived:
            message = f"invocation {identity} does not have the events that it names"
            return _broken("invocations", "edited", str(event), message)
        unproven += 1
    return TableReport("invocations", unproven=unproven)


def verify_providers(reader: LedgerReader, first: int) -> TableReport:
    """Compare the providers with the events of the registry, which begin at `first`."""
    for _ in range(_MAX_ATTEMPTS):
        before = _stored_providers(reader)
        report = _compare_providers(reader, before, first)
        if report.ok or before == _stored_providers(reader):
            break  # else a provider was registered meanwhile
    return report


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
        for page in _event_pages(self.reader, self.envelope, types, after, self.last):
            for sequence, _, time, payload in page:
                try:
                    record = _decode_payload(payload).cost
                except (msgspec.DecodeError, RecursionError):
                    continue  # its field `cost` is not a cost record
                if record is not None:
                    yield sequence, time, record

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
    page = reader.read(f"{_SELECT_COSTS} ORDER BY sequence, part LIMIT ?", (envelope, _PAGE_ROWS))
    while page:
        yield from page
        page = reader.read(
            f"{_SELECT_COSTS} AND (sequence, part) > (?, ?) ORDER BY sequence, part LIMIT ?",
            (envelope, *page[-1][:2], _PAGE_ROWS),
        )


def _is_event(reader: LedgerReader, envelope: str, sequence: int) -> bool:
    sql = "SELECT 1 FROM events WHERE envelope = ? AND sequence = ?"
    return bool(reader.read(sql, (envelope, sequence)))


def _compare_providers(reader: LedgerReader, stored: list[Row], first: int) -> TableReport:
    registered: dict[str, tuple[int, Any]] = {}
    active: dict[str, bool] = {}
    for page in _read_facts(reader, REGISTRY, (_REGISTERED, _DEREGISTERED), first - 1, 2**62):
        for sequence, kind, facts in page:
            active[facts.provider] = kind == _REGISTERED
            if kind == _REGISTERED:
                registered[facts.provider] = (sequence, facts.registration)
    unproven = 0
    for name, state, text, event in stored:
        sequence, registration = registered.pop(name, (0, None))
        if not sequence and first > 1:
            unproven += 1
        elif not sequence or event != f"{REGISTRY}:{sequence}" or not _agrees(text, registration):
            message = f"the registration of {name} differs from the event"
            return _broken("providers", "edited", str(event), message)
        elif (state == "active") != active[name]:
            message = f"{name} is marked as {state}, and the events say otherwise"
            return _broken("providers", "edited", str(event), message)
    imported = last_imported(reader.read, REGISTRY)
    for name, (sequence, _) in registered.items():
        if sequence > imported:
            return _broken("providers", "edited", f"{REGISTRY}:{sequence}", f"{name} is missing")
    return TableReport("providers", len(stored) - unproven, unproven)


def _stored_providers(reader: LedgerReader) -> list[Row]:
    return reader.read("SELECT id, state, registration, event FROM providers ORDER BY id")


def _read_facts(
    reader: LedgerReader, envelope: str, types: Collection[str], after: int, last: int
) -> Iterator[list[tuple[int, str, _Facts]]]:
    """Yield the sequence numbers, types and facts of events of some types, in pages."""
    listed = ", ".join(f"'{kind}'" for kind in types)
    for rows in _event_pages(reader, envelope, f"type IN ({listed})", after, last):
        page = []
        for sequence, kind, _, payload in rows:
            try:
                page.append((sequence, kind, _decode_facts(payload)))
            except (msgspec.DecodeError, RecursionError):
                continue  # an event of another application, whose payload means something else
        yield page


def _event_pages(reader: LedgerReader, envelope: str, condition: str, after: int, last: int) -> Iterator[list[Row]]:
    """Yield pages of the sequence numbers, types, times and payloads of events, in order."""
    sql = (
        "SELECT sequence, type, time, payload FROM events WHERE envelope = ? AND sequence > ? "
        f"AND sequence <= ? AND ({condition}) ORDER BY sequence LIMIT {_PAGE_ROWS}"
    )
    while page := reader.read(sql, (envelope, after, last)):
        yield page
        after = page[-1][0]


def _contradiction(row: Row, event: str, kind: str, facts: _Facts) -> str:
    """Return the name of the field of an invocation that differs from an event, or ""."""
    (
        _,
        provider,
        capability,
        semantics,
        envelope,
        opened_by,
        input_text,
        attribution,
        state,
        settled_by,
        output,
        error,
    ) = row
    if kind == _INVOKED:
        agreement = {
            "provider": provider == facts.provider,
            "capability": capability == facts.capability,
            "semantics": semantics == facts.semantics,
            "envelope": envelope == event.rpartition(":")[0],
            "event": opened_by == event,
            "input": _agrees(input_text, facts.input),
            "attribution": _agrees(attribution, facts.attribution),
        }
    else:
        agreement = {
            "settling event": settled_by == event,
            "state": kind == f"capability.{state}",
            "output": _agrees(output, facts.output),
            "error": error == (facts.reason if state == "cancelled" else facts.error),
        }
    return next((field for field, agrees in agreement.items() if not agrees), "")


def _agrees(stored: Any, embedded: Any) -> bool:
    """Tell whether a stored JSON text is what an event embeds, or names by its digest."""
    if not isinstance(stored, str):
        return stored is embedded
    if isinstance(embedded, str):
        digest = hashlib.sha256(stored.encode("utf-8", "surrogatepass")).hexdigest()
        return embedded in (stored, f"sha256:{digest}")
    try:
        return bool(msgspec.json.decode(stored) == embedded)
    except (msgspec.DecodeError, RecursionError):
        return False


def _broken(table: str, kind: BreakKind, event: str, message: str) -> TableReport:
    return TableReport(table, broken=BrokenLink(kind, 0, event, message))
