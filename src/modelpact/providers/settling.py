"""What a transaction does to an invocation: open, acknowledge, settle once, cancel.

Every function here is work on the ledger: it is kept whole or not at all.
"""

import hashlib
import secrets
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Transaction
from modelpact.providers.carrier import Partial
from modelpact.providers.contract import ContractError, Invocation, Policy, Profile, Semantics
from modelpact.providers.corrections import correct
from modelpact.providers.invocations import elapsed, load, plain
from modelpact.providers.registry import flag, mark_deregistered

SECOND: Final = 1_000_000_000


class Order(msgspec.Struct, frozen=True):
    """What is to be invoked, and how."""

    provider: str
    capability: str
    value: Any
    semantics: Semantics
    owner: str
    envelope: str
    now: int = 0
    """The caller's time; the ledger's stands still after a clock was put back."""
    deadline_s: float | None = None
    remind_every_s: float | None = None
    idempotency_key: str | None = None
    attribution: Attribution = Attribution()
    estimate: tuple[CostLine, ...] = ()
    cause: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """How an invocation ended: an output or an error, its cost, and what was wrong with it."""

    output: Any = None
    error: str = ""
    record: CostRecord | None = None
    violation: str = ""
    detail: str = ""
    answered: bool = False
    """Whether it is the provider's answer; else it is ours, for want of one."""


def digest(value: Any) -> str:
    """Return the hash by which an event names a content that it does not hold."""
    return f"sha256:{hashlib.sha256(msgspec.json.encode(value)).hexdigest()}"


def open_invocation(tx: Transaction, order: Order) -> tuple[Invocation, bool]:
    """Record an invocation before it leaves, or find the one with the same idempotency key."""
    if order.idempotency_key is not None:
        rows = tx.execute(
            "SELECT id FROM invocations WHERE provider = ? AND idempotency_key = ?",
            (order.provider, order.idempotency_key),
        )
        if rows:
            known = load(tx, rows[0][0])
            same = (order.capability, order.semantics, digest(order.value))
            if (known.capability, known.semantics, digest(known.input)) != same:
                raise ContractError(
                    "idempotency_conflict",
                    f"the idempotency key was used for another invocation, {known.id}",
                )
            return known, False
    active = tx.execute(
        "SELECT 1 FROM providers WHERE id = ? AND state = 'active'", (order.provider,)
    )
    if not active:
        raise ContractError(
            "provider_deregistered", f"{order.provider} is not active; nothing is routed to it"
        )
    identity = f"inv_{secrets.token_urlsafe(18)}"
    tx.open_envelope(order.envelope, "invocations", order.owner)
    payload = {
        "invocation": identity,
        "provider": order.provider,
        "capability": order.capability,
        "semantics": order.semantics,
        "input": digest(order.value),
        "estimate": msgspec.to_builtins(order.estimate),
        "attribution": msgspec.to_builtins(order.attribution),
    }
    event = tx.append(Draft(order.envelope, "capability.invoked", payload, order.cause))
    now = max(tx.now, order.now)
    every = None if order.remind_every_s is None else int(order.remind_every_s * SECOND)
    row = {
        "id": identity,
        "provider": order.provider,
        "capability": order.capability,
        "semantics": order.semantics,
        "state": "open",
        "idempotency_key": order.idempotency_key,
        "envelope": order.envelope,
        "event": event.id,
        "owner": order.owner,
        "input": msgspec.json.encode(order.value).decode(),
        "attribution": msgspec.json.encode(order.attribution).decode(),
        "partials": 0,
        "reminders": 0,
        "created": tx.now,
        "deadline": None if order.deadline_s is None else now + int(order.deadline_s * SECOND),
        "remind_every": every,
        "remind_at": None if every is None else now + every,
    }
    marks = ", ".join("?" * len(row))
    tx.execute(f"INSERT INTO invocations ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    return load(tx, identity), True


def acknowledge(tx: Transaction, invocation_id: str) -> Invocation:
    """Note that the provider promised an answer."""
    tx.changed(
        "UPDATE invocations SET acknowledged = ? WHERE id = ? AND acknowledged IS NULL",
        (tx.now, invocation_id),
    )
    return load(tx, invocation_id)


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
        _end(tx, invocation, Outcome(error="deadline: no answer before the deadline"))
        invocation = load(tx, invocation_id)
    if invocation.state != "open":
        return _too_late(tx, profile, invocation, outcome)
    event = _end(tx, invocation, outcome)
    cancelled: list[Invocation] = []
    if outcome.violation:
        cancelled = flag_provider(
            tx, profile, invocation.provider, outcome.violation, outcome.detail, event.id
        )
    return load(tx, invocation_id), cancelled


def _end(tx: Transaction, invocation: Invocation, outcome: Outcome) -> Event:
    error = plain(outcome.error)
    state = "failed" if error else "completed"
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
    tx.execute(
        "UPDATE invocations SET state = ?, output = ?, error = ?, settled = ?, settled_by = ?, "
        "answered = ? WHERE id = ?",
        (
            state,
            None if error else msgspec.json.encode(outcome.output).decode(),
            error or None,
            tx.now,
            event.id,
            tx.now if outcome.answered else None,
            invocation.id,
        ),
    )
    return event


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
    tx.execute("UPDATE invocations SET answered = ? WHERE id = ?", (tx.now, invocation.id))
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
    tx.execute(
        "UPDATE invocations SET state = 'cancelled', error = ?, settled = ?, settled_by = ? "
        "WHERE id = ?",
        (plain(reason), tx.now, event.id, invocation_id),
    )
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
    event = mark_deregistered(tx, provider, plain(reason), None)
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
    active = tx.execute("SELECT 1 FROM providers WHERE id = ? AND state = 'active'", (provider,))
    if not active:
        return []
    mark_deregistered(tx, provider, f"violation: {violation}", flagged.id, state="expelled")
    if profile.on_deregistration != "cancel":
        return []
    return cancel_open(tx, provider, f"the provider was deregistered: {violation}")
