"""The rows of invocations: how they are read and written within a transaction."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Params, Row
from modelpact.providers.contract import ContentDigest, ContractError, Invocation
from modelpact.providers.runtime.records import (
    DIGEST_PREFIX,
    INVOKED,
    TYPE_OF_STATE,
    InvocationOutcome,
    InvocationRequest,
    cost_record,
    digest,
    invoked_payload,
    new_id,
    opened_invocation,
    settled_invocation,
    settled_payload,
    storable,
)
from modelpact.providers.runtime.registry import Registered, check_current
from modelpact.providers.transport import Partial

SECOND: Final = 1_000_000_000
COLUMNS: Final = (
    "id, provider, capability, semantics, state, input, envelope, event, created, deadline, "
    "output, error, settled_by, partials, attribution, owner, acknowledged, answered, reminders, "
    "registered"
)
_COLUMN_NAMES: Final = COLUMNS.split(", ")
_OPEN: Final = (
    "INSERT INTO invocations (id, provider, capability, semantics, state, idempotency_key, "
    "envelope, event, owner, input, attribution, partials, reminders, created, deadline, "
    "remind_every, remind_at, registered) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT), ?)"
)
_ACKNOWLEDGE: Final = (
    "UPDATE invocations SET acknowledged = column2 FROM (VALUES (?, ?)) AS given "
    "WHERE id = column1 AND state = 'open' AND acknowledged IS NULL"
)
_COUNT_PARTIAL: Final = (
    "UPDATE invocations SET partials = column2 FROM (VALUES (?, ?)) AS given "
    "WHERE id = column1 AND state = 'open' AND partials = column2 - 1"
)
_SETTLE: Final = (
    "UPDATE invocations SET state = column2, output = column3, error = column4, "
    "settled = column5, settled_by = column6, answered = column7, "
    "partials = COALESCE(column8, partials) FROM (VALUES (?, ?, ?, ?, ?, ?, "
    "CAST(? AS BIGINT), CAST(? AS BIGINT))) AS given WHERE id = column1 AND state = 'open'"
)
_IDEMPOTENCY_FACT: Final = "idempotency key"


def open_row(
    tx: Transaction, request: InvocationRequest, registered: Registered, owner: str, now: int
) -> tuple[Invocation, bool]:
    """Record an invocation; tell whether it is new, or was found by its idempotency key.

    `now` is the caller's time: the ledger's clock stands still after the system clock is set back.
    """
    provider, key = registered.registration.id, request.idempotency_key
    payload = invoked_payload(request, registered)
    if key is not None:
        known = _find_by_key(tx, provider, request, payload.input)
        if known is not None:
            return known, False
    check_current(tx, provider, registered.event)
    invocation_id = payload.invocation = new_id(tx.now)
    tx.open_envelope(request.envelope, "invocations", owner)
    draft = Draft(request.envelope, INVOKED, msgspec.to_builtins(payload), request.cause)
    event = tx.append(draft).id
    now = max(tx.now, now)
    deadline = None if request.deadline_s is None else now + int(request.deadline_s * SECOND)
    interval = None if request.remind_every_s is None else int(request.remind_every_s * SECOND)
    tx.defer_insert(
        _OPEN,
        (
            invocation_id,
            provider,
            request.capability,
            request.semantics,
            "open",
            key,
            request.envelope,
            event,
            owner,
            request.data.decode() if request.keep_content else payload.input,
            msgspec.json.encode(request.attribution).decode(),
            0,
            0,
            tx.now,
            deadline,
            interval,
            None if interval is None else now + interval,
            registered.event,
        ),
    )
    if key is not None:
        tx.cache((_IDEMPOTENCY_FACT, provider, key), invocation_id)
    return (opened_invocation(request, registered, invocation_id, event, tx.now, deadline, owner), True)


def _find_by_key(tx: Transaction, provider: str, request: InvocationRequest, data_digest: str) -> Invocation | None:
    """Return the invocation that was opened with the same idempotency key, if there is one."""
    key = request.idempotency_key
    invocation_id = tx.cached((_IDEMPOTENCY_FACT, provider, key))
    if invocation_id is None:
        rows = tx.query("SELECT id FROM invocations WHERE provider = ? AND idempotency_key = ?", (provider, key))
        if not rows:
            return None
        invocation_id = rows[0][0]
    known = load(tx, invocation_id)
    before = known.input.digest if not known.kept else digest(msgspec.json.encode(known.input))
    same = (known.capability, known.semantics, before)
    if same != (request.capability, request.semantics, data_digest):
        raise ContractError("idempotency_conflict", f"the idempotency key was used for another invocation, {known.id}")
    return known


def acknowledge_row(tx: Transaction, invocation: Invocation) -> Invocation:
    """Record that the provider promised an answer."""
    if tx.recheck:
        invocation = load(tx, invocation.id)
        if invocation.state != "open" or invocation.acknowledged is not None:
            return invocation
    tx.defer_update(_ACKNOWLEDGE, (invocation.id, tx.now))
    return msgspec.structs.replace(invocation, acknowledged=tx.now)


def insert_partial(tx: Transaction, invocation: Invocation, partial: Partial) -> bool:
    """Store a partial of a streamed answer; tell whether it was next in order, and expected.

    A provider may repeat a partial while the first delivery is being written: it is stored once.
    """
    row = (invocation.id, partial.number)
    is_next = partial.number == invocation.partials + 1
    if is_next and not tx.recheck:
        tx.defer_update(_COUNT_PARTIAL, row)
    elif not tx.execute_update(_COUNT_PARTIAL, row):
        return is_next and is_stored(tx.execute, partial)
    content = msgspec.json.encode(partial.content)
    tx.defer_insert("INSERT INTO partials VALUES (?, ?, ?)", (*row, content.decode()))
    payload = {"invocation": invocation.id, "number": partial.number, "content": digest(content)}
    tx.append(Draft(invocation.envelope, "capability.partial", payload, invocation.event))
    return True


def is_stored(execute: Callable[[str, Params], list[Row]], partial: Partial) -> bool:
    """Tell whether a partial is stored, with the same content."""
    rows = execute(
        "SELECT content FROM partials WHERE invocation = ? AND number = ?", (partial.invocation_id, partial.number)
    )
    return rows == [(msgspec.json.encode(partial.content).decode(),)]


def close_row(tx: Transaction, invocation: Invocation, outcome: InvocationOutcome) -> Invocation:
    """Append the event that settles an open invocation, and update its row."""
    cost = cost_record(invocation, outcome, tx.now)
    payload = settled_payload(invocation, outcome, cost)
    payload.invocation = invocation.id
    stored, payload.content = payload.content or payload.output, None
    draft = Draft(invocation.envelope, TYPE_OF_STATE[outcome.state], msgspec.to_builtins(payload), invocation.event)
    event = tx.append(draft)
    tx.record_cost(event, cost)
    settled = settled_invocation(invocation, outcome, event.id, tx.now)
    count = None if outcome.partials_digest is None else outcome.partials_digest.count
    tx.defer_update(
        _SETTLE, (settled.id, settled.state, stored, settled.error, tx.now, event.id, settled.answered, count)
    )
    return settled


def load(tx: Transaction, invocation_id: str) -> Invocation:
    """Return an invocation as a transaction sees it, or raise `unknown_invocation`."""
    return _one_row(tx.execute, invocation_id)


def find_row(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return an invocation, or raise `unknown_invocation`."""
    return _one_row(reader.read, invocation_id)


