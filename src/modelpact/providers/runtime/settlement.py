"""Corrections: a cost that was reported, replaced by one that refers to it."""

import asyncio
import contextlib
import logging
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.stores.base import LedgerUnavailable, LedgerUncertain, WriteConflict
from modelpact.ledger.write.batch import EnvelopeClosed
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
    InvocationState,
)
from modelpact.providers.runtime.registry import departures, flag, mark_deregistered
from modelpact.providers.runtime.store import digest, elapsed, load, plain, standing_cost
from modelpact.providers.runtime.stream_digest import StreamDigest
from modelpact.providers.transport import Partial
from modelpact.vocabulary.errors import InputError


def correct(
    tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str = ""
) -> Event:
    """Replace the cost that an event embeds by a correction that refers to it."""
    event_id = _root(tx, event_id)
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)  # a correction that comes to another runtime meanwhile is seen or stops us
    before = standing_cost(tx.execute, event_id)
    if before is None:
        raise ContractError("unknown_event", f"{event_id!r:.80} embeds no cost record")
    corrected = CostRecord(
        record.lines,
        before.attribution,
        record.estimate,
        corrects=event_id,
        replaced=before.lines,
    )
    payload = {
        "corrects": event_id,
        "reason": plain(reason),
        "cost": corrected.to_json(),
        **({"correction": plain(name)} if name else {}),
    }
    draft = Draft(envelope, "cost.corrected", payload, event_id)
    event = tx.append(draft)
    tx.record_cost(event, corrected)
    return event


def _root(tx: Transaction, event_id: str) -> str:
    """Return the event whose cost is meant: a correction's own is the one that it corrects."""
    envelope, _, number = event_id.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return event_id
    rows = tx.execute(
        "SELECT cause FROM events WHERE envelope = ? AND sequence = ? AND type = 'cost.corrected'",
        (envelope, int(number)),
    )
    return str(rows[0][0]) if rows else event_id


def correct_once(tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str) -> str:
    """Correct a cost under a name of the provider's; the same name again changes nothing."""
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)
    rows = tx.execute(
        "SELECT sequence, payload FROM events WHERE envelope = ? AND type = 'cost.corrected' "
        "AND cause = ?",
        (envelope, event_id),
    )
    for sequence, payload in rows:
        if msgspec.json.decode(payload).get("correction") == plain(name):
            return f"{envelope}:{sequence}"
    return correct(tx, event_id, record, reason, name).id


_COUNT: Final = (
    "UPDATE invocations SET partials = column2 FROM (VALUES (?, ?)) AS given "
    "WHERE id = column1 AND state = 'open' AND partials = column2 - 1"
)
_SETTLE: Final = (
    "UPDATE invocations SET state = column2, output = column3, error = column4, "
    "settled = column5, settled_by = column6, answered = column7, "
    "partials = COALESCE(column8, partials) FROM (VALUES (?, ?, ?, ?, ?, ?, "
    "CAST(? AS BIGINT), CAST(? AS BIGINT))) AS given WHERE id = column1 AND state = 'open'"
)


class InvocationOutcome(msgspec.Struct, frozen=True):
    """How an invocation ended: an output or an error, its cost, and what was wrong with it."""

    output: Any = None
    error: str = ""
    record: CostRecord | None = None
    violation: str = ""
    detail: str = ""
    answered: bool = False
    """Whether it is the provider's answer; else it is ours, for want of one."""
    data: bytes = b""
    """The output in JSON, where there is one."""
    tally: StreamDigest | None = None
    """The pieces that came before it, where they are not kept."""
    plain: bool = False
    """Whether the cost record is known to be texts and whole numbers within bounds."""


def keep_partial(tx: Transaction, invocation: Invocation, piece: Partial) -> bool:
    """Keep a piece of a streamed answer; tell whether it came in its order, while open."""
    row = (invocation.id, piece.number)
    if not tx.recheck and piece.number == invocation.partials + 1:
        tx.defer_update(_COUNT, row)
    elif not tx.execute_update(_COUNT, row):
        return False
    content = msgspec.json.encode(piece.content)
    tx.defer_insert("INSERT INTO partials VALUES (?, ?, ?)", (*row, content.decode()))
    payload = {
        "invocation": invocation.id,
        "number": piece.number,
        "content": digest(content),
    }
    tx.append(Draft(invocation.envelope, "capability.partial", payload, invocation.event))
    return True


