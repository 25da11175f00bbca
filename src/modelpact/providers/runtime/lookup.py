"""Find and list invocations, whichever storage keeps them.

Rows are read by `rows`, events by this module. An invocation that only events keep has the id of
the event that opens it. The event that settles it names that one as its cause.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.event import Event
from modelpact.ledger.reader import EVENT_COLUMNS, LedgerReader, read_event
from modelpact.ledger.verify.archive import last_imported
from modelpact.providers.contract import ContentDigest, ContractError, Invocation
from modelpact.providers.runtime.recorder import UnfinishedInvocation
from modelpact.providers.runtime.records import INVOKED, NO_TIME, SETTLED_TYPES, InvokedPayload, SettledPayload
from modelpact.providers.runtime.rows import current_cost, find_row, list_rows
from modelpact.vocabulary.errors import brief

T = TypeVar("T")

KIND: Final = "gateway"
"""The kind of the envelopes that hold such invocations."""
STOPPED: Final = "gateway.stopped"
"""The type of the last event of an envelope in which nothing is open."""
SETTLED_SQL: Final = ", ".join(f"'{name}'" for name in SETTLED_TYPES)
"""The types of settling events, for `IN (…)`."""
MAX_LISTED_EVENTS: Final = 100_000
"""How many events a listing reads at most, the latest first: a busy store has many more."""

_ALL_SQL: Final = f"{SETTLED_SQL}, '{INVOKED}'"
_PAGE: Final = 2_000


def find_invocation(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return an invocation, or raise `unknown_invocation`."""
    if ":" in invocation_id:
        return find_in_events(reader, invocation_id)
    return find_row(reader, invocation_id)


def list_invocations(
    reader: LedgerReader, state: str = "", provider: str = "", limit: int = 100
) -> tuple[list[Invocation], bool]:
    """Return invocations, the newest first, and whether older ones in events were left out."""
    in_events, truncated = list_in_events(reader, state, provider, limit)
    invocations = [*list_rows(reader, state, provider, limit), *in_events]
    invocations.sort(key=lambda invocation: -invocation.created)
    return invocations[:limit], truncated


def find_cost(reader: LedgerReader, invocation: Invocation) -> CostRecord | None:
    """Return what a settled invocation cost, corrections included; None while it is open."""
    settled_by = invocation.settled_by
    return None if settled_by is None else current_cost(reader.read, settled_by)


def find_events(reader: LedgerReader, invocation: Invocation, limit: int = 1_000) -> list[Event]:
    """Return the event that opened an invocation, and those that it and its end caused."""
    rows = reader.read(
        f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? "
        "AND (sequence = ? OR cause = ? OR cause = ?) ORDER BY sequence LIMIT ?",
        (
            invocation.envelope,
            int(invocation.event.rpartition(":")[2]),
            invocation.event,
            invocation.settled_by or invocation.event,
            limit,
        ),
    )
    return [read_event(row) for row in rows]


