"""Deadlines of many connections by one timer: setting one costs an assignment, not a timer."""

import asyncio
from math import inf
from typing import Protocol


class Watched(Protocol):
    """Something with a time by which it must have moved on."""

    @property
    def read_by(self) -> float:
        """By when something must have come."""

    @property
    def write_by(self) -> float:
        """By when something must have been taken."""

    def overdue(self, now: float) -> None:
        """Act on a deadline that has passed; set the next, or `inf`."""


class Watch:
    """Looks at everything watched at a fixed pace, for as long as there is anything."""

    __slots__ = ("_every", "_loop", "_timer", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop, every: float) -> None:
        self._loop = loop
        self._every = every
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Watched) -> None:
        """Watch something from now on."""
        self._watched.add(one)
        if self._timer is None:
            self._timer = self._loop.call_later(self._every, self._look)

    def discard(self, one: Watched) -> None:
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
