"""Opening an invocation: it is recorded before it leaves."""

from typing import Any, Final

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import ContractError, Invocation, Semantics
from modelpact.providers.identities import new_id
from modelpact.providers.invocations import digest, load
from modelpact.providers.registry import check_current

SECOND: Final = 1_000_000_000
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

_ONCE: Final = "idempotency key"


class Order(msgspec.Struct, frozen=True):
    """What is to be invoked, and how."""

    provider: str
    registered: str
    """The event of the registration by which the order was judged."""
    capability: str
    value: Any
    data: bytes
    """The value in JSON."""
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
    keep_content: bool = True
    plain: bool = False
    """Whether attribution and estimate are known to be texts and whole numbers within bounds."""


def open_invocation(tx: Transaction, order: Order) -> tuple[Invocation, bool]:
    """Record an invocation before it leaves, or find the one with the same idempotency key."""
    asked = digest(order.data)
    if order.idempotency_key is not None:
        known = _opened_before(tx, order, asked)
        if known is not None:
            return known, False
    check_current(tx, order.provider, order.registered)
    identity = new_id(tx.now)
    tx.open_envelope(order.envelope, "invocations", order.owner)
    payload = {
        "invocation": identity,
        "provider": order.provider,
        "registered": order.registered,
        "capability": order.capability,
        "semantics": order.semantics,
        "input": asked,
        "estimate": msgspec.to_builtins(order.estimate),
        "attribution": msgspec.to_builtins(order.attribution),
    }
    draft = Draft(order.envelope, "capability.invoked", payload, order.cause, order.plain)
    event = tx.append(draft).id
    now = max(tx.now, order.now)
    deadline = None if order.deadline_s is None else now + int(order.deadline_s * SECOND)
    every = None if order.remind_every_s is None else int(order.remind_every_s * SECOND)
    tx.insert(
        _OPEN,
        (
            identity,
            order.provider,
            order.capability,
            order.semantics,
            "open",
            order.idempotency_key,
            order.envelope,
            event,
            order.owner,
            order.data.decode() if order.keep_content else asked,
            msgspec.json.encode(order.attribution).decode(),
            0,
            0,
            tx.now,
            deadline,
            every,
            None if every is None else now + every,
            order.registered,
        ),
    )
    opened = Invocation(
        identity,
        order.provider,
        order.capability,
        order.semantics,
        "open",
        order.value,
        order.envelope,
        event,
        tx.now,
        deadline,
        attribution=order.attribution,
        owner=order.owner,
        kept=order.keep_content,
        registered=order.registered,
    )
    if order.idempotency_key is not None:
        tx.remember((_ONCE, order.provider, order.idempotency_key), identity)
    return opened, True


def _opened_before(tx: Transaction, order: Order, asked: str) -> Invocation | None:
    """Return the invocation that was opened with the same idempotency key, if there is one."""
    identity = tx.recall((_ONCE, order.provider, order.idempotency_key))
    if identity is None:
        rows = tx.look(
            "SELECT id FROM invocations WHERE provider = ? AND idempotency_key = ?",
            (order.provider, order.idempotency_key),
        )
        if not rows:
            return None
        identity = rows[0][0]
    known = load(tx, identity)
    before = known.input.digest if not known.kept else digest(msgspec.json.encode(known.input))
    if (known.capability, known.semantics, before) != (order.capability, order.semantics, asked):
        raise ContractError(
            "idempotency_conflict",
            f"the idempotency key was used for another invocation, {known.id}",
        )
    return known


def acknowledge(tx: Transaction, invocation: Invocation) -> Invocation:
    """Note that the provider promised an answer."""
    if tx.certain:
        invocation = load(tx, invocation.id)
        if invocation.state != "open" or invocation.acknowledged is not None:
            return invocation
    tx.change(_ACKNOWLEDGE, (invocation.id, tx.now))
    return msgspec.structs.replace(invocation, acknowledged=tx.now)
