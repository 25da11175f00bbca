"""Rules: which statements hold for a provider and a model, in file order.

Four match kinds, as seed 004 has them: `any`, `exact`, `exact_any`, `prefix_any`. All rules that
match are applied; the book finds them without scanning, and remembers each combination.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from modelpact.catalog.claim import Constraint, Evidence
from modelpact.catalog.layer import Layer
from modelpact.catalog.statement import compile_statement

MatchKind = Literal["any", "exact", "exact_any", "prefix_any"]
T = TypeVar("T")


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `[[rules]]`, `[[corrections]]` or `[[constraints]]`."""

    name: str
    kind: MatchKind
    patterns: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    caps: dict[str, Any] = {}
    excludes: tuple[str, ...] = ()
    source: str = ""
    date: str = ""

    def covers(self, provider: str, api: str | None) -> bool:
        """Tell whether the scope takes this provider and API in."""
        if self.providers and provider not in self.providers:
            return False
        return not self.apis or api in self.apis


_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def ascii_lower(text: str) -> str:
    """Lower the ASCII letters and leave every other character as it is."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


class Prefixes(Generic[T]):
    """A table of prefixes: finds the longest that a name begins with, by bisection."""

    __slots__ = ("_parents", "_sorted", "values")

    def __init__(self, table: Mapping[str, T]) -> None:
        self._sorted = sorted(table)
        self.values = [table[prefix] for prefix in self._sorted]
        self._parents: list[int] = []
        for place, prefix in enumerate(self._sorted):
            parent = place - 1
            while parent >= 0 and not prefix.startswith(self._sorted[parent]):
                parent = self._parents[parent]
            self._parents.append(parent)

    def longest(self, name: str) -> int:
        """Return the place of the longest prefix of the name, or -1."""
        place = bisect_right(self._sorted, name) - 1
        while place >= 0 and not name.startswith(self._sorted[place]):
            place = self._parents[place]
        return place

    def chain(self, place: int) -> Iterable[T]:
        """Yield the values of a prefix and of all shorter ones that it begins with."""
        while place >= 0:
            yield self.values[place]
            place = self._parents[place]


class Matched(msgspec.Struct, frozen=True, gc=False):
    """What the book says of one provider and model."""

    rules: tuple[Layer, ...]
    corrections: tuple[Layer, ...]
    constraints: tuple[Constraint, ...]


class RuleBook:
    """All rules, corrections and constraints, found by provider, API and names."""

    def __init__(
        self, rules: Iterable[Rule], corrections: Iterable[Rule], constraints: Iterable[Rule]
    ) -> None:
        self.rules = tuple(rules)
        self.corrections = tuple(corrections)
        self.constraints = tuple(constraints)
        self._all = (*self.rules, *self.corrections, *self.constraints)
        self._layers: dict[int, Layer] = {}
        self._memo: dict[tuple[Any, ...], Matched] = {}
        self._any: list[int] = []
        exact: dict[str, list[int]] = {}
        prefixes: dict[str, list[int]] = {}
        for number, rule in enumerate(self._all):
            if rule.kind == "any":
                self._any.append(number)
            elif rule.kind == "prefix_any":
                for pattern in rule.patterns:
                    prefixes.setdefault(ascii_lower(pattern), []).append(number)
            else:
                for pattern in rule.patterns:
                    exact.setdefault(pattern, []).append(number)
        self._exact = {name: tuple(numbers) for name, numbers in exact.items()}
        self._prefixes = Prefixes(prefixes)
        self._providers = frozenset(name for rule in self._all for name in rule.providers)
        self._apis = frozenset(name for rule in self._all for name in rule.apis)

    def matching(self, provider: str, api: str | None, first: str, second: str) -> Matched:
        """Return what holds for a model that is known under two names, in file order."""
        lowered = ascii_lower(first)
        longest = self._prefixes.longest(lowered)
        key = (
            provider if provider in self._providers else "",
            api if api in self._apis else None,
            longest,
            longest if second == lowered else self._prefixes.longest(ascii_lower(second)),
            self._exact.get(first, ()),
            self._exact.get(second, ()),
        )
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._match(*key)
        return found

    def _match(
        self,
        provider: str,
        api: str | None,
        first: int,
        second: int,
        exact_first: tuple[int, ...],
        exact_second: tuple[int, ...],
    ) -> Matched:
        numbers = {*self._any, *exact_first, *exact_second}
        for place in (first, second):
            for found in self._prefixes.chain(place):
                numbers.update(found)
        kept = sorted(one for one in numbers if self._all[one].covers(provider, api))
        last_rule, last_correction = len(self.rules), len(self.rules) + len(self.corrections)
        return Matched(
            tuple(self._layer(one) for one in kept if one < last_rule),
            tuple(self._layer(one) for one in kept if last_rule <= one < last_correction),
            tuple(self._constraint(one) for one in kept if one >= last_correction),
        )

    def _layer(self, number: int) -> Layer:
        layer = self._layers.get(number)
        if layer is None:
            rule = self._all[number]
            kind: Any = "rule" if number < len(self.rules) else "correction"
            evidence = Evidence(kind, rule.name, rule.source, rule.date)
            layer = Layer(evidence, rule.caps, compile_statement(rule.caps))
            self._layers[number] = layer
        return layer

    def _constraint(self, number: int) -> Constraint:
        rule = self._all[number]
        return Constraint(rule.name, rule.excludes, rule.source)
