"""Limits of sizes and times: of a server, of a client's exchanges and of its pool."""

from math import inf

import msgspec


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
