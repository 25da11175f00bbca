"""Transactions: what work may do, and the batches in which work shares a commit."""

from typing import Final, NamedTuple

from modelpact.ledger.canonical import canonical
from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.cost_rows import CostRow, checked_rows, write_costs
from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.event import GENESIS, Draft, Event, check_name, check_type, event_hash
from modelpact.ledger.store import Conflict, Connection, LedgerError, Params, Refused, Row
from modelpact.vocabulary.errors import InputError, brief

ARCHIVED: Final = "envelope.archived"
_MOST_KNOWN: Final = 10_000


class EnvelopeClosed(LedgerError):
    """An event for an envelope that is archived."""


class Stale(LedgerError):
    """Another writer went first: the batch must be done again."""


class Head(NamedTuple):
    """The last event of an envelope."""

    sequence: int = 0
    hash: str = GENESIS
    time: int = 0
    archived: bool = False


class Known:
    """What a writer remembers from batch to batch, so that it need not look."""

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.heads: dict[str, Head] = {}
        self.attributions: set[Attribution] = set()

    def forget(self) -> None:
        """Look again from now on."""
        self.heads.clear()
        self.attributions.clear()

    def trim(self) -> None:
        """Forget what has become too much."""
        if len(self.heads) + len(self.attributions) > _MOST_KNOWN:
            self.forget()


class Rows:
    """Rows that wait to be written together."""

    __slots__ = ("checkpoints", "costs", "envelopes", "events", "signers")

    def __init__(self) -> None:
        self.envelopes: list[Row] = []
        self.events: list[Row] = []
        self.costs: list[CostRow] = []
        self.checkpoints: list[Row] = []
        self.signers: list[tuple[str, str]] = []

    def extend(self, more: "Rows") -> None:
        """Take over another's rows."""
        self.events += more.events
        if more.envelopes:
            self.envelopes += more.envelopes
        if more.costs:
            self.costs += more.costs
        if more.checkpoints:
            self.checkpoints += more.checkpoints
        if more.signers:
            self.signers += more.signers

    def write(self, connection: Connection, known: Known) -> None:
        """Write the rows and keep none."""
        if self.envelopes:
            connection.many(_ENVELOPE, self.envelopes)
        if self.events:
            connection.many(_EVENT, self.events)
        if self.costs:
            write_costs(connection, self.costs, known.writer, known.attributions)
        if self.signers:
            connection.many(_SIGNER, list(dict(self.signers).items()))
        if self.checkpoints:
            connection.many(_CHECKPOINT, self.checkpoints)
        for name in self.__slots__:
            setattr(self, name, [])


_ENVELOPE: Final = "INSERT INTO envelopes VALUES (?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING"
_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CHECKPOINT: Final = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_SIGNER: Final = (
    "INSERT INTO signers VALUES (?, ?) ON CONFLICT (root) DO UPDATE SET keys = excluded.keys "
    "WHERE LENGTH(excluded.keys) > LENGTH(signers.keys)"
)
_CLOSE: Final = "UPDATE envelopes SET archived = ? WHERE id = ?"
_HEAD: Final = (
    "SELECT sequence, hash, time, (SELECT archived FROM envelopes WHERE id = events.envelope) "
    "FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1"
)


class Batch:
    """Work that shares a commit: its connection, and the rows that are yet to be written."""

    def __init__(self, connection: Connection, known: Known) -> None:
        self.connection = connection
        self.known = known
        self.rows = Rows()
        self.events: list[Event] = []
        self.stale: LedgerError | None = None

    def flush(self) -> None:
        """Write the rows that wait."""
        self.write(self.rows)

    def write(self, rows: Rows) -> None:
        """Write rows; where another was first, or one is refused, the whole batch is stale."""
        try:
            rows.write(self.connection, self.known)
        except (Conflict, Refused) as error:
            self.stale = error
            raise Stale(str(error)) from None

    def head(self, envelope: str) -> Head:
        """Return the last event of an envelope."""
        head = self.known.heads.get(envelope)
        if head is None:
            rows = self.connection.execute(_HEAD, (envelope,))
            head = Head()
            for sequence, digest, when, archived in rows:
                head = Head(sequence, digest, when, archived is not None)
        return head


class Transaction:
    """What work may do: append events, read and write tables. It is kept whole or not at all.

    Events wait until the batch is written together; a savepoint is set only for work that touches
    tables of its own. Work may be run again where another writer was first.
    """

    __slots__ = ("_costed", "_failed", "_moved", "_rows", "_saved", "batch", "events", "now")

    def __init__(self, batch: Batch, now: int) -> None:
        self.batch = batch
        self._saved = False
        self._failed: LedgerError | None = None
        self._rows = Rows()
        self._moved: dict[str, Head] = {}
        self._costed: set[tuple[str, int]] = set()
        self.now = now
        """The time of everything in this transaction, in nanoseconds."""
        self.events: list[Event] = []

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows; it sees everything before it."""
        self._touch()
        try:
            return self.batch.connection.execute(sql, params)
        except LedgerError as error:
            self._failed = error
            raise

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        self._touch()
        try:
            return self.batch.connection.changed(sql, params)
        except LedgerError as error:
            self._failed = error
            raise

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
        """Return the last event of an envelope, as this transaction sees it."""
        return self._moved.get(envelope) or self.batch.head(envelope)

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
        payload = canonical(draft.payload)
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
            self.changed(_CLOSE, (when, envelope))
        return event

    def record_cost(self, event: Event, record: CostRecord) -> None:
        """Put a cost record that an event embeds among those that totals are made of."""
        place = (event.envelope, event.sequence)
        if place in self._costed:
            raise InputError(f"{event.id} has its cost record already")
        if record.corrects:
            self._touch()
        self._rows.costs += checked_rows(self.batch.connection, place, event.time, record)
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
        self.batch.known.heads.pop(event.envelope, None)
        if event.type == ARCHIVED:
            self.changed(_CLOSE, (event.time, event.envelope))

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
        self.batch.events += self.events

    def drop(self) -> None:
        """Undo what was done."""
        if self._saved:
            self.batch.known.attributions.clear()
            self.batch.connection.execute("ROLLBACK TO SAVEPOINT piece")
            self.batch.connection.execute("RELEASE SAVEPOINT piece")
