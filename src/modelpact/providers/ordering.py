"""Orders: what a caller asks of a provider, judged by the provider's registration."""

from typing import Any, Final, TypeGuard

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.providers.carrier import Foresees
from modelpact.providers.contract import ContractError, Semantics
from modelpact.providers.judging import Judge
from modelpact.providers.opening import Order
from modelpact.providers.registry import Registered
from modelpact.vocabulary.errors import InputError, brief


class Asked(msgspec.Struct, frozen=True):
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


def _foresees(carrier: object) -> TypeGuard[Foresees]:
    """Tell whether a carrier foresees; asking the protocol each time is slow."""
    kind = type(carrier)
    if kind not in _FORESEES:
        _FORESEES[kind] = isinstance(carrier, Foresees)
    return _FORESEES[kind]


def _check(asked: Asked) -> None:
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
    asked: Asked, registered: Registered, judge: Judge, carrier: object, owner: str, now: int
) -> Order:
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
    return Order(
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
