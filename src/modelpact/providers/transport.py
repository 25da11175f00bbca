"""Transports: they take invocations to a provider, in this process or over a network."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.vocabulary.errors import ModelpactError


class Partial(msgspec.Struct, frozen=True):
    """An item of a streamed response; numbers count from 1."""

    invocation_id: str
    number: int
    content: Any


class Accepted(msgspec.Struct, frozen=True):
    """A provider's acknowledgement that it will respond later."""

    invocation_id: str


class ContractViolation(ModelpactError):
    """A provider broke the contract; `violation` is the name it is flagged with."""

    def __init__(self, violation: str, detail: str) -> None:
        self.violation = violation
        self.detail = detail
        super().__init__(f"{violation}: {detail}")


class Unreachable(ModelpactError):
    """A provider was not reached, or refused an invocation; neither breaks the contract."""


class Transport(Protocol):
    """Takes invocations to a provider. It raises `ContractViolation` or `Unreachable`.

    If it is also `EstimatesCost`, the runtime asks for an estimate before it records an invocation.
    """

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        """Send a synchronous or asynchronous invocation."""

    def stream(self, registration: Registration, invocation: Invocation) -> AsyncIterator[Partial | Reply | Accepted]:
        """Send a streaming invocation; yield its partials, then the reply.

        A provider that yields `Accepted` instead will deliver the partials later.
        """

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Tell the provider that an invocation is cancelled."""


@runtime_checkable
class EstimatesCost(Protocol):
    """A transport that can estimate the cost of an invocation and complete its attribution."""

    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        """Return what an invocation with this input may cost."""

    def attributed(self, value: Any, attribution: Attribution, /) -> Attribution:
        """Return the caller's attribution, completed from the input."""


@runtime_checkable
class NotifiesProviders(Protocol):
    """A transport to providers that cannot read the registry by themselves."""

    async def notify(self, registration: Registration, event: Event) -> None:
        """Notify a provider of the event that deregistered it."""


class Transports:
    """The transports of a runtime: one for each provider, and a default."""

    def __init__(self, transports: Mapping[str, Transport], default: Transport | None, inbox: Transport) -> None:
        self._transports = dict(transports)
        self.default = default
        self._inbox = inbox

    def __setitem__(self, provider: str, transport: Transport) -> None:
        self._transports[provider] = transport

    def get(self, provider: str) -> Transport | None:
        """Return the transport that was set for a provider, or None."""
        return self._transports.get(provider)

    def find(self, registration: Registration) -> Transport:
        """Return the transport to a provider; a human without an address has the inbox."""
        transport = self._transports.get(registration.id)
        if transport is None and registration.waits_in_store:
            transport = self._inbox
        transport = transport or self.default
        if transport is None:
            raise Unreachable(f"no transport is configured for {registration.id}")
        return transport
