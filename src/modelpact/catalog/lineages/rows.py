"""Rows of facts, shared by the lineage readers: prices, checks of values, clauses, collecting."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
Rank = tuple[int | str, ...]
Prices = dict[str, int]
Clause = dict[str, Any]
"""An object with one key: `or` and `and` have clauses, the others a string."""
_PICO = 12
_PICO_PER_MILLION = 6
_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}


class BadRowError(Exception):
    """A source row that cannot be trusted; its message is the reason."""


@dataclass(frozen=True)
class Skipped:
    """A source row that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Extraction:
    """Everything that was read from one source, and what was left out."""

    header: dict[str, str]
    rows: list[Row]
    skipped: list[Skipped]
    unmapped: dict[str, int]


@dataclass
class Collector:
    """Collects rows by (provider, model), and everything that is left out."""

    providers: Mapping[str, str]
    skipped: list[Skipped] = field(default_factory=list)
    unmapped: Counter[str] = field(default_factory=Counter)
    _kept: dict[tuple[str, str], tuple[Rank, str, Row]] = field(default_factory=dict)

    def provider(self, name: str) -> str | None:
        """Return the canonical id of a source's provider name, counting unknown ones."""
        canonical = self.providers.get(name)
        if canonical is None:
            self.unmapped[name] += 1
        return canonical

    def skip(self, name: str, reason: str) -> None:
        """Record a source row that is left out."""
        self.skipped.append(Skipped(name, reason))

    def add(self, name: str, row: Row, rank: Rank) -> None:
        """Keep a row; of two that differ, keep the lower rank and report the other."""
        key = (row["provider"], row["model"])
        new = (rank, name, row)
        old = self._kept.get(key)
        if old is None:
            self._kept[key] = new
            return
        winner, loser = (old, new) if old[0] <= rank else (new, old)
        self._kept[key] = winner
        if winner[2] != loser[2]:
            fields = ", ".join(_differences(winner[2], loser[2]))
            self.skip(loser[1], f"duplicate of {winner[1]}, differs in {fields}")

    def finish(self, header: dict[str, str]) -> Extraction:
        """Return the sorted result."""
        rows = [self._kept[key][2] for key in sorted(self._kept)]
        skipped = sorted(self.skipped, key=lambda entry: (entry.reason, entry.name))
        return Extraction(header, rows, skipped, dict(sorted(self.unmapped.items())))


def pico_per_token(value: object, name: str) -> int:
    """Convert USD per token to whole pico-USD per token."""
    return _scaled(value, name, _PICO)


def pico_per_million(value: object, name: str) -> int:
    """Convert USD per million tokens to whole pico-USD per token."""
    return _scaled(value, name, _PICO_PER_MILLION)


def join_prices(base: Prices, tiers: Mapping[int, Prices]) -> Row | None:
    """Join base prices and tiers; a tier inherits what it leaves open from the one below."""
    if not base:
        return None
    price: Row = dict(base)
    current, steps = dict(base), []
    for above in sorted(tiers):
        following = {**current, **tiers[above]}
        if following != current:
            steps.append([above, following])
        current = following
    if steps:
        price["tiers"] = steps
    return price


def typed_bool(value: object, name: str) -> bool:
    """Return a boolean, or refuse the row."""
    if not isinstance(value, bool):
        raise BadRowError(f"{name} is {type(value).__name__}")
    return value


def token_count(value: object, name: str) -> int | None:
    """Return a positive token count, None for zero, or refuse the row."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRowError(f"{name} is {value if isinstance(value, int) else type(value).__name__}")
    return value or None


def text_list(value: object, name: str) -> list[str]:
    """Return a list of strings or refuse the row."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRowError(f"{name} is not a list of strings")
    return value


def iso_date(value: object, name: str) -> str | None:
    """Return a full ISO date; None for a month or year alone; refuse anything else."""
    if not isinstance(value, str):
        raise BadRowError(f"{name} is {type(value).__name__}")
    if len(value) in (4, 7):
        return None
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise BadRowError(f"{name} is not a date") from None


def is_clause(clause: object) -> bool:
    """Whether a value has the form of a clause."""
    if not isinstance(clause, dict) or len(clause) != 1:
        return False
    ((kind, content),) = clause.items()
    if kind in ("or", "and"):
        return isinstance(content, list) and all(map(is_clause, content))
    if kind not in _TESTS or not isinstance(content, str):
        return False
    if kind == "regex":
        try:
            re.compile(content)
        except (re.error, RecursionError):
            return False
    return True


def matches(clause: Clause, model: str) -> bool:
    """Whether a clause matches a model; letter case does not matter."""
    return _matches(clause, model.lower())


def encode(header: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Write a header and rows as JSON lines, the same bytes for the same rows."""
    lines = (json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for row in (header, *rows))
    return "".join(f"{line}\n" for line in lines).encode()


def provider_names(providers_toml: Path, lineage: str) -> dict[str, str]:
    """Map the provider names of a lineage to canonical ids, in the order of the file."""
    table = tomllib.loads(providers_toml.read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for provider in table["providers"]:
        for name in provider.get("lineages", {}).get(lineage, ()):
            if name in names:
                raise ValueError(f"{lineage} {name!r} is claimed by two providers")
            names[name] = provider["id"]
    return names


def _differences(left: Row, right: Row) -> list[str]:
    """Return the fields in which two rows of one model differ."""
    flat_left, flat_right = ({**row, **row["caps"]} for row in (left, right))
    names = (flat_left.keys() | flat_right.keys()) - {"caps"}
    return sorted(name for name in names if flat_left.get(name) != flat_right.get(name))


def _scaled(value: object, name: str, exponent: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise BadRowError(f"{name} is {type(value).__name__}")
    amount = Decimal(value)
    if not amount.is_finite() or amount < 0:
        raise BadRowError(f"{name} is {amount}")
    with localcontext() as context:
        context.prec = 60
        exact = amount.scaleb(exponent)
        return int(exact.to_integral_value(rounding=ROUND_HALF_EVEN))


def _matches(clause: Clause, name: str) -> bool:
    ((kind, content),) = clause.items()
    if kind == "or":
        return any(_matches(inner, name) for inner in content)
    if kind == "and":
        return all(_matches(inner, name) for inner in content)
    return _TESTS[kind](name, content)
