"""Limits of sizes and times, and the timer that enforces the deadlines of connections."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Literal, Protocol

import msgspec

_LINGER_SECONDS: Final = 2.0
"""How long to wait for a client to close after its last response."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server accepts from its clients: sizes in bytes, times in seconds."""

    connections: int = 10_000
    """Open connections; further ones get a 503 and are closed."""
    target: int = 8_192
    """Length of a request target; a longer one gets a 414."""
    head: int = 65_536
    """Total length of header names and values; more gets a 431."""
    headers: int = 128
    """Number of headers of a request; more gets a 431."""
    body: int = 32 * 1024 * 1024
    """Length of a body; a longer one gets a 413."""
    head_seconds: float = 10.0
    """Time for a head, from its first byte or from the connection; also for a TLS handshake."""
    body_seconds: float = 30.0
    """Time without progress that a body may take."""
    body_rate: float = 256.0
    """Average bytes per second that a body must reach once `body_seconds` are used up."""
    idle_seconds: float = 75.0
    """Time that a connection stays open between requests."""
    write_seconds: float = 60.0
    """Time that a client may leave a response unread."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts of an exchange in seconds, accurate to about 0.1 s."""

    connect: float = 10.0
    """Time to connect, including TLS; also the wait for a free connection of the pool."""
    write: float = 60.0
    """Time that the server may leave the request unread."""
    first_byte: float = 600.0
    """Time from the request to the head of the response."""
    between_bytes: float = 300.0
    """Time without progress that the body of the response may take."""
    total: float = inf
    """Time for the whole exchange, from the call to the last byte."""


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client holds open and accepts from servers: sizes in bytes, times in seconds."""

    connections: int = 256
    """Open connections to one origin."""
    waiting: int = 1_024
    """Callers that may wait for a connection to one origin; further ones get `PoolFull`."""
    idle_seconds: float = 60.0
    """Time that an unused connection stays open."""
    head: int = 65_536
    """Total length of header names and values of a response."""
    headers: int = 256
    """Number of headers of a response."""
    body: int = 64 * 1024 * 1024
    """Default limit of `ClientResponse.read`."""


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
    """Checks the deadlines of all its connections at a fixed interval while it has any.

    To set a deadline, a connection assigns an attribute; there is no timer for each of them.
    """

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
