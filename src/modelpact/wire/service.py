"""What the connections of one server share."""

import asyncio
from typing import Protocol

from modelpact.wire.deadlines import DeadlineTimer
from modelpact.wire.exchange import Handler
from modelpact.wire.limits import ServerLimits


class OpenConnection(Protocol):
    """An open connection, as the server sees it."""

    def drain(self) -> None:
        """Close now if nothing is under way, else after the response."""

    def abort(self) -> None:
        """Drop the connection at once."""


class Service:
    """What the connections of one server share."""

    def __init__(
        self,
        handler: Handler,
        limits: ServerLimits,
        loop: asyncio.AbstractEventLoop,
        watch: DeadlineTimer,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = loop
        self.watch = watch
        self.connections: set[OpenConnection] = set()
        self.leaving: set[asyncio.Task[None]] = set()
        """Handlers whose clients have left, until they have cleaned up."""
        self.draining = False
        self.emptied = asyncio.Event()

    @property
    def full(self) -> bool:
        """Tell whether a new connection is to be turned away."""
        return self.draining or len(self.connections) >= self.limits.connections

    @property
    def overrun(self) -> bool:
        """Tell whether so many are being turned away that there is no time to tell them."""
        return len(self.connections) > self.limits.connections * 9 // 8 + 8
