"""Headers: those received, as they came, and those sent, checked before they are written."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Self

from modelpact.vocabulary.errors import InputError, brief

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
_NOT_PASSED_ON: Final = frozenset(
    name.encode() for name in (*_HOP_BY_HOP, "content-length", "date", "host")
)


class RawHeaders(bytes):
    """Headers as they are sent: checked and written once, sent as often as need be.

    Made of anything but what a strict parser has read they must be made by `of`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, headers: "HeaderPairs") -> Self:
        """Check and write headers."""
        return cls(written(headers))

    def pairs(self) -> list[tuple[str, str]]:
        """Return the headers one by one."""
        lines = self.decode("latin-1").split("\r\n")[:-1]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    def plus(self, more: "RawHeaders") -> "RawHeaders":
        """Return these lines and some more."""
        return RawHeaders(self + more)

    def __repr__(self) -> str:
        # Values may be secrets, and representations end up in logs.
        return f"<Lines of {len(self)} bytes>"

    __str__ = __repr__


HeaderPairs = Mapping[str, str] | Iterable[tuple[str, str]] | RawHeaders


class Headers:
    """The headers of a message: names in lower case, every value kept, in the order sent."""

    __slots__ = ("_fields", "_passed_on", "index", "memo", "repeated")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields
        self._passed_on: tuple[frozenset[bytes], RawHeaders] | None = None
        self.memo: Any = None
        """What a handler makes of them and of nothing else: it is kept for as long as requests
        come with the same head, whatever the length of their bodies."""
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

    def passed_on(self, without: frozenset[bytes] = _NONE) -> RawHeaders:
        """Return the same as lines to send, without some more (names in lower case).

        They are remembered: of requests that follow each other with one head, they are made once.
        """
        if self._passed_on is not None and self._passed_on[0] is without:
            return self._passed_on[1]
        dropped = _dropped(without)
        if b"connection" in self.index:
            named = ",".join(self.all("connection")).lower().encode("latin-1").split(b",")
            dropped = dropped.union(one.strip() for one in named)
        kept = [b"%b: %b\r\n" % field for field in self._fields if field[0] not in dropped]
        lines = RawHeaders(b"".join(kept))
        self._passed_on = without, lines
        return lines

    def with_length(self, length: bytes) -> "Headers":
        """Return the same headers with another `content-length`, which is there once."""
        name = b"content-length"
        fields = [(name, length) if field[0] == name else field for field in self._fields]
        same = Headers(fields)
        same._passed_on = self._passed_on
        same.memo = self.memo
        return same

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


@lru_cache(maxsize=_MOST_REMEMBERED)
def _dropped(without: frozenset[bytes]) -> frozenset[bytes]:
    return _NOT_PASSED_ON | without


_names_checked: dict[str, None] = {}


def written(headers: HeaderPairs) -> bytes:
    """Write headers, or refuse those that would break or forge the framing of the message."""
    if isinstance(headers, RawHeaders):
        return headers
    lines = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if name not in _names_checked:
            _check_name(name)
        if not value.isprintable() and _CONTROL.search(value):
            raise InputError(
                f"header {name}: {brief(value)} has control characters; remove or encode them"
            )
        lines.append(f"{name}: {value}\r\n")
    return _latin("".join(lines))


def _check_name(name: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise InputError(f"{brief(name)} is not a header name: expected letters, digits and dashes")
    if name.lower() in _FRAMING:
        raise InputError(f"header {name}: it is set by the wire itself; leave it out")
    if len(_names_checked) >= _MOST_REMEMBERED:
        _names_checked.clear()
    _names_checked[name] = None


def _latin(text: str) -> bytes:
    """Encode lines; a header outside Latin-1 is refused by name."""
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
        self.until = 0.0
        self.line = b""


_clock = _Clock()


def date_line() -> bytes:
    """Return the `date` header of this second."""
    now = time.time()
    if not now < _clock.until <= now + 1:
        second = int(now)
        _clock.line = f"date: {formatdate(second, usegmt=True)}\r\n".encode()
        _clock.until = second + 1.0
    return _clock.line