def _one_row(execute: Callable[[str, Params], list[Row]], invocation_id: str) -> Invocation:
    rows: list[Row] = []
    if invocation_id.isprintable():  # no store holds other ids, and some fail when asked for them
        rows = execute(f"SELECT {COLUMNS} FROM invocations WHERE id = ?", (invocation_id,))
    if not rows:
        raise ContractError("unknown_invocation", f"no invocation {invocation_id!r:.80}")
    return read_row(rows[0])


def list_rows(reader: LedgerReader, state: str = "", provider: str = "", limit: int = 100) -> list[Invocation]:
    """Return invocations, the newest first."""
    if not provider.isprintable():
        return []
    rows = reader.read(
        f"SELECT {COLUMNS} FROM invocations WHERE (? = '' OR state = ?) "
        "AND (? = '' OR provider = ?) ORDER BY created DESC LIMIT ?",
        (state, state, provider, provider, limit),
    )
    return [read_row(row) for row in rows]


def read_row(row: Row) -> Invocation:
    """Make an invocation of a row of `COLUMNS`."""
    fields = dict(zip(_COLUMN_NAMES, row, strict=True))
    content = fields["input"] = _read_content(fields["input"])
    if fields["output"] is not None:
        fields["output"] = _read_content(fields["output"])
    fields["attribution"] = msgspec.json.decode(fields["attribution"], type=Attribution)
    return Invocation(**fields, kept=not isinstance(content, ContentDigest))


