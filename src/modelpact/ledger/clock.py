"""A time that never goes back and never stands still, whatever happens to the clock."""

import time
from collections.abc import Callable


def monotonic_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """Return a clock that follows another, but passes on when that one is put back."""
    ahead = clock() - time.monotonic_ns()

    def now() -> int:
        told, passed = clock(), time.monotonic_ns() + ahead
        return told if told > passed else passed

    return now
