"""Judging: inputs and answers against the schemas, costs against the registration."""

from typing import Any, Final, Literal

from modelpact.emulation.validation import Schema
from modelpact.ledger.canonical import NotCanonical
from modelpact.ledger.costs import CostRecord, check_lines
from modelpact.providers.contract import (
    Invocation,
    Offer,
    Registration,
    Reply,
    cost_violation,
    is_registered,
)
from modelpact.providers.runtime.settlement import InvocationOutcome
from modelpact.providers.runtime.store import encoded
from modelpact.vocabulary.errors import InputError

_MOST_KEPT: Final = 1_024


class ContractValidator:
    """Keeps compiled schemas, and says what is wrong with values and answers."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, str, str], tuple[dict[str, Any], Schema]] = {}

    def read(
        self, registration: Registration, offer: Offer, way: Literal["input", "output"], value: Any
    ) -> tuple[bytes, list[str]]:
        """Return an input or an output in JSON, and what is wrong with it, each with its place."""
        document = offer.input if way == "input" else offer.output
        key = (registration.id, offer.kind, way)
        known = self._schemas.get(key)
        if known is None or (known[0] is not document and known[0] != document):
            if len(self._schemas) >= _MOST_KEPT:
                self._schemas.clear()
            known = (document, Schema(document, f"{offer.kind} {way}"))
            self._schemas[key] = known
        try:
            data = encoded(value)
        except NotCanonical as error:
            return b"", [str(error)]
        return data, known[1].findings(value)

    def outcome(
        self, registration: Registration, invocation: Invocation, reply: Reply
    ) -> InvocationOutcome:
        """Judge an answer: its output, and what it says to have cost."""
        offer = registration.offer(invocation.capability)
        violation, detail = "", ""
        try:
            lines = check_lines(reply.cost)
            problem = cost_violation(registration, offer, lines)
        except InputError as told:
            lines, problem = (), str(told)
        if problem:
            violation, detail = "misstated_cost", problem
        error, data = reply.error, b""
        if not error:
            data, wrong = self.read(registration, offer, "output", reply.output)
            if wrong:
                violation, detail = "invalid_response", "; ".join(wrong)
                error = f"invalid response: {detail}"
        # What was misstated is no more than an estimate, and counts in registered units only.
        known = tuple(line for line in lines if is_registered(registration, line))
        estimate = reply.estimate or bool(problem)
        record = CostRecord(known, invocation.attribution, estimate) if known else None
        return InvocationOutcome(
            None if error else reply.output,
            error,
            record,
            violation,
            detail,
            answered=True,
            data=data,
        )
