"""A progress bar on standard error, where that is a terminal."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TextIO, TypeVar

T = TypeVar("T")

_EVERY_S: Final = 0.1
_ASK_EVERY: Final = 2_000
_COLUMNS: Final = 30


class Progress:
    """Shows how far a long work has come; writes nothing where nobody watches."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._next = time.monotonic() + _EVERY_S
        self._drawn = False

    def at(self, done: int) -> None:
        """Say how far it has come."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _EVERY_S
        self._drawn = True
        share = min(1.0, done / self.total) if self.total else 0.0
        full = round(share * _COLUMNS)
        bar = "█" * full + "░" * (_COLUMNS - full)
        self._stream.write(f"\r{self.label} {bar} {share:4.0%}")
        self._stream.flush()

    def close(self) -> None:
        """Take the bar away."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def over(self, items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """Pass items on, and show how far their sizes add up."""
        done = 0
        try:
            for count, item in enumerate(items, 1):
                done += size(item)
                if count % _ASK_EVERY == 0:
                    self.at(done)
                yield item
        finally:
            self.close()
