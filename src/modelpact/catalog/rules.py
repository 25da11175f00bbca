"""Rules: which statements hold for a provider and a model, in file order.

Four match kinds, as seed 004 has them: `any`, `exact`, `exact_any`, `prefix_any`. All rules that
match are applied; the index finds them without scanning.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from modelpact.catalog.statement import Stated, compile_statement

MatchKind = Literal["any", "exact", "exact_any", "prefix_any"]


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


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def ascii_lower(text: str) -> str:
    """Lower the ASCII letters and leave every other character as it is."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


class RuleIndex:
    """Finds the rules that match, in file order."""

    __slots__ = ("_any", "_cells", "_exact", "_lengths", "_prefixes", "rules")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._cells: dict[int, dict[str, Stated]] = {}
        self._any: dict[str, list[int]] = {}
        self._exact: dict[str, list[int]] = {}
        self._prefixes: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            if rule.kind == "any":
                for provider in rule.providers or ("",):
                    self._any.setdefault(provider, []).append(number)
            elif rule.kind == "prefix_any":
                for pattern in rule.patterns:
                    self._prefixes.setdefault(ascii_lower(pattern), []).append(number)
            else:
                for pattern in rule.patterns:
                    self._exact.setdefault(pattern, []).append(number)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def matching(self, provider: str, api: str | None, names: Iterable[str]) -> list[int]:
        """Return the numbers of all rules that match, in file order."""
        found: set[int] = set(self._any.get("", ()))
        found.update(self._any.get(provider, ()))
        for name in names:
            exact = self._exact.get(name)
            if exact is not None:
                found.update(exact)
            lowered = ascii_lower(name)
            longest = len(lowered)
            for length in self._lengths:
                if length > longest:
                    break
                hit = self._prefixes.get(lowered[:length])
                if hit is not None:
                    found.update(hit)
        rules = self.rules
        return sorted(number for number in found if rules[number].covers(provider, api))

    def cells(self, number: int) -> dict[str, Stated]:
        """Return what the rule says of each capability."""
        cells = self._cells.get(number)
        if cells is None:
            cells = self._cells[number] = compile_statement(self.rules[number].caps)
        return cells

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)
