"""HTTP messages: requests and responses, and bodies that are read while they arrive."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final, Protocol, Self
from urllib.parse import unquote_to_bytes

from modelpact.vocabulary.errors import InputError
from modelpact.wire.errors import HttpError
from modelpact.wire.headers import HeaderPairs, Headers, date_line, encode_headers

HIGH_WATER: Final = 65_536
"""Unread bytes above which the connection stops reading from the peer."""
BODILESS_STATUSES: Final = (204, 304)
"""Statuses that forbid a body."""
_CHUNK_OVERHEAD: Final = 64
"""Bytes counted for each chunk beside its content, so that a flood of tiny chunks is bounded."""
_START_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_PLAIN_TEXT: Final = (("content-type", "text/plain; charset=utf-8"),)


class FlowControl(Protocol):
    """The connection that a body arrives on. It can stop reading from the peer."""

    def pause_reading(self) -> None:
        """Stop reading from the peer."""

    def resume_reading(self) -> None:
        """Read from the peer again."""

    def request_body(self) -> None:
        """Ask the peer for the body if it waits for `100 Continue`."""


class PeerConnection(FlowControl, Protocol):
    """The connection that a request arrived on."""

    peer: tuple[str, int]
    peer_certificate: bytes | None


class IncomingMessage:
    """The headers of a message and its arriving body, for a single reader.

    The connection feeds it with `feed_data`, `feed_all`, `feed_eof` and `set_exception`.
    """

    __slots__ = ("_buffered", "_chunks", "_complete", "_connection", "_exception", "_paused", "_waiter", "headers")

    def __init__(self, headers: Headers, connection: FlowControl) -> None:
        self.headers = headers
        self._connection = connection
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._paused = False
        self._complete = False
        self._exception: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived."""
        return self._complete

    @property
    def paused(self) -> bool:
        """Whether the connection stopped reading because too much of the body is unread."""
        return self._paused

    def feed_data(self, chunk: bytes) -> None:
        """Add a chunk of the body."""
        self._chunks.append(chunk)
        self._buffered += len(chunk) + _CHUNK_OVERHEAD
        if self._buffered > HIGH_WATER and not self._paused:
            self._paused = True
            self._connection.pause_reading()
        if self._waiter is not None:
            self._wake()

    def feed_all(self, body: bytes) -> None:
        """Set a body that arrived in one piece; used instead of `feed_data` and `feed_eof`."""
        if body:
            self._chunks.append(body)
            self._buffered = len(body)
        self._complete = True
        if self._waiter is not None:
            self._wake()

    def feed_eof(self) -> None:
        """Mark the body as complete."""
        self._complete = True
        if self._paused:
            self._paused = False
            self._connection.resume_reading()
        if self._waiter is not None:
            self._wake()

    def set_exception(self, error: Exception) -> None:
        """Fail the reader: the rest of the body will not arrive. Ignored once complete."""
        if self._exception is None and not self._complete:
            self._exception = error
            if self._waiter is not None:
                self._wake()

    async def read_available(self) -> bytes:
        """Return the unread bytes, waiting for some if there are none; empty at the end."""
        while not self._chunks:
            if self._exception is not None:
                raise self._exception
            if self._complete:
                return b""
            if self._waiter is not None:
                raise RuntimeError("a body can have only one reader at a time")
            self._waiter = asyncio.get_running_loop().create_future()
            self._connection.request_body()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.read_nowait()

    def read_nowait(self) -> bytes:
        """Return the unread bytes that have arrived."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self._buffered = 0
        if self._paused:
            self._paused = False
            self._connection.resume_reading()
        return data

    async def read_remaining(self) -> bytes:
        """Wait for the end of the body and return all unread bytes."""
        parts = []
        while part := await self.read_available():
            parts.append(part)
        return b"".join(parts)

    async def aclose(self) -> None:
        """Give up the part of the body that has not arrived."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _BodyIterator(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _BodyIterator:
    """Iterates over a body; bytes that arrived together are yielded together."""

    __slots__ = ("_message",)

    def __init__(self, message: IncomingMessage) -> None:
        self._message = message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._message.read_available()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Close the message: a forwarded response ends when its own client disconnects."""
        await self._message.aclose()


class HttpRequest(IncomingMessage):
    """A request to a server. Its head is complete; its body may still be arriving."""

    __slots__ = (
        "_body",
        "_disconnected",
        "_peer",
        "accepts_chunked",
        "authority",
        "keep_alive",
        "method",
        "path",
        "query",
    )

    def __init__(
        self,
        method: str,
        target: tuple[str, str, str],
        headers: Headers,
        connection: PeerConnection,
        keep_alive: bool,
        accepts_chunked: bool,
        body: bytes | None = None,
    ) -> None:
        """`target` is authority, path and query; `body` is set if it arrived with the head."""
        super().__init__(headers, connection)
        self.method = method
        self.authority, self.path, self.query = target
        self.keep_alive = keep_alive
        self.accepts_chunked = accepts_chunked
        self._peer = connection
        if body is not None:
            self.feed_all(body)
        self._disconnected: asyncio.Event | None = None
        self._body: bytes | None = None

    @property
    def decoded_path(self) -> str:
        """The path, percent-decoded. A path that is not UTF-8 or contains NUL raises a 400."""
        if "%" not in self.path:
            return self.path
        try:
            decoded = unquote_to_bytes(self.path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise HttpError(400, "the path is not UTF-8") from error
        if "\0" in decoded:
            raise HttpError(400, "the path contains NUL")
        return decoded

    @property
    def peer(self) -> tuple[str, int]:
        """The client's address and port."""
        return self._peer.peer

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's verified certificate (DER), or None."""
        return self._peer.peer_certificate

    @property
    def disconnected(self) -> asyncio.Event:
        """An event that is set when the client disconnects before its response is complete.

        The handler itself is cancelled at that moment; the event is for work that outlives it.
        """
        if self._disconnected is None:
            self._disconnected = asyncio.Event()
        return self._disconnected

    async def body(self) -> bytes:
        """Return the whole body. A body above the server's limit is rejected with 413."""
        if self._body is None:
            # The reader enforces the limit while the body arrives.
            self._body = await self.read_remaining() if not self._complete else self.read_nowait()
        return self._body

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path}>"


