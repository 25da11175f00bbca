"""A clock that never goes back."""

import time
from collections.abc import Callable


def monotonic_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """Return a clock that follows `clock` but keeps advancing if that one is set back."""
    offset = clock() - time.monotonic_ns()

    def now() -> int:
        reading, floor = clock(), time.monotonic_ns() + offset
        return reading if reading > floor else floor

    return now
