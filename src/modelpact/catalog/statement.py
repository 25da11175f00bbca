"""Statements: what a rule, a fact, a correction or an operator says of a model.

A statement is a map of fields to values, in one grammar wherever it comes from. Compiled, it is a
map of capability ids to `Stated` values: lists say something of every member of their vocabulary,
`json_mode` and `caching` say something of the flags they are made of.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.capability import (
    CAPABILITIES,
    MODALITIES,
    PARAMETERS,
    Support,
    is_host_extension,
)
from modelpact.vocabulary.errors import brief, nearest


class Stated(msgspec.Struct, frozen=True, gc=False):
    """What one layer says of one capability."""

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
"""Levels of `reasoning_effort` that providers use, from least to most."""

LIST_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "input_modalities": MODALITIES,
    "output_modalities": MODALITIES,
    "supported_parameters": tuple(PARAMETERS),
}
SHARED_PARAMETERS: Final = frozenset({"parallel-tool-calls", "prompt-caching", "context-caching"})
"""Parameters that are also fields: not being in the list says nothing of them."""

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
    one.id.replace("-", "_"): one.id
    for one in CAPABILITIES.values()
    if one.kind == "flag" and one.formula is None
}
_LIMIT_FIELDS: Final[dict[str, str]] = {
    one.id.replace("-", "_"): one.id for one in CAPABILITIES.values() if one.kind == "limit"
}
_TOKEN_LIMIT_PARAMS: Final = CAPABILITIES["token-limit-param"].choices

FIELDS: Final[frozenset[str]] = frozenset(
    {*LIST_FIELDS, *_CHOICES, *_FLAG_FIELDS, *_LIMIT_FIELDS, "token_limit_param"}
)
"""Every field that a statement may have, beside hosts' `x-host-…` flags."""


def compile_statement(fields: Mapping[str, Any]) -> dict[str, Stated]:
    """Turn checked fields into what they say of each capability; single flags beat lists."""
    cells: dict[str, Stated] = {}
    for field, way in (("input_modalities", "input"), ("output_modalities", "output")):
        if field in fields:
            listed = fields[field]
            for name in MODALITIES:
                cells[f"{name}-{way}"] = NATIVE if name in listed else UNSUPPORTED
    if "supported_parameters" in fields:
        listed = fields["supported_parameters"]
        for name in PARAMETERS:
            if name in listed:
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
    """Yield (field, what is wrong with it) for everything a statement may not say."""
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
            return f"expected a whole number of tokens, found {_kind(value)}"
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
        return f"expected a list, found {_kind(value)}"
    for one in value:
        if one not in known:
            close = nearest(one, known) if isinstance(one, str) else ()
            return f"unknown {what} {brief(one)}{f'; did you mean {close[0]!r}?' if close else ''}"
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
        if value and all(isinstance(one, str) and one for one in value):
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
        f"{{ restricted = … }}, found {_kind(value)}"
    )


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number with a fraction", str: "a string"}
    named = names.get(type(value))
    if named is None:
        named = "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    return f"{named} ({brief(value)})" if isinstance(value, (bool, int, float, str)) else named
