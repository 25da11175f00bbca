"""The rules of settlement, within a transaction: once, with consequences for violations.

Also here: corrections of a recorded cost, and what a deregistration does to open invocations.
"""

import contextlib

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import EnvelopeClosed
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
)
from modelpact.providers.runtime.records import OVERDUE, InvocationOutcome, cancelled, storable
from modelpact.providers.runtime.registry import flag, mark_deregistered
from modelpact.providers.runtime.rows import close_row, current_cost, load
from modelpact.vocabulary.errors import InputError


def settle(
    tx: Transaction,
    profile: ComplianceProfile,
    invocation: Invocation,
    outcome: InvocationOutcome,
    *,
    again: bool = False,
) -> tuple[Invocation, list[Invocation]]:
    """Settle an invocation once; also return what was cancelled because of a violation.

    An invocation that the caller knows as open is taken to be open; the write fails and is done
    again if it is not.

    What comes after the end changes no outcome. The first late answer corrects the cost, which was
    an estimate. A second answer is a violation, unless it is the same one, written `again` because
    nobody knew whether it had been kept.
    """
    if again or tx.recheck or invocation.state != "open" or outcome.state == "cancelled":
        invocation = load(tx, invocation.id)
    if again and invocation.answered is not None:
        return invocation, []
    overdue = invocation.deadline is not None and tx.now > invocation.deadline
    if invocation.state == "open" and outcome.answered and overdue:
        invocation = close_row(tx, invocation, OVERDUE)
    if invocation.state != "open":
        return _settle_late(tx, profile, invocation, outcome)
    settled = close_row(tx, invocation, outcome)
    if not outcome.violation:
        return settled, []
    return settled, flag_provider(
        tx, profile, settled.provider, outcome.violation, outcome.detail, settled.settled_by
    )


def _settle_late(
    tx: Transaction, profile: ComplianceProfile, invocation: Invocation, outcome: InvocationOutcome
) -> tuple[Invocation, list[Invocation]]:
    if not outcome.answered:
        return invocation, []
    if invocation.answered is not None:
        detail = f"{invocation.id} was answered already"
        affected = flag_provider(
            tx, profile, invocation.provider, "answered_twice", detail, invocation.settled_by
        )
        return load(tx, invocation.id), affected
    changed = tx.execute_update(
        "UPDATE invocations SET answered = ? WHERE id = ? AND answered IS NULL",
        (tx.now, invocation.id),
    )
    if not changed:
        tx.conflict(f"an answer to {invocation.id} came to another runtime")
    if outcome.lines and invocation.settled_by is not None:
        record = CostRecord(outcome.lines, estimate=outcome.estimate)
        correct(tx, invocation.settled_by, record, "a late answer reported it")
    return load(tx, invocation.id), []


def cancel_open(tx: Transaction, provider: str, reason: str) -> list[Invocation]:
    """Cancel every open invocation of a provider."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE provider = ? AND state = 'open' ORDER BY created",
        (provider,),
    )
    affected = []
    for (invocation_id,) in rows:
        with contextlib.suppress(EnvelopeClosed):  # one that cannot be settled blocks no other
            affected.append(close_row(tx, load(tx, invocation_id), cancelled(reason)))
    return affected


def deregister(
    tx: Transaction,
    provider: str,
    reason: str,
    policy: DeregistrationPolicy,
    *,
    registered: str | None = None,
    release: bool = False,
) -> tuple[Event, list[Invocation]]:
    """Deregister a provider; also return the open invocations that were cancelled.

    `registered` is the event of the registration that is meant: a later one is left as it is.
    `release` gives up the name: any provider may register under it next.
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
        tx, provider, storable(reason), None, policy, "released" if release else "deregistered"
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
    """Flag a violation and apply the profile; return the invocations that were cancelled."""
    flagged = flag(tx, provider, violation, storable(detail), cause)
    if profile.on_violation != "deregister":
        return []
    reason, policy = f"violation: {violation}", profile.on_deregistration
    departure = mark_deregistered(tx, provider, reason, flagged.id, policy, "expelled")
    if departure is None or policy != "cancel":
        return []
    return cancel_open(tx, provider, f"the provider was deregistered: {violation}")


def correct(
    tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str = ""
) -> Event:
    """Replace the cost that an event embeds by a correction that refers to it."""
    event_id = _corrected_event(tx, event_id)
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)  # another runtime's correction is seen from here on, or makes this one fail
    before = current_cost(tx.execute, event_id)
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
        "SELECT sequence, payload FROM events WHERE envelope = ? AND type = 'cost.corrected' "
        "AND cause = ?",
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
