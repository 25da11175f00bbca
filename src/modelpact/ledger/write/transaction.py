"""Transactions: what a piece of work may do."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from modelpact.ledger.canonical import canonical, canonical_unchecked
from modelpact.ledger.checkpoint import Checkpoint, sign_checkpoint
from modelpact.ledger.cost_tables import current_cost, record_rows
from modelpact.ledger.costs import CostRecord, check_record
from modelpact.ledger.errors import EnvelopeClosed, LedgerError, SerializationConflict, WriteConflict
from modelpact.ledger.event import Draft, Event, check_name, check_type, event_hash
from modelpact.ledger.stores.base import Params, Row
from modelpact.ledger.write.batch import Batch, Head, WriteBuffer
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys, Signer

ARCHIVED: Final = "envelope.archived"
_CLOSE_ENVELOPE: Final = "UPDATE envelopes SET archived = ? WHERE id = ?"


class Transaction:
    """What work uses to append events and to read and write tables. All of it is kept, or nothing.

    Rows are buffered and written together with those of the other work in the batch. Only work that
    runs statements of its own costs a savepoint. If another writer commits first, the work runs
    again, so it should do nothing but use its transaction.
    """

    __slots__ = ("_costed", "_failed", "_heads", "_rows", "_savepoint", "_values", "batch", "events", "now")

    def __init__(self, batch: Batch, now: int) -> None:
        self.batch = batch
        self._savepoint = False
        self._failed: LedgerError | None = None
        self._rows = WriteBuffer()
        self._heads: dict[str, Head] = {}
        self._costed: set[tuple[str, int]] = set()
        self._values: dict[Hashable, Any] = {}
        self.now = now
        """The time of everything in this transaction, in nanoseconds."""
        self.events: list[Event] = []

    @property
    def recheck(self) -> bool:
        """Whether to query instead of assuming: the assumption of a deferred update was wrong."""
        return self.batch.recheck

    def cached(self, key: Hashable) -> Any:
        """Return the value cached under this key, or None if it is unknown or may have changed."""
        values = self._values if key in self._values else self.batch.cache.values
        return values.get(key)

    def cache(self, key: Hashable, value: Any) -> None:
        """Cache a value that holds once this transaction commits, until another process writes."""
        self._values[key] = value

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        """Read from the store without a savepoint. Rows that are still buffered are not seen."""
        return self.batch.query(sql, params)

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows. It sees everything before it."""
        self._write_buffered()
        try:
            return self.batch.connection.execute(sql, params)
        except LedgerError as error:
            self._fail(error)
            raise

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        self._write_buffered()
        try:
            return self.batch.connection.execute_update(sql, params)
        except LedgerError as error:
            self._fail(error)
            raise

    def defer_insert(self, sql: str, row: Row) -> None:
        """Insert a row together with others. If its key exists, the work runs again."""
        self._rows.inserts.setdefault(sql, []).append(row)

    def defer_update(self, sql: str, row: Row) -> None:
        """Update the row whose key is the first value, together with others.

        `sql` is an `UPDATE … FROM (VALUES (?, …))` whose conditions state what the work assumes
        about the row. If that does not hold, the work runs again, with `recheck` set.
        """
        if self.batch.rows.has_update(row[0]):
            self.batch.flush()
        self._rows.updates.setdefault(sql, {})[row[0]] = row

    def conflict(self, message: str) -> NoReturn:
        """Report that another writer was first. The batch runs again with no other writer."""
        raise self.batch.mark_stale(WriteConflict(message))

    def open_envelope(self, envelope: str, kind: str, subject: str) -> None:
        """Open an envelope, unless it is open already."""
        if envelope in self.batch.cache.heads or envelope in self._heads:
            return
        check_name(envelope)
        for field, text in (("kind", kind), ("subject", subject)):
            if not text.isprintable():
                raise InputError(f"envelope {envelope}: {field} {brief(text)} has unprintable characters")
        self._rows.envelopes.append((envelope, kind, subject, self.now))

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope.

        The transaction then commits only if no other writer appends to that envelope. What you read
        after this call cannot change unnoticed before your next event.
        """
        head = self._heads.get(envelope) or self.batch.head(envelope)
        if head.sequence:
            self._heads[envelope] = head
        return head

    def append(self, draft: Draft) -> Event:
        """Append an event to its envelope."""
        envelope, kind, cause = draft.envelope, check_type(draft.type), draft.cause
        head = self._heads.get(envelope) or self.batch.cache.heads.get(envelope)
        if head is None:
            head = self.batch.head(check_name(envelope))
        if cause is not None:
            check_name(cause, "cause")
        if type(draft.payload) is not dict:
            raise InputError(f"{kind}: the payload is {brief(draft.payload)}, not an object")
        encode = canonical_unchecked if draft.unchecked else canonical
        payload = encode(draft.payload)
        if head.archived:
            raise EnvelopeClosed(f"{envelope} is archived: open another envelope")
        sequence, previous = head.sequence + 1, head.hash
        time = max(self.now, head.time)  # the clock of another runtime may be ahead of ours
        digest = event_hash(envelope, sequence, kind, time, cause, payload, previous)
        self._rows.events.append((envelope, sequence, kind, time, cause, payload.decode(), previous, digest))
        self._heads[envelope] = Head(sequence, digest, time, kind == ARCHIVED)
        event = Event(envelope, sequence, kind, time, cause, draft.payload, previous, digest)
        self.events.append(event)
        if kind == ARCHIVED:
            self._rows.envelopes.append((envelope, "", "", time))
            self.execute_update(_CLOSE_ENVELOPE, (time, envelope))
        return event

    def record_cost(self, event: Event, record: CostRecord) -> None:
        """Add a cost record that an event embeds to the tables of costs."""
        key = (event.envelope, event.sequence)
        if key in self._costed:
            raise InputError(f"{event.id} already has a cost record")
        check_record(record, event.envelope)
        corrected = None
        if record.corrects:
            self._write_buffered()
            corrected = current_cost(self.batch.connection, record.corrects)
        number = self._rows.attribution_id(record.attribution, self.batch.cache)
        self._rows.costs += record_rows(key, event.time, record, number, corrected)
        self._costed.add(key)

    def sign(self, envelope: str, signer: "Signer") -> Checkpoint:
        """Sign the last event of an envelope, and with it all events before."""
        head = self.head(envelope)
        if not head.sequence:
            raise LedgerError(f"{envelope} has no events, so there is nothing to sign")
        checkpoint = sign_checkpoint(signer, envelope, head.sequence, head.hash, self.now)
        self.add_checkpoint(checkpoint)
        keys: PublicKeys | None = getattr(signer, "public_keys", None)
        if keys is not None:
            self.add_signer(keys.keys[0].key_id, keys.to_json().decode())
        return checkpoint

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint."""
        self._rows.checkpoints.append(msgspec.structs.astuple(checkpoint))

    def add_signer(self, root: str, keys: str) -> None:
        """Store the public keys of a signer under the id of the oldest."""
        self._rows.signers.append((root, keys))

    def restore(self, event: Event, payload: bytes) -> None:
        """Insert an event as another store wrote it. The caller has verified it."""
        fields = msgspec.structs.astuple(event)
        self._rows.events.append((*fields[:5], payload.decode(), *fields[6:]))
        self._heads.pop(event.envelope, None)
        self.batch.cache.heads.pop(event.envelope, None)
        if event.type == ARCHIVED:
            self.execute_update(_CLOSE_ENVELOPE, (event.time, event.envelope))

    def keep(self) -> None:
        """Hand everything over to the batch."""
        batch = self.batch
        if self._savepoint:
            self._write_buffered()
            batch.connection.execute("RELEASE SAVEPOINT piece")
        else:
            batch.rows.extend(self._rows)
        batch.cache.heads.update(self._heads)
        batch.cache.values.update(self._values)
        batch.events += self.events
        for event in self.events:
            batch.counts[event.envelope] = batch.counts.get(event.envelope, 0) + 1
            batch.last = (event.envelope, event.sequence, event.hash)

    def undo(self) -> None:
        """Undo everything that this transaction wrote."""
        if self._savepoint:
            self.batch.cache.attributions.clear()
            self.batch.connection.execute("ROLLBACK TO SAVEPOINT piece")
            self.batch.connection.execute("RELEASE SAVEPOINT piece")

    def _write_buffered(self) -> None:
        """Set a savepoint, if there is none yet, and write the buffered rows."""
        if self._failed is not None:
            raise LedgerError(f"an earlier statement of this transaction failed: {self._failed}")
        if not self._savepoint:
            self.batch.flush()
            self.batch.connection.execute("SAVEPOINT piece")
            self._savepoint = True
        self.batch.write(self._rows)

    def _fail(self, error: LedgerError) -> None:
        self._failed = error
        if isinstance(error, SerializationConflict):
            self.batch.stale = error
