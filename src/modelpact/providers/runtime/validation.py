"""Validation against the contract: inputs and outputs by schema, costs by registration."""

from typing import Any, Final, Literal

from modelpact.emulation.validation import Schema
from modelpact.ledger.canonical import NotCanonical
from modelpact.ledger.costs import check_lines
from modelpact.providers.contract import (
    Invocation,
    Offer,
    Registration,
    Reply,
    cost_violation,
    is_registered,
)
from modelpact.providers.runtime.records import InvocationOutcome, encode_content
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.memo import BoundedMemo

_MAX_SCHEMAS: Final = 1_024


class ContractValidator:
    """Checks values and replies against registrations, and keeps the compiled schemas."""

    def __init__(self) -> None:
        self._schemas: BoundedMemo[tuple[str, str, str], tuple[dict[str, Any], Schema]]
        self._schemas = BoundedMemo(_MAX_SCHEMAS)

    def validate(
        self,
        registration: Registration,
        offer: Offer,
        direction: Literal["input", "output"],
        value: Any,
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

    def judge_reply(
        self, registration: Registration, invocation: Invocation, reply: Reply
    ) -> InvocationOutcome:
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