def settle(
    tx: Transaction,
    profile: ComplianceProfile,
    invocation: Invocation,
    outcome: InvocationOutcome,
    *,
    again: bool = False,
) -> tuple[Invocation, list[Invocation]]:
    """End an invocation, once; also return what was cancelled because of a violation.

    One that is open as the caller knows it is taken to be so; writing shows if it is not.

    What comes after the end changes no outcome: a first late answer corrects the cost, which had
    to be estimated, and a second answer is a violation; unless it is the same one, written `again`
    because it was not known whether it had been kept.
    """
    if again or tx.recheck or invocation.state != "open":
        invocation = load(tx, invocation.id)
    if again and invocation.answered is not None:
        return invocation, []
    overdue = invocation.deadline is not None and tx.now > invocation.deadline
    if invocation.state == "open" and outcome.answered and overdue:
        late = InvocationOutcome(error="deadline: no answer before the deadline")
        invocation = _end(tx, invocation, late)
    if invocation.state != "open":
        return _too_late(tx, profile, invocation, outcome)
    ended = _end(tx, invocation, outcome)
    cancelled: list[Invocation] = []
    if outcome.violation:
        cancelled = flag_provider(
            tx, profile, ended.provider, outcome.violation, outcome.detail, ended.settled_by
        )
    return ended, cancelled


def _end(tx: Transaction, invocation: Invocation, outcome: InvocationOutcome) -> Invocation:
    error = plain(outcome.error)
    state: InvocationState = "failed" if error else "completed"
    record = outcome.record or elapsed(tx, invocation)
    payload: dict[str, Any] = {
        "invocation": invocation.id,
        "provider": invocation.provider,
        "capability": invocation.capability,
        "cost": record.to_json(),
    }
    kept = None
    if error:
        payload["error"] = error
    else:
        payload["output"] = digest(outcome.data)
        kept = outcome.data.decode() if invocation.kept else payload["output"]
    draft = Draft(
        invocation.envelope, f"capability.{state}", payload, invocation.event, outcome.plain
    )
    ended = msgspec.structs.replace(
        invocation,
        state=state,
        output=None if error else outcome.output,
        error=error or None,
        answered=tx.now if outcome.answered else None,
    )
    return _close(tx, ended, draft, record, kept, outcome.tally)


def _close(
    tx: Transaction,
    ended: Invocation,
    draft: Draft,
    record: CostRecord,
    output: str | None,
    tally: StreamDigest | None,
) -> Invocation:
    """Append the event that settles an invocation, and change its row."""
    count = None
    if tally is not None:
        count = tally.count
        draft.payload["partials"] = tally.to_json()
    event = tx.append(draft)
    tx.record_cost(event, record)
    values = (ended.id, ended.state, output, ended.error, tx.now, event.id, ended.answered, count)
    tx.defer_update(_SETTLE, values)
    partials = ended.partials if count is None else count
    return msgspec.structs.replace(ended, settled_by=event.id, partials=partials)


def _too_late(
    tx: Transaction, profile: ComplianceProfile, invocation: Invocation, outcome: InvocationOutcome
) -> tuple[Invocation, list[Invocation]]:
    if not outcome.answered:
        return invocation, []
    if invocation.answered is not None:
        detail = f"{invocation.id} was answered already"
        cancelled = flag_provider(
            tx, profile, invocation.provider, "answered_twice", detail, invocation.settled_by
        )
        return load(tx, invocation.id), cancelled
    changed = tx.execute_update(
        "UPDATE invocations SET answered = ? WHERE id = ? AND answered IS NULL",
        (tx.now, invocation.id),
    )
    if not changed:
        tx.conflict(f"an answer to {invocation.id} came to another runtime")
    if outcome.record is not None and invocation.settled_by is not None:
        correct(tx, invocation.settled_by, outcome.record, "a late answer reported it")
    return load(tx, invocation.id), []


