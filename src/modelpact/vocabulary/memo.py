"""A bounded memo: results of computations, kept until there are too many of them."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DEFAULT_ENTRIES: Final = 2_000


class BoundedMemo(Generic[K, V]):
    """A dictionary that is cleared when it is full.

    Clearing is cheaper than tracking the order of use, and correct because every entry can be
    computed again.
    """

    __slots__ = ("_entries", "_max_entries", "get")

    def __init__(self, max_entries: int = DEFAULT_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: dict[K, V] = {}
        self.get = self._entries.get
        """Return the value of a key, or None: the dictionary's own method, for hot paths."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __setitem__(self, key: K, value: V) -> None:
        if len(self._entries) >= self._max_entries:
            self._entries.clear()
        self._entries[key] = value

    def get_or_compute(self, key: K, compute: Callable[[], V]) -> V:
        """Return the value of a key, computed and kept if it is not there."""
        try:
            return self._entries[key]
        except KeyError:
            value = compute()
            self[key] = value
            return value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
