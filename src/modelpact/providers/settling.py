"""What a transaction does to an open invocation: keep its pieces, settle it once, cancel it.

Every function here is work on the ledger: it is kept whole or not at all.
"""

from typing import Any

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Transaction
from modelpact.providers.carrier import Partial
from modelpact.providers.contract import ContractError, Invocation, Policy, Profile, State
from modelpact.providers.corrections import correct
from modelpact.providers.invocations import digest, elapsed, load, plain
from modelpact.providers.registry import flag, mark_deregistered
from modelpact.vocabulary.errors import InputError


class Outcome(msgspec.Struct, frozen=True):
    """How an invocation ended: an output or an error, its cost, and what was wrong with it."""

    output: Any = None
    error: str = ""
    record: CostRecord | None = None
    violation: str = ""
    detail: str = ""
    answered: bool = False
    """Whether it is the provider's answer; else it is ours, for want of one."""


def keep_partial(tx: Transaction, invocation: Invocation, piece: Partial) -> bool:
    """Keep a piece of a streamed answer; tell whether it came in its order, while open."""
    changed = tx.changed(
        "UPDATE invocations SET partials = ? WHERE id = ? AND state = 'open' AND partials = ?",
        (piece.number, invocation.id, piece.number - 1),
    )
    if not changed:
        return False
    content = msgspec.json.encode(piece.content).decode()
    tx.execute("INSERT INTO partials VALUES (?, ?, ?)", (invocation.id, piece.number, content))
    payload = {
        "invocation": invocation.id,
        "number": piece.number,
        "content": digest(piece.content),
    }
    tx.append(Draft(invocation.envelope, "capability.partial", payload, invocation.event))
    return True


def settle(
    tx: Transaction, profile: Profile, invocation_id: str, outcome: Outcome, *, again: bool = False
) -> tuple[Invocation, list[Invocation]]:
    """End an invocation, once; also return what was cancelled because of a violation.

    What comes after the end changes no outcome: a first late answer corrects the cost, which had
    to be estimated, and a second answer is a violation; unless it is the same one, written `again`
    because it was not known whether it had been kept.
    """
    invocation = load(tx, invocation_id)
    if again and invocation.answered is not None:
        return invocation, []
    overdue = invocation.deadline is not None and tx.now > invocation.deadline
    if invocation.state == "open" and outcome.answered and overdue:
        late = Outcome(error="deadline: no answer before the deadline")
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


def _end(tx: Transaction, invocation: Invocation, outcome: Outcome) -> Invocation:
    error = plain(outcome.error)
    state: State = "failed" if error else "completed"
    record = outcome.record or elapsed(tx, invocation)
    payload = {
        "invocation": invocation.id,
        "provider": invocation.provider,
        "capability": invocation.capability,
        "cost": record.to_json(),
        **({"error": error} if error else {"output": digest(outcome.output)}),
    }
    draft = Draft(invocation.envelope, f"capability.{state}", payload, invocation.event)
    event = tx.append(draft)
    tx.record_cost(event, record)
    answered = tx.now if outcome.answered else None
    output = None if error else msgspec.json.encode(outcome.output).decode()
    changed = tx.changed(
        "UPDATE invocations SET state = ?, output = ?, error = ?, settled = ?, settled_by = ?, "
        "answered = ? WHERE id = ? AND state = 'open'",
        (state, output, error or None, tx.now, event.id, answered, invocation.id),
    )
    if not changed:
        tx.outrun(f"{invocation.id} was settled by another runtime")
    return msgspec.structs.replace(
        invocation,
        state=state,
        output=None if error else outcome.output,
        error=error or None,
        settled_by=event.id,
        answered=answered,
    )


def _too_late(
    tx: Transaction, profile: Profile, invocation: Invocation, outcome: Outcome
) -> tuple[Invocation, list[Invocation]]:
    if not outcome.answered:
        return invocation, []
    if invocation.answered is not None:
        detail = f"{invocation.id} was answered already"
        cancelled = flag_provider(
            tx, profile, invocation.provider, "answered_twice", detail, invocation.settled_by
        )
        return load(tx, invocation.id), cancelled
    changed = tx.changed(
        "UPDATE invocations SET answered = ? WHERE id = ? AND answered IS NULL",
        (tx.now, invocation.id),
    )
    if not changed:
        tx.outrun(f"an answer to {invocation.id} came to another runtime")
    if outcome.record is not None and invocation.settled_by is not None:
        correct(tx, invocation.settled_by, outcome.record, "a late answer reported it")
    return load(tx, invocation.id), []


def cancel(tx: Transaction, invocation_id: str, reason: str) -> tuple[Invocation, bool]:
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
    event = tx.append(draft)
    tx.record_cost(event, record)
    changed = tx.changed(
        "UPDATE invocations SET state = 'cancelled', error = ?, settled = ?, settled_by = ? "
        "WHERE id = ? AND state = 'open'",
        (plain(reason), tx.now, event.id, invocation_id),
    )
    if not changed:
        tx.outrun(f"{invocation_id} was settled by another runtime")
    return load(tx, invocation_id), True


def cancel_open(tx: Transaction, provider: str, reason: str) -> list[Invocation]:
    """Cancel every open invocation of a provider."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE provider = ? AND state = 'open' ORDER BY created",
        (provider,),
    )
    return [cancel(tx, row[0], reason)[0] for row in rows]


def deregister(
    tx: Transaction, provider: str, reason: str, policy: Policy
) -> tuple[Event, list[Invocation]]:
    """Take a provider out of routing; also return the open invocations that were cancelled."""
    if policy not in ("drain", "cancel"):
        raise InputError("policy: expected drain or cancel")
    event = mark_deregistered(tx, provider, plain(reason), None)
    if event is None:
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if policy == "drain":
        return event, []
    return event, cancel_open(tx, provider, "the provider was deregistered")


def flag_provider(
    tx: Transaction,
    profile: Profile,
    provider: str,
    violation: str,
    detail: str,
    cause: str | None,
) -> list[Invocation]:
    """Flag a violation and do what the profile says; return what was cancelled by that."""
    flagged = flag(tx, provider, violation, plain(detail), cause)
    if profile.on_violation != "deregister":
        return []
    reason = f"violation: {violation}"
    gone = mark_deregistered(tx, provider, reason, flagged.id, state="expelled")
    if gone is None or profile.on_deregistration != "cancel":
        return []
    return cancel_open(tx, provider, f"the provider was deregistered: {violation}")
