"""Needs: what a piece of work requires of a model.

A need has a text form:

    tools                       a flag, hard
    structured-output:preferred a flag that is good to have
    context>=200k               a limit with its minimum
    image-input>=native         a flag that emulation does not satisfy
    json-mode>=object           an ordered choice
    caching=context-caching     a choice without order
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.statement import LARGEST_LIMIT
from modelpact.vocabulary.capability import (
    CAPABILITIES,
    MIN_SUPPORTS,
    AnyOf,
    Capability,
    Ladder,
    MinSupport,
    SameAs,
    capability,
)
from modelpact.vocabulary.errors import InvalidNeed, brief

Level = Literal["hard", "preferred", "probed"]
LEVELS: Final[tuple[Level, ...]] = ("hard", "preferred", "probed")

_STRICTNESS: Final = {"probed": 0, "preferred": 1, "hard": 2}
_COMPARISON: Final = re.compile(r"\s*(>=|≥|=)\s*([^:>=≥]*)")
_NUMBER: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?\s*([kKmM]?)")
_SCALE: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_MAX_LENGTH: Final = 512


class Need(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What work requires of one capability. `need` and `Need.parse` return checked needs."""

    capability: str
    level: Level = "hard"
    min_support: MinSupport = "emulated"
    minimum: int | str | None = None
    required_by: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, required_by: Iterable[str] = ()) -> "Need":
        """Parse the text form of a need."""
        if not isinstance(text, str):
            raise InvalidNeed(f"expected the text of a need, not {type(text).__name__}")
        if len(text) > _MAX_LENGTH:
            raise InvalidNeed(f"a need of {len(text):,} characters is too long: {text[:40]!r}…")
        body, colon, level = text.partition(":")
        end = re.search(r">=|≥|=", body)
        name = body[: end.start()] if end else body
        min_support = sign = ""
        minimum: str | None = None
        position = len(name)
        while position < len(body):
            part = _COMPARISON.match(body, position)
            value = part[2].strip() if part else ""
            if part is None or not value:
                raise InvalidNeed(f"cannot read {text!r}: expected >=VALUE after the name")
            if value in MIN_SUPPORTS:
                if min_support:
                    raise InvalidNeed(f"cannot read {text!r}: two minimum supports")
                min_support = value
            elif minimum is None:
                minimum, sign = value, part[1]
            else:
                raise InvalidNeed(f"cannot read {text!r}: two minimum values")
            position = part.end()
        if ">" in name or "<" in name:
            raise InvalidNeed(f"cannot read {text!r}: a minimum is written with >=")
        if not name.strip():
            raise InvalidNeed(f"cannot read {text!r}: a need begins with the name of a capability")
        if minimum is not None:
            _check_sign(capability(name.strip()), sign, text)
        return need(
            name.strip(),
            level=level.strip() if colon else "hard",
            min_support=min_support or "emulated",
            minimum=minimum,
            required_by=required_by,
        )

    def __str__(self) -> str:
        text = self.capability
        if self.minimum is not None:
            ordered = self.capability_info.kind == "limit" or self.capability_info.ordered
            text += f"{'>=' if ordered else '='}{self.minimum}"
        if self.min_support != "emulated":
            text += f">={self.min_support}"
        return text if self.level == "hard" else f"{text}:{self.level}"

    @property
    def capability_info(self) -> Capability:
        """The entry of the capability in the vocabulary."""
        return CAPABILITIES.get(self.capability) or capability(self.capability)


class Needs:
    """A set of needs, merged so that each capability occurs once, in the order of first mention."""

    __slots__ = ("_hash", "_needs", "bases")

    def __init__(self, needs: Iterable[Need | str] | str = ()) -> None:
        merged: dict[str, Need] = {}
        requirers: dict[str, dict[str, None]] = {}
        if isinstance(needs, str):
            needs = [part for part in needs.split(",") if part.strip()]
        if not isinstance(needs, Iterable):
            raise InvalidNeed(f"expected needs or their text, not {type(needs).__name__}")
        for entry in needs:
            if isinstance(entry, str):
                entry = Need.parse(entry)
            elif not isinstance(entry, Need):
                raise InvalidNeed(f"expected a need or its text, not {type(entry).__name__}")
            elif not _is_valid(entry):
                entry = need(
                    entry.capability,
                    level=entry.level,
                    min_support=entry.min_support,
                    minimum=entry.minimum,
                    required_by=entry.required_by,
                )
            earlier = merged.get(entry.capability)
            requirers.setdefault(entry.capability, {}).update(dict.fromkeys(entry.required_by))
            if earlier is not None:  # the requirers are joined once, at the end
                both = merge_needs(earlier, entry)
                entry = msgspec.structs.replace(both, required_by=earlier.required_by)
            merged[entry.capability] = entry
        self._needs = tuple(
            entry
            if len(requirers[name]) == len(entry.required_by)
            else msgspec.structs.replace(entry, required_by=tuple(requirers[name]))
            for name, entry in merged.items()
        )
        self._hash = hash(self._needs)
        self.bases = frozenset(name for entry in self._needs for name in base_capabilities(entry))
        """The capabilities needed, and those that they are derived from."""

    def __iter__(self) -> Iterator[Need]:
        return iter(self._needs)

    def __len__(self) -> int:
        return len(self._needs)

    def __getitem__(self, index: int) -> Need:
        return self._needs[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Needs) and (self is other or self._needs == other._needs)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: "Needs | Iterable[Need | str]") -> "Needs":
        return Needs([*self, *(other if isinstance(other, Needs) else Needs(other))])

    def __repr__(self) -> str:
        return f"Needs({str(self)!r})"

    def __str__(self) -> str:
        return ", ".join(map(str, self._needs))


