"""Headers: those of received messages, and the encoding of those to send."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Final, Self

from modelpact.vocabulary.errors import InputError, brief

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
"""Headers that the client and the server set themselves."""
_NOT_FORWARDABLE: Final = frozenset(name.encode() for name in (*_FRAMING, "proxy-authenticate", "proxy-authorization"))
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MEMO_SIZE: Final = 512
_NONE: Final[frozenset[bytes]] = frozenset()


class RawHeaders(bytes):
    """Encoded headers: checked once and sent any number of times.

    Construct them with `encode`, except from fields that the parser has checked.
    """

    __slots__ = ()

    @classmethod
    def encode(cls, headers: "HeaderPairs") -> Self:
        """Check and encode headers."""
        return cls(encode_headers(headers))

    def pairs(self) -> list[tuple[str, str]]:
        """Return the headers as pairs of name and value."""
        lines = self.decode("latin-1").split("\r\n")[:-1]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    def plus(self, other: "RawHeaders") -> "RawHeaders":
        """Return these headers followed by others."""
        return RawHeaders(self + other)

    def __repr__(self) -> str:
        # Values may be secrets, and representations end up in logs.
        return f"<RawHeaders of {len(self)} bytes>"

    __str__ = __repr__


HeaderPairs = Mapping[str, str] | Iterable[tuple[str, str]] | RawHeaders


class Headers:
    """The headers of a received message: lower-case names and all values, in their order."""

    __slots__ = ("_cache_key", "_fields", "_forwardable", "index", "repeated")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields
        self._forwardable: tuple[frozenset[bytes], RawHeaders] | None = None
        self._cache_key: bytes | None = None
        self.index = dict(fields)
        """The value of each name; the first value of a repeated one."""
        self.repeated: frozenset[bytes] = _NONE
        if len(self.index) != len(fields):
            self._index_first_values()

    @property
    def size(self) -> int:
        """The total length of all names and values."""
        return sum(len(name) + len(value) for name, value in self._fields)

    @property
    def cache_key(self) -> bytes:
        """All fields except `content-length`: a key for what depends on the headers alone."""
        key = self._cache_key
        if key is None:
            fields = [b"%b:%b" % field for field in self._fields if field[0] != b"content-length"]
            key = self._cache_key = b"\n".join(fields)
        return key

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        value = self.index.get(name.lower().encode("latin-1", "replace"))
        return None if value is None else value.decode("latin-1").rstrip(" \t")

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        name = name.lower()
        return [value for field, value in self if field == name]

    def forwardable(self, without: frozenset[bytes] = _NONE) -> RawHeaders:
        """Return the headers that a proxy may forward, except those named in `without`.

        Headers about the connection, the host, the date and the length are left out. The result
        is kept for later calls with the same `without`; requests with a cached head share it.
        """
        if self._forwardable is not None and self._forwardable[0] is without:
            return self._forwardable[1]
        dropped = _dropped(without)
        if b"connection" in self.index:
            named = ",".join(self.all("connection")).lower().encode("latin-1").split(b",")
            dropped = dropped.union(name.strip() for name in named)
        fields = [b"%b: %b\r\n" % field for field in self._fields if field[0] not in dropped]
        raw = RawHeaders(b"".join(fields))
        self._forwardable = without, raw
        return raw

    def with_length(self, length: bytes) -> "Headers":
        """Return a copy with another value of `content-length`, which must occur once."""
        name = b"content-length"
        fields = [(name, length) if field[0] == name else field for field in self._fields]
        same = Headers(fields)
        same._forwardable = self._forwardable
        same._cache_key = self._cache_key
        return same

    def _index_first_values(self) -> None:
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


def encode_headers(headers: HeaderPairs) -> bytes:
    """Encode headers; reject those that would break or forge the framing of the message."""
    if isinstance(headers, RawHeaders):
        return headers
    lines = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        _check_name(name)
        if not value.isprintable() and _CONTROL.search(value):
            raise InputError(f"header {name}: the value {brief(value)} has control characters: remove or encode them")
        lines.append(f"{name}: {value}\r\n")
    text = "".join(lines)
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        line = text[: error.start].rpartition("\r\n")[2]
        raise InputError(
            f"header {line.partition(':')[0]}: the value has characters outside Latin-1: encode them"
        ) from error


def date_line() -> bytes:
    """Return the `date` header line of this second."""
    return _format_date_line(int(time.time()))


@lru_cache(maxsize=1)
def _format_date_line(second: int) -> bytes:
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()


@lru_cache(maxsize=_MEMO_SIZE)
def _check_name(name: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise InputError(f"{brief(name)} is not a header name: expected letters, digits and dashes")
    if name.lower() in _FRAMING:
        raise InputError(f"header {name} is set by the client or server itself: leave it out")


@lru_cache(maxsize=_MEMO_SIZE)
def _dropped(without: frozenset[bytes]) -> frozenset[bytes]:
    return _NOT_FORWARDABLE | without
