"""Needs: what a piece of work requires of a model.

tools                       a flag, hard
structured-output:preferred nice to have
context>=200k               a limit with its minimum
image-input>=native         no emulation will do
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
_PART: Final = re.compile(r"\s*(>=|≥|=)\s*([^:>=≥]*)")
_NUMBER: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?\s*([kKmM]?)")
_SCALE: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_LONGEST: Final = 512


class Need(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What work requires of one capability; `need(...)` and `Need.parse` make checked ones."""

    capability: str
    level: Level = "hard"
    min_support: MinSupport = "emulated"
    minimum: int | str | None = None
    required_by: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, required_by: Iterable[str] = ()) -> "Need":
        """Read a need from its text form."""
        if not isinstance(text, str):
            raise InvalidNeed(f"a need is written as text, not as {type(text).__name__}")
        if len(text) > _LONGEST:
            raise InvalidNeed(f"a need of {len(text):,} characters is too long: {text[:40]!r}…")
        body, colon, level = text.partition(":")
        end = re.search(r">=|≥|=", body)
        name = body[: end.start()] if end else body
        min_support = sign = ""
        minimum: str | None = None
        place = len(name)
        while place < len(body):
            part = _PART.match(body, place)
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
            place = part.end()
        if ">" in name or "<" in name:
            raise InvalidNeed(f"cannot read {text!r}: a minimum is written with >=")
        if not name.strip():
            raise InvalidNeed(f"cannot read {text!r}: a need begins with a capability's name")
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
        """The capability's entry in the vocabulary."""
        return CAPABILITIES.get(self.capability) or capability(self.capability)


def _check_sign(info: Capability, sign: str, text: str) -> None:
    """Refuse `=` where more will do, and `>=` where there is no order."""
    ordered = info.kind == "limit" or info.ordered
    if ordered and sign == "=":
        raise InvalidNeed(f"cannot read {text!r}: more than that will do, so write >=")
    if info.kind == "choice" and not ordered and sign != "=":
        raise InvalidNeed(f"cannot read {text!r}: {info.id} has no order, so write =")


def stands_on(need: Need) -> tuple[str, ...]:
    """Return the capability and those it may follow from, so that constraints see through it."""
    formula = need.capability_info.formula
    if isinstance(formula, SameAs):
        return need.capability, formula.base
    if isinstance(formula, Ladder):
        return need.capability, *(base for _, base in ladder_steps(formula, need))
    if isinstance(formula, AnyOf):
        return need.capability, *formula.bases
    return (need.capability,)


def ladder_steps(formula: Ladder, need: Need) -> tuple[tuple[str, str], ...]:
    """Return the steps of a choice any of which meets the need; none where its floor does."""
    if need.minimum is None:
        return formula.steps
    values = [value for value, _ in formula.steps]
    if need.minimum not in values:
        return ()
    place = values.index(str(need.minimum))
    start = 0 if need.capability_info.ordered else place
    return formula.steps[start : place + 1]


def need(
    name: str,
    *,
    level: str = "hard",
    min_support: str = "emulated",
    minimum: Any = None,
    required_by: Iterable[str] | str = (),
) -> Need:
    """Make a need, checked: the name may be any that the vocabulary or a dialect has."""
    info = capability(name)
    if level not in LEVELS:
        raise InvalidNeed(f"unknown level {brief(level)} for {info.id}: hard, preferred or probed")
    if min_support not in MIN_SUPPORTS:
        raise InvalidNeed(f"unknown minimum support {brief(min_support)}: native or emulated")
    listed = (required_by,) if isinstance(required_by, str) else required_by
    by = tuple(listed) if isinstance(listed, Iterable) else (listed,)
    if not all(isinstance(one, str) for one in by):
        raise InvalidNeed("required_by is a text or several texts")
    return Need(
        info.id,
        level,
        min_support,
        _minimum(info, minimum),
        tuple(dict.fromkeys(by)),
    )


def _minimum(info: Capability, value: Any) -> int | str | None:
    if value is None:
        return None
    if info.kind == "flag":
        raise InvalidNeed(f"{info.id} is a flag: it has no minimum value ({brief(value)})")
    if info.kind == "choice":
        if value not in info.choices:
            raise InvalidNeed(f"{info.id} is one of {', '.join(info.choices)}, not {brief(value)}")
        return str(value)
    number = _number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidNeed(f"{info.id} needs a whole number of {info.unit}, not {brief(value)}")
    if not 0 <= number <= LARGEST_LIMIT:
        raise InvalidNeed(
            f"{info.id} needs a number from 0 to {LARGEST_LIMIT:,}, not {brief(value)}"
        )
    return number


