"""Verification of the tables beside the events: whether users read there what the events say.

Costs are in `costs`; this module has the invocations, the providers, and all checks together.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from modelpact.ledger.errors import LedgerError, LedgerUnavailable
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Row
from modelpact.ledger.totals.cost_rows import parse_event_id
from modelpact.ledger.verify.costs import verify_cost_envelopes, verify_costs, verify_hourly_sums
from modelpact.ledger.verify.importer import last_imported
from modelpact.ledger.verify.report import BreakKind, BrokenLink, TableReport, VerifyReport
from modelpact.vocabulary.errors import InputError

REGISTRY: Final = "registry"
"""The envelope in which providers are registered and deregistered."""
_PAGE_ROWS: Final = 500
_MAX_ATTEMPTS: Final = 5
_INVOKED: Final = "capability.invoked"
_SETTLED: Final = ("capability.completed", "capability.failed", "capability.cancelled")
_REGISTERED: Final = "provider.registered"
_DEREGISTERED: Final = "provider.deregistered"
_INVOCATION_COLUMNS: Final = (
    "id, provider, capability, semantics, envelope, event, input, attribution, "
    "state, settled_by, output, error"
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


_decode_facts: Final = msgspec.json.Decoder(_Facts).decode


def verify_tables(
    reader: LedgerReader, reports: Mapping[str, VerifyReport], *, complete: bool
) -> list[TableReport]:
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
    return [
        result for result in results.values() if result.rows or result.unproven or result.broken
    ]


def verify_invocations(reader: LedgerReader, envelope: str, first: int, last: int) -> TableReport:
    """Compare the invocations that the events of an envelope mention with those events."""
    imported = last_imported(reader.read, envelope)
    proven = 0
    for page in _read_facts(reader, envelope, (_INVOKED, *_SETTLED), first - 1, last):
        ids = sorted({facts.invocation for _, _, facts in page if facts.invocation})
        marks = ", ".join("?" * len(ids))
        sql = f"SELECT {_INVOCATION_COLUMNS} FROM invocations WHERE id IN ({marks})"
        stored = {row[0]: row for row in reader.read(sql, ids)} if ids else {}
        for sequence, kind, facts in page:
            row = stored.get(facts.invocation)
            event = f"{envelope}:{sequence}"
            if row is None:
                if facts.invocation and sequence > imported:
                    message = f"invocation {facts.invocation} is missing"
                    return _broken_invocation("dropped", event, message)
                continue
            field = _contradiction(row, event, kind, facts)
            if field:
                message = f"the {field} of invocation {facts.invocation} differs from the event"
                return _broken_invocation("edited", event, message)
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
            return _broken_invocation("edited", str(event), message)
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
            return _broken_provider(str(event), message)
        elif (state == "active") != active[name]:
            message = f"{name} is marked as {state}, and the events say otherwise"
            return _broken_provider(str(event), message)
    imported = last_imported(reader.read, REGISTRY)
    for name, (sequence, _) in registered.items():
        if sequence > imported:
            return _broken_provider(f"{REGISTRY}:{sequence}", f"{name} is missing")
    return TableReport("providers", len(stored) - unproven, unproven)


def _stored_providers(reader: LedgerReader) -> list[Row]:
    return reader.read("SELECT id, state, registration, event FROM providers ORDER BY id")


def _read_facts(
    reader: LedgerReader, envelope: str, types: Collection[str], after: int, last: int
) -> Iterator[list[tuple[int, str, _Facts]]]:
    """Yield the sequence numbers, types and facts of events of some types, in pages."""
    listed = ", ".join(f"'{kind}'" for kind in types)
    while True:
        rows = reader.read(
            "SELECT sequence, type, payload FROM events WHERE envelope = ? AND sequence > ? "
            f"AND sequence <= ? AND type IN ({listed}) ORDER BY sequence LIMIT ?",
            (envelope, after, last, _PAGE_ROWS),
        )
        if not rows:
            return
        page = []
        for sequence, kind, payload in rows:
            try:
                page.append((sequence, kind, _decode_facts(payload)))
            except (msgspec.DecodeError, RecursionError):
                continue  # an event of another application, whose payload means something else
        yield page
        after = rows[-1][0]


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


def _broken_invocation(kind: BreakKind, event: str, message: str) -> TableReport:
    return TableReport("invocations", broken=BrokenLink(kind, 0, event, message))


def _broken_provider(event: str, message: str) -> TableReport:
    return TableReport("providers", broken=BrokenLink("edited", 0, event, message))
