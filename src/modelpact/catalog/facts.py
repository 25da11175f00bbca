"""Facts: what public catalogs say of a provider's model, each lineage's vote kept.

A record holds the votes in a compact form: flags as two bit masks (said yes, said no), everything
else by number. Where lineages disagree, the more cautious value wins and all votes stay in sight.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Vote
from modelpact.catalog.statement import NATIVE, UNSUPPORTED, Stated, compile_statement
from modelpact.vocabulary.capability import CAPABILITIES

FLAGS: Final = tuple(
    one.id
    for one in CAPABILITIES.values()
    if one.kind == "flag" and one.formula is None and one.group != "agent"
)
"""The flags that lineages vote on; a flag's place is its bit."""

OTHERS: Final = tuple(
    one.id
    for one in CAPABILITIES.values()
    if one.kind != "flag" and (one.formula is None or one.kind == "limit")
)
_BITS: Final = {name: 1 << place for place, name in enumerate(FLAGS)}
_NUMBERS: Final = {name: number for number, name in enumerate(OTHERS)}
_EFFORT_NUMBER: Final = len(OTHERS)
"""Where the accepted levels of `reasoning-effort` are kept, beside the limits and choices."""


_NOT_ASKED: Final = frozenset(
    {"embedding-input", "speech-input", "image-gen-input", "image-output", "pdf-output"}
    | {"speech-output"}
)
"""Modalities that no lineage has a word for: a list of theirs says nothing of these."""


_PROMISE: Final = ("unsupported", "unknown", "restricted", "emulated", "native")
"""From what promises least to what promises most."""


class Lineage(msgspec.Struct, frozen=True):
    """One source of public facts: a version of it, on a date."""

    name: str
    version: str
    date: str
    licence: str
    url: str


class Price(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Prices in pico-dollars a token: a dollar per million tokens is 1,000,000."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    tiers: tuple[tuple[int, "Price"], ...] = ()
    """Above so many prompt tokens, these prices hold instead."""


class VoteRow(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """What one lineage says of one model."""

    lineage: int
    yes: int = 0
    no: int = 0
    others: tuple[tuple[int, int | str | tuple[str, ...]], ...] = ()
    price: Price | None = None
    more: dict[str, Stated] = {}
    """What is neither a plain yes or no nor in the tables above."""

    def stated(self, name: str) -> Stated | None:
        """Return what this lineage says of a capability, or None where it is silent."""
        if name in self.more:
            return self.more[name]
        bit = _BITS.get(name)
        if bit is None:
            number = _NUMBERS.get(name)
            value = None if number is None else self._other(number)
            return None if value is None else Stated("native", value)
        if self.yes & bit:
            if name == "reasoning-effort":
                levels = self._other(_EFFORT_NUMBER)
                if levels:
                    return Stated("native", levels)
            return NATIVE
        return UNSUPPORTED if self.no & bit else None

    def _other(self, number: int) -> int | str | tuple[str, ...] | None:
        for known, value in self.others:
            if known == number:
                return value
        return None


class ModelFacts(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """Everything the lineages say of one provider's model."""

    votes: tuple[VoteRow, ...]
    base: str = ""
    released: str = ""
    retires: str = ""
    status: str = ""

    def stated(self, name: str) -> Stated | None:
        """Return the most cautious of what the lineages say, or None where all are silent."""
        bit = _BITS.get(name)
        if bit is not None and name != "reasoning-effort":
            yes = no = 0
            for row in self.votes:
                if row.more and name in row.more:
                    break
                yes |= row.yes
                no |= row.no
            else:
                if no & bit:
                    return UNSUPPORTED
                return NATIVE if yes & bit else None
        said = [one for row in self.votes if (one := row.stated(name)) is not None]
        return most_cautious(said) if said else None

    def votes_on(self, name: str, lineages: Sequence[Lineage]) -> tuple[Vote, ...]:
        """Return each lineage's vote on a capability."""
        return tuple(
            Vote(lineages[row.lineage].name, lineages[row.lineage].date, said.support, said.value)
            for row in self.votes
            if (said := row.stated(name)) is not None
        )

    def pattern(self, name: str) -> tuple[int, ...] | None:
        """Return who said yes and who no to a flag, as numbers; None where more was said."""
        bit = _BITS.get(name)
        if bit is None or name == "reasoning-effort":
            return None
        said: list[int] = []
        for row in self.votes:
            if row.more and name in row.more:
                return None
            if row.yes & bit:
                said.append(2 * row.lineage + 1)
            elif row.no & bit:
                said.append(2 * row.lineage)
        return tuple(said)

    def spoken_of(self) -> Iterator[str]:
        """Yield every capability that any lineage speaks of."""
        mask = 0
        numbers: set[int] = set()
        for row in self.votes:
            mask |= row.yes | row.no
            numbers.update(number for number, _ in row.others)
            yield from row.more
        yield from (name for name, bit in _BITS.items() if mask & bit)
        yield from (name for name, number in _NUMBERS.items() if number in numbers)

    @property
    def price(self) -> Price | None:
        """The most cautious, that is the highest, of the prices that the lineages give."""
        offers = [row.price for row in self.votes if row.price is not None]
        return dearest(offers) if offers else None


def vote_row(lineage: int, caps: Mapping[str, Any], price: Price | None) -> VoteRow:
    """Pack one lineage's statement."""
    yes = no = 0
    others: dict[int, Any] = {}
    more: dict[str, Stated] = {}
    for name, stated in compile_statement(caps).items():
        bit = _BITS.get(name)
        if stated.support == "unknown":
            continue
        if bit is not None and stated.support == "unsupported":
            no |= 0 if name in _NOT_ASKED else bit
        elif bit is not None and stated.support == "native":
            yes |= bit
            if stated.value is not None:
                others[_EFFORT_NUMBER] = stated.value
        elif name in _NUMBERS:
            others[_NUMBERS[name]] = stated.value
        else:
            more[name] = stated
    return VoteRow(lineage, yes, no, tuple(sorted(others.items())), price, more)


def most_cautious(said: Sequence[Stated]) -> Stated:
    """Return the value that promises least: a no before a yes, the smaller limit."""
    first = said[0]
    if all(one == first for one in said):
        return first
    least = min(said, key=lambda one: _PROMISE.index(one.support))
    if least.support != "native":
        return least
    values = [one.value for one in said]
    if all(isinstance(value, int) for value in values):
        return Stated("native", min(value for value in values if isinstance(value, int)))
    lists = [value for value in values if isinstance(value, tuple)]
    if lists:
        common = [level for level in lists[0] if all(level in other for other in lists[1:])]
        return Stated("native", tuple(common)) if common else NATIVE
    return first


def dearest(offers: Iterable[Price]) -> Price:
    """Return the highest of several prices, each part of it on its own."""
    listed = list(offers)

    def highest(part: str) -> int | None:
        known = [getattr(one, part) for one in listed if getattr(one, part) is not None]
        return max(known) if known else None

    tiers = max((one.tiers for one in listed), key=len, default=())
    return Price(
        highest("input"), highest("output"), highest("cache_read"), highest("cache_write"), tiers
    )


def sorting_price(price: Price | None) -> int:
    """Return input and output price together, or -1 where either is unknown."""
    if price is None or price.input is None or price.output is None:
        return -1
    return price.input + price.output