def _read_content(text: str) -> Any:
    """Read stored content; a digest, which is no JSON, stands for content that was not kept."""
    return ContentDigest(text) if text.startswith(DIGEST_PREFIX) else msgspec.json.decode(text)


def current_cost(execute: Callable[[str, Params], list[Row]], event_id: str) -> CostRecord | None:
    """Return the cost record that holds for an event: its own, or its last correction's."""
    envelope, _, number = event_id.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return None
    rows = execute(
        "SELECT payload FROM events WHERE envelope = ? AND type = 'cost.corrected' AND cause = ? "
        "ORDER BY sequence DESC LIMIT 1",
        (envelope, event_id),
    ) or execute("SELECT payload FROM events WHERE envelope = ? AND sequence = ?", (envelope, int(number)))
    cost = msgspec.json.decode(rows[0][0]).get("cost") if rows else None
    return None if cost is None else msgspec.convert(cost, CostRecord)


def correct(tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str = "") -> Event:
    """Replace the cost that an event embeds by a correction that refers to it."""
    event_id = _corrected_event(tx, event_id)
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)  # another runtime's correction is seen from here on, or makes this one fail
    before = current_cost(tx.execute, event_id)
    if before is None:
        raise ContractError("unknown_event", f"{event_id!r:.80} embeds no cost record")
    corrected = CostRecord(record.lines, before.attribution, record.estimate, corrects=event_id, replaced=before.lines)
    payload = {
        "corrects": event_id,
        "reason": storable(reason),
        "cost": corrected.to_json(),
        **({"correction": storable(name)} if name else {}),
    }
    event = tx.append(Draft(envelope, "cost.corrected", payload, event_id))
    tx.record_cost(event, corrected)
    return event


def correct_once(tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str) -> str:
    """Correct a cost under a name that the provider chose; the same name changes nothing again."""
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)
    rows = tx.execute(
        "SELECT sequence, payload FROM events WHERE envelope = ? AND type = 'cost.corrected' AND cause = ?",
        (envelope, event_id),
    )
    for sequence, payload in rows:
        if msgspec.json.decode(payload).get("correction") == storable(name):
            return f"{envelope}:{sequence}"
    return correct(tx, event_id, record, reason, name).id


def _corrected_event(tx: Transaction, event_id: str) -> str:
    """Return the event whose cost is meant; for a correction, the event that it corrects."""
    envelope, _, number = event_id.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return event_id
    rows = tx.execute(
        "SELECT cause FROM events WHERE envelope = ? AND sequence = ? AND type = 'cost.corrected'",
        (envelope, int(number)),
    )
    return str(rows[0][0]) if rows else event_id
