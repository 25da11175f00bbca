"""One call of a capability, as its author sees it."""

import time
from typing import Any

import msgspec

from modelpact.ledger.costs import CostLine, Unit
from modelpact.providers.contract import Offer, Registration, expected_charge
from modelpact.vocabulary.errors import InputError


class Final(msgspec.Struct, frozen=True):
    """The last thing that a streaming capability yields: its whole output."""

    output: Any


class Call:
    """What is known of a call, and what it has cost so far."""

    def __init__(self, invocation_id: str, deadline_ms: int | None, semantics: str) -> None:
        self.invocation_id = invocation_id
        self.semantics = semantics
        self.deadline_ms = deadline_ms
        """When the runtime gives up, in milliseconds since 1970."""
        self.estimated = False
        self._began = time.monotonic_ns()
        self._spent: dict[tuple[Unit, str], int] = {}

    @property
    def seconds_left(self) -> float | None:
        """How long the runtime will still wait."""
        if self.deadline_ms is None:
            return None
        return max(0.0, self.deadline_ms / 1_000 - time.time())

    def spend(self, unit: Unit, amount: int, currency: str = "") -> None:
        """Report so much more of a unit: tokens, nanoseconds, pieces, nano-units of money."""
        if amount < 0:
            raise InputError("amount: a cost is never below zero")
        key = (unit, currency)
        self._spent[key] = self._spent.get(key, 0) + amount

    def estimate(self) -> None:
        """Say that the cost is an estimate, to be corrected later."""
        self.estimated = True

    def cost(self, registration: Registration, offer: Offer) -> list[CostLine]:
        """Return the cost lines: what was reported, else time and pieces; money by the rates."""
        lines = [CostLine(unit, amount, money) for (unit, money), amount in self._spent.items()]
        if not lines and "time" in registration.units:
            lines.append(CostLine("time", time.monotonic_ns() - self._began))
        if not lines and "discrete" in registration.units:
            lines.append(CostLine("discrete", 1))
        if "currency" in registration.units and all(one.unit != "currency" for one in lines):
            amount = expected_charge(offer, tuple(lines))
            lines.append(CostLine("currency", amount, registration.currency))
        return lines
