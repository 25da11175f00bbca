"""Responses that a client receives, and the reader that parses them."""

from typing import Final, NoReturn, Protocol, Self

import httptools

from modelpact.wire.errors import Phase, WireError
from modelpact.wire.headers import Headers
from modelpact.wire.limits import PoolLimits
from modelpact.wire.messages import BODILESS_STATUSES, FlowControl, IncomingMessage
from modelpact.wire.request_reader import ALLOWED_OVERHEAD, MAX_OVERHEAD_RATIO

_MAX_INTERIM: Final = 16
"""Responses with a status of 1xx that may precede the final one."""


class ResponseSource(FlowControl, Protocol):
    """The connection that a response arrives on."""

    name: str
    peer_certificate: bytes | None

    def abort(self) -> None:
        """Drop the connection at once."""


class ClientResponse(IncomingMessage):
    """A received response. Read it to the end or close it: until then it keeps its connection."""

    __slots__ = ("_default_limit", "_source", "peer_certificate", "status")

    def __init__(self, status: int, headers: Headers, source: ResponseSource, default_limit: int) -> None:
        super().__init__(headers, source)
        self.status = status
        self.peer_certificate = source.peer_certificate
        """The server's certificate (DER), or None without TLS."""
        self._source = source
        self._default_limit = default_limit

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body. A body longer than the limit raises an error, and is not cut."""
        limit = self._default_limit if limit is None else limit
        if self._complete and self._buffered <= limit:
            return self.read_nowait()
        parts = [self.read_nowait()]
        remaining = limit - len(parts[0])
        try:
            while remaining >= 0 and (part := await self.read_available()):
                parts.append(part)
                remaining -= len(part)
        except BaseException:
            await self.aclose()
            raise
        if remaining < 0:
            await self.aclose()
            raise WireError("body", f"{self._source.name}: the response is longer than {limit} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Drop the connection if the body is not complete; otherwise do nothing."""
        if not self._complete:
            self.set_exception(WireError("body", "the response was closed before its end"))
            self._source.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<ClientResponse {self.status}>"


class ResponseSink(ResponseSource, Protocol):
    """Receives a response as soon as its head is complete."""

    def response_received(self, response: ClientResponse) -> None:
        """Take a response; its body follows."""


class ClientResponseReader:
    """Parses the responses of one connection. Call `start` before each of them."""

    def __init__(self, limits: PoolLimits, sink: ResponseSink) -> None:
        self._limits = limits
        self._sink = sink
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Collects the body; the parser calls it."""
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._error: WireError | None = None
        self._in_head = self._chunked = self._until_close = False
        self.has_extra_data = False
        """Whether data arrived after the end of a response."""
        self.start(head_only=False)

    def start(self, *, head_only: bool) -> None:
        """Prepare for the next response."""
        self.response: ClientResponse | None = None
        """The response, once its head is complete."""
        self.finished = False
        """Whether the response is complete."""
        self.keep_alive = False
        self._head_only = head_only
        self._bytes_fed = self._data_length = self._body_received = self._interim = 0
        self._body_parts.clear()

    def close(self) -> None:
        """Release the parser, which refers back to this reader."""
        self._parser = None

    def feed(self, data: bytes) -> None:
        """Parse some bytes; raise `WireError` if they are not a valid response."""
        if self._parser is None:
            return
        self._data_length = len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.finished:
                if self._body_parts:
                    self._deliver_body()
                raise (self._error or self._malformed(str(error))) from None
            self.has_extra_data = True
        if not self.finished:
            if self._body_parts:
                self._deliver_body()
            self._check_length(len(data))

    def feed_eof(self) -> bool:
        """Take the end of the input; tell whether it completes the response."""
        if self.response is None or not self._until_close or self.finished:
            return False
        self.finished = True
        self.keep_alive = False
        self.response.feed_eof()
        return True

    def _check_length(self, length: int) -> None:
        """Limit what the parser does not report: an endless head, endless chunk framing."""
        self._bytes_fed += length
        if self.response is None:
            if self._bytes_fed > self._limits.head + ALLOWED_OVERHEAD:
                raise self._malformed(f"the head is longer than {self._limits.head} bytes")
        elif self._chunked and self._bytes_fed > MAX_OVERHEAD_RATIO * self._body_received + ALLOWED_OVERHEAD:
            raise self._malformed("too much chunk framing for the size of the body")

    # Callbacks of the parser. Errors pass through it and are raised again by `feed`.

    def on_message_begin(self) -> None:
        """Start a new head; after the end of the response it is extra data."""
        self._in_head = True
        self._fields = []
        if self.finished:
            self.has_extra_data = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are dropped."""
        if self._in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and pass the response to the sink."""
        self._in_head = False
        parser = self._parser
        if self.finished or parser is None:
            return
        status = parser.get_status_code()
        headers = Headers(self._fields)
        self._check(status, headers)
        if status < 200:
            return
        index = headers.index
        self._chunked = b"transfer-encoding" in index
        self._until_close = not (
            self._chunked or b"content-length" in index or status in BODILESS_STATUSES or self._head_only
        )
        self.keep_alive = parser.should_keep_alive()
        self._bytes_fed = 0
        self.response = ClientResponse(status, headers, self._sink, self._limits.body)
        if self._head_only:
            # The parser ignores HEAD and waits for a body: it cannot be used again.
            self.finished = self.has_extra_data = True
            self.response.feed_eof()
        self._sink.response_received(self.response)

    def on_message_complete(self) -> None:
        """Complete the response, unless it is an interim one."""
        if self.response is not None and not self.finished:
            self.finished = True
            if self._body_received:
                if self._body_parts:
                    self._deliver_body()
                self.response.feed_eof()
            else:
                self.response.feed_all(b"".join(self._body_parts))
                self._body_parts.clear()

    def _deliver_body(self) -> None:
        """Feed the collected parts of the body to the response."""
        parts = self._body_parts
        part = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self.response is not None:
            self._body_received += len(part)
            self.response.feed_data(part)

    def _check(self, status: int, headers: Headers) -> None:
        limits = self._limits
        if not 100 <= status <= 599 or status == 101:
            self._reject(f"unexpected status {status}")
        if status < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._reject("too many interim responses")
        if len(headers) > limits.headers:
            self._reject(f"more than {limits.headers} headers")
        if self._bytes_fed + self._data_length > limits.head and headers.size > limits.head:
            self._reject(f"the headers are longer than {limits.head} bytes")
        encoding = headers.index.get(b"transfer-encoding")
        if encoding is not None and (
            encoding.rstrip(b" \t").lower() != b"chunked" or b"transfer-encoding" in headers.repeated
        ):
            self._reject("the transfer encoding is not `chunked`")

    def _reject(self, reason: str) -> NoReturn:
        self._error = self._malformed(reason)
        raise self._error

    def _malformed(self, reason: str) -> WireError:
        phase: Phase = "head" if self.response is None else "body"
        return WireError(phase, f"{self._sink.name}: malformed response: {reason}")
