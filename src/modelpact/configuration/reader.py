"""Reads typed values from a parsed TOML file and collects every problem with its line."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import ProviderSettings, SecretRef
from modelpact.vocabulary.errors import InputError, Problem, nearest
from modelpact.vocabulary.redaction import redact_text

S = TypeVar("S", bound=msgspec.Struct)

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_QUOTED_TYPE: Final = re.compile("`([^`]*)`")
_TOML_TYPES: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "object": "a table",
    "str": "a string",
}
_ALLOWED_INVISIBLE: Final = dict.fromkeys(map(ord, "\n\r\t\u200c\u200d"))
"""Unprintable characters that a string may hold: line ends, tabs, and the joiners that some
scripts need."""


class SectionReader:
    """Reads the sections of one file. Problems are collected, so that all are reported at once."""

    def __init__(self, text: str, file: str, catalog: Catalog) -> None:
        self.lines = KeyLines(text)
        self.file = file
        self.catalog = catalog
        self.problems: list[Problem] = []
        self.providers: dict[str, ProviderSettings] = {}
        """The providers that the file configures, read before the sections that name them."""

    def report(self, path: Sequence[str], message: str) -> None:
        """Add a problem with the value at a path of keys."""
        where = redact_text(".".join(quote_key(key) for key in path))
        self.problems.append(Problem(self.file, where, redact_text(message), self.lines.line_of(path)))

    def report_unprintable(self, content: Mapping[str, Any]) -> None:
        """Report strings with control characters, which a terminal would obey when it shows them.

        The file may come with somebody else's repository.
        """
        pending: list[tuple[list[str], Any]] = [([], content)]
        while pending:
            path, value = pending.pop()
            if isinstance(value, dict):
                pending += [([*path, key], nested) for key, nested in value.items()]
            elif isinstance(value, list):
                pending += [(path, item) for item in value]
            texts = (value, *path[-1:]) if isinstance(value, str) else path[-1:]
            if not all(map(_is_printable, texts)):
                self.report(path, "contains a character that cannot be seen: remove it")

    def section(self, content: Mapping[str, Any], name: str, kind: type[S]) -> S:
        """Read a section with fixed keys."""
        entry = content.get(name, {})
        if not isinstance(entry, dict):
            self.report([name], f"expected a section [{name}]")
            return kind()
        return self.fields([name], entry, kind)

    def sections(self, content: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the sections `[name.KEY]`, each with its key."""
        entries = content.get(name, {})
        if not isinstance(entries, dict):
            self.report([name], f"expected sections [{name}.NAME]")
            return
        for key, entry in entries.items():
            if isinstance(entry, dict):
                yield key, entry
            else:
                self.report([name, key], f"expected a section [{name}.{quote_key(key)}]")

    def fields(self, path: list[str], entry: Mapping[str, Any], kind: type[S]) -> S:
        """Convert a table to a struct field by field; a bad field keeps its default."""
        self.check_keys(path, entry, kind)
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if field.name not in entry:
                continue
            if field.type == SecretRef | None:
                values[field.name] = self._secret([*path, field.name], entry[field.name])
            else:
                try:
                    values[field.name] = msgspec.convert(entry[field.name], field.type)
                except msgspec.ValidationError as error:
                    self.report([*path, field.name], _conversion_message(error, field.type))
        return kind(**values)

    def check_keys(self, path: list[str], entry: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
        """Report the keys of a table that the struct does not have."""
        known = kind.__struct_fields__
        for key in entry:
            if key not in known:
                self.report([*path, key], unknown_name("key", key, known))

    def _secret(self, path: list[str], value: Any) -> SecretRef | None:
        """Read where a secret comes from; the secret itself is never accepted."""
        if isinstance(value, str):
            self.report(path, 'a secret must not be in the file: write { env = "NAME" }')
            return None
        try:
            ref = msgspec.convert(value, SecretRef)
        except msgspec.ValidationError:
            ref = SecretRef()
        if bool(ref.env) == bool(ref.file) or (ref.env and not _ENV_NAME.fullmatch(ref.env)):
            self.report(path, 'expected { env = "NAME" } or { file = "PATH" }')
            return None
        return ref

    def target(self, path: list[str], value: Any) -> tuple[str, str] | None:
        """Read a PROVIDER/MODEL; return the provider's id and the model."""
        try:
            provider, model = self.catalog.split(value)
        except InputError as error:
            self.report(path, str(error))
            return None
        if provider in self.providers:
            return provider, model
        known = self.catalog.providers.find(provider)
        if known is None:
            self.report(path, unknown_name("provider", provider, self.provider_names))
            return None
        return known.id, model

    @property
    def provider_names(self) -> tuple[str, ...]:
        """The names of all providers: the configured ones, then those of the catalog."""
        return (*self.providers, *self.catalog.providers.names)


class KeyLines:
    """The line of every key in a TOML text, found in one pass over its lines."""

    __slots__ = ("_lines",)

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, raw_line in enumerate(text.splitlines(), 1):
            line = raw_line.strip()
            if line.startswith("["):
                header = _parse_keys(line.split("#")[0].strip())
                if header is None:
                    continue
                table = path = header
            elif "=" in line and not line.startswith("#"):
                keys = _parse_keys(line[: line.index("=")].strip() + " = 0")
                if keys is None:
                    continue
                path = (*table, *keys)
            else:
                continue
            self._lines.setdefault(path, number)

    def line_of(self, path: Sequence[str]) -> int | None:
        """Return the line of a key, or of the nearest table above it; None if there is neither."""
        for end in range(len(path), 0, -1):
            line = self._lines.get(tuple(path[:end]))
            if line is not None:
                return line
        return None


def unknown_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return a message about an unknown name, with the nearest known one or a short list."""
    close = nearest(name, known)
    if close:
        return f"unknown {kind} {name!r}; did you mean {close[0]!r}?"
    listed = f"; there are {', '.join(known)}" if len(known) <= 12 else ""
    return f"unknown {kind} {name!r}{listed}"


def quote_key(key: str) -> str:
    """Return a key as TOML writes it, with unprintable characters escaped."""
    if key.isascii() and key.replace("-", "").replace("_", "").isalnum():
        return key
    escaped = (char if char.isprintable() else f"\\U{ord(char):08x}" for char in key)
    return f'"{"".join(escaped)}"'


def _parse_keys(line: str) -> tuple[str, ...] | None:
    """Return the keys of a table header or an assignment, outermost first."""
    try:
        value: Any = tomllib.loads(line)
    except (ValueError, RecursionError):
        return None
    keys: list[str] = []
    while isinstance(value, (dict, list)) and value:
        if isinstance(value, list):
            value = value[0]
            continue
        key = next(iter(value))
        keys.append(key)
        value = value[key]
    return tuple(keys)


def _is_printable(text: str) -> bool:
    return text.isprintable() or text.translate(_ALLOWED_INVISIBLE).isprintable()


def _conversion_message(error: msgspec.ValidationError, kind: Any) -> str:
    """Return what msgspec says about a value, in the terms of TOML."""
    choices = get_args(kind)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"expected one of {', '.join(choices)}"
    message = _QUOTED_TYPE.sub(
        lambda match: " or ".join(_TOML_TYPES.get(name, name) for name in match[1].split(" | ")), str(error)
    )
    return message[:1].lower() + message[1:]
