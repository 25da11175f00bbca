"""Errors of the HTTP client and server."""

from typing import Literal

from modelpact.vocabulary.errors import ModelpactError

Phase = Literal["pool", "connect", "tls", "write", "first byte", "head", "body"]
"""The phase of an exchange in which it failed."""


class WireError(ModelpactError):
    """A client's exchange failed; `phase` says where."""

    def __init__(self, phase: Phase, message: str) -> None:
        self.phase = phase
        super().__init__(f"{message} (while: {phase})")


class WireTimeout(WireError):
    """An exchange exceeded one of its timeouts."""


class ConnectionLost(WireError):
    """The connection closed before the response was complete."""


class PoolFull(WireError):
    """All connections to an origin are in use and the queue of waiting callers is full."""

    def __init__(self, origin: str, waiting: int, retry_after: float) -> None:
        self.retry_after = retry_after
        """Seconds after which to try again."""
        super().__init__(
            "pool",
            f"{origin}: every connection is in use and {waiting} callers already wait; "
            f"try again in {retry_after:g} s or allow more connections",
        )


class ClientDisconnected(ModelpactError):
    """A server's client disconnected before the body of its request was complete."""


class HttpError(ModelpactError):
    """A request that the server answers with an error status. Handlers may raise it."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"{status}: {reason}")
