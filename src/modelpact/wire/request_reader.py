"""Bytes to requests, strictly: whatever two readers could understand differently is refused."""

import functools
import re
from typing import Final, NoReturn, Protocol

import httptools

from modelpact.wire.errors import HttpError
from modelpact.wire.exchange import HttpRequest, Peer
from modelpact.wire.head_cache import CachedHead
from modelpact.wire.headers import Headers
from modelpact.wire.limits import ServerLimits

FREE_OVERHEAD: Final = 16_384
"""Bytes of chunk extensions and trailers that no one minds."""
OVERHEAD_RATE: Final = 8
"""Bytes of chunked framing for each byte of body; single-byte chunks take six."""

_TARGET: Final = re.compile(r"[!$-;=?-\[\]_a-z|~^{}`]+")
_ABSOLUTE: Final = re.compile(r"https?://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_HOST: Final = re.compile(rb"[\w.\-~%!$&'()*+,;=:\[\]]*", re.ASCII)
_BODY: Final = b"POST * HTTP/1.1\r\nhost:\r\n%s\r\n\r\n"
_REMEMBERED: Final = 512
_CHANCES: Final = 4
"""How often in a row a head is remembered for nothing before it is no longer tried."""
_SINGLE: Final = frozenset(
    (b"authorization", b"content-length", b"expect", b"host", b"transfer-encoding", b"x-api-key")
)


class RequestSink(Peer, Protocol):
    """Takes requests as soon as their heads are complete."""

    def arrived(self, request: HttpRequest, expects: bool) -> None:
        """Take a request; `expects` says that its client waits for `100 Continue`."""


class HttpRequestReader:
    """Parses one connection's requests. What it refuses ends the connection's input."""

    __slots__ = (
        "_body_parts",
        "_body_room",
        "_chances",
        "_chunked",
        "_fed",
        "_feeding",
        "_fields",
        "_headers",
        "_known",
        "_limits",
        "_parser",
        "_refused",
        "_resuming",
        "_sink",
        "_upgrading",
        "_url",
        "arriving",
        "body_left",
        "in_head",
        "on_body",
    )

    def __init__(self, limits: ServerLimits, sink: RequestSink) -> None:
        self._limits = limits
        self._sink = sink
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Collects the body; the parser calls it."""
        self._known: CachedHead | None = None
        self._chances = _CHANCES
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.arriving: HttpRequest | None = None
        """The request whose body is not complete."""
        self.body_left = 0
        """Bytes that are certainly of that body."""
        self.in_head = False
        self._resuming = self._upgrading = False
        self._refused: HttpError | None = None
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._headers = Headers([])
        self._fed = self._feeding = self._body_room = 0
        self._chunked = False

    def close(self) -> None:
        """Let go of the parser, which refers back to this reader."""
        self._parser = None

    @property
    def at_start(self) -> bool:
        """Tell whether the next byte is the first of a request."""
        return self.arriving is None and not self.in_head

    def again(self, data: bytes) -> HttpRequest | None:
        """Return the request, if it is there whole and its head is the one before's.

        Clients say the same head over and over but for the length: such a one is not parsed
        again. Anything else is for `feed`.
        """
        if self._known is None or self.arriving is not None or self.in_head:
            return None
        request = self._known.again(data, self._limits.body, self._sink)
        if request is not None:
            self._chances = _CHANCES
        return request

    def learn(self, data: bytes, request: HttpRequest) -> None:
        """Remember the head of a request that was all of some data."""
        if self._chances:
            self._chances -= 1
            self._known = CachedHead.of(data, request, self._limits.head)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse some bytes, or raise `HttpError`."""
        rest = data
        self._feeding = len(data)
        while self._parser is not None:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade()
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self.in_head = False
                raise (self._refused or HttpError(400, f"malformed request: {error}")) from None
        if self._body_parts:
            self._pass_on()
        if self.in_head:
            self._bound_head(len(data))
        elif self._chunked and self.arriving is not None:
            self._bound_overhead(len(data))

    def _bound_head(self, fed: int) -> None:
        """Bound a head of which the parser has not told its parts yet."""
        self._fed += fed
        if self._fed > self._limits.head + self._limits.target + FREE_OVERHEAD:
            raise HttpError(431, f"the head is longer than {self._limits.head} bytes")

    def _bound_overhead(self, fed: int) -> None:
        self._fed += fed
        body = self._limits.body - self._body_room
        if self._fed > OVERHEAD_RATE * body + FREE_OVERHEAD:
            raise HttpError(400, "far more chunk framing than body")

    def _ignore_upgrade(self) -> None:
        """Go on as if no upgrade had been asked for, as a server may (RFC 9110, 7.8).

        The parser leaves the body of such a request unparsed, so a new one is told of its length.
        """
        self._resuming = True
        self._parser = httptools.HttpRequestParser(self)
        length = self._headers.index.get(b"content-length")
        if length is not None:
            framing = b"content-length: " + length
        elif self._chunked:
            framing = b"transfer-encoding: chunked"
        else:
            framing = b"content-length: 0"
        self._parser.feed_data(_BODY % framing)

    # What the parser calls; errors pass through it and are raised again by `feed`.

    def on_message_begin(self) -> None:
        """A head begins."""
        if not self._resuming:
            self.in_head = True
            self._url = b""
            self._fields = []
            self._fed = 0

    def on_url(self, part: bytes) -> None:
        """Collect the target."""
        if not self._resuming:
            self._url = self._url + part if self._url else part
            if len(self._url) > self._limits.target:
                self._refuse(414, f"the target is longer than {self._limits.target} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are checked by the parser and dropped."""
        if self.in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and hand the request on."""
        parser = self._parser
        if self._resuming or parser is None:
            return
        self.in_head = False
        headers = Headers(self._fields)
        index = headers.index
        self._check_size(headers)
        method = parser.get_method().decode("ascii")
        version = parser.get_http_version()
        self._check_framing(method, version, index)
        target = self._target(method, index)
        self.body_left = int(index.get(b"content-length", 0))
        if self.body_left > self._limits.body:
            self._refuse(413, f"the body is longer than {self._limits.body} bytes")
        self._upgrading = parser.should_upgrade()
        self._headers = headers
        self._body_room = self._limits.body
        self._fed = 0
        self.arriving = HttpRequest(
            method,
            target,
            headers,
            self._sink,
            version == "1.1" and parser.should_keep_alive(),
            version == "1.1",
        )
        self._sink.arrived(self.arriving, b"expect" in index and version == "1.1")

    def _pass_on(self) -> None:
        """Pass on what has come of the body."""
        parts = self._body_parts
        part = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self.arriving is not None:
            self.body_left -= len(part)
            self._body_room -= len(part)
            if self._body_room < 0:
                self._refuse(413, f"the body is longer than {self._limits.body} bytes")
            self.arriving.put(part)

    def on_message_complete(self) -> None:
        """The body is complete, unless the parser stepped aside for an upgrade."""
        arriving = self.arriving
        if arriving is None or (self._upgrading and not self._resuming):
            return
        if self._body_parts:
            self._pass_on()
        self._resuming = False
        self.body_left = 0
        self.arriving = None
        arriving.end()

    def _check_size(self, headers: Headers) -> None:
        if len(headers) > self._limits.headers:
            self._refuse(431, f"more than {self._limits.headers} headers")
        most = self._limits.head
        if self._fed + self._feeding > most and headers.size > most:
            self._refuse(431, f"the headers are longer than {self._limits.head} bytes")
        if headers.repeated & _SINGLE:
            self._refuse(
                400,
                "a header that decides whose a request is, where it goes or ends is there twice",
            )

    def _check_framing(self, method: str, version: str, index: dict[bytes, bytes]) -> None:
        if version not in ("1.1", "1.0"):
            self._refuse(505, "the versions taken are HTTP/1.1 and HTTP/1.0")
        if method == "CONNECT":
            self._refuse(501, "CONNECT: this is no proxy")
        if version == "1.1" and b"host" not in index:
            self._refuse(400, "HTTP/1.1 without Host")
        encoding = index.get(b"transfer-encoding")
        self._chunked = encoding is not None
        if encoding is not None:
            if version == "1.0":
                self._refuse(400, "HTTP/1.0 with Transfer-Encoding")
            if encoding.rstrip(b" \t").lower() != b"chunked":
                self._refuse(501, "the only transfer encoding taken is `chunked`")
        expected = index.get(b"expect")
        if expected is not None and expected.rstrip(b" \t").lower() != b"100-continue":
            self._refuse(417, "the only expectation met is `100-continue`")

    def _target(self, method: str, index: dict[bytes, bytes]) -> tuple[str, str, str]:
        """Return authority, path and query."""
        host = _host(index.get(b"host", b""))
        if host is None:
            self._refuse(400, "Host is not a host")
        target = _split(self._url)
        if target is None or (target[1] == "*" and method != "OPTIONS"):
            self._refuse(
                400, "the target is neither a path nor an http URL, or it is not percent-encoded"
            )
        return target if target[0] else (host, target[1], target[2])

    def _refuse(self, status: int, reason: str) -> NoReturn:
        self._refused = HttpError(status, reason)
        raise self._refused


@functools.lru_cache(_REMEMBERED)
def _host(value: bytes) -> str | None:
    """Return the value of Host, or None if it cannot be one."""
    value = value.rstrip(b" \t")
    return value.decode("latin-1") if _HOST.fullmatch(value) else None


@functools.lru_cache(_REMEMBERED)
def _split(target: bytes) -> tuple[str, str, str] | None:
    """Return authority, if there is one, path and query of a target, or None if it is none."""
    text = target.decode("ascii", "replace")
    if not _TARGET.fullmatch(text):
        return None
    if text[0] == "/" or text == "*":
        path, _, query = text.partition("?")
        return "", path, query
    absolute = _ABSOLUTE.fullmatch(text)
    return absolute and (absolute[1], absolute[2] or "/", absolute[3] or "")
