"""Statements: what a rule, a fact, a correction or an operator says about a model.

A statement maps fields to values, in one grammar for all sources. Compiled, it maps capability ids
to `Stated` values: a list decides every member of its vocabulary, and `json_mode` and `caching`
decide the flags that they are made of.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.capability import CAPABILITIES, MODALITIES, PARAMETERS, Support, is_host_extension
from modelpact.vocabulary.errors import brief, nearest


class Stated(msgspec.Struct, frozen=True, gc=False):
    """What one layer states about one capability."""

    support: Support
    value: int | str | tuple[str, ...] | None = None
    reason: str | None = None


NATIVE: Final = Stated("native")
UNSUPPORTED: Final = Stated("unsupported")
UNKNOWN: Final = Stated("unknown")
_PLAIN: Final[dict[object, Stated]] = {
    True: NATIVE,
    False: UNSUPPORTED,
    "native": NATIVE,
    "emulated": Stated("emulated"),
    "unsupported": UNSUPPORTED,
    "unknown": UNKNOWN,
}

LARGEST_LIMIT: Final = 10**12
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of `reasoning_effort`, from least to most."""

LIST_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "input_modalities": MODALITIES,
    "output_modalities": MODALITIES,
    "supported_parameters": tuple(PARAMETERS),
}
SHARED_PARAMETERS: Final = frozenset({"parallel-tool-calls", "prompt-caching", "context-caching"})
"""Parameters that are also fields: their absence from the list states nothing."""

_CHOICES: Final[dict[str, dict[str, dict[str, Stated]]]] = {
    "json_mode": {
        "unavailable": {"structured-output": UNSUPPORTED, "json-object": UNSUPPORTED},
        "object": {"structured-output": UNSUPPORTED, "json-object": NATIVE},
        "schema": {"structured-output": NATIVE, "json-object": NATIVE},
    },
    "caching": {
        "none": {"prompt-caching": UNSUPPORTED, "context-caching": UNSUPPORTED},
        "prompt-caching": {"prompt-caching": NATIVE, "context-caching": UNSUPPORTED},
        "context-caching": {"prompt-caching": UNSUPPORTED, "context-caching": NATIVE},
    },
}
_FLAG_FIELDS: Final[dict[str, str]] = {
    entry.id.replace("-", "_"): entry.id
    for entry in CAPABILITIES.values()
    if entry.kind == "flag" and entry.formula is None
}
_LIMIT_FIELDS: Final[dict[str, str]] = {
    entry.id.replace("-", "_"): entry.id for entry in CAPABILITIES.values() if entry.kind == "limit"
}
_TOKEN_LIMIT_PARAMS: Final = CAPABILITIES["token-limit-param"].choices

FIELDS: Final[frozenset[str]] = frozenset({*LIST_FIELDS, *_CHOICES, *_FLAG_FIELDS, *_LIMIT_FIELDS, "token_limit_param"})
"""Every field of a statement, except the `x-host-…` flags of hosts."""


def compile_statement(fields: Mapping[str, Any]) -> dict[str, Stated]:
    """Compile valid fields to what they state about each capability; flags win over lists."""
    cells: dict[str, Stated] = {}
    for field, direction in (("input_modalities", "input"), ("output_modalities", "output")):
        if field in fields:
            modalities = fields[field]
            for name in MODALITIES:
                cells[f"{name}-{direction}"] = NATIVE if name in modalities else UNSUPPORTED
    if "supported_parameters" in fields:
        parameters = fields["supported_parameters"]
        for name in PARAMETERS:
            if name in parameters:
                cells[name] = NATIVE
            elif name not in SHARED_PARAMETERS:
                cells[name] = UNSUPPORTED
    for field, meanings in _CHOICES.items():
        if field in fields:
            cells.update(meanings[fields[field]])
    for field, value in fields.items():
        if field in _FLAG_FIELDS:
            cells[_FLAG_FIELDS[field]] = _flag(value)
        elif field in _LIMIT_FIELDS:
            cells[_LIMIT_FIELDS[field]] = UNKNOWN if value == "unknown" else Stated("native", value)
        elif field == "token_limit_param":
            cells["token-limit-param"] = Stated("native", value)
        elif field.startswith("x-host-"):
            cells[field] = _flag(value)
    return cells


def _flag(value: Any) -> Stated:
    if isinstance(value, Mapping):
        reason = value["restricted"]
        if isinstance(reason, Mapping):
            reason = reason["reason"]
        return Stated("restricted", reason=reason)
    if isinstance(value, (list, tuple)):
        return Stated("native", tuple(value)) if value else UNSUPPORTED
    return _PLAIN[value]


def statement_problems(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a pair (field, problem) for every field that is not valid."""
    for field, value in fields.items():
        problem = _field_problem(field, value)
        if problem:
            yield field, problem


def _field_problem(field: str, value: Any) -> str | None:
    if field in LIST_FIELDS:
        return _list_problem(field, value)
    if field in _CHOICES:
        return _choice_problem(value, tuple(_CHOICES[field]))
    if field == "token_limit_param":
        return _choice_problem(value, _TOKEN_LIMIT_PARAMS)
    if field in _LIMIT_FIELDS:
        if value == "unknown":
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            return f"expected an integer of tokens, found {_describe(value)}"
        if not 0 < value <= LARGEST_LIMIT:
            return f"expected a number from 1 to {LARGEST_LIMIT:,}, found {brief(value)}"
        return None
    if field in _FLAG_FIELDS or (field.startswith("x-host-") and is_host_extension(field)):
        return _flag_problem(field, value)
    close = nearest(field, FIELDS)
    return f"no such field{f'; did you mean {close[0]}?' if close else ''}"


def _list_problem(field: str, value: Any) -> str | None:
    known = LIST_FIELDS[field]
    what = "parameter" if field == "supported_parameters" else "modality"
    if not isinstance(value, (list, tuple)):
        return f"expected a list, found {_describe(value)}"
    for name in value:
        if name not in known:
            close = nearest(name, known) if isinstance(name, str) else ()
            return f"unknown {what} {brief(name)}{f'; did you mean {close[0]!r}?' if close else ''}"
    if len(set(value)) != len(value):
        return f"a {what} is listed twice"
    if field == "input_modalities" and "text" not in value:
        return "must contain 'text'"
    return None


def _choice_problem(value: Any, known: tuple[str, ...]) -> str | None:
    if isinstance(value, str) and value in known:
        return None
    return f"expected one of {', '.join(known)}, found {brief(value)}"


def _flag_problem(field: str, value: Any) -> str | None:
    if field == "reasoning_effort" and isinstance(value, (list, tuple)):
        if value and all(isinstance(level, str) and level for level in value):
            return None
        return "expected a list of effort levels"
    if isinstance(value, Mapping):
        reason = value.get("restricted")
        if isinstance(reason, Mapping):
            reason = reason.get("reason")
        if len(value) == 1 and isinstance(reason, str) and reason.strip():
            return None
        return 'expected { restricted = "the reason" }'
    if isinstance(value, bool) or (isinstance(value, str) and value in _PLAIN):
        return None
    return (
        "expected true, false, native, emulated, unsupported, unknown or "
        f"{{ restricted = … }}, found {_describe(value)}"
    )


def _describe(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number with a fraction", str: "a string"}
    name = names.get(type(value))
    if name is None:
        name = "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    return f"{name} ({brief(value)})" if isinstance(value, (bool, int, float, str)) else name
