"""Reading a ledger: events and their causes, envelopes, checkpoints."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import msgspec

from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.errors import LedgerError, LedgerUnavailable, StatementRejected
from modelpact.ledger.event import Event, parse_event_id
from modelpact.ledger.stores.base import Params, Row, Store, StoreConnection, check_schema, open_store
from modelpact.vocabulary.errors import InputError, brief

EVENT_COLUMNS: Final = "envelope, sequence, type, time, cause, payload, previous, hash"
_EVENT_TYPES: Final = frozenset((str, int, str, int, cause, str, str, str) for cause in (str, type(None)))
"""The types of the values of a row. SQLite accepts any type in any column."""
_PAGE_ROWS: Final = 2_000
_decode_payload: Final = msgspec.json.Decoder(dict[str, Any]).decode
_OVERLAP_NS: Final = 5 * 10**9
"""How far back `new_events` looks: a slow writer may commit an event with an earlier time."""
_ENVELOPES: Final = (
    "SELECT heads.envelope, COALESCE(e.kind, ''), COALESCE(e.subject, ''), heads.opened, "
    "heads.events, heads.latest, e.archived FROM (SELECT envelope, MIN(time) AS opened, "
    "MAX(sequence) AS events, MAX(time) AS latest FROM events {where} GROUP BY envelope) heads "
    "LEFT JOIN envelopes e ON e.id = heads.envelope ORDER BY heads.latest DESC, heads.envelope"
)


class Envelope(msgspec.Struct, frozen=True):
    """An envelope: what it is for, and how many events it has."""

    id: str
    kind: str
    subject: str
    opened: int
    events: int
    latest: int
    archived: int | None = None
    """When it was archived. Its events may since be only in the archive."""


class LedgerReader:
    """A ledger, open for reading. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._connection: StoreConnection | None = None
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, url: str) -> "LedgerReader":
        """Open the ledger at a URL for reading only. Nothing is created or changed."""
        reader = LedgerReader(open_store(url))
        connection = reader._connection = reader.store.connect(writer=False)
        try:
            check_schema(connection)
        except StatementRejected:
            reader.close()
            url = reader.store.url
            raise LedgerError(f"there is no ledger in {url}: name another with --store") from None
        except BaseException:
            reader.close()
            raise
        return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Nothing can be read from then on."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a query. It sees every write that was acknowledged."""
        with self._lock:
            if self._closed:  # else a late thread would open a connection that is never closed
                raise LedgerError("the ledger is closed")
            if self._connection is None:
                self._connection = self.store.connect(writer=False)
            try:
                return self._connection.execute(sql, params)
            except LedgerUnavailable:
                self._connection.close()
                self._connection = None
                raise

    def event(self, event_id: str) -> Event | None:
        """Return the event with that id, or None."""
        try:
            key = parse_event_id(event_id)
        except InputError:
            return None
        sql = f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND sequence = ?"
        rows = self.read(sql, key)
        return read_event(rows[0]) if rows else None

    def events(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """Return the events of an envelope in order, after a sequence number."""
        return [read_event(row) for row in self.event_rows(envelope, after=after, limit=limit)]

    def event_rows(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Row]:
        """Return the rows of events of an envelope in order, after a sequence number."""
        return self.read(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND sequence > ? ORDER BY sequence LIMIT ?",
            (envelope, after, limit),
        )

    def iter_event_rows(self, envelope: str) -> Iterator[Row]:
        """Yield the rows of all events of an envelope in order."""
        after: Any = 0
        while page := self.event_rows(envelope, after=after, limit=_PAGE_ROWS):
            yield from page
            after = page[-1][1]

    def latest_events(self, limit: int, *, after: tuple[int, str, int] | None = None) -> list[Event]:
        """Return the latest events of all envelopes, in order of time.

        `after` is the time, envelope and sequence number of an event: return the next ones instead.
        """
        order = "time {0}, envelope {0}, sequence {0} LIMIT ?"
        if after is None:
            sql = f"SELECT {EVENT_COLUMNS} FROM events ORDER BY {order.format('DESC')}"
            return [read_event(row) for row in reversed(self.read(sql, (limit,)))]
        sql = (
            f"SELECT {EVENT_COLUMNS} FROM events WHERE time >= ? AND (time, envelope, sequence) > "
            f"(?, ?, ?) ORDER BY {order.format('ASC')}"
        )
        return [read_event(row) for row in self.read(sql, (after[0], *after, limit))]

    def last_events(self, envelope: str, limit: int, *, without: str = "") -> list[Event]:
        """Return the last events of an envelope in order, without those of one type."""
        rows = self.read(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND type <> ? ORDER BY sequence DESC LIMIT ?",
            (envelope, without, limit),
        )
        return [read_event(row) for row in reversed(rows)]

    def new_events(self, known: Iterable[Event]) -> Iterator[list[Event]]:
        """Yield the events of all envelopes that follow the known ones; none if there are none yet.

        The iterator never ends. Wait a little after an empty list.
        """
        times = {event.id: event.time for event in known}
        after: tuple[int, str, int] | None = None
        while True:
            latest, earliest = max(times.values(), default=0), min(times.values(), default=0)
            page = self.latest_events(_PAGE_ROWS, after=after or (latest - _OVERLAP_NS, "", 0))
            events = [event for event in page if event.id not in times]
            is_last = len(page) < _PAGE_ROWS
            if events or is_last:
                yield [event for event in events if event.time >= earliest]
            times.update((event.id, event.time) for event in events)
            oldest = max(times.values(), default=0) - 2 * _OVERLAP_NS
            times = {event_id: time for event_id, time in times.items() if time >= oldest}
            after = None if is_last else (page[-1].time, page[-1].envelope, page[-1].sequence)

    def cause_chain(self, event_id: str) -> list[Event]:
        """Return an event, the event that caused it, and so on back to the origin."""
        chain: dict[str, Event] = {}
        cause: str | None = event_id
        while cause is not None and cause not in chain:
            event = self.event(cause)
            if event is None:
                break
            chain[cause] = event
            cause = event.cause
        return list(chain.values())

    def envelopes(self) -> list[Envelope]:
        """Return all envelopes, the one that was written to last first."""
        return [read_envelope(row) for row in self.read(_ENVELOPES.format(where=""))]

    def envelope_names(self) -> list[Any]:
        """Return the names of all envelopes, even if only a checkpoint or a name is left."""
        rows = self.read(
            "SELECT envelope FROM events UNION SELECT envelope FROM checkpoints "
            "UNION SELECT id FROM envelopes ORDER BY 1"
        )
        return [name for (name,) in rows]

    def envelope(self, name: str) -> Envelope | None:
        """Return the envelope with that name, or None."""
        rows = self.read(_ENVELOPES.format(where="WHERE envelope = ?"), (name,))
        return read_envelope(rows[0]) if rows else None

    def checkpoints(self, envelope: str) -> list[Checkpoint]:
        """Return the checkpoints of an envelope in order, without verifying them."""
        rows = self.read(
            "SELECT envelope, sequence, hash, time, key_id, signature FROM checkpoints "
            "WHERE envelope = ? ORDER BY sequence, time, key_id",
            (envelope,),
        )
        return [Checkpoint(*row) for row in rows]

    def signer_keys(self) -> list[str]:
        """Return the stored public keys of all signers of checkpoints, as JSON."""
        return [keys for (keys,) in self.read("SELECT keys FROM signers ORDER BY root")]


def read_event(row: Row) -> Event:
    """Return the event of a row. Raises if the row was edited and is no longer an event."""
    envelope, sequence, kind, time, cause, payload, previous, digest = row
    try:
        if tuple(map(type, row)) in _EVENT_TYPES:
            content = _decode_payload(payload)
            return Event(envelope, sequence, kind, time, cause, content, previous, digest)
        problem = "a value has the wrong type"
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        problem = f"its payload is not a JSON object: {error}"
    raise LedgerError(
        f"event {brief(f'{envelope}:{sequence}')} was edited in the store: {problem}; run `modelpact audit verify`"
    )


def read_envelope(row: Row) -> Envelope:
    """Return the envelope of a row. Raises if the row was edited and is no longer valid."""
    try:
        return msgspec.convert(dict(zip(Envelope.__struct_fields__, row, strict=True)), Envelope)
    except msgspec.ValidationError as error:
        raise LedgerError(
            f"envelope {brief(row[0])} was edited in the store: {error}; run `modelpact audit verify`"
        ) from None
