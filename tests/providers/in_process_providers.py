"""Providers in this process, for tests that need no network."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from modelpact.ledger import CostLine, Ledger
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Accepted, Partial
from tests.providers.support import ANY, ECHO

ECHOING = Registration("echo", "tool", (Offer(ECHO, ANY, ANY, ("sync", "async", "streaming")),), ("discrete",))
COST = (CostLine("discrete", 1),)


class Echo:
    """Responds with the input, in as many partials as the input says."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.cancelled: list[str] = []
        self.released = asyncio.Event()
        self.released.set()

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        self.received.append(invocation.id)
        await self.released.wait()
        return Reply(invocation.id, invocation.input, cost=COST)

    async def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        self.received.append(invocation.id)
        for number in range(1, invocation.input.get("pieces", 2) + 1):
            yield Partial(invocation.id, number, {"piece": number, **invocation.input})
        await self.released.wait()
        yield Reply(invocation.id, invocation.input, cost=COST)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        self.cancelled.append(invocation.id)


def echoing(ledger: Ledger, carrier: Any = None, **how: Any) -> Runtime:
    """Return a runtime with the echo provider registered."""
    runtime = Runtime(ledger, transports={"echo": carrier or Echo()}, **how)
    runtime.registry.register(ECHOING)
    return runtime
