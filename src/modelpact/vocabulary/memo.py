"""A bounded memo: results of computations, kept until there are too many of them."""

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DEFAULT_ENTRIES: Final = 2_000


class BoundedMemo(dict[K, V]):
    """A dictionary that is cleared when it is full and an entry is set.

    Clearing is cheaper than tracking the order of use, and correct because every entry can be
    computed again. Reading is as fast as in any dictionary, for hot paths.
    """

    __slots__ = ("_max_entries",)

    def __init__(self, max_entries: int = DEFAULT_ENTRIES) -> None:
        self._max_entries = max_entries

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._max_entries:
            self.clear()
        super().__setitem__(key, value)

    def get_or_compute(self, key: K, compute: Callable[[], V]) -> V:
        """Return the value of a key, computed and kept if it is not there."""
        try:
            return self[key]
        except KeyError:
            value = compute()
            self[key] = value
            return value
