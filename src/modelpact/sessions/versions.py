"""Contract versions: whether an extension was written for this contract. Checked when it is loaded.

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
_LONGEST: Final = 200


class ContractVersion(msgspec.Struct, frozen=True):
    """A semantic version; `pre` are the words of a pre-release."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ContractVersion":
        """Read `MAJOR.MINOR.PATCH`, perhaps with a pre-release; what was built is left out."""
        found = (
            _VERSION.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
        )
        if found is None:
            raise InputError(f"{brief(text)} is not a version: write MAJOR.MINOR.PATCH")
        pre = tuple(found[4].split(".")) if found[4] else ()
        return cls(int(found[1]), int(found[2]), int(found[3]), pre)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(self.pre)}" if self.pre else text

    @property
    def order(self) -> tuple[Any, ...]:
        """What versions are compared by: a pre-release comes before its release."""
        words = [(0, int(one), "") if one.isdecimal() else (1, 0, one) for one in self.pre]
        return self.numbers, not self.pre, words

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self.major, self.minor, self.patch


CONTRACT_VERSION: Final = ContractVersion(1, 0, 1)
"""The version of the session contract that this modelpact keeps."""


class VersionRange(msgspec.Struct, frozen=True):
    """Versions that will do: every bound must hold."""

    text: str
    bounds: tuple[tuple[str, ContractVersion], ...]

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Read a range; bounds are separated by commas."""
        if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
            raise InputError(f"{brief(text)} is not a range of versions: write one such as ^1.0")
        bounds = [bound for part in text.split(",") for bound in _bounds(part.strip(), text)]
        return cls(text, tuple(bounds))

    def __str__(self) -> str:
        return self.text

    def __contains__(self, version: ContractVersion) -> bool:
        if version.pre and not any(
            bound.pre and bound.numbers == version.numbers for _, bound in self.bounds
        ):
            return False  # a pre-release only where the range names one of the same release
        return all(_HOLDS[sign](version.order, bound.order) for sign, bound in self.bounds)


_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


def _bounds(part: str, text: str) -> list[tuple[str, ContractVersion]]:
    partial = _PARTIAL.fullmatch(part)
    if partial is not None:
        words = partial[2].split(".")
        given = [int(one) for one in words if one.isdecimal()]
        if any(not one.isdecimal() for one in words[: len(given)]):
            raise InputError(f"{brief(text)}: after an x there is nothing but x")
        return _ranged(partial[1] or "", given)
    signed = _FULL.fullmatch(part)
    if signed is None:
        raise InputError(f"{brief(text)} is not a range of versions: a bound is empty")
    try:
        version = ContractVersion.parse(signed[2])
    except InputError:
        raise InputError(
            f"{brief(text)} is not a range of versions: write one such as ^1.0 or >=1.0,<2"
        ) from None
    if signed[1] in ("^", "~"):
        (_, _), end = _ranged(signed[1], list(version.numbers))
        return [(">=", version), end]
    return [(signed[1] or "=", version)]


def _ranged(sign: str, given: list[int]) -> list[tuple[str, ContractVersion]]:
    """Turn `sign` and one to three numbers (none: any version) into bounds."""
    start = _version(given)
    if not given:
        return [("<", start)] if sign in ("<", ">") else [(">=", start)]
    if sign in (">=", "<"):
        return [(sign, start)]
    whole = len(given) == 3
    if whole and sign in ("", "=", ">", "<="):
        return [(sign or "=", start)]
    if sign == "^":
        steady = next((place for place, one in enumerate(given) if one), len(given) - 1)
    elif sign == "~":
        steady = min(1, len(given) - 1)
    else:
        steady = len(given) - 1
    end = _version([*given[:steady], given[steady] + 1])
    if sign == ">":
        return [(">=", end)]
    if sign == "<=":
        return [("<", end)]
    return [(">=", start), ("<", end)]


def _version(numbers: list[int]) -> ContractVersion:
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return ContractVersion(major, minor, patch)
