"""A batch: the work that shares one commit, the rows it buffers, and what the writer caches."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from modelpact.ledger.cost_tables import CostRow, attribution_id, plain_rows, write_attributions, write_costs
from modelpact.ledger.costs import Attribution
from modelpact.ledger.errors import EnvelopeClosed, LedgerError, LedgerUnavailable, StatementRejected, WriteConflict
from modelpact.ledger.event import GENESIS, Event, Position, Precondition, PreconditionFailed, PreparedEvent, event_hash
from modelpact.ledger.stores.base import Params, Row, StoreConnection

_MAX_CACHED: Final = 10_000
_HEAD: Final = (
    "SELECT sequence, hash, time, (SELECT archived FROM envelopes WHERE id = events.envelope) "
    "FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1"
)
_INSERT_ENVELOPE: Final = "INSERT INTO envelopes VALUES (?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING"
_INSERT_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_CHECKPOINT: Final = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_INSERT_SIGNER: Final = (
    "INSERT INTO signers VALUES (?, ?) ON CONFLICT (root) DO UPDATE SET keys = excluded.keys "
    "WHERE LENGTH(excluded.keys) > LENGTH(signers.keys)"
)

AppendResult = Position | BaseException
"""The outcome of appending a prepared event: its position, or why it was not appended."""


class StaleBatch(LedgerError):
    """Another writer committed first, so the whole batch must run again."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of an envelope."""

    sequence: int = 0
    hash: str = GENESIS
    time: int = 0
    archived: bool = False


class WriterCache:
    """What a writer knows from earlier batches, so that it does not query again.

    Heads and attributions may be out of date: the write then fails and is repeated. `values` may
    not be: they are dropped as soon as another process may have written.
    """

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.heads: dict[str, Head] = {}
        self.attributions: dict[Attribution, int] = {}
        self.values: dict[Hashable, Any] = {}

    def clear(self) -> None:
        """Drop everything."""
        self.heads.clear()
        self.attributions.clear()
        self.values.clear()

    def trim(self) -> None:
        """Drop entries if there are too many."""
        if len(self.heads) + len(self.attributions) > _MAX_CACHED:
            self.clear()
        elif len(self.values) > _MAX_CACHED:
            self.values.clear()


class WriteBuffer:
    """Rows that wait to be written together, one statement for each table."""

    __slots__ = ("attributions", "checkpoints", "costs", "envelopes", "events", "inserts", "signers", "updates")

    def __init__(self) -> None:
        self.attributions: dict[Attribution, int] = {}
        self.envelopes: list[Row] = []
        self.events: list[Row] = []
        self.costs: list[CostRow] = []
        self.checkpoints: list[Row] = []
        self.signers: list[tuple[str, str]] = []
        self.inserts: dict[str, list[Row]] = {}
        """Rows of `Transaction.defer_insert`, by statement."""
        self.updates: dict[str, dict[Any, Row]] = {}
        """Rows of `Transaction.defer_update`, by statement and key."""

    def extend(self, other: "WriteBuffer") -> None:
        """Add the rows of another buffer."""
        self.events += other.events
        if other.envelopes:
            self.envelopes += other.envelopes
        if other.costs:
            self.costs += other.costs
            self.attributions.update(other.attributions)
        if other.checkpoints:
            self.checkpoints += other.checkpoints
        if other.signers:
            self.signers += other.signers
        for sql, rows in other.inserts.items():
            self.inserts.setdefault(sql, []).extend(rows)
        for sql, updated in other.updates.items():
            self.updates.setdefault(sql, {}).update(updated)

    def attribution_id(self, attribution: Attribution, cache: WriterCache) -> int:
        """Return the id of an attribution, which is written before the costs that refer to it."""
        number = cache.attributions.get(attribution)
        if number is None:
            number = self.attributions.get(attribution)
            if number is None:
                number = self.attributions[attribution] = attribution_id(attribution)
        return number

    def has_update(self, key: Any) -> bool:
        """Tell whether an update of the row with this key waits."""
        return any(key in rows for rows in self.updates.values())

    def write(self, connection: StoreConnection, cache: WriterCache) -> None:
        """Write all rows and empty the buffer."""
        if self.envelopes:
            connection.execute_many(_INSERT_ENVELOPE, self.envelopes)
            self.envelopes = []
        if self.events:
            connection.execute_many(_INSERT_EVENT, self.events)
            self.events = []
        if self.attributions:
            write_attributions(connection, self.attributions)
            cache.attributions.update(self.attributions)
            self.attributions = {}
        if self.costs:
            write_costs(connection, self.costs, cache.writer)
            self.costs = []
        if self.signers:
            connection.execute_many(_INSERT_SIGNER, list(dict(self.signers).items()))
            self.signers = []
        if self.checkpoints:
            connection.execute_many(_INSERT_CHECKPOINT, self.checkpoints)
            self.checkpoints = []
        for sql, rows in self.inserts.items():
            connection.execute_many(sql, rows)
        self.inserts = {}
        for sql, updated in self.updates.items():
            if connection.execute_many(sql, list(updated.values())) != len(updated):
                raise WriteConflict("a row no longer has the values that the update expects")
        self.updates = {}


