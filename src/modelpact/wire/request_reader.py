"""Parses requests, strictly: whatever two readers could understand differently is refused."""

import functools
import re
from typing import Final, NoReturn, Protocol, Self

import httptools

from modelpact.wire.errors import HttpError
from modelpact.wire.headers import Headers
from modelpact.wire.limits import ServerLimits
from modelpact.wire.messages import HttpRequest, PeerConnection

ALLOWED_OVERHEAD: Final = 16_384
"""Bytes of chunk extensions and trailers that are always allowed."""
MAX_OVERHEAD_RATIO: Final = 8
"""Allowed bytes of chunked framing for each byte of body; single-byte chunks take six."""

_TARGET: Final = re.compile(r"[!$-;=?-\[\]_a-z|~^{}`]+")
_ABSOLUTE: Final = re.compile(r"https?://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_HOST: Final = re.compile(rb"[\w.\-~%!$&'()*+,;=:\[\]]*", re.ASCII)
_BODY_ONLY: Final = b"POST * HTTP/1.1\r\nhost:\r\n%s\r\n\r\n"
_MEMO_SIZE: Final = 512
_CACHE_ATTEMPTS: Final = 4
"""Heads in a row that are cached without a match before caching stops."""
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})\r\n", re.IGNORECASE)
_MAX_DIGITS: Final = 9
_MAX_CACHED_HEAD: Final = 8_192
"""A longer head is not worth its memory."""
_NOT_CACHEABLE: Final = (b"expect", b"transfer-encoding", b"upgrade")
"""Headers of requests that are more than a head and a body of known length."""
_NOT_REPEATABLE: Final = frozenset(
    (b"authorization", b"content-length", b"expect", b"host", b"transfer-encoding", b"x-api-key")
)


class RequestSink(PeerConnection, Protocol):
    """Receives requests as soon as their heads are complete."""

    def request_received(self, request: HttpRequest, expects_continue: bool) -> None:
        """Take a request; with `expects_continue` its client waits for `100 Continue`."""


