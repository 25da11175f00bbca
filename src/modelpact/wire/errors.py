"""What goes wrong on the wire: a request that is not taken, an answer that cannot be had."""

from typing import Literal

from modelpact.vocabulary.errors import ModelpactError

Phase = Literal["pool", "connect", "tls", "write", "first byte", "head", "body"]
"""How far an exchange had come when it failed."""


class WireError(ModelpactError):
    """An exchange that failed, and the phase in which it did."""

    def __init__(self, phase: Phase, message: str) -> None:
        self.phase = phase
        super().__init__(f"{message} (while: {phase})")


class WireTimeout(WireError):
    """An exchange that took longer than its timeouts allow."""


class ConnectionLost(WireError):
    """A connection that ended before the answer did."""


class PoolFull(WireError):
    """All connections to an origin are in use and as many callers wait as may."""

    def __init__(self, origin: str, waiting: int, retry_after: float) -> None:
        self.retry_after = retry_after
        """Seconds after which another attempt is worth making."""
        super().__init__(
            "pool",
            f"{origin}: every connection is in use and {waiting} callers wait already; "
            f"try again in {retry_after:g} s or allow more connections",
        )


class ClientLeft(ModelpactError):
    """The client of a request went away before its body was complete."""


class HttpError(ModelpactError):
    """A request that is answered with an error status; a handler may raise it as well."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"{status}: {reason}")
