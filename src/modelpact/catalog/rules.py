"""Rules: statements that apply to providers and models, in file order.

The four kinds of matches are those of the nika specification: `any`, `exact`, `exact_any` and
`prefix_any`. All rules that match apply. The rule book finds them without a scan, and keeps each
combination.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from modelpact.catalog.claim import Constraint, Evidence
from modelpact.catalog.facts import Layer
from modelpact.catalog.statement import compile_statement

MatchKind = Literal["any", "exact", "exact_any", "prefix_any"]
T = TypeVar("T")

_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


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
        """Whether the scope includes this provider and API."""
        if self.providers and provider not in self.providers:
            return False
        return not self.apis or api in self.apis


class Prefixes(Generic[T]):
    """A table of prefixes that finds the longest prefix of a name by bisection."""

    __slots__ = ("_parents", "_sorted", "values")

    def __init__(self, table: Mapping[str, T]) -> None:
        self._sorted = sorted(table)
        self.values = [table[prefix] for prefix in self._sorted]
        self._parents: list[int] = []
        for index, prefix in enumerate(self._sorted):
            parent = index - 1
            while parent >= 0 and not prefix.startswith(self._sorted[parent]):
                parent = self._parents[parent]
            self._parents.append(parent)

    def longest(self, name: str) -> int:
        """Return the index of the longest prefix of the name, or -1."""
        index = bisect_right(self._sorted, name) - 1
        while index >= 0 and not name.startswith(self._sorted[index]):
            index = self._parents[index]
        return index

    def chain(self, index: int) -> Iterable[T]:
        """Yield the values of a prefix and of all shorter prefixes that it begins with."""
        while index >= 0:
            yield self.values[index]
            index = self._parents[index]


class MatchedRules(msgspec.Struct, frozen=True, gc=False):
    """The rules that apply to one provider and model."""

    rules: tuple[Layer, ...]
    corrections: tuple[Layer, ...]
    constraints: tuple[Constraint, ...]


class RuleBook:
    """All rules, corrections and constraints, by provider, API and model name."""

    def __init__(self, rules: Iterable[Rule], corrections: Iterable[Rule], constraints: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.corrections = tuple(corrections)
        self.constraints = tuple(constraints)
        self._all = (*self.rules, *self.corrections, *self.constraints)
        self._layers: dict[int, Layer] = {}
        self._memo: dict[tuple[Any, ...], MatchedRules] = {}
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

    def matching(self, provider: str, api: str | None, first: str, second: str) -> MatchedRules:
        """Return the rules, in file order, that apply to a model that has two names."""
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
        matched = self._memo.get(key)
        if matched is None:
            matched = self._memo[key] = self._match(*key)
        return matched

    def _match(
        self,
        provider: str,
        api: str | None,
        first: int,
        second: int,
        exact_first: tuple[int, ...],
        exact_second: tuple[int, ...],
    ) -> MatchedRules:
        numbers = {*self._any, *exact_first, *exact_second}
        for index in (first, second):
            for rule_numbers in self._prefixes.chain(index):
                numbers.update(rule_numbers)
        applying = sorted(n for n in numbers if self._all[n].covers(provider, api))
        first_correction = len(self.rules)
        first_constraint = first_correction + len(self.corrections)
        return MatchedRules(
            tuple(self._layer(n) for n in applying if n < first_correction),
            tuple(self._layer(n) for n in applying if first_correction <= n < first_constraint),
            tuple(self._constraint(n) for n in applying if n >= first_constraint),
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


def ascii_lower(text: str) -> str:
    """Lower the ASCII letters and leave every other character as it is."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)
