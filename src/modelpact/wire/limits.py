"""What a server bears from its clients, and a client from its servers."""

from math import inf

import msgspec


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server bears: sizes in bytes, times in seconds."""

    connections: int = 10_000
    """More are answered with 503 and closed."""
    target: int = 8_192
    """The length of a request target; a longer one is answered with 414."""
    head: int = 65_536
    """The names and values of all headers together; more is answered with 431."""
    headers: int = 128
    """How many headers a request may have; more is answered with 431."""
    body: int = 32 * 1024 * 1024
    """The length of a body; a longer one is answered with 413."""
    head_seconds: float = 10.0
    """From the first byte of a head, or from the connection, to its end; also a TLS handshake."""
    body_seconds: float = 30.0
    """How long a body may stand still."""
    body_rate: float = 256.0
    """Bytes a second that a body must make on average once `body_seconds` are used up."""
    idle_seconds: float = 75.0
    """How long a connection stays open between requests."""
    write_seconds: float = 60.0
    """How long a client may leave what was sent to it unread."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long each part of an exchange may take, in seconds; kept to within a tenth."""

    connect: float = 10.0
    """Until a connection is there, TLS included; also the wait for a free one of the pool."""
    write: float = 60.0
    """How long the server may leave the request unread."""
    first_byte: float = 600.0
    """From the request to the head of the answer."""
    between_bytes: float = 300.0
    """How long the body of the answer may stand still."""
    total: float = inf
    """All of it, from the call to the last byte."""


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client holds and bears: sizes in bytes, times in seconds."""

    connections: int = 256
    """Open connections to one origin."""
    waiting: int = 1_024
    """Callers that may wait for a connection to one origin; more get `PoolFull`."""
    idle_seconds: float = 60.0
    """How long an unused connection is kept."""
    head: int = 65_536
    """The names and values of all headers of an answer together."""
    headers: int = 256
    """How many headers an answer may have."""
    body: int = 64 * 1024 * 1024
    """What `Answer.read` takes unless told otherwise."""
