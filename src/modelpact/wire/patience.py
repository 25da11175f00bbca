"""How long a server waits for what its client owes: a head, a body, or the next request."""

from collections.abc import Callable
from math import inf
from typing import Final, Literal

from modelpact.wire.limits import Limits

_LINGER_SECONDS: Final = 2.0


class Patience:
    """The one thing a client owes at a time, and by when."""

    __slots__ = ("_limits", "_now", "by", "owed")

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self.by = inf
        self.owed: Literal["", "request", "head", "body", "end"] = ""

    def nothing(self) -> None:
        """The client owes nothing: it waits for the server."""
        self.owed = ""
        self.by = inf

    def first_request(self) -> None:
        """A new connection must soon say what it wants."""
        self.owed = "request"
        self.by = self._now() + self._limits.head_seconds

    def request(self) -> None:
        """A connection that has been served may be idle for a while."""
        self.owed = "request"
        self.by = self._now() + self._limits.idle_seconds

    def head(self) -> None:
        """A head that has begun has its time; further bytes of it add nothing."""
        if self.owed != "head":
            self.owed = "head"
            self.by = self._now() + self._limits.head_seconds

    def body(self, arrived: int) -> None:
        """A body has an allowance, and every byte adds to what is left of it, up to the whole."""
        most = self._now() + self._limits.body_seconds
        if self.owed == "body":
            self.by = min(most, self.by + arrived / self._limits.body_rate)
        else:
            self.owed = "body"
            self.by = most

    def end(self) -> None:
        """A client that was sent its last response should close."""
        self.owed = "end"
        self.by = self._now() + _LINGER_SECONDS
