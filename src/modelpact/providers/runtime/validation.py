"""Validation against the contract: requests and replies, by the registration of their provider."""

from typing import Any, Final, Literal, TypeGuard

import msgspec

from modelpact.emulation.validation import Schema
from modelpact.ledger.canonical import NotCanonical
from modelpact.ledger.costs import Attribution, check_lines
from modelpact.providers.contract import (
    ContractError,
    Invocation,
    Offer,
    Registration,
    Reply,
    cost_violation,
    is_registered,
)
from modelpact.providers.runtime.records import InvocationOutcome, InvocationRequest, encode_content
from modelpact.providers.transport import EstimatesCost
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.memo import BoundedMemo

_MAX_SCHEMAS: Final = 1_024
_ATTRIBUTION_FIELDS: Final = Attribution.__struct_fields__
_MIN_INTERVAL_S: Final = 0.001
_MAX_SECONDS: Final = 100 * 365 * 86_400
_MAX_KEY_LENGTH: Final = 200
_estimates_cost: Final[dict[type, bool]] = {}


class ContractValidator:
    """Checks values and replies against registrations, and keeps the compiled schemas."""

    def __init__(self) -> None:
        self._schemas: BoundedMemo[tuple[str, str, str], tuple[dict[str, Any], Schema]]
        self._schemas = BoundedMemo(_MAX_SCHEMAS)

    def prepare(
        self, request: InvocationRequest, registration: Registration, transport: object, envelope: str
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
        data, problems = self.validate(registration, offer, "input", request.value)
        if problems:
            raise ContractError("invalid_input", f"{request.capability}: {'; '.join(problems)}")
        attribution, estimate = request.attribution, request.estimate
        if _can_estimate(transport):
            attribution = transport.attributed(request.value, attribution)
            estimate = transport.estimate(request.value) if estimate is None else estimate
        return msgspec.structs.replace(
            request,
            data=data,
            attribution=msgspec.structs.replace(attribution, provider=registration.id, capability=request.capability),
            estimate=estimate or (),
            envelope=request.envelope or envelope,
        )

    def validate(
        self, registration: Registration, offer: Offer, direction: Literal["input", "output"], value: Any
    ) -> tuple[bytes, list[str]]:
        """Return a value in JSON, and what is wrong with it, each problem with its place."""
        document = offer.input if direction == "input" else offer.output
        key = (registration.id, offer.kind, direction)
        known = self._schemas.get(key)
        if known is None or (known[0] is not document and known[0] != document):
            known = (document, Schema(document, f"{offer.kind} {direction}"))
            self._schemas[key] = known
        try:
            data = encode_content(value)
        except NotCanonical as error:
            return b"", [str(error)]
        return data, known[1].findings(value)

    def judge_reply(self, registration: Registration, invocation: Invocation, reply: Reply) -> InvocationOutcome:
        """Return the outcome that a reply leads to, with the violation that it commits, if any."""
        offer = registration.offer(invocation.capability)
        violation, detail = "", ""
        try:
            lines = check_lines(reply.cost)
            problem = cost_violation(registration, offer, lines)
        except InputError as invalid:
            lines, problem = (), str(invalid)
        if problem:
            violation, detail = "misstated_cost", problem
        error, data = reply.error, b""
        if not error:
            data, problems = self.validate(registration, offer, "output", reply.output)
            if problems:
                violation, detail = "invalid_response", "; ".join(problems)
                error = f"invalid response: {detail}"
        return InvocationOutcome(
            "failed" if error else "completed",
            error,
            # A misstated cost is an estimate at best, and counts in registered units only.
            tuple(line for line in lines if is_registered(registration, line)),
            estimate=reply.estimate or bool(problem),
            data=data,
            output=None if error else reply.output,
            answered=True,
            violation=violation,
            detail=detail,
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
            raise InputError(f"{name}: expected {least:g} to {_MAX_SECONDS:,} seconds or None, not {brief(value)}")
    key = request.idempotency_key
    if key is not None and not (0 < len(key) <= _MAX_KEY_LENGTH and key.isprintable()):
        raise InputError(f"idempotency_key: expected 1 to {_MAX_KEY_LENGTH} visible characters, not {brief(key)}")
    attribution = request.attribution
    if not isinstance(attribution, Attribution):
        raise InputError(f"attribution: expected modelpact.ledger.Attribution(worker=…, …), not {brief(attribution)}")
    for name in _ATTRIBUTION_FIELDS:
        if not getattr(attribution, name).isprintable():
            raise InputError(f"attribution.{name}: has characters that cannot be shown")
