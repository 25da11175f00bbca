"""Transactions: what work may do."""

from collections.abc import Hashable
from typing import Any, Final, NoReturn

from modelpact.ledger.canonical import canonical, canonical_unchecked
from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.costs import CostRecord
from modelpact.ledger.event import Draft, Event, check_name, check_type, event_hash
from modelpact.ledger.stores.base import (
    LedgerError,
    Params,
    Row,
    SerializationConflict,
    StatementRejected,
    WriteConflict,
)
from modelpact.ledger.totals.cost_rows import checked_rows
from modelpact.ledger.write.batch import Batch, EnvelopeClosed, Head, StaleBatch, WriteBuffer
from modelpact.vocabulary.errors import InputError, brief

ARCHIVED: Final = "envelope.archived"
_CLOSE: Final = "UPDATE envelopes SET archived = ? WHERE id = ?"


class Transaction:
    """What work may do: append events, read and write tables. It is kept whole or not at all.

    Rows wait until the batch is written together; a savepoint is set only for work that runs
    statements of its own. Work may be run again where another writer was first.
    """

    __slots__ = (
        "_costed",
        "_facts",
        "_failed",
        "_moved",
        "_rows",
        "_saved",
        "batch",
        "events",
        "now",
    )

    def __init__(self, batch: Batch, now: int) -> None:
        self.batch = batch
        self._saved = False
        self._failed: LedgerError | None = None
        self._rows = WriteBuffer()
        self._moved: dict[str, Head] = {}
        self._costed: set[tuple[str, int]] = set()
        self._facts: dict[Hashable, Any] = {}
        self.now = now
        """The time of everything in this transaction, in nanoseconds."""
        self.events: list[Event] = []

    @property
    def recheck(self) -> bool:
        """Whether to look instead of assuming: what was assumed at first turned out wrong."""
        return self.batch.recheck

    def cached(self, fact: Hashable) -> Any:
        """Return what was remembered under this name and cannot have changed since, or None."""
        facts = self._facts if fact in self._facts else self.batch.known.facts
        return facts.get(fact)

    def cache(self, fact: Hashable, value: Any) -> None:
        """Remember what is so once this is kept, for as long as nobody else writes."""
        self._facts[fact] = value

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        """Read what is in the store; rows that wait to be written are not seen."""
        try:
            return self.batch.connection.execute(sql, params)
        except (WriteConflict, StatementRejected) as error:
            raise self.batch.gone_stale(error) from None

    def defer_insert(self, sql: str, row: Row) -> None:
        """Insert a row together with others; if its key is taken, the work is run again."""
        self._rows.inserts.setdefault(sql, []).append(row)

    def defer_update(self, sql: str, row: Row) -> None:
        """Change the row that the first value names, together with others.

        `sql` is an `UPDATE … FROM (VALUES (?, …))`, in whose conditions stands what is assumed; if
        that is not so, the work is run again, and is then to be `recheck`.
        """
        if self.batch.rows.changing(row[0]):
            self.batch.flush()
        self._rows.changes.setdefault(sql, {})[row[0]] = row

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows; it sees everything before it."""
        self._touch()
        try:
            return self.batch.connection.execute(sql, params)
        except LedgerError as error:
            self._fail(error)
            raise

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        self._touch()
        try:
            return self.batch.connection.execute_update(sql, params)
        except LedgerError as error:
            self._fail(error)
            raise

    def _fail(self, error: LedgerError) -> None:
        self._failed = error
        if isinstance(error, SerializationConflict):
            self.batch.stale = error

    def open_envelope(self, envelope: str, kind: str, subject: str) -> None:
        """Open an envelope, unless it is open already."""
        if envelope in self.batch.known.heads or envelope in self._moved:
            return
        check_name(envelope)
        for what, text in (("kind", kind), ("subject", subject)):
            if not text.isprintable():
                raise InputError(f"envelope {envelope}: {what} {brief(text)} cannot be shown")
        self._rows.envelopes.append((envelope, kind, subject, self.now))

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope.

        From here on the transaction holds only if nobody else appends to that envelope: what is
        read after this cannot change unseen before the next event.
        """
        head = self._moved.get(envelope) or self.batch.head(envelope)
        if head.sequence:
            self._moved[envelope] = head
        return head

    def conflict(self, what: str) -> NoReturn:
        """Say that another writer was first: all of the batch is done again, with none beside."""
        self.batch.stale = WriteConflict(what)
        raise StaleBatch(f"another writer was first: {what}")

    def append(self, draft: Draft) -> Event:
        """Append an event to its envelope."""
        envelope, kind, cause = draft.envelope, check_type(draft.type), draft.cause
        head = self._moved.get(envelope) or self.batch.known.heads.get(envelope)
        if head is None:
            head = self.batch.head(check_name(envelope))
        if cause is not None:
            check_name(cause, "cause")
        if type(draft.payload) is not dict:
            raise InputError(f"{kind}: the payload is {brief(draft.payload)}, not an object")
        written = canonical_unchecked if draft.unchecked else canonical
        payload = written(draft.payload)
        if head.archived:
            raise EnvelopeClosed(f"{envelope} is archived: open another envelope")
        sequence, previous = head.sequence + 1, head.hash
        when = max(self.now, head.time)  # another runtime's clock may be ahead of ours
        digest = event_hash(envelope, sequence, kind, when, cause, payload, previous)
        self._rows.events.append(
            (envelope, sequence, kind, when, cause, payload.decode(), previous, digest)
        )
        self._moved[envelope] = Head(sequence, digest, when, kind == ARCHIVED)
        event = Event(envelope, sequence, kind, when, cause, draft.payload, previous, digest)
        self.events.append(event)
        if kind == ARCHIVED:
            self._rows.envelopes.append((envelope, "", "", when))
            self.execute_update(_CLOSE, (when, envelope))
        return event

    def record_cost(self, event: Event, record: CostRecord) -> None:
        """Put a cost record that an event embeds among those that totals are made of."""
        place = (event.envelope, event.sequence)
        if place in self._costed:
            raise InputError(f"{event.id} has its cost record already")
        if record.corrects:
            self._touch()
        number = self._rows.number(record.attribution, self.batch.known)
        connection = self.batch.connection
        self._rows.costs += checked_rows(connection, place, event.time, record, number)
        self._costed.add(place)

    def add_checkpoint(self, checkpoint: Checkpoint, keys: tuple[str, str] | None) -> None:
        """Keep a checkpoint, and the public keys of its signer: the oldest one's name, and all."""
        self._rows.checkpoints.append(checkpoint.row())
        if keys is not None:
            self.add_signer(*keys)

    def add_signer(self, root: str, keys: str) -> None:
        """Keep the public keys of a signer, by the name of the oldest."""
        self._rows.signers.append((root, keys))

    def restore(self, event: Event, payload: bytes) -> None:
        """Put in an event as it was written elsewhere; the caller has verified it."""
        self._rows.events.append(
            (
                event.envelope,
                event.sequence,
                event.type,
                event.time,
                event.cause,
                payload.decode(),
                event.previous,
                event.hash,
            )
        )
        self._moved.pop(event.envelope, None)
        self.batch.known.heads.pop(event.envelope, None)
        if event.type == ARCHIVED:
            self.execute_update(_CLOSE, (event.time, event.envelope))

    def _touch(self) -> None:
        if self._failed is not None:
            raise LedgerError(f"a statement of this transaction failed: {self._failed}")
        if not self._saved:
            self.batch.flush()
            self.batch.connection.execute("SAVEPOINT piece")
            self._saved = True
        self.batch.write(self._rows)

    def keep(self) -> None:
        """Keep what was done, as far as the batch is kept."""
        if self._saved:
            self._touch()
            self.batch.connection.execute("RELEASE SAVEPOINT piece")
        else:
            self.batch.rows.extend(self._rows)
        self.batch.known.heads.update(self._moved)
        self.batch.known.facts.update(self._facts)
        self.batch.events += self.events
        for event in self.events:
            counts = self.batch.counts
            counts[event.envelope] = counts.get(event.envelope, 0) + 1
            self.batch.last = (event.envelope, event.sequence, event.hash)

    def drop(self) -> None:
        """Undo what was done."""
        if self._saved:
            self.batch.known.attributions.clear()
            self.batch.connection.execute("ROLLBACK TO SAVEPOINT piece")
            self.batch.connection.execute("RELEASE SAVEPOINT piece")