def cancel(
    tx: Transaction, invocation_id: str, reason: str, tally: StreamDigest | None = None
) -> tuple[Invocation, bool]:
    """Cancel an open invocation, and tell whether it was open; a settled one stays as it is."""
    invocation = load(tx, invocation_id)
    if invocation.state != "open":
        return invocation, False
    record = elapsed(tx, invocation)
    payload = {
        "invocation": invocation_id,
        "provider": invocation.provider,
        "capability": invocation.capability,
        "reason": plain(reason),
        "cost": record.to_json(),
    }
    draft = Draft(invocation.envelope, "capability.cancelled", payload, invocation.event)
    ended = msgspec.structs.replace(invocation, state="cancelled", error=plain(reason))
    return _close(tx, ended, draft, record, None, tally), True


def cancel_open(tx: Transaction, provider: str, reason: str) -> list[Invocation]:
    """Cancel every open invocation of a provider."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE provider = ? AND state = 'open' ORDER BY created",
        (provider,),
    )
    cancelled = []
    for row in rows:
        with contextlib.suppress(EnvelopeClosed):  # one that cannot end keeps no other from it
            cancelled.append(cancel(tx, row[0], reason)[0])
    return cancelled


def deregister(
    tx: Transaction,
    provider: str,
    reason: str,
    policy: DeregistrationPolicy,
    *,
    registered: str | None = None,
    release: bool = False,
) -> tuple[Event, list[Invocation]]:
    """Take a provider out of routing; also return the open invocations that were cancelled.

    With `registered` only if that is the event of the registration that stands. `release` gives
    up its name: whoever registers next may have it.
    """
    if policy not in ("drain", "cancel"):
        raise InputError("policy: expected drain or cancel")
    if not provider.isprintable():
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if registered is not None:
        rows = tx.execute("SELECT event FROM providers WHERE id = ?", (provider,))
        if rows and rows[0][0] != registered:
            raise ContractError(
                "superseded", f"{provider} has registered anew since: {rows[0][0]} stands"
            )
    event = mark_deregistered(
        tx, provider, plain(reason), None, policy, "released" if release else "deregistered"
    )
    if event is None:
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if policy == "drain":
        return event, []
    return event, cancel_open(tx, provider, "the provider was deregistered")


def flag_provider(
    tx: Transaction,
    profile: ComplianceProfile,
    provider: str,
    violation: str,
    detail: str,
    cause: str | None,
) -> list[Invocation]:
    """Flag a violation and do what the profile says; return what was cancelled by that."""
    flagged = flag(tx, provider, violation, plain(detail), cause)
    if profile.on_violation != "deregister":
        return []
    reason, policy = f"violation: {violation}", profile.on_deregistration
    gone = mark_deregistered(tx, provider, reason, flagged.id, policy, "expelled")
    if gone is None or policy != "cancel":
        return []
    return cancel_open(tx, provider, f"the provider was deregistered: {violation}")


_LOG: Final = logging.getLogger("modelpact.providers")
_WAITS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


async def end(
    ledger: Ledger,
    profile: ComplianceProfile,
    invocation: Invocation,
    outcome: InvocationOutcome,
    *,
    again: bool = False,
) -> tuple[Invocation, list[Invocation], list[Event]]:
    """Settle an invocation; a store that is away or contended is asked again for a few seconds.

    Also return what was cancelled by that, and who was deregistered. `again`: it was asked before,
    and nobody heard what came of that.
    """

    def work(tx: Transaction) -> tuple[Invocation, list[Invocation], list[Event]]:
        ended, cancelled = settle(tx, profile, invocation, outcome, again=again)
        return ended, cancelled, departures(tx)

    for wait in (*_WAITS, None):
        try:
            return await ledger.write_async(work)
        except (WriteConflict, LedgerUnavailable) as error:
            if wait is None:
                raise
            again = again or isinstance(error, LedgerUncertain)
            _LOG.warning("%s waits for the store: %s", invocation.id, error)
            await asyncio.sleep(wait)
    raise AssertionError("the last try returns or raises")