class Batch:
    """The work that shares one commit: its connection, and the rows that are not written yet."""

    def __init__(self, connection: StoreConnection, cache: WriterCache, *, recheck: bool = False) -> None:
        self.connection = connection
        self.cache = cache
        self.recheck = recheck
        """Whether the work must query instead of assuming: an assumption was wrong at first."""
        self.rows = WriteBuffer()
        self.events: list[Event] = []
        """The events to publish after the commit."""
        self.counts: dict[str, int] = {}
        """How many events were appended to each envelope."""
        self.last = ("", 0, "")
        """The envelope, sequence number and hash of the last event."""
        self.stale: LedgerError | None = None
        """Why the whole batch must run again."""

    def flush(self) -> None:
        """Write the rows that wait."""
        self.write(self.rows)

    def write(self, rows: WriteBuffer) -> None:
        """Write rows. If another writer was first, or a row is rejected, the batch is stale."""
        try:
            rows.write(self.connection, self.cache)
        except (WriteConflict, StatementRejected) as error:
            raise self.mark_stale(error) from None

    def query(self, sql: str, params: Params) -> list[Row]:
        """Run a query. If it fails, the batch is stale."""
        try:
            return self.connection.execute(sql, params)
        except (WriteConflict, StatementRejected) as error:
            raise self.mark_stale(error) from None

    def mark_stale(self, error: LedgerError) -> StaleBatch:
        """Record that the whole batch must run again, and return the exception to raise."""
        self.stale = error
        if isinstance(error, WriteConflict):
            return StaleBatch(f"another writer was first: {error}")
        return StaleBatch(str(error))

    def append_prepared(
        self, events: Iterable[PreparedEvent], now: int, has_listener: Callable[[str], bool]
    ) -> list[AppendResult]:
        """Append prepared events and return the outcome of each.

        An event that cannot be appended changes nothing. Those of types for which `has_listener`
        is true are published after the commit.
        """
        results: list[AppendResult] = []
        for event in events:
            try:
                results.append(self._append_prepared(event, now, has_listener))
            except LedgerUnavailable:
                raise
            except BaseException as error:
                if self.stale is not None:
                    raise StaleBatch(str(self.stale)) from None
                results.append(error)
            now += 1
        return results

    def _append_prepared(self, event: PreparedEvent, now: int, has_listener: Callable[[str], bool]) -> Position:
        envelope, kind, cause, payload = event.envelope, event.type, event.cause, event.payload
        condition, cache, rows = event.precondition, self.cache, self.rows
        if condition is not None and cache.values.get(condition.key) != condition.expected:
            self._check(condition)
        head = cache.heads.get(envelope) or self.head(envelope)
        if head.archived:
            raise EnvelopeClosed(f"{envelope} is archived: open another envelope")
        sequence, previous, time = head.sequence + 1, head.hash, head.time
        if now > time:
            time = now
        text = payload.decode()
        digest = event_hash(envelope, sequence, kind, time, cause, payload, previous)
        if event.cost is not None:
            number = rows.attribution_id(event.cost.attribution, cache)
            rows.costs += plain_rows((envelope, sequence), time, event.cost, number)
        if event.opens is not None and sequence == 1:
            rows.envelopes.append((envelope, *event.opens, time))
        rows.events.append((envelope, sequence, kind, time, cause, text, previous, digest))
        cache.heads[envelope] = Head(sequence, digest, time)
        self.counts[envelope] = self.counts.get(envelope, 0) + 1
        self.last = (envelope, sequence, digest)
        if has_listener(kind):
            content = msgspec.json.decode(payload)
            self.events.append(Event(envelope, sequence, kind, time, cause, content, previous, digest))
        return sequence, time

    def _check(self, condition: Precondition) -> None:
        rows = self.query(condition.sql, condition.params)
        if [tuple(row) for row in rows] != [(condition.expected,)]:
            raise PreconditionFailed(condition.key)
        self.cache.values[condition.key] = condition.expected

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope."""
        head = self.cache.heads.get(envelope)
        if head is None:
            head = Head()
            for sequence, digest, time, archived in self.connection.execute(_HEAD, (envelope,)):
                head = Head(sequence, digest, time, archived is not None)
        return head
