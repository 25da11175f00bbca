"""What a handler gets and what it gives back: one request, one response."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from modelpact.vocabulary.errors import InputError
from modelpact.wire.body import ArrivingBody, BodySource
from modelpact.wire.errors import HttpError
from modelpact.wire.headers import HeaderPairs, Headers, date_line, written


class Peer(BodySource, Protocol):
    """The connection a request came by."""

    peer: tuple[str, int]
    peer_certificate: bytes | None


def peer_of(transport: asyncio.BaseTransport) -> tuple[tuple[str, int], bytes | None]:
    """Return the address of the other end, and the certificate (DER) that it has shown."""
    address = transport.get_extra_info("peername")
    tls = transport.get_extra_info("ssl_object")
    return (
        (address[0], address[1]) if isinstance(address, tuple) else ("", 0),
        None if tls is None else tls.getpeercert(binary_form=True),
    )


class HttpRequest(ArrivingBody):
    """A request: its head is there, its body may still be arriving."""

    __slots__ = (
        "_connection",
        "_gone",
        "_whole",
        "authority",
        "chunked_ok",
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
        connection: Peer,
        keep_alive: bool,
        chunked_ok: bool,
        body: bytes | None = None,
    ) -> None:
        """`body` is given if it has come whole."""
        super().__init__(headers, connection)
        self.method = method
        self.authority, self.path, self.query = target
        self.keep_alive = keep_alive
        self.chunked_ok = chunked_ok
        self._connection = connection
        if body is not None:
            self.put_all(body)
        self._gone: asyncio.Event | None = None
        self._whole: bytes | None = None

    @property
    def decoded_path(self) -> str:
        """The path without percent-encoding; refuses with 400 what is not UTF-8 or holds a NUL."""
        if "%" not in self.path:
            return self.path
        try:
            decoded = unquote_to_bytes(self.path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise HttpError(400, "the path is not UTF-8") from error
        if "\0" in decoded:
            raise HttpError(400, "the path holds a NUL")
        return decoded

    @property
    def peer(self) -> tuple[str, int]:
        """The address and port of the client."""
        return self._connection.peer

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's verified certificate (DER), or None."""
        return self._connection.peer_certificate

    @property
    def disconnected(self) -> asyncio.Event:
        """Is set when the client leaves before its answer is complete.

        The handler itself is cancelled then; this is for work that outlives it.
        """
        if self._gone is None:
            self._gone = asyncio.Event()
        return self._gone

    async def body(self) -> bytes:
        """Return the whole body; one longer than the server's limit is refused with 413."""
        if self._whole is None:
            # The reader has kept the length within the limit already.
            self._whole = await self.rest() if not self._ended else self.arrived()
        return self._whole

    def left(self) -> None:
        """Tell whoever listens that the client is gone; called by the connection."""
        self.disconnected.set()

    def __repr__(self) -> str:
        return f"<Incoming {self.method} {self.path}>"


class DrainableBody(Protocol):
    """A body that hands out all that has come at once; closed by `aclose` if it has that."""

    @property
    def complete(self) -> bool:
        """Tell whether all of it has come."""

    async def take(self) -> bytes:
        """Return what has come since the last time, or wait for it; empty at the end."""


class HttpResponse:
    """A response: bytes at once, or an async iterable of bytes, each sent as it is produced.

    What can be `DrainableBody`, as messages can, is not iterated: it costs less.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        headers: HeaderPairs = (),
        body: bytes | AsyncIterable[bytes] | DrainableBody = b"",
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"<Outgoing {self.status}>"


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]

BODILESS: Final = (204, 304)
"""Statuses that forbid a body."""
_START_LINES: Final = {
    one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus
}
_PLAIN: Final = (("content-type", "text/plain; charset=utf-8"),)


def refusal(status: int, reason: str) -> HttpResponse:
    """Return the response to a request that is not taken."""
    return HttpResponse(status, _PLAIN, f"{reason}\n".encode())


def response_head(outgoing: HttpResponse, framing: bytes) -> bytes:
    """Write the head of a response; `framing` are the lines about its length and connection."""
    status = outgoing.status
    start = _START_LINES.get(status)
    if start is None or status < 200:
        if not 200 <= status <= 599:
            raise InputError(f"status {status}: expected 200 to 599")
        start = b"HTTP/1.1 %d \r\n" % status
    if status in BODILESS and outgoing.body != b"":
        raise InputError(f"status {status} has no body; leave it out")
    return b"%b%b%b%b\r\n" % (start, date_line(), written(outgoing.headers), framing)