def need(
    name: str,
    *,
    level: str = "hard",
    min_support: str = "emulated",
    minimum: Any = None,
    required_by: Iterable[str] | str = (),
) -> Need:
    """Return a checked need. `name` is an id, an alias or a dialect's name of a capability."""
    info = capability(name)
    if level not in LEVELS:
        raise InvalidNeed(f"unknown level {brief(level)} for {info.id}: hard, preferred or probed")
    if min_support not in MIN_SUPPORTS:
        raise InvalidNeed(f"unknown minimum support {brief(min_support)}: native or emulated")
    names = (required_by,) if isinstance(required_by, str) else required_by
    requirers = tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) for name in requirers):
        raise InvalidNeed("required_by: expected a string or several strings")
    return Need(info.id, level, min_support, _check_minimum(info, minimum), tuple(dict.fromkeys(requirers)))


def merge_needs(first: Need, second: Need) -> Need:
    """Merge two needs for one capability: the strictest of each part, every `required_by`."""
    return Need(
        first.capability,
        max(first.level, second.level, key=_STRICTNESS.__getitem__),
        "native" if "native" in (first.min_support, second.min_support) else "emulated",
        _larger_minimum(first, second),
        tuple(dict.fromkeys((*first.required_by, *second.required_by))),
    )


def base_capabilities(need: Need) -> tuple[str, ...]:
    """Return the capability of a need and those it is derived from; constraints apply to all."""
    formula = need.capability_info.formula
    if isinstance(formula, SameAs):
        return need.capability, formula.base
    if isinstance(formula, Ladder):
        return need.capability, *(base for _, base in ladder_steps(formula, need))
    if isinstance(formula, AnyOf):
        return need.capability, *formula.bases
    return (need.capability,)


def ladder_steps(formula: Ladder, need: Need) -> tuple[tuple[str, str], ...]:
    """Return the steps of a choice that meet the need; none if its floor meets it."""
    if need.minimum is None:
        return formula.steps
    values = [value for value, _ in formula.steps]
    if need.minimum not in values:
        return ()
    index = values.index(str(need.minimum))
    start = 0 if need.capability_info.ordered else index
    return formula.steps[start : index + 1]


def _check_sign(info: Capability, sign: str, text: str) -> None:
    """Refuse `=` for ordered values, and `>=` for values without order."""
    ordered = info.kind == "limit" or info.ordered
    if ordered and sign == "=":
        raise InvalidNeed(f"cannot read {text!r}: more is enough too, so write >=")
    if info.kind == "choice" and not ordered and sign != "=":
        raise InvalidNeed(f"cannot read {text!r}: {info.id} has no order, so write =")


def _check_minimum(info: Capability, value: Any) -> int | str | None:
    if value is None:
        return None
    if info.kind == "flag":
        raise InvalidNeed(f"{info.id} is a flag: it has no minimum value ({brief(value)})")
    if info.kind == "choice":
        if value not in info.choices:
            raise InvalidNeed(f"{info.id} is one of {', '.join(info.choices)}, not {brief(value)}")
        return str(value)
    number = _parse_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidNeed(f"{info.id} needs an integer of {info.unit}, not {brief(value)}")
    if not 0 <= number <= LARGEST_LIMIT:
        raise InvalidNeed(f"{info.id} needs a number from 0 to {LARGEST_LIMIT:,}, not {brief(value)}")
    return number


def _parse_number(text: str) -> int | None:
    """Parse `200k`, `1.5M` or `200_000` exactly, or return None."""
    match = _NUMBER.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if match is None:
        return None
    whole, fraction, suffix = match[1], match[2] or "", match[3].lower()
    scaled = int(whole + fraction) * _SCALE[suffix]
    return scaled // 10 ** len(fraction) if scaled % 10 ** len(fraction) == 0 else None


def _larger_minimum(first: Need, second: Need) -> int | str | None:
    if first.minimum is None or second.minimum is None or first.minimum == second.minimum:
        return second.minimum if first.minimum is None else first.minimum
    info = first.capability_info
    if info.kind == "limit":
        return max(first.minimum, second.minimum)
    if not info.ordered:
        raise InvalidNeed(
            f"{info.id} cannot be both {first.minimum} and {second.minimum}: "
            f"{_requirers(first)} and {_requirers(second)} ask for different things"
        )
    return max(first.minimum, second.minimum, key=lambda value: info.choices.index(str(value)))


def _is_valid(need: Need) -> bool:
    """Whether a need passes the checks of `need`; the constructor itself checks nothing."""
    info = CAPABILITIES.get(need.capability) if type(need.capability) is str else None
    if info is None or need.level not in _STRICTNESS or need.min_support not in MIN_SUPPORTS:
        return False
    if type(need.required_by) is not tuple:
        return False
    if need.minimum is None:
        return True
    if info.kind == "limit":
        return type(need.minimum) is int and 0 <= need.minimum <= LARGEST_LIMIT
    return info.kind == "choice" and need.minimum in info.choices


def _requirers(need: Need) -> str:
    return ", ".join(need.required_by) or "one need"