def _number(text: str) -> int | None:
    """Read `200k`, `1.5M` or `200_000` exactly, or return None."""
    found = _NUMBER.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if found is None:
        return None
    whole, fraction, suffix = found[1], found[2] or "", found[3].lower()
    scaled = int(whole + fraction) * _SCALE[suffix]
    return scaled // 10 ** len(fraction) if scaled % 10 ** len(fraction) == 0 else None


def stricter(one: Need, other: Need) -> Need:
    """Merge two needs for one capability: the strictest of each part, every `required_by`."""
    return Need(
        one.capability,
        max(one.level, other.level, key=_STRICTNESS.__getitem__),
        "native" if "native" in (one.min_support, other.min_support) else "emulated",
        _larger(one, other),
        tuple(dict.fromkeys((*one.required_by, *other.required_by))),
    )


def _larger(one: Need, other: Need) -> int | str | None:
    if one.minimum is None or other.minimum is None or one.minimum == other.minimum:
        return other.minimum if one.minimum is None else one.minimum
    info = one.capability_info
    if info.kind == "limit":
        return max(one.minimum, other.minimum)
    if not info.ordered:
        raise InvalidNeed(
            f"{info.id} cannot be both {one.minimum} and {other.minimum}: "
            f"{_by(one)} and {_by(other)} ask for different things"
        )
    return max(one.minimum, other.minimum, key=lambda value: info.choices.index(str(value)))


def _is_checked(one: Need) -> bool:
    """Tell whether a need is such as `need` makes them; one made by hand may be anything."""
    info = CAPABILITIES.get(one.capability) if type(one.capability) is str else None
    if info is None or one.level not in _STRICTNESS or one.min_support not in MIN_SUPPORTS:
        return False
    if type(one.required_by) is not tuple:
        return False
    if one.minimum is None:
        return True
    if info.kind == "limit":
        return type(one.minimum) is int and 0 <= one.minimum <= LARGEST_LIMIT
    return info.kind == "choice" and one.minimum in info.choices


def _by(one: Need) -> str:
    return ", ".join(one.required_by) or "one need"


class Needs:
    """A set of needs: merged, each capability once, in the order in which they were first named."""

    __slots__ = ("_hash", "_needs", "bases")

    def __init__(self, needs: Iterable[Need | str] | str = ()) -> None:
        merged: dict[str, Need] = {}
        requirers: dict[str, dict[str, None]] = {}
        if isinstance(needs, str):
            needs = [part for part in needs.split(",") if part.strip()]
        if not isinstance(needs, Iterable):
            raise InvalidNeed(f"needs are a text or several needs, not {type(needs).__name__}")
        for one in needs:
            if isinstance(one, str):
                one = Need.parse(one)
            elif not isinstance(one, Need):
                raise InvalidNeed(f"a need is a Need or its text, not {type(one).__name__}")
            elif not _is_checked(one):
                one = need(
                    one.capability,
                    level=one.level,
                    min_support=one.min_support,
                    minimum=one.minimum,
                    required_by=one.required_by,
                )
            before = merged.get(one.capability)
            requirers.setdefault(one.capability, {}).update(dict.fromkeys(one.required_by))
            if before is not None:  # requirers are put together once, at the end
                both = stricter(before, one)
                one = msgspec.structs.replace(both, required_by=before.required_by)
            merged[one.capability] = one
        self._needs = tuple(
            one
            if len(requirers[name]) == len(one.required_by)
            else msgspec.structs.replace(one, required_by=tuple(requirers[name]))
            for name, one in merged.items()
        )
        self._hash = hash(self._needs)
        self.bases = frozenset(name for one in self._needs for name in stands_on(one))
        """The capabilities needed, and those that they follow from."""

    def __iter__(self) -> Iterator[Need]:
        return iter(self._needs)

    def __len__(self) -> int:
        return len(self._needs)

    def __getitem__(self, place: int) -> Need:
        return self._needs[place]

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