def find_in_events(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return the invocation that an event opens, or raise `unknown_invocation`."""
    event = reader.event(invocation_id) if invocation_id.isprintable() else None
    if event is None or event.type != INVOKED or "invocation" in event.payload:
        raise ContractError("unknown_invocation", f"no invocation {brief(invocation_id)}")
    rows = reader.read(
        "SELECT sequence, time, type, payload FROM events WHERE envelope = ? AND sequence > ? "
        f"AND cause = ? AND type IN ({SETTLED_SQL}) ORDER BY sequence LIMIT 1",
        (event.envelope, event.sequence, event.id),
    )
    settled = None
    if rows:
        sequence, *rest = rows[0]
        settled = (f"{event.envelope}:{sequence}", *rest)
    opening = _convert(event.payload, InvokedPayload)
    return _read_invocation(event.id, event.envelope, event.time, opening, settled)


def list_in_events(reader: LedgerReader, state: str, provider: str, limit: int) -> tuple[list[Invocation], bool]:
    """Return invocations, the newest first, and whether older ones may have been left out."""
    settlements: dict[str, tuple[str, int, str, str]] = {}
    invocations: list[Invocation] = []
    count = 0
    for event_id, envelope, time, kind, cause, payload in _newest_first(reader):
        count += 1
        if kind != INVOKED:
            settlements[cause] = (event_id, time, kind, payload)
            continue
        settled = settlements.pop(event_id, None)
        if state and state != ("open" if settled is None else SETTLED_TYPES[settled[2]]):
            continue
        try:
            opening = _convert(msgspec.json.decode(payload), InvokedPayload)
            if not provider or opening.provider == provider:
                invocations.append(_read_invocation(event_id, envelope, time, opening, settled))
        except ContractError:
            continue
        if len(invocations) >= limit:
            return invocations, False
    return invocations, count >= MAX_LISTED_EVENTS


def unfinished_envelopes(reader: LedgerReader, name: str) -> list[str]:
    """Return the envelopes of a process that were not finished: the process may have died.

    An imported envelope belongs to the store that it came from, even if the names are the same.
    """
    rows = reader.read(
        "SELECT v.id, e.sequence FROM envelopes v JOIN events e ON e.envelope = v.id "
        "AND e.sequence = (SELECT MAX(sequence) FROM events WHERE envelope = v.id) "
        "WHERE v.kind = ? AND v.subject = ? AND v.archived IS NULL AND e.type <> ? "
        "ORDER BY v.opened",
        (KIND, name, STOPPED),
    )
    return [envelope for envelope, last in rows if last > last_imported(reader.read, envelope)]


def open_in_envelope(reader: LedgerReader, envelope: str) -> list[UnfinishedInvocation]:
    """Return the open invocations of an envelope, each with its estimate."""
    openings: dict[str, tuple[int, str]] = {}
    after = 0
    while True:
        rows = reader.read(
            "SELECT sequence, type, time, cause, CASE WHEN type = ? THEN payload END FROM events "
            f"WHERE envelope = ? AND sequence > ? AND type IN ({_ALL_SQL}) "
            "ORDER BY sequence LIMIT ?",
            (INVOKED, envelope, after, _PAGE),
        )
        for sequence, kind, time, cause, payload in rows:
            if kind == INVOKED:
                openings[f"{envelope}:{sequence}"] = (time, payload)
            else:
                openings.pop(cause, None)
        if len(rows) < _PAGE:
            break
        after = rows[-1][0]
    unfinished = []
    for event_id, (time, payload) in openings.items():
        opening = _convert(msgspec.json.decode(payload), InvokedPayload)
        invocation = _read_invocation(event_id, envelope, time, opening)
        unfinished.append(UnfinishedInvocation(invocation, opening.estimate or NO_TIME))
    return unfinished


def _newest_first(reader: LedgerReader) -> Iterator[tuple[str, str, int, str, str, str]]:
    """Yield the events of invocations, the latest first, as far back as a listing reads."""
    at = (2**63 - 1, "", 0)
    for _ in range(0, MAX_LISTED_EVENTS, _PAGE):
        rows = reader.read(
            "SELECT e.envelope, e.sequence, e.time, e.type, e.cause, e.payload FROM events e "
            "JOIN envelopes v ON v.id = e.envelope AND v.kind = ? WHERE e.time <= ? "
            f"AND (e.time, e.envelope, e.sequence) < (?, ?, ?) AND e.type IN ({_ALL_SQL}) "
            "ORDER BY e.time DESC, e.envelope DESC, e.sequence DESC LIMIT ?",
            (KIND, at[0], *at, _PAGE),
        )
        for envelope, sequence, time, kind, cause, payload in rows:
            yield f"{envelope}:{sequence}", envelope, time, kind, cause, payload
        if len(rows) < _PAGE:
            return
        at = (rows[-1][2], rows[-1][0], rows[-1][1])


def _read_invocation(
    event_id: str, envelope: str, time: int, opening: InvokedPayload, settled: tuple[str, int, str, str] | None = None
) -> Invocation:
    """Return the invocation that an event opens.

    `settled` is the event that settles it: id, time, type and payload.
    """
    opened = Invocation(
        event_id,
        opening.provider,
        opening.capability,
        opening.semantics,
        "open",
        _content(opening.content, opening.input),
        envelope,
        event_id,
        time,
        attribution=_convert(opening.attribution, Attribution),
        kept=opening.content is not None,
        registered=opening.registered,
    )
    if settled is None:
        return opened
    settled_by, settled_at, kind, text = settled
    end = _convert(msgspec.json.decode(text), SettledPayload)
    return msgspec.structs.replace(
        opened,
        state=SETTLED_TYPES[kind],
        output=None if end.output is None else _content(end.content, end.output),
        error=end.error or end.reason,
        settled_by=settled_by,
        answered=settled_at if end.output is not None else None,
    )


def _convert(data: Any, kind: type[T]) -> T:
    """Read part of a payload, or raise `unknown_invocation`: imported events may say anything."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ContractError("unknown_invocation", f"an event of no call: {error}") from None


def _content(kept: str | None, content_digest: str) -> Any:
    if kept is None:
        return ContentDigest(content_digest)
    try:
        return msgspec.json.decode(kept)
    except msgspec.DecodeError:
        return kept  # a stream
