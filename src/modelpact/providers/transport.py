"""Carriers: what takes invocations to a provider, in this process or over a wire."""

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.vocabulary.errors import ModelpactError


class Partial(msgspec.Struct, frozen=True):
    """A piece of a streamed answer; numbers count from 1."""

    invocation_id: str
    number: int
    content: Any


class Accepted(msgspec.Struct, frozen=True):
    """A provider's acknowledgement that it will answer later."""

    invocation_id: str


class ContractViolation(ModelpactError):
    """A provider broke the contract; `violation` is what it is flagged with."""

    def __init__(self, violation: str, detail: str) -> None:
        self.violation = violation
        self.detail = detail
        super().__init__(f"{violation}: {detail}")


class Unreachable(ModelpactError):
    """A provider was not reached, or refused; nothing in that breaks the contract."""


class Transport(Protocol):
    """What takes invocations to a provider. It raises `ContractViolation` or `Unreachable`.

    One that `EstimatesCost` is asked before an invocation is recorded.
    """

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        """Take a synchronous or asynchronous invocation there."""

    def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        """Take a streaming invocation there; the last thing that comes is the reply.

        `Accepted` instead of it says that the pieces will come by themselves.
        """

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Tell the provider that nobody waits for this any more."""


@runtime_checkable
class EstimatesCost(Protocol):
    """A carrier that knows beforehand what a call may cost, and more of whom it is for."""

    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        """Return what a call with this input may cost."""

    def attributed(self, value: Any, who: Attribution) -> Attribution:
        """Return who a call with this input is for, given what the caller said of that."""


@runtime_checkable
class NotifiesProviders(Protocol):
    """A carrier to providers that do not know by themselves what the registry says of them."""

    async def notify(self, registration: Registration, event: Event) -> None:
        """Tell a provider of the event that deregistered it."""
