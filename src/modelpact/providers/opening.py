"""Opening an invocation: it is recorded before it leaves."""

import secrets
from typing import Any, Final

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import ContractError, Invocation, Semantics
from modelpact.providers.invocations import digest, load

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
    row: dict[str, Any] = {
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
    opened = Invocation(
        identity,
        order.provider,
        order.capability,
        order.semantics,
        "open",
        order.value,
        order.envelope,
        event.id,
        tx.now,
        row["deadline"],
        attribution=order.attribution,
        owner=order.owner,
    )
    return opened, True


def acknowledge(tx: Transaction, invocation_id: str) -> Invocation:
    """Note that the provider promised an answer."""
    tx.changed(
        "UPDATE invocations SET acknowledged = ? WHERE id = ? AND acknowledged IS NULL",
        (tx.now, invocation_id),
    )
    return load(tx, invocation_id)
