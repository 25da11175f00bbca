"""Batches: work that shares a commit, and the entries that are appended in one."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from modelpact.ledger.cost_rows import plain_rows
from modelpact.ledger.entry import Entry, Given, NotSo
from modelpact.ledger.event import Event, event_hash
from modelpact.ledger.rows import Head, Known, Rows
from modelpact.ledger.store import (
    Conflict,
    Connection,
    LedgerError,
    LedgerUnavailable,
    Refused,
)

Told = tuple[int, int] | BaseException
"""What became of an entry: the number and the time of its event, or why there is none."""


class EnvelopeClosed(LedgerError):
    """An event for an envelope that is archived."""


class Stale(LedgerError):
    """Another writer went first: the batch must be done again."""


_HEAD: Final = (
    "SELECT sequence, hash, time, (SELECT archived FROM envelopes WHERE id = events.envelope) "
    "FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1"
)


class Batch:
    """Work that shares a commit: its connection, and the rows that are yet to be written."""

    def __init__(self, connection: Connection, known: Known, *, certain: bool = False) -> None:
        self.connection = connection
        self.known = known
        self.certain = certain
        self.rows = Rows()
        self.events: list[Event] = []
        """The events that somebody may want to hear of."""
        self.counts: dict[str, int] = {}
        """How many events each envelope got."""
        self.last = ("", 0, "")
        """The last event: its envelope, its number and its hash."""
        self.stale: LedgerError | None = None

    def flush(self) -> None:
        """Write the rows that wait."""
        self.write(self.rows)

    def write(self, rows: Rows) -> None:
        """Write rows; where another was first, or one is refused, the whole batch is stale."""
        try:
            rows.write(self.connection, self.known)
        except (Conflict, Refused) as error:
            raise self.gone_stale(error) from None

    def gone_stale(self, error: LedgerError) -> Stale:
        """Note that the whole batch must be done again, and return how to say so."""
        self.stale = error
        said = "another writer was first: " if isinstance(error, Conflict) else ""
        return Stale(f"{said}{error}")

    def note(self, entries: Iterable[Entry], now: int, hears: Callable[[str], bool]) -> list[Told]:
        """Append entries and return what became of each.

        One that cannot be appended has changed nothing. `hears` tells whether somebody may want to
        hear of a type.
        """
        told: list[Told] = []
        for entry in entries:
            try:
                told.append(self._note(entry, now, hears))
            except LedgerUnavailable:
                raise
            except BaseException as error:
                if self.stale is not None:
                    raise Stale(str(self.stale)) from None
                told.append(error)
            now += 1
        return told

    def _note(self, entry: Entry, now: int, hears: Callable[[str], bool]) -> tuple[int, int]:
        envelope, kind, cause, payload = entry.envelope, entry.type, entry.cause, entry.payload
        given, known, rows = entry.given, self.known, self.rows
        if given is not None and known.facts.get(given.fact) != given.value:
            self._look(given)
        head = known.heads.get(envelope) or self.head(envelope)
        if head.archived:
            raise EnvelopeClosed(f"{envelope} is archived: open another envelope")
        sequence, previous, when = head.sequence + 1, head.hash, head.time
        if now > when:
            when = now
        text = payload.decode()
        digest = event_hash(envelope, sequence, kind, when, cause, payload, previous)
        if entry.cost is not None:
            number = rows.number(entry.cost.attribution, known)
            rows.costs += plain_rows((envelope, sequence), when, entry.cost, number)
        if entry.opens is not None and sequence == 1:
            rows.envelopes.append((envelope, *entry.opens, when))
        rows.events.append((envelope, sequence, kind, when, cause, text, previous, digest))
        known.heads[envelope] = Head(sequence, digest, when)
        self.counts[envelope] = self.counts.get(envelope, 0) + 1
        self.last = (envelope, sequence, digest)
        if hears(kind):
            said = msgspec.json.decode(payload)
            self.events.append(Event(envelope, sequence, kind, when, cause, said, previous, digest))
        return sequence, when

    def _look(self, given: Given) -> None:
        try:
            rows = self.connection.execute(given.sql, given.params)
        except (Conflict, Refused) as error:
            raise self.gone_stale(error) from None
        if [tuple(row) for row in rows] != [(given.value,)]:
            raise NotSo(given.fact)
        self.known.facts[given.fact] = given.value

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope."""
        head = self.known.heads.get(envelope)
        if head is None:
            rows = self.connection.execute(_HEAD, (envelope,))
            head = Head()
            for sequence, digest, when, archived in rows:
                head = Head(sequence, digest, when, archived is not None)
        return head
