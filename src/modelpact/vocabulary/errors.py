"""Errors: each says what is wrong, where, and what to do about it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

_ERROR_CODES: Final = Path(__file__).with_name("error_codes.toml")


class ModelpactError(Exception):
    """The base of every error that modelpact raises on purpose."""


class InputError(ModelpactError, ValueError):
    """An input does not have the expected form."""


class UnknownName(InputError):
    """A name is not in a closed list; the message suggests the nearest names."""

    def __init__(self, kind: str, name: object, known: Iterable[str], hint: str = "") -> None:
        self.kind = kind
        self.name = name
        self.nearest = nearest(name, known) if isinstance(name, str) else ()
        suggestion = f"; did you mean {' or '.join(self.nearest)}?" if self.nearest else ""
        more = f" ({hint})" if hint else ""
        super().__init__(f"unknown {kind} {brief(name)}{suggestion}{more}")


class UnknownCapability(UnknownName):
    """Neither the vocabulary nor any dialect has this capability name."""


class InvalidNeed(InputError):
    """A need cannot be parsed, or asks for something that its capability does not have."""


class Problem(msgspec.Struct, frozen=True):
    """One problem of a data file, with its place."""

    file: str
    where: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.where}: {self.message}" if self.where else f"{place}: {self.message}"


class ProblemsError(ModelpactError, ValueError):
    """Data files have problems; the error lists all of them."""

    title = "problems"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"{count} {self.title}" if count != 1 else f"1 {self.title.removesuffix('s')}"
        super().__init__("\n  ".join([f"{head}:", *map(str, self.problems)]))


class CatalogError(ProblemsError):
    """The data files of the catalog are not valid."""

    title = "catalog problems"


class ConfigurationError(ProblemsError):
    """A `modelpact.toml` is not valid."""

    title = "configuration problems"


class ErrorCode(msgspec.Struct, frozen=True):
    """A code that a program may see, its cause, and what to do about it."""

    code: str
    where: str
    cause: str
    remedy: str


def error_codes() -> tuple[ErrorCode, ...]:
    """Return every error code, read from `error_codes.toml`."""
    import tomllib  # imported only when the table is read

    content = tomllib.loads(_ERROR_CODES.read_text(encoding="utf-8"))
    return msgspec.convert(content["codes"], tuple[ErrorCode, ...])


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names that resemble `name` most."""
    import difflib  # imported only when there is an error to explain

    by_form: dict[str, str] = {}
    for candidate in known:
        by_form.setdefault(candidate.casefold().replace("_", "-"), candidate)
    wanted = name[:80].casefold().replace("_", "-")
    close = difflib.get_close_matches(wanted, by_form, n=3, cutoff=0.6)
    if not close and len(wanted) >= 3:
        close = sorted(form for form in by_form if wanted in form)[:3]
    return tuple(by_form[form] for form in close)


def brief(value: object, width: int = 80) -> str:
    """Write any value briefly for an error message; never raise."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= width else f"{text[: width - 1]}…"