class HttpRequestReader:
    """Parses the requests of one connection. A request that it rejects is the last."""

    def __init__(self, limits: ServerLimits, sink: RequestSink) -> None:
        self._limits = limits
        self._sink = sink
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Collects the body; the parser calls it."""
        self._cached_head: CachedHead | None = None
        self._cache_attempts = _CACHE_ATTEMPTS
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.incomplete: HttpRequest | None = None
        """The request whose body is not complete."""
        self.body_remaining = 0
        """Bytes that certainly belong to that body."""
        self.in_head = False
        self._resuming = self._upgrading = False
        self._rejection: HttpError | None = None
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._headers = Headers([])
        self._bytes_fed = self._data_length = self._body_allowance = 0
        self._chunked = False

    def close(self) -> None:
        """Release the parser, which refers back to this reader."""
        self._parser = None

    @property
    def at_start(self) -> bool:
        """Tell whether the next byte is the first of a request."""
        return self.incomplete is None and not self.in_head

    def match_cached_head(self, data: bytes) -> HttpRequest | None:
        """Return the request if the data is a whole request with the cached head, else None.

        Any other data must be fed to `feed`.
        """
        if self._cached_head is None or self.incomplete is not None or self.in_head:
            return None
        request = self._cached_head.match(data, self._limits.body, self._sink)
        if request is not None:
            self._cache_attempts = _CACHE_ATTEMPTS
        return request

    def cache_head(self, data: bytes, request: HttpRequest) -> None:
        """Cache the head of a request that was parsed from exactly this data."""
        if self._cache_attempts:
            self._cache_attempts -= 1
            self._cached_head = CachedHead.from_request(data, request, self._limits.head)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse some bytes; raise `HttpError` if they are not a valid request."""
        rest = data
        self._data_length = len(data)
        while self._parser is not None:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade()
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self.in_head = False
                raise (self._rejection or HttpError(400, f"malformed request: {error}")) from None
        if self._body_parts:
            self._deliver_body()
        if self.in_head:
            self._check_head_length(len(data))
        elif self._chunked and self.incomplete is not None:
            self._check_overhead(len(data))

    def _check_head_length(self, length: int) -> None:
        """Limit a head of which the parser has not reported the parts yet."""
        self._bytes_fed += length
        if self._bytes_fed > self._limits.head + self._limits.target + ALLOWED_OVERHEAD:
            raise HttpError(431, f"the head is longer than {self._limits.head} bytes")

    def _check_overhead(self, length: int) -> None:
        self._bytes_fed += length
        body = self._limits.body - self._body_allowance
        if self._bytes_fed > MAX_OVERHEAD_RATIO * body + ALLOWED_OVERHEAD:
            raise HttpError(400, "too much chunk framing for the size of the body")

    def _ignore_upgrade(self) -> None:
        """Continue as if no upgrade had been requested, as a server may (RFC 9110, 7.8).

        The parser leaves the body of such a request unparsed, so a new parser is started with
        a head that has only its length.
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
        self._parser.feed_data(_BODY_ONLY % framing)

    # Callbacks of the parser. Errors pass through it and are raised again by `feed`.

    def on_message_begin(self) -> None:
        """Start a new head."""
        if not self._resuming:
            self.in_head = True
            self._url = b""
            self._fields = []
            self._bytes_fed = 0

    def on_url(self, part: bytes) -> None:
        """Collect the request target."""
        if not self._resuming:
            self._url = self._url + part if self._url else part
            if len(self._url) > self._limits.target:
                self._reject(414, f"the target is longer than {self._limits.target} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are checked by the parser and dropped."""
        if self.in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and pass the request to the sink."""
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
        self.body_remaining = int(index.get(b"content-length", 0))
        if self.body_remaining > self._limits.body:
            self._reject(413, f"the body is longer than {self._limits.body} bytes")
        self._upgrading = parser.should_upgrade()
        self._headers = headers
        self._body_allowance = self._limits.body
        self._bytes_fed = 0
        self.incomplete = HttpRequest(
            method, target, headers, self._sink, version == "1.1" and parser.should_keep_alive(), version == "1.1"
        )
        self._sink.request_received(self.incomplete, b"expect" in index and version == "1.1")

    def _deliver_body(self) -> None:
        """Feed the collected parts of the body to the request."""
        parts = self._body_parts
        part = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self.incomplete is not None:
            self.body_remaining -= len(part)
            self._body_allowance -= len(part)
            if self._body_allowance < 0:
                self._reject(413, f"the body is longer than {self._limits.body} bytes")
            self.incomplete.feed_data(part)

    def on_message_complete(self) -> None:
        """Complete the body, unless the parser stopped for an upgrade."""
        incomplete = self.incomplete
        if incomplete is None or (self._upgrading and not self._resuming):
            return
        if self._body_parts:
            self._deliver_body()
        self._resuming = False
        self.body_remaining = 0
        self.incomplete = None
        incomplete.feed_eof()

    def _check_size(self, headers: Headers) -> None:
        if len(headers) > self._limits.headers:
            self._reject(431, f"more than {self._limits.headers} headers")
        limit = self._limits.head
        if self._bytes_fed + self._data_length > limit and headers.size > limit:
            self._reject(431, f"the headers are longer than {limit} bytes")
        if headers.repeated & _NOT_REPEATABLE:
            self._reject(400, "a header that decides the sender, destination or end of the request is repeated")

    def _check_framing(self, method: str, version: str, index: dict[bytes, bytes]) -> None:
        if version not in ("1.1", "1.0"):
            self._reject(505, "expected HTTP/1.1 or HTTP/1.0")
        if method == "CONNECT":
            self._reject(501, "CONNECT is not supported: this server is not a proxy")
        if version == "1.1" and b"host" not in index:
            self._reject(400, "an HTTP/1.1 request needs a Host header")
        encoding = index.get(b"transfer-encoding")
        self._chunked = encoding is not None
        if encoding is not None:
            if version == "1.0":
                self._reject(400, "an HTTP/1.0 request cannot have Transfer-Encoding")
            if encoding.rstrip(b" \t").lower() != b"chunked":
                self._reject(501, "the only supported transfer encoding is `chunked`")
        expected = index.get(b"expect")
        if expected is not None and expected.rstrip(b" \t").lower() != b"100-continue":
            self._reject(417, "the only supported expectation is `100-continue`")

    def _target(self, method: str, index: dict[bytes, bytes]) -> tuple[str, str, str]:
        """Return authority, path and query."""
        host = _decode_host(index.get(b"host", b""))
        if host is None:
            self._reject(400, "the Host header is not a valid host")
        target = _split_target(self._url)
        if target is None or (target[1] == "*" and method != "OPTIONS"):
            self._reject(400, "the target must be a percent-encoded path or http URL")
        return target if target[0] else (host, target[1], target[2])

    def _reject(self, status: int, reason: str) -> NoReturn:
        self._rejection = HttpError(status, reason)
        raise self._rejection


class CachedHead:
    """A parsed head, split around the digits of its `content-length`.

    Clients repeat their heads, and only the length of the body changes.
    The same bytes parse to the same head, and other digits in that place mean another length and
    nothing else. A match needs the whole body and nothing after it; the parser handles the rest.
    """

    def __init__(self, before: bytes, after: bytes, request: HttpRequest) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self._search_end = len(before) + _MAX_DIGITS + len(after)
        self._method = request.method
        self._target = request.authority, request.path, request.query
        self._headers = request.headers
        self._digits = request.headers.index[b"content-length"]

    @classmethod
    def from_request(cls, data: bytes, request: HttpRequest, limit: int) -> Self | None:
        """Return the head of a request that was parsed from exactly this data, if cacheable."""
        end = data.find(b"\r\n\r\n") + 4
        lengths = list(_LENGTH.finditer(data, 0, end))
        index = request.headers.index
        if (
            len(lengths) != 1
            or not 3 < end <= min(_MAX_CACHED_HEAD, limit - _MAX_DIGITS)
            # The parser must have seen the head end in the same place.
            or end + int(lengths[0][1]) != len(data)
            or int(index.get(b"content-length", b"-1")) != int(lengths[0][1])
            or not (request.complete and request.keep_alive and request.accepts_chunked)
            or any(name in index for name in _NOT_CACHEABLE)
        ):
            return None
        return cls(data[: lengths[0].start(1)], data[lengths[0].end(1) : end], request)

    def match(self, data: bytes, max_body: int, connection: PeerConnection) -> HttpRequest | None:
        """Return the request if the data is this head and its whole body, else None."""
        if not data.startswith(self._before):
            return None
        end = data.find(self._after, self._start, self._search_end)
        digits = data[self._start : end]
        if end < 0 or not digits.isdigit():
            return None
        body = data[end + len(self._after) :]
        if not len(body) == int(digits) <= max_body:
            return None
        headers = self._headers
        if digits != self._digits:
            headers = self._headers = headers.with_length(digits)
            self._digits = digits
        return HttpRequest(self._method, self._target, headers, connection, True, True, body)


@functools.lru_cache(_MEMO_SIZE)
def _decode_host(value: bytes) -> str | None:
    """Return the value of a Host header, or None if it is invalid."""
    value = value.rstrip(b" \t")
    return value.decode("latin-1") if _HOST.fullmatch(value) else None


@functools.lru_cache(_MEMO_SIZE)
def _split_target(target: bytes) -> tuple[str, str, str] | None:
    """Return authority (may be empty), path and query of a target, or None if it is invalid."""
    text = target.decode("ascii", "replace")
    if not _TARGET.fullmatch(text):
        return None
    if text[0] == "/" or text == "*":
        path, _, query = text.partition("?")
        return "", path, query
    absolute = _ABSOLUTE.fullmatch(text)
    return absolute and (absolute[1], absolute[2] or "/", absolute[3] or "")
