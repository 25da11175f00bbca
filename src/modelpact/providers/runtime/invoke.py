"""Opening an invocation: it is recorded before it leaves."""

from typing import Any, Final, TypeGuard

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import ContractError, Invocation, Semantics
from modelpact.providers.runtime.registry import Registered, check_current
from modelpact.providers.runtime.store import digest, load, new_id
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import EstimatesCost
from modelpact.vocabulary.errors import InputError, brief

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


class InvocationOrder(msgspec.Struct, frozen=True):
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


def open_invocation(tx: Transaction, order: InvocationOrder) -> tuple[Invocation, bool]:
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
    tx.defer_insert(
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
        tx.cache((_ONCE, order.provider, order.idempotency_key), identity)
    return opened, True


def _opened_before(tx: Transaction, order: InvocationOrder, asked: str) -> Invocation | None:
    """Return the invocation that was opened with the same idempotency key, if there is one."""
    identity = tx.cached((_ONCE, order.provider, order.idempotency_key))
    if identity is None:
        rows = tx.query(
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
    if tx.recheck:
        invocation = load(tx, invocation.id)
        if invocation.state != "open" or invocation.acknowledged is not None:
            return invocation
    tx.defer_update(_ACKNOWLEDGE, (invocation.id, tx.now))
    return msgspec.structs.replace(invocation, acknowledged=tx.now)


class InvocationRequest(msgspec.Struct, frozen=True):
    """What a caller asks for, as `Runtime.invoke` has it."""

    capability: str
    value: Any
    semantics: Semantics
    deadline_s: float | None
    remind_every_s: float | None
    idempotency_key: str | None
    attribution: Attribution | None
    estimate: tuple[CostLine, ...] | None
    envelope: str | None
    cause: str | None
    keep_content: bool


_FORESEES: Final[dict[type, bool]] = {}
_ATTRIBUTED: Final = Attribution.__struct_fields__
_SHORTEST: Final = 0.001
_LONGEST: Final = 100 * 365 * 86_400
_LONGEST_KEY: Final = 200


def _foresees(carrier: object) -> TypeGuard[EstimatesCost]:
    """Tell whether a carrier foresees; asking the protocol each time is slow."""
    kind = type(carrier)
    if kind not in _FORESEES:
        _FORESEES[kind] = isinstance(carrier, EstimatesCost)
    return _FORESEES[kind]


def _check(asked: InvocationRequest) -> None:
    """Refuse what no invocation can have; the error names the argument."""
    for name, value, least in (
        ("deadline_s", asked.deadline_s, 0.0),
        ("remind_every_s", asked.remind_every_s, _SHORTEST),
    ):
        if value is not None and not least <= value <= _LONGEST:
            raise InputError(
                f"{name}: expected {least:g} to {_LONGEST:,} seconds or None, not {brief(value)}"
            )
    key = asked.idempotency_key
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise InputError(
            f"idempotency_key: expected 1 to {_LONGEST_KEY} visible characters, not {brief(key)}"
        )
    who = asked.attribution
    if who is None:
        return
    if not isinstance(who, Attribution):
        raise InputError(
            f"attribution: expected modelpact.ledger.Attribution(worker=…, …), not {brief(who)}"
        )
    for name in _ATTRIBUTED:
        if not getattr(who, name).isprintable():
            raise InputError(f"attribution.{name}: has characters that cannot be shown")


def make_order(
    asked: InvocationRequest,
    registered: Registered,
    judge: ContractValidator,
    carrier: object,
    owner: str,
    now: int,
) -> InvocationOrder:
    """Judge what is asked and return the order.

    A carrier that foresees what a call will cost, or knows more of whom it is for, is asked.
    """
    registration, provider = registered.registration, registered.registration.id
    offer = registration.offer(asked.capability)
    if asked.semantics not in offer.semantics:
        raise ContractError(
            "unsupported_semantics",
            f"{provider} offers {asked.capability} as {', '.join(offer.semantics)}, "
            f"not {asked.semantics}",
        )
    _check(asked)
    if asked.semantics == "sync" and asked.deadline_s is None:
        raise InputError("deadline_s: a synchronous invocation is bounded in time; give one")
    if asked.semantics == "async" and not asked.keep_content:
        raise InputError(
            "keep_content: an asynchronous invocation is answered by way of the store, so its "
            "content is kept; invoke it as sync or streaming"
        )
    data, wrong = judge.read(registration, offer, "input", asked.value)
    if wrong:
        raise ContractError("invalid_input", f"{asked.capability}: {'; '.join(wrong)}")
    who, estimate = asked.attribution or Attribution(), asked.estimate
    if _foresees(carrier):
        who = carrier.attributed(asked.value, who)
        estimate = carrier.estimate(asked.value) if estimate is None else estimate
    return InvocationOrder(
        provider,
        registered.event,
        asked.capability,
        asked.value,
        data,
        asked.semantics,
        owner,
        asked.envelope or f"invocations/{owner}",
        now,
        asked.deadline_s,
        asked.remind_every_s,
        asked.idempotency_key,
        msgspec.structs.replace(who, provider=provider, capability=asked.capability),
        estimate or (),
        asked.cause,
        asked.keep_content,
    )
