"""Deadlines of many connections by one timer: setting one costs an assignment, not a timer."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Literal, Protocol

from modelpact.wire.limits import ServerLimits


class HasDeadline(Protocol):
    """Something with a time by which it must have moved on."""

    @property
    def read_by(self) -> float:
        """By when something must have come."""

    @property
    def write_by(self) -> float:
        """By when something must have been taken."""

    def overdue(self, now: float) -> None:
        """Act on a deadline that has passed; set the next, or `inf`."""


class DeadlineTimer:
    """Looks at everything watched at a fixed pace, for as long as there is anything."""

    __slots__ = ("_every", "_loop", "_timer", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop, every: float) -> None:
        self._loop = loop
        self._every = every
        self._watched: set[HasDeadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: HasDeadline) -> None:
        """Watch something from now on."""
        self._watched.add(one)
        if self._timer is None:
            self._timer = self._loop.call_later(self._every, self._look)

    def discard(self, one: HasDeadline) -> None:
        """Watch it no longer."""
        self._watched.discard(one)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._every, self._look)
        now = self._loop.time()
        late = [one for one in self._watched if one.read_by <= now or one.write_by <= now]
        for one in late:
            one.overdue(now)


def pace(*seconds: float) -> float:
    """Return how often to look so that timeouts are kept to within about an eighth."""
    return max(0.02, min(1.0, min(seconds, default=inf) / 8))


_LINGER_SECONDS: Final = 2.0


class ReadDeadlines:
    """The one thing a client owes at a time, and by when."""

    __slots__ = ("_limits", "_now", "by", "owed")

    def __init__(self, limits: ServerLimits, now: Callable[[], float]) -> None:
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
