"""Rows that wait to be written together, and what a writer remembers between writes."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import Attribution
from modelpact.ledger.event import GENESIS, Event, event_hash
from modelpact.ledger.prepared import Precondition, PreconditionFailed, PreparedEvent
from modelpact.ledger.stores.base import (
    LedgerError,
    LedgerUnavailable,
    Row,
    StatementRejected,
    StoreConnection,
    WriteConflict,
)
from modelpact.ledger.totals.cost_rows import (
    CostRow,
    attribution_id,
    plain_rows,
    write_attributions,
    write_costs,
)

_MOST_KNOWN: Final = 10_000


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of an envelope."""

    sequence: int = 0
    hash: str = GENESIS
    time: int = 0
    archived: bool = False


class WriterCache:
    """What a writer remembers from batch to batch, so that it need not look.

    Heads and attributions may be out of date: writing shows it. Facts may not: they are forgotten
    as soon as somebody else may have written.
    """

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.heads: dict[str, Head] = {}
        self.attributions: dict[Attribution, int] = {}
        self.facts: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Look again from now on."""
        self.heads.clear()
        self.attributions.clear()
        self.facts.clear()

    def trim(self) -> None:
        """Forget what has become too much."""
        if len(self.heads) + len(self.attributions) > _MOST_KNOWN:
            self.forget()
        elif len(self.facts) > _MOST_KNOWN:
            self.facts.clear()


class WriteBuffer:
    """Rows that wait to be written together."""

    __slots__ = (
        "attributions",
        "changes",
        "checkpoints",
        "costs",
        "envelopes",
        "events",
        "inserts",
        "signers",
    )

    def __init__(self) -> None:
        self.attributions: dict[Attribution, int] = {}
        self.envelopes: list[Row] = []
        self.events: list[Row] = []
        self.costs: list[CostRow] = []
        self.checkpoints: list[Row] = []
        self.signers: list[tuple[str, str]] = []
        self.inserts: dict[str, list[Row]] = {}
        self.changes: dict[str, dict[Any, Row]] = {}

    def extend(self, more: "WriteBuffer") -> None:
        """Take over another's rows."""
        self.events += more.events
        if more.envelopes:
            self.envelopes += more.envelopes
        if more.costs:
            self.costs += more.costs
            self.attributions.update(more.attributions)
        if more.checkpoints:
            self.checkpoints += more.checkpoints
        if more.signers:
            self.signers += more.signers
        for sql, rows in more.inserts.items():
            self.inserts.setdefault(sql, []).extend(rows)
        for sql, changed in more.changes.items():
            self.changes.setdefault(sql, {}).update(changed)

    def number(self, who: Attribution, known: WriterCache) -> int:
        """Return the number of an attribution, which is written before the costs that have it."""
        found = known.attributions.get(who)
        if found is None:
            found = self.attributions.get(who)
            if found is None:
                found = self.attributions[who] = attribution_id(who)
        return found

    def changing(self, key: Any) -> bool:
        """Tell whether a row of this key waits to be changed."""
        return any(key in rows for rows in self.changes.values())

    def write(self, connection: StoreConnection, known: WriterCache) -> None:
        """Write the rows and keep none."""
        if self.envelopes:
            connection.execute_many(_ENVELOPE, self.envelopes)
            self.envelopes = []
        if self.events:
            connection.execute_many(_EVENT, self.events)
            self.events = []
        if self.attributions:
            write_attributions(connection, self.attributions)
            known.attributions.update(self.attributions)
            self.attributions = {}
        if self.costs:
            write_costs(connection, self.costs, known.writer)
            self.costs = []
        if self.signers:
            connection.execute_many(_SIGNER, list(dict(self.signers).items()))
            self.signers = []
        if self.checkpoints:
            connection.execute_many(_CHECKPOINT, self.checkpoints)
            self.checkpoints = []
        for sql, rows in self.inserts.items():
            connection.execute_many(sql, rows)
        self.inserts = {}
        for sql, changed in self.changes.items():
            if connection.execute_many(sql, list(changed.values())) != len(changed):
                raise WriteConflict("a row is no longer what it was")
        self.changes = {}


_ENVELOPE: Final = "INSERT INTO envelopes VALUES (?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING"
_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CHECKPOINT: Final = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_SIGNER: Final = (
    "INSERT INTO signers VALUES (?, ?) ON CONFLICT (root) DO UPDATE SET keys = excluded.keys "
    "WHERE LENGTH(excluded.keys) > LENGTH(signers.keys)"
)


AppendResult = tuple[int, int] | BaseException
"""What became of an entry: the number and the time of its event, or why there is none."""


class EnvelopeClosed(LedgerError):
    """An event for an envelope that is archived."""


class StaleBatch(LedgerError):
    """Another writer went first: the batch must be done again."""


_HEAD: Final = (
    "SELECT sequence, hash, time, (SELECT archived FROM envelopes WHERE id = events.envelope) "
    "FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1"
)


class Batch:
    """Work that shares a commit: its connection, and the rows that are yet to be written."""

    def __init__(
        self, connection: StoreConnection, known: WriterCache, *, recheck: bool = False
    ) -> None:
        self.connection = connection
        self.known = known
        self.recheck = recheck
        self.rows = WriteBuffer()
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

    def write(self, rows: WriteBuffer) -> None:
        """Write rows; where another was first, or one is refused, the whole batch is stale."""
        try:
            rows.write(self.connection, self.known)
        except (WriteConflict, StatementRejected) as error:
            raise self.gone_stale(error) from None

    def gone_stale(self, error: LedgerError) -> StaleBatch:
        """Note that the whole batch must be done again, and return how to say so."""
        self.stale = error
        said = "another writer was first: " if isinstance(error, WriteConflict) else ""
        return StaleBatch(f"{said}{error}")

    def note(
        self, entries: Iterable[PreparedEvent], now: int, hears: Callable[[str], bool]
    ) -> list[AppendResult]:
        """Append entries and return what became of each.

        One that cannot be appended has changed nothing. `hears` tells whether somebody may want to
        hear of a type.
        """
        told: list[AppendResult] = []
        for entry in entries:
            try:
                told.append(self._note(entry, now, hears))
            except LedgerUnavailable:
                raise
            except BaseException as error:
                if self.stale is not None:
                    raise StaleBatch(str(self.stale)) from None
                told.append(error)
            now += 1
        return told

    def _note(
        self, entry: PreparedEvent, now: int, hears: Callable[[str], bool]
    ) -> tuple[int, int]:
        envelope, kind, cause, payload = entry.envelope, entry.type, entry.cause, entry.payload
        condition, known, rows = entry.precondition, self.known, self.rows
        if condition is not None and known.facts.get(condition.key) != condition.expected:
            self._look(condition)
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

    def _look(self, condition: Precondition) -> None:
        try:
            rows = self.connection.execute(condition.sql, condition.params)
        except (WriteConflict, StatementRejected) as error:
            raise self.gone_stale(error) from None
        if [tuple(row) for row in rows] != [(condition.expected,)]:
            raise PreconditionFailed(condition.key)
        self.known.facts[condition.key] = condition.expected

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope."""
        head = self.known.heads.get(envelope)
        if head is None:
            rows = self.connection.execute(_HEAD, (envelope,))
            head = Head()
            for sequence, digest, when, archived in rows:
                head = Head(sequence, digest, when, archived is not None)
        return head
