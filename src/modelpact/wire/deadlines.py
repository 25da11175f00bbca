"""Deadlines of many connections on one timer: setting a deadline is an assignment, not a timer."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Literal, Protocol

from modelpact.wire.limits import ServerLimits

_LINGER_SECONDS: Final = 2.0
"""How long to wait for a client to close after its last response."""


class HasDeadlines(Protocol):
    """A connection with a deadline for reading and one for writing."""

    @property
    def read_deadline(self) -> float:
        """The time by which the peer must have sent something."""

    @property
    def write_deadline(self) -> float:
        """The time by which the peer must have read something."""

    def on_deadline(self, now: float) -> None:
        """Handle a deadline that has passed; set the next one, or `inf`."""


class DeadlineTimer:
    """Checks the deadlines of all its connections at a fixed interval while it has any."""

    __slots__ = ("_connections", "_interval", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, interval: float) -> None:
        self._loop = loop
        self._interval = interval
        self._connections: set[HasDeadlines] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: HasDeadlines) -> None:
        """Start checking a connection."""
        self._connections.add(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval, self._check)

    def discard(self, connection: HasDeadlines) -> None:
        """Stop checking a connection."""
        self._connections.discard(connection)
        if not self._connections and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._check)
        now = self._loop.time()
        late = [
            connection
            for connection in self._connections
            if connection.read_deadline <= now or connection.write_deadline <= now
        ]
        for connection in late:
            connection.on_deadline(now)


def check_interval(*timeouts: float) -> float:
    """Return the interval that keeps the shortest timeout accurate to about an eighth."""
    return max(0.02, min(1.0, min(timeouts, default=inf) / 8))


class ReadDeadlines:
    """The one thing that a client has to do next, and by when."""

    __slots__ = ("_limits", "_now", "awaited", "deadline")

    def __init__(self, limits: ServerLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self.deadline = inf
        self.awaited: Literal["", "request", "head", "body", "close"] = ""

    def clear(self) -> None:
        """Await nothing: it is the server's turn."""
        self.awaited = ""
        self.deadline = inf

    def await_first_request(self) -> None:
        """Give a new connection the time of a head to start its first request."""
        self.awaited = "request"
        self.deadline = self._now() + self._limits.head_seconds

    def await_request(self) -> None:
        """Let a connection be idle until its next request."""
        self.awaited = "request"
        self.deadline = self._now() + self._limits.idle_seconds

    def await_head(self) -> None:
        """Await the end of a head; more bytes of the same head do not extend the deadline."""
        if self.awaited != "head":
            self.awaited = "head"
            self.deadline = self._now() + self._limits.head_seconds

    def await_body(self, received: int) -> None:
        """Await a body. Each received byte extends the deadline, up to the full allowance."""
        latest = self._now() + self._limits.body_seconds
        if self.awaited == "body":
            self.deadline = min(latest, self.deadline + received / self._limits.body_rate)
        else:
            self.awaited = "body"
            self.deadline = latest

    def await_close(self) -> None:
        """Await that the client closes after its last response."""
        self.awaited = "close"
        self.deadline = self._now() + _LINGER_SECONDS
