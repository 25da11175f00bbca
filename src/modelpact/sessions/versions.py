"""Contract versions and ranges: an extension declares for which versions it was written.

^1.0        1.0.0 or later, before 2
~1.2        1.2.0 or later, before 1.3
1.x         any 1
>=1.0,<2    both hold
1.0.1       exactly that
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError, brief

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,8})"
_WORD: Final = r"[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+{_WORD}(?:\.{_WORD})*)?"
)
_PART: Final = rf"(?:{_NUMBER}|[xX*])"
_PARTIAL: Final = re.compile(rf"(\^|~|>=|<=|>|<|=)?\s*({_PART}(?:\.{_PART}){{0,2}})")
_FULL: Final = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*(.+)")
_MAX_LENGTH: Final = 200


class ContractVersion(msgspec.Struct, frozen=True):
    """A semantic version. `pre` has the identifiers of a pre-release."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ContractVersion":
        """Read `MAJOR.MINOR.PATCH`, with or without a pre-release. Build metadata is ignored."""
        is_text = isinstance(text, str) and len(text) <= _MAX_LENGTH
        match = _VERSION.fullmatch(text) if is_text else None
        if match is None:
            raise InputError(f"{brief(text)} is not a version: write MAJOR.MINOR.PATCH")
        pre = tuple(match[4].split(".")) if match[4] else ()
        return cls(int(match[1]), int(match[2]), int(match[3]), pre)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(self.pre)}" if self.pre else text

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """The key by which versions are ordered. A pre-release comes before its release."""
        parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.pre]
        return self.numbers, not self.pre, parts

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self.major, self.minor, self.patch


CONTRACT_VERSION: Final = ContractVersion(1, 0, 1)
"""The version of the session contract that modelpact implements."""


class VersionRange(msgspec.Struct, frozen=True):
    """A range of versions: every bound must hold."""

    text: str
    bounds: tuple[tuple[str, ContractVersion], ...]

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Read a range. Bounds are separated by commas."""
        if not isinstance(text, str) or not text.strip() or len(text) > _MAX_LENGTH:
            raise InputError(f"{brief(text)} is not a range of versions: write one such as ^1.0")
        bounds = [bound for part in text.split(",") for bound in _bounds(part.strip(), text)]
        return cls(text, tuple(bounds))

    def __str__(self) -> str:
        return self.text

    def __contains__(self, version: ContractVersion) -> bool:
        if version.pre and not any(bound.pre and bound.numbers == version.numbers for _, bound in self.bounds):
            return False  # the range must name a pre-release of the same version
        return all(_OPERATORS[sign](version.sort_key, bound.sort_key) for sign, bound in self.bounds)


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


def _bounds(part: str, text: str) -> list[tuple[str, ContractVersion]]:
    """Read one part of a range as bounds. `text` is the whole range, for errors."""
    partial = _PARTIAL.fullmatch(part)
    if partial is not None:
        parts = partial[2].split(".")
        numbers = [int(number) for number in parts if number.isdecimal()]
        if any(not number.isdecimal() for number in parts[: len(numbers)]):
            raise InputError(f"{brief(text)}: only x may follow an x")
        return _expand(partial[1] or "", numbers)
    full = _FULL.fullmatch(part)
    if full is None:
        raise InputError(f"{brief(text)} is not a range of versions: a bound is empty")
    sign = full[1] or "="
    try:
        version = ContractVersion.parse(full[2])
    except InputError:
        raise InputError(f"{brief(text)} is not a range of versions: write one such as ^1.0 or >=1.0,<2") from None
    if sign in ("^", "~"):
        (_, _), end = _expand(sign, list(version.numbers))
        return [(">=", version), end]
    return [(sign, version)]


def _expand(sign: str, numbers: list[int]) -> list[tuple[str, ContractVersion]]:
    """Turn a sign and up to three numbers into bounds. No numbers mean any version."""
    start = _version(numbers)
    if not numbers:
        return [("<", start)] if sign in ("<", ">") else [(">=", start)]
    if sign in (">=", "<"):
        return [(sign, start)]
    is_complete = len(numbers) == 3
    if is_complete and sign in ("", "=", ">", "<="):
        return [(sign or "=", start)]
    last = len(numbers) - 1
    if sign == "^":
        fixed = next((index for index, number in enumerate(numbers) if number), last)
    elif sign == "~":
        fixed = min(1, last)
    else:
        fixed = last
    end = _version([*numbers[:fixed], numbers[fixed] + 1])
    if sign == ">":
        return [(">=", end)]
    if sign == "<=":
        return [("<", end)]
    return [(">=", start), ("<", end)]


def _version(numbers: list[int]) -> ContractVersion:
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return ContractVersion(major, minor, patch)
