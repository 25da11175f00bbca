"""Facts: what public catalogs (lineages) say about the model of a provider, and layers of claims.

A record keeps the vote of each lineage in a compact form: flags as two bit masks (yes and no),
everything else by number. If lineages disagree, the more cautious value wins and all votes stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Evidence, Vote
from modelpact.catalog.statement import NATIVE, UNSUPPORTED, Stated, compile_statement
from modelpact.vocabulary.capability import CAPABILITIES

FLAGS: Final = tuple(
    entry.id
    for entry in CAPABILITIES.values()
    if entry.kind == "flag" and entry.formula is None and entry.group != "agent"
)
"""The flags that lineages vote on; the index of a flag is its bit."""
OTHERS: Final = tuple(
    entry.id
    for entry in CAPABILITIES.values()
    if entry.kind != "flag" and (entry.formula is None or entry.kind == "limit")
)
"""The limits and choices that lineages vote on; the index of one is its number."""
_BITS: Final = {name: 1 << index for index, name in enumerate(FLAGS)}
_NUMBERS: Final = {name: number for number, name in enumerate(OTHERS)}
_EFFORT_NUMBER: Final = len(OTHERS)
"""The number of the accepted levels of `reasoning-effort`."""
_WITHOUT_VOTES: Final = frozenset(
    {"embedding-input", "speech-input", "image-gen-input", "image-output", "pdf-output"} | {"speech-output"}
)
"""Modalities that no lineage has a name for: their lists of modalities say nothing about these."""
_LEAST_TO_MOST: Final = ("unsupported", "unknown", "restricted", "emulated", "native")
"""Supports from the one that promises least to the one that promises most."""
Trust = Literal["known", "assumed", "model"]
_MODEL_PROPERTIES: Final = frozenset(
    {"tool-calling", "reasoning"} | {entry.id for entry in CAPABILITIES.values() if entry.group == "modality"}
)
"""Capabilities that a model keeps at any provider; the others depend on the provider's API."""


class Lineage(msgspec.Struct, frozen=True):
    """One source of public facts, in one version."""

    name: str
    version: str
    date: str
    licence: str
    url: str


class Price(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Prices in pico-dollars per token: one dollar per million tokens is 1,000,000."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    tiers: tuple[tuple[int, "Price"], ...] = ()
    """Prices that apply instead above a number of prompt tokens."""


class VoteRow(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """The votes of one lineage on one model."""

    lineage: int
    yes: int = 0
    no: int = 0
    others: tuple[tuple[int, int | str | tuple[str, ...]], ...] = ()
    price: Price | None = None
    more: dict[str, Stated] = {}
    """Everything that is neither a plain yes or no nor in `others`."""

    def stated(self, name: str) -> Stated | None:
        """Return what this lineage states about a capability, or None if it states nothing."""
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
    """Everything that the lineages say about the model of one provider."""

    votes: tuple[VoteRow, ...]
    base: str = ""
    released: str = ""
    retires: str = ""
    status: str = ""

    def stated(self, name: str) -> Stated | None:
        """Return the most cautious of the lineages' statements, or None if there are none."""
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
        statements = [stated for row in self.votes if (stated := row.stated(name)) is not None]
        return most_cautious(statements) if statements else None

    def votes_on(self, name: str, lineages: Sequence[Lineage]) -> tuple[Vote, ...]:
        """Return the vote of each lineage on a capability."""
        return tuple(
            Vote(lineages[row.lineage].name, lineages[row.lineage].date, stated.support, stated.value)
            for row in self.votes
            if (stated := row.stated(name)) is not None
        )

    def vote_pattern(self, name: str) -> tuple[int, ...] | None:
        """Return which lineages say yes and no to a flag, as numbers.

        Models with the same pattern share their evidence. Return None if a vote says more.
        """
        bit = _BITS.get(name)
        if bit is None or name == "reasoning-effort":
            return None
        pattern: list[int] = []
        for row in self.votes:
            if row.more and name in row.more:
                return None
            if row.yes & bit:
                pattern.append(2 * row.lineage + 1)
            elif row.no & bit:
                pattern.append(2 * row.lineage)
        return tuple(pattern)

    def capabilities(self) -> Iterator[str]:
        """Yield every capability that a lineage votes on."""
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
        """The most cautious, that is the highest, of the lineages' prices."""
        prices = [row.price for row in self.votes if row.price is not None]
        return highest_price(prices) if prices else None


class Layer(msgspec.Struct, frozen=True, gc=False):
    """One layer of a resolution: a statement or a record of facts.

    `trust` says what is known from it: everything (`known`), nothing (`assumed`), or only what a
    model keeps at any provider (`model`).
    """

    evidence: Evidence
    fields: Mapping[str, Any] = {}
    cells: Mapping[str, Stated] = {}
    record: ModelFacts | None = None
    trust: Trust = "known"

    def stated(self, name: str) -> Stated | None:
        """Return what this layer states about a capability, or None if it states nothing."""
        return self.cells.get(name) if self.record is None else self.record.stated(name)

    def is_assumption(self, name: str) -> bool:
        """Whether the statement of this layer about a capability is only an assumption."""
        if self.trust == "known":
            return False
        return self.trust == "assumed" or name not in _MODEL_PROPERTIES


def vote_row(lineage: int, caps: Mapping[str, Any], price: Price | None) -> VoteRow:
    """Pack the statement of one lineage."""
    yes = no = 0
    others: dict[int, Any] = {}
    more: dict[str, Stated] = {}
    for name, stated in compile_statement(caps).items():
        bit = _BITS.get(name)
        if stated.support == "unknown":
            continue
        if bit is not None and stated.support == "unsupported":
            no |= 0 if name in _WITHOUT_VOTES else bit
        elif bit is not None and stated.support == "native":
            yes |= bit
            if stated.value is not None:
                others[_EFFORT_NUMBER] = stated.value
        elif name in _NUMBERS:
            others[_NUMBERS[name]] = stated.value
        else:
            more[name] = stated
    return VoteRow(lineage, yes, no, tuple(sorted(others.items())), price, more)


def most_cautious(statements: Sequence[Stated]) -> Stated:
    """Return the statement that promises least: a no before a yes, the smaller limit."""
    first = statements[0]
    if all(stated == first for stated in statements):
        return first
    least = min(statements, key=lambda stated: _LEAST_TO_MOST.index(stated.support))
    if least.support != "native":
        return least
    values = [stated.value for stated in statements]
    if all(isinstance(value, int) for value in values):
        return Stated("native", min(value for value in values if isinstance(value, int)))
    lists = [value for value in values if isinstance(value, tuple)]
    if lists:
        common = [level for level in lists[0] if all(level in other for other in lists[1:])]
        return Stated("native", tuple(common)) if common else NATIVE
    return first


def highest_price(prices: Iterable[Price]) -> Price:
    """Return a price in which each part is the highest of several prices."""
    known_prices = list(prices)

    def highest(part: str) -> int | None:
        known = [value for price in known_prices if (value := getattr(price, part)) is not None]
        return max(known) if known else None

    tiers = max((price.tiers for price in known_prices), key=len, default=())
    return Price(highest("input"), highest("output"), highest("cache_read"), highest("cache_write"), tiers)


def sorting_price(price: Price | None) -> int:
    """Return the sum of input and output price, or -1 if either is unknown."""
    if price is None or price.input is None or price.output is None:
        return -1
    return price.input + price.output
