"""The index: which of all models have what, as one bit a model and one number a limit.

Built with the snapshot from the very resolutions it summarises. A question is a few operations on
big integers; only the models that are shown are looked at.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.vocabulary.capability import CAPABILITIES, MinSupport

INDEXED: Final = tuple(
    one.id for one in CAPABILITIES.values() if one.kind == "flag" and one.group != "agent"
)
LIMITS: Final = tuple(one.id for one in CAPABILITIES.values() if one.kind == "limit")


_MOST_REMEMBERED: Final = 1_024


class IndexContent(msgspec.Struct, frozen=True):
    """What the snapshot keeps of the index. Places count through the providers in order."""

    counts: dict[str, int]
    native: dict[str, bytes]
    accepted: dict[str, bytes]
    limits: dict[str, list[int]]
    prices: list[int]
    retired: bytes
    constrained: dict[str, bytes] = {}


class Index:
    """Sets of models as bit sets: bit n is the model at place n."""

    __slots__ = ("_content", "_memo", "everything", "size")

    def __init__(self, content: IndexContent) -> None:
        self._content = content
        self.size = sum(content.counts.values())
        self.everything = (1 << self.size) - 1
        self._memo: dict[tuple[str, object], int] = {}

    def having(self, name: str, minimum: MinSupport) -> int:
        """Return the models whose support for a flag is at least `minimum`."""
        key = (name, minimum)
        found = self._memo.get(key)
        if found is None:
            content = self._content
            packed = (content.native if minimum == "native" else content.accepted).get(name, b"")
            found = self._memo[key] = int.from_bytes(packed, "little")
        return found

    def at_least(self, name: str, minimum: int) -> int:
        """Return the models whose limit is known to be at least `minimum`."""
        key = (name, minimum)
        found = self._memo.get(key)
        if found is None:
            values = self._content.limits[name]
            digits = "".join("1" if value >= minimum else "0" for value in reversed(values))
            found = int(digits or "0", 2) if minimum > 0 else self.everything
            if len(self._memo) < _MOST_REMEMBERED:
                self._memo[key] = found
        return found

    @property
    def retired(self) -> int:
        """The models that were deprecated or past their retirement when the snapshot was made."""
        return int.from_bytes(self._content.retired, "little")

    def constrained_by(self, name: str) -> int:
        """Return the models for which the constraint of that name holds."""
        return int.from_bytes(self._content.constrained.get(name, b""), "little")

    def of_provider(self, provider: str) -> int:
        """Return the models of one provider."""
        start = 0
        for name, count in self._content.counts.items():
            if name == provider:
                return ((1 << count) - 1) << start
            start += count
        return 0

    def places(self, models: int) -> Iterator[int]:
        """Yield the places of the bits that are set, in order."""
        digits = format(models, "b")[::-1]
        place = digits.find("1")
        while place >= 0:
            yield place
            place = digits.find("1", place + 1)

    def price(self, place: int) -> int:
        """Return the price of a model for sorting: input and output together, -1 if unknown."""
        return self._content.prices[place]

    def locate(self, places: Iterable[int]) -> Iterator[tuple[int, str, int]]:
        """Yield (place, provider, place within the provider) for places in rising order."""
        spans = iter(self._content.counts.items())
        provider, count = next(spans, ("", 0))
        start = 0
        for place in places:
            while place >= start + count:
                start += count
                provider, count = next(spans)
            yield place, provider, place - start


def pack(bits: Iterable[bool]) -> bytes:
    """Pack truth values into bytes, the first in the lowest bit."""
    digits = "".join("1" if bit else "0" for bit in bits)[::-1]
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "little")


def limit_value(claim: Claim) -> int:
    """Return a limit for the index: 0 where it is not known."""
    return claim.value if claim.known and isinstance(claim.value, int) else 0
