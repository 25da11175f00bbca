"""Reading a ledger: events, envelopes, checkpoints, and what caused what."""

import threading
from typing import Any, Final

import msgspec

from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.event import Event
from modelpact.ledger.store import (
    Connection,
    LedgerUnavailable,
    Params,
    Row,
    Store,
    check_schema,
    open_store,
)

COLUMNS: Final = "envelope, sequence, type, time, cause, payload, previous, hash"
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


class Reader:
    """A ledger, open for reading. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._reader: Connection | None = None
        self._reading = threading.Lock()

    @classmethod
    def open_to_read(cls, url: str) -> "Reader":
        """Open what a URL names for reading only; nothing is made and nothing is changed."""
        reader = Reader(open_store(url))
        connection = reader._reader = reader.store.connect(writer=False)
        try:
            check_schema(connection)
        except BaseException:
            reader.close()
            raise
        return reader

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        with self._reading:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def read(self, sql: str, params: Params = ()) -> list[Row]:
        """Read from the store; what was acknowledged is seen."""
        with self._reading:
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
            f"SELECT {COLUMNS} FROM events WHERE envelope = ? AND sequence = ?",
            (envelope, int(number)),
        )
        return read_event(rows[0]) if rows else None

    def events(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """Return events of an envelope in order."""
        return [read_event(row) for row in self.rows(envelope, after=after, limit=limit)]

    def rows(self, envelope: str, *, after: int = 0, limit: int = 1_000) -> list[Row]:
        """Return the rows of an envelope's events in order."""
        return self.read(
            f"SELECT {COLUMNS} FROM events WHERE envelope = ? AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (envelope, after, limit),
        )

    def latest(self, limit: int, *, after: tuple[int, str, int] | None = None) -> list[Event]:
        """Return the latest events of all envelopes, or the first after one, in order of time."""
        order = "time {0}, envelope {0}, sequence {0} LIMIT ?"
        if after is None:
            sql = f"SELECT {COLUMNS} FROM events ORDER BY {order.format('DESC')}"
            return [read_event(row) for row in reversed(self.read(sql, (limit,)))]
        sql = (
            f"SELECT {COLUMNS} FROM events WHERE time >= ? AND (time, envelope, sequence) > "
            f"(?, ?, ?) ORDER BY {order.format('ASC')}"
        )
        return [read_event(row) for row in self.read(sql, (after[0], *after, limit))]

    def why(self, name: str) -> list[Event]:
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
        return [Envelope(*row) for row in self.read(_ENVELOPES.format(where=""))]

    def envelope(self, name: str) -> Envelope | None:
        """Return the envelope of that name, or None."""
        rows = self.read(_ENVELOPES.format(where="WHERE envelope = ?"), (name,))
        return Envelope(*rows[0]) if rows else None

    def checkpoints(self, envelope: str, *, after: int = 0) -> list[Checkpoint]:
        """Return the checkpoints of an envelope in order."""
        rows = self.read(
            "SELECT envelope, sequence, hash, time, key_id, signature FROM checkpoints "
            "WHERE envelope = ? AND sequence > ? ORDER BY sequence, time, key_id",
            (envelope, after),
        )
        return [Checkpoint(*row) for row in rows]

    def signers(self) -> list[str]:
        """Return the public keys of those who signed checkpoints here, as they were kept."""
        return [keys for (keys,) in self.read("SELECT keys FROM signers ORDER BY root")]


def read_event(row: Row) -> Event:
    """Make an event of its row."""
    envelope, sequence, kind, when, cause, payload, previous, digest = row
    return Event(envelope, sequence, kind, when, cause, _PAYLOAD.decode(payload), previous, digest)
