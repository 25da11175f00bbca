"""Clauses: how a lineage of prices names the models of a price."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Clause = dict[str, Any]
"""An object with one key: `or` and `and` have clauses, the others a string."""

_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}


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


def _matches(clause: Clause, name: str) -> bool:
    ((kind, content),) = clause.items()
    if kind == "or":
        return any(_matches(inner, name) for inner in content)
    if kind == "and":
        return all(_matches(inner, name) for inner in content)
    return _TESTS[kind](name, content)
