"""Reading a ledger: events, envelopes, checkpoints, and what caused what."""

import threading
from typing import Any, Final

import msgspec

from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.event import Event
from modelpact.ledger.stores.base import (
    LedgerError,
    LedgerUnavailable,
    Params,
    Row,
    StatementRejected,
    Store,
    StoreConnection,
    check_schema,
    open_store,
)
from modelpact.vocabulary.errors import brief

EVENT_COLUMNS: Final = "envelope, sequence, type, time, cause, payload, previous, hash"
_EVENT_TYPES: Final = frozenset(
    (str, int, str, int, cause, str, str, str) for cause in (str, type(None))
)
"""What the values of a row are: SQLite takes any type in any column."""
_PAYLOAD: Final = msgspec.json.Decoder(dict[str, Any])
_ENVELOPES: Final = (
    "SELECT heads.envelope, COALESCE(e.kind, ''), COALESCE(e.subject, ''), heads.opened, "
    "heads.events, heads.latest, e.archived FROM (SELECT envelope, MIN(time) AS opened, "
    "MAX(sequence) AS events, MAX(time) AS latest FROM events {where} GROUP BY envelope) heads "
    "LEFT JOIN envelopes e ON e.id = heads.envelope ORDER BY heads.latest DESC, heads.envelope"
)


class Envelope(msgspec.Struct, frozen=True):
    """An envelope: what it is about, and how far it has come."""

    id: str
    kind: str
    subject: str
    opened: int
    events: int
    latest: int
    archived: int | None = None
    """When it was closed; its events may then lie in an archive only."""


class LedgerReader:
    """A ledger, open for reading. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._reader: StoreConnection | None = None
        self._reading = threading.Lock()
        self._done = False

    @classmethod
    def open(cls, url: str) -> "LedgerReader":
        """Open what a URL names for reading only; nothing is made and nothing is changed."""
        reader = LedgerReader(open_store(url))
        connection = reader._reader = reader.store.connect(writer=False)
        try:
            check_schema(connection)
        except StatementRejected:
            reader.close()
            where = reader.store.url
            raise LedgerError(f"there is no ledger in {where}: name another with --store") from None
        except BaseException:
            reader.close()
            raise
        return reader

    def __enter__(self) -> "LedgerReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; nothing is read from then on."""
        with self._reading:
            self._done = True
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def read(self, sql: str, params: Params = ()) -> list[Row]:
        """Read from the store; what was acknowledged is seen."""
        with self._reading:
            if self._done:  # else a thread that comes late would connect, and nobody disconnect
                raise LedgerError("the ledger is closed")
            if self._reader is None:
                self._reader = self.store.connect(writer=False)
            try:
                return self._reader.execute(sql, params)
            except LedgerUnavailable:
                self._reader.close()
                self._reader = None
                raise

    def event(self, name: str) -> Event | None:
        """Return the event of that name, or None."""
        envelope, _, number = name.rpartition(":")
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            return None
        rows = self.read(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND sequence = ?",
            (envelope, int(number)),
        )
        return read_event(rows[0]) if rows else None

    def events(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """Return events of an envelope in order."""
        return [read_event(row) for row in self.event_rows(envelope, after=after, limit=limit)]

    def event_rows(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Row]:
        """Return the rows of an envelope's events in order."""
        return self.read(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (envelope, after, limit),
        )

    def latest_events(
        self, limit: int, *, after: tuple[int, str, int] | None = None
    ) -> list[Event]:
        """Return the latest events of all envelopes, or the first after one, in order of time."""
        order = "time {0}, envelope {0}, sequence {0} LIMIT ?"
        if after is None:
            sql = f"SELECT {EVENT_COLUMNS} FROM events ORDER BY {order.format('DESC')}"
            return [read_event(row) for row in reversed(self.read(sql, (limit,)))]
        sql = (
            f"SELECT {EVENT_COLUMNS} FROM events WHERE time >= ? AND (time, envelope, sequence) > "
            f"(?, ?, ?) ORDER BY {order.format('ASC')}"
        )
        return [read_event(row) for row in self.read(sql, (after[0], *after, limit))]

    def cause_chain(self, name: str) -> list[Event]:
        """Walk back from an event through what caused it, to the origin."""
        found: list[Event] = []
        seen: set[str] = set()
        wanted: str | None = name
        while wanted is not None and wanted not in seen:
            seen.add(wanted)
            event = self.event(wanted)
            if event is None:
                break
            found.append(event)
            wanted = event.cause
        return found

    def envelopes(self) -> list[Envelope]:
        """Return all envelopes, those that were written to last first."""
        return [read_envelope(row) for row in self.read(_ENVELOPES.format(where=""))]

    def envelope_names(self) -> list[Any]:
        """Return the names of all envelopes, also of those of which only traces are left."""
        rows = self.read(
            "SELECT envelope FROM events UNION SELECT envelope FROM checkpoints "
            "UNION SELECT id FROM envelopes ORDER BY 1"
        )
        return [name for (name,) in rows]

    def envelope(self, name: str) -> Envelope | None:
        """Return the envelope of that name, or None."""
        rows = self.read(_ENVELOPES.format(where="WHERE envelope = ?"), (name,))
        return read_envelope(rows[0]) if rows else None

    def checkpoints(self, envelope: str) -> list[Checkpoint]:
        """Return the checkpoints of an envelope in order, as they stand in the store."""
        rows = self.read(
            "SELECT envelope, sequence, hash, time, key_id, signature FROM checkpoints "
            "WHERE envelope = ? ORDER BY sequence, time, key_id",
            (envelope,),
        )
        return [Checkpoint(*row) for row in rows]

    def signer_keys(self) -> list[str]:
        """Return the public keys of those who signed checkpoints here, as they were kept."""
        return [keys for (keys,) in self.read("SELECT keys FROM signers ORDER BY root")]


def read_event(row: Row) -> Event:
    """Make an event of its row; raises where it was edited to something that is no event."""
    envelope, sequence, kind, when, cause, payload, previous, digest = row
    try:
        if tuple(map(type, row)) in _EVENT_TYPES:
            decoded = _PAYLOAD.decode(payload)
            return Event(envelope, sequence, kind, when, cause, decoded, previous, digest)
        said = "a value is of another type than events have"
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        said = f"its payload is no object in JSON: {error}"
    raise LedgerError(
        f"event {brief(f'{envelope}:{sequence}')} was edited in the store: {said}; "
        "`modelpact audit verify` tells more"
    )


def read_envelope(row: Row) -> Envelope:
    """Make an envelope of its row; raises where it was edited to something that is none."""
    try:
        return msgspec.convert(dict(zip(Envelope.__struct_fields__, row, strict=True)), Envelope)
    except msgspec.ValidationError as error:
        raise LedgerError(
            f"envelope {brief(row[0])} was edited in the store: {error}; "
            "`modelpact audit verify` tells more"
        ) from None
