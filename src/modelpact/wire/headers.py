"""Headers: those received, as they came, and those sent, checked before they are written."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from typing import Final

from modelpact.vocabulary.errors import InputError, brief

HeaderPairs = Mapping[str, str] | Iterable[tuple[str, str]]

_HOP_BY_HOP: Final = frozenset(
    (
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_FRAMING: Final = frozenset(
    (
        "connection",
        "content-length",
        "date",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MOST_REMEMBERED: Final = 512
_NONE: Final[frozenset[bytes]] = frozenset()


class Headers:
    """The headers of a message: names in lower case, every value kept, in the order sent."""

    __slots__ = ("_fields", "index", "repeated")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields
        self.index = dict(fields)
        """The value of each name; of one that is repeated, the first."""
        self.repeated: frozenset[bytes] = _NONE
        if len(self.index) != len(fields):
            self._first_of_each()

    @property
    def size(self) -> int:
        """The length of all names and values together."""
        return sum(len(name) + len(value) for name, value in self._fields)

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        value = self.index.get(name.lower().encode("latin-1", "replace"))
        return None if value is None else value.decode("latin-1").rstrip(" \t")

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        wanted = name.lower()
        return [value for field, value in self if field == wanted]

    def end_to_end(self) -> list[tuple[str, str]]:
        """Return what may be passed on: nothing about a connection, a host or a length."""
        named = {one.strip().lower() for one in ",".join(self.all("connection")).split(",")}
        dropped = _HOP_BY_HOP | named | {"content-length", "date", "host"}
        return [(name, value) for name, value in self if name not in dropped]

    def _first_of_each(self) -> None:
        self.index = {}
        repeated = set()
        for name, value in self._fields:
            if name in self.index:
                repeated.add(name)
            else:
                self.index[name] = value
        self.repeated = frozenset(repeated)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for name, value in self._fields:
            yield name.decode("latin-1"), value.decode("latin-1").rstrip(" \t")

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        # Values may be secrets, and representations end up in logs.
        return f"Headers({', '.join(name for name, _ in self)})"


_names_checked: dict[str, None] = {}


def header_lines(headers: HeaderPairs) -> str:
    """Write headers, or refuse those that would break or forge the framing of the message."""
    lines = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if name not in _names_checked:
            _check_name(name)
        if not value.isprintable() and _CONTROL.search(value):
            raise InputError(
                f"header {name}: {brief(value)} has control characters; remove or encode them"
            )
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def _check_name(name: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise InputError(f"{brief(name)} is not a header name: expected letters, digits and dashes")
    if name.lower() in _FRAMING:
        raise InputError(f"header {name}: it is set by the wire itself; leave it out")
    if len(_names_checked) >= _MOST_REMEMBERED:
        _names_checked.clear()
    _names_checked[name] = None


def latin(text: str) -> bytes:
    """Encode a head; a header outside Latin-1 is refused by name."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        line = next(line for line in text.split("\r\n") if not _is_latin(line))
        raise InputError(
            f"header {line.partition(':')[0]}: it has characters outside Latin-1; encode them"
        ) from error


def _is_latin(text: str) -> bool:
    return all(ord(character) < 256 for character in text)


class _Clock:
    """The `date` line, written once a second."""

    def __init__(self) -> None:
        self.second = 0
        self.line = ""


_clock = _Clock()


def date_line() -> str:
    """Return the `date` header of this second."""
    second = int(time.time())
    if second != _clock.second:
        _clock.line = f"date: {formatdate(second, usegmt=True)}\r\n"
        _clock.second = second
    return _clock.line
