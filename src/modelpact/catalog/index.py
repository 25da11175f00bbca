"""The index: the capabilities of all models as bit sets, with one bit for each model.

The snapshot is built with an index of its resolutions. A search is a few operations on large
integers; only the models that it returns are resolved.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.vocabulary.capability import CAPABILITIES, MinSupport
from modelpact.vocabulary.memo import BoundedMemo

INDEXED: Final = tuple(
    entry.id for entry in CAPABILITIES.values() if entry.kind == "flag" and entry.group != "agent"
)
LIMITS: Final = tuple(entry.id for entry in CAPABILITIES.values() if entry.kind == "limit")
_MEMO_ENTRIES: Final = 1_024


class IndexContent(msgspec.Struct, frozen=True):
    """The index as the snapshot stores it. Positions count the models of all providers in order."""

    counts: dict[str, int]
    native: dict[str, bytes]
    accepted: dict[str, bytes]
    limits: dict[str, list[int]]
    prices: list[int]
    retired: bytes
    constrained: dict[str, bytes] = {}


class Index:
    """Sets of models as bit sets: bit n is the model at position n."""

    __slots__ = ("_content", "_memo", "everything", "size")

    def __init__(self, content: IndexContent) -> None:
        self._content = content
        self.size = sum(content.counts.values())
        self.everything = (1 << self.size) - 1
        self._memo: BoundedMemo[tuple[str, object], int] = BoundedMemo(_MEMO_ENTRIES)

    def having(self, name: str, minimum: MinSupport) -> int:
        """Return the models whose support for a flag is at least `minimum`."""
        key = (name, minimum)
        models = self._memo.get(key)
        if models is None:
            content = self._content
            packed = (content.native if minimum == "native" else content.accepted).get(name, b"")
            models = self._memo[key] = int.from_bytes(packed, "little")
        return models

    def at_least(self, name: str, minimum: int) -> int:
        """Return the models whose limit is known to be at least `minimum`."""
        key = (name, minimum)
        models = self._memo.get(key)
        if models is None:
            values = self._content.limits[name]
            digits = "".join("1" if value >= minimum else "0" for value in reversed(values))
            models = int(digits or "0", 2) if minimum > 0 else self.everything
            self._memo[key] = models
        return models

    @property
    def retired(self) -> int:
        """The models that were deprecated or retired when the snapshot was built."""
        return int.from_bytes(self._content.retired, "little")

    def constrained_by(self, name: str) -> int:
        """Return the models that a constraint applies to."""
        return int.from_bytes(self._content.constrained.get(name, b""), "little")

    def of_provider(self, provider: str) -> int:
        """Return the models of one provider."""
        start = 0
        for name, count in self._content.counts.items():
            if name == provider:
                return ((1 << count) - 1) << start
            start += count
        return 0

    def positions(self, models: int) -> Iterator[int]:
        """Yield the positions of the bits that are set, in order."""
        digits = format(models, "b")[::-1]
        position = digits.find("1")
        while position >= 0:
            yield position
            position = digits.find("1", position + 1)

    def price(self, position: int) -> int:
        """Return the sum of input and output price of a model, or -1 if it is unknown."""
        return self._content.prices[position]

    def locate(self, positions: Iterable[int]) -> Iterator[tuple[int, str, int]]:
        """Yield (position, provider, index within the provider) for ascending positions."""
        spans = iter(self._content.counts.items())
        provider, count = next(spans, ("", 0))
        start = 0
        for position in positions:
            while position >= start + count:
                start += count
                provider, count = next(spans)
            yield position, provider, position - start


def pack(bits: Iterable[bool]) -> bytes:
    """Pack booleans into bytes, the first one in the lowest bit."""
    digits = "".join("1" if bit else "0" for bit in bits)[::-1]
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "little")


def limit_value(claim: Claim) -> int:
    """Return a limit for the index: 0 if it is not known."""
    return claim.value if claim.known and isinstance(claim.value, int) else 0
