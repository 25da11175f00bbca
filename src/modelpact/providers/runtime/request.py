"""Requests for invocations: what a caller asks of a provider, checked against its registration."""

from typing import Any, Final, TypeGuard

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.providers.contract import ContractError, Registration, Semantics
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import EstimatesCost
from modelpact.vocabulary.errors import InputError, brief

_ATTRIBUTION_FIELDS: Final = Attribution.__struct_fields__
_MIN_INTERVAL_S: Final = 0.001
_MAX_SECONDS: Final = 100 * 365 * 86_400
_MAX_KEY_LENGTH: Final = 200
_estimates_cost: Final[dict[type, bool]] = {}


class InvocationRequest(msgspec.Struct, frozen=True):
    """What is to be invoked, and how. `prepare` completes what a caller leaves open."""

    capability: str
    value: Any
    data: bytes = b""
    """The value in JSON."""
    semantics: Semantics = "sync"
    attribution: Attribution = Attribution()
    estimate: tuple[CostLine, ...] | None = None
    """What the invocation may cost; None leaves the estimate to the transport."""
    envelope: str = ""
    cause: str | None = None
    keep_content: bool = True
    """Whether input and output are stored, and not only their digests."""
    deadline_s: float | None = None
    remind_every_s: float | None = None
    idempotency_key: str | None = None


def prepare(
    request: InvocationRequest,
    registration: Registration,
    validator: ContractValidator,
    transport: object,
    envelope: str,
) -> InvocationRequest:
    """Check a request against a registration and return it complete.

    `envelope` is where it is recorded unless it names another. A transport that estimates costs
    fills in the estimate and the attribution.
    """
    offer = registration.offer(request.capability)
    if request.semantics not in offer.semantics:
        raise ContractError(
            "unsupported_semantics",
            f"{registration.id} offers {request.capability} as {', '.join(offer.semantics)}, "
            f"not {request.semantics}",
        )
    _check(request)
    if request.semantics == "sync" and request.deadline_s is None:
        raise InputError("deadline_s: a synchronous invocation is bounded in time; give one")
    if request.semantics == "async" and not request.keep_content:
        raise InputError(
            "keep_content: an asynchronous invocation is answered by way of the store, so its "
            "content is kept; invoke it as sync or streaming"
        )
    data, problems = validator.validate(registration, offer, "input", request.value)
    if problems:
        raise ContractError("invalid_input", f"{request.capability}: {'; '.join(problems)}")
    attribution, estimate = request.attribution, request.estimate
    if _can_estimate(transport):
        attribution = transport.attributed(request.value, attribution)
        estimate = transport.estimate(request.value) if estimate is None else estimate
    return msgspec.structs.replace(
        request,
        data=data,
        attribution=msgspec.structs.replace(
            attribution, provider=registration.id, capability=request.capability
        ),
        estimate=estimate or (),
        envelope=request.envelope or envelope,
    )


def _can_estimate(transport: object) -> TypeGuard[EstimatesCost]:
    """Tell whether a transport estimates costs; checking the protocol on each call is slow."""
    kind = type(transport)
    if kind not in _estimates_cost:
        _estimates_cost[kind] = isinstance(transport, EstimatesCost)
    return _estimates_cost[kind]


def _check(request: InvocationRequest) -> None:
    """Raise for arguments that no invocation can have; the error names the argument."""
    for name, value, least in (
        ("deadline_s", request.deadline_s, 0.0),
        ("remind_every_s", request.remind_every_s, _MIN_INTERVAL_S),
    ):
        if value is not None and not least <= value <= _MAX_SECONDS:
            raise InputError(
                f"{name}: expected {least:g} to {_MAX_SECONDS:,} seconds or None, "
                f"not {brief(value)}"
            )
    key = request.idempotency_key
    if key is not None and not (0 < len(key) <= _MAX_KEY_LENGTH and key.isprintable()):
        raise InputError(
            f"idempotency_key: expected 1 to {_MAX_KEY_LENGTH} visible characters, not {brief(key)}"
        )
    attribution = request.attribution
    if not isinstance(attribution, Attribution):
        raise InputError(
            "attribution: expected modelpact.ledger.Attribution(worker=…, …), "
            f"not {brief(attribution)}"
        )
    for name in _ATTRIBUTION_FIELDS:
        if not getattr(attribution, name).isprintable():
            raise InputError(f"attribution.{name}: has characters that cannot be shown")
