"""Lines: where in a TOML text its keys stand."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import ProviderSettings, SecretRef
from modelpact.vocabulary.errors import InputError, Problem, nearest
from modelpact.vocabulary.redaction import redact_text


class KeyLines:
    """The places of all keys of a TOML text, found in one pass."""

    __slots__ = ("_places",)

    def __init__(self, text: str) -> None:
        self._places: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if stripped.startswith("["):
                header = _keys(stripped.split("#")[0].strip())
                if header is None:
                    continue
                table = here = header
            elif "=" in stripped and not stripped.startswith("#"):
                keys = _keys(stripped[: stripped.index("=")].strip() + " = 0")
                if keys is None:
                    continue
                here = (*table, *keys)
            else:
                continue
            self._places.setdefault(here, number)

    def of(self, path: Sequence[str]) -> int | None:
        """Return the line of a key, or of the nearest table above it that can be found."""
        for end in range(len(path), 0, -1):
            found = self._places.get(tuple(path[:end]))
            if found is not None:
                return found
        return None


def _keys(snippet: str) -> tuple[str, ...] | None:
    """Return the keys that a header or an assignment names, outermost first."""
    try:
        found: Any = tomllib.loads(snippet)
    except (ValueError, RecursionError):
        return None
    keys: list[str] = []
    while isinstance(found, (dict, list)) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        key = next(iter(found))
        keys.append(key)
        found = found[key]
    return tuple(keys)


_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_LET_THROUGH: Final = dict.fromkeys(map(ord, "\n\r\t\u200c\u200d"))
"""What is let through beside what is printable: line ends, and joiners, which scripts need."""

T = TypeVar("T")


class SectionReader:
    """Reads values of one file and collects what is wrong with them."""

    def __init__(self, text: str, file: str, catalog: Catalog) -> None:
        self.lines = KeyLines(text)
        self.file = file
        self.catalog = catalog
        self.problems: list[Problem] = []
        self.providers: dict[str, ProviderSettings] = {}

    def wrong(self, path: Sequence[str], message: str) -> None:
        """Note what is wrong at a place."""
        where = redact_text(".".join(quoted(key) for key in path))
        self.problems.append(Problem(self.file, where, redact_text(message), self.lines.of(path)))

    def look_for_unseen(self, content: Mapping[str, Any]) -> None:
        """Note texts that a terminal would obey: the file may be a stranger's, and is shown."""
        left: list[tuple[list[str], Any]] = [([], content)]
        while left:
            place, value = left.pop()
            if isinstance(value, dict):
                left += [([*place, key], one) for key, one in value.items()]
            elif isinstance(value, list):
                left += [(place, one) for one in value]
            texts = (value, *place[-1:]) if isinstance(value, str) else place[-1:]
            if any(not _is_seen(one) for one in texts):
                self.wrong(place, "a character in it cannot be seen: leave it out")

    def section(self, content: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
        """Read a section of fixed keys."""
        given = content.get(name, {})
        if not isinstance(given, dict):
            self.wrong([name], f"expected a section [{name}]")
            return default
        return self.fields([name], given, kind)

    def fields(self, place: list[str], given: Mapping[str, Any], kind: type[T]) -> T:
        """Read fixed keys, each wrong one told for itself."""
        fields: dict[str, Any] = {}
        for one in msgspec.structs.fields(kind):  # type: ignore[arg-type]
            if one.name in given:
                try:
                    fields[one.name] = msgspec.convert(given[one.name], one.type)
                except msgspec.ValidationError as error:
                    self.wrong([*place, one.name], _readable(error, one.type))
        known = [one.name for one in msgspec.structs.fields(kind)]  # type: ignore[arg-type]
        for key in given:
            if key not in known:
                self.wrong([*place, key], no_such("key", key, known))
        return kind(**fields)

    def table(self, content: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the sections of a table of sections, by name."""
        given = content.get(name, {})
        if not isinstance(given, dict):
            self.wrong([name], f"expected sections [{name}.NAME]")
            return
        for key, entry in given.items():
            if isinstance(entry, dict):
                yield key, entry
            else:
                self.wrong([name, key], f"expected a section [{name}.{quoted(key)}]")

    def object(self, place: list[str], entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a value that has to be a table."""
        given = entry[place[-1]]
        if isinstance(given, dict):
            return given
        self.wrong(place, "expected a table of keys and values")
        return {}

    def secret(self, place: list[str], value: Any) -> SecretRef | None:
        """Read where a secret comes from."""
        if isinstance(value, str):
            self.wrong(place, 'a key never stands in the file: write { env = "NAME" }')
            return None
        try:
            found = msgspec.convert(value, SecretRef)
        except msgspec.ValidationError:
            found = SecretRef()
        if bool(found.env) == bool(found.file) or (found.env and not _ENV.fullmatch(found.env)):
            self.wrong(place, 'expected { env = "NAME" } or { file = "PATH" }')
            return None
        return found

    def target(self, place: list[str], target: Any) -> tuple[str, str] | None:
        """Check a PROVIDER/MODEL and return it with the provider's own id."""
        try:
            provider, model = self.catalog.split(target)
        except InputError as error:
            self.wrong(place, str(error))
            return None
        if provider in self.providers:
            return provider, model
        found = self.catalog.providers.find(provider)
        if found is None:
            names = (*self.providers, *self.catalog.providers.names)
            self.wrong(place, no_such("provider", provider, names))
            return None
        return found.id, model


def no_such(what: str, name: str, known: Sequence[str]) -> str:
    """Say that a name is not known, and which is near."""
    close = nearest(name, known)
    if close:
        return f"unknown {what} {name!r}; did you mean {close[0]!r}?"
    listed = f"; there are {', '.join(known)}" if len(known) <= 12 else ""
    return f"unknown {what} {name!r}{listed}"


def quoted(key: str) -> str:
    """Write a key as TOML has it, with nothing in it that a terminal would obey."""
    plain = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    shown = (one if one.isprintable() else f"\\U{ord(one):08x}" for one in key)
    return key if plain else f'"{"".join(shown)}"'


def _is_seen(text: str) -> bool:
    return text.isprintable() or text.translate(_LET_THROUGH).isprintable()


def _readable(error: msgspec.ValidationError, kind: Any) -> str:
    choices = getattr(kind, "__args__", ())
    if choices and all(isinstance(one, str) for one in choices):
        return f"expected one of {', '.join(choices)}"
    return str(error).lower().replace("`", "")
