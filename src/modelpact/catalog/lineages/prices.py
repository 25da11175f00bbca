"""Clauses: how a lineage of prices names the models that a price is for."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Clause = dict[str, Any]
"""One key: `or` and `and` hold clauses, the others a text."""

_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}


def is_clause(clause: object) -> bool:
    """Tell whether a value has the form of a clause."""
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
    """Tell whether a clause takes a model in; the case of letters does not count."""
    return _matches(clause, model.lower())


def _matches(clause: Clause, name: str) -> bool:
    ((kind, content),) = clause.items()
    if kind == "or":
        return any(_matches(one, name) for one in content)
    if kind == "and":
        return all(_matches(one, name) for one in content)
    return _TESTS[kind](name, content)