class DrainableBody(Protocol):
    """A response body that returns everything that has arrived at once.

    It costs less than iteration. An `aclose` method, if there is one, is called at the end.
    """

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived."""

    async def read_available(self) -> bytes:
        """Return the unread bytes, waiting for some if there are none; empty at the end."""


class HttpResponse:
    """A server's response. The body is bytes, or is streamed chunk by chunk as it is produced."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int = 200, headers: HeaderPairs = (), body: bytes | AsyncIterable[bytes] | DrainableBody = b""
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status}>"


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


def error_response(error: HttpError) -> HttpResponse:
    """Return a plain-text response with the reason of an error."""
    return HttpResponse(error.status, _PLAIN_TEXT, f"{error.reason}\n".encode())


def response_head(response: HttpResponse, framing: bytes) -> bytes:
    """Encode the head of a response; `framing` is its length and connection headers."""
    status = response.status
    start = _START_LINES.get(status)
    if start is None or status < 200:
        if not 200 <= status <= 599:
            raise InputError(f"status {status}: expected 200 to 599")
        start = b"HTTP/1.1 %d \r\n" % status
    if status in BODILESS_STATUSES and response.body != b"":
        raise InputError(f"a response with status {status} has no body: leave the body out")
    return b"%b%b%b%b\r\n" % (start, date_line(), encode_headers(response.headers), framing)


def peer_info(transport: asyncio.BaseTransport) -> tuple[tuple[str, int], bytes | None]:
    """Return the peer's address and port, and its certificate (DER) if it presented one."""
    address = transport.get_extra_info("peername")
    tls = transport.get_extra_info("ssl_object")
    return (
        (address[0], address[1]) if isinstance(address, tuple) else ("", 0),
        None if tls is None else tls.getpeercert(binary_form=True),
    )
