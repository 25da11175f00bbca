"""Responses to bytes: whole at once, or in chunks as they are produced and the client reads."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from math import inf
from typing import Final, cast

from modelpact.wire.errors import HttpError
from modelpact.wire.exchange import (
    BODILESS,
    DrainableBody,
    HttpRequest,
    HttpResponse,
    refusal,
    response_head,
)

_JOINED: Final = 65_536
"""A body up to this length travels in one write with its head; a longer one is not copied."""
_BATCH: Final = 32_768
"""Chunks of one turn of the event loop are sent together, up to this many bytes."""
_PROGRESS: Final = 16_384
"""Bytes that a slow client must have read each time it is looked at."""
_CLOSE: Final = b"connection: close\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class ResponseWriter:
    """Writes the responses of one connection, and waits where the client does not read."""

    __slots__ = (
        "_ending",
        "_flushing",
        "_loop",
        "_lost",
        "_pending",
        "_room",
        "_seconds",
        "_size",
        "_transport",
        "_unread",
        "begun",
        "by",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._unread = 0
        self._ending = False
        self.by = inf
        """By when the client must have read some of what it was sent."""
        self._pending: list[bytes] = []
        self._size = 0
        self._flushing = False
        self._lost = False
        self._room: asyncio.Future[None] | None = None
        self.begun = False
        """Whether any of the response at hand has been sent."""

    def pause(self) -> None:
        """Hear that the client does not keep up."""
        if self._room is None:
            self._room = self._loop.create_future()
        self._await_reader()

    def last(self) -> None:
        """Hear that nothing follows: from here on the client has its time to read it all."""
        self._flush()
        self._ending = True
        self._await_reader()

    def _await_reader(self) -> None:
        self._unread = self._transport.get_write_buffer_size()
        self.by = self._loop.time() + self._seconds

    def progresses(self, now: float) -> bool:
        """Tell whether the client has read enough since; if so, it gets the same time again."""
        before, self._unread = self._unread, self._transport.get_write_buffer_size()
        self.by = now + self._seconds
        return before - self._unread >= _PROGRESS

    def resume(self) -> None:
        """Hear that it has caught up."""
        if not self._ending:
            self.by = inf
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def lost(self) -> None:
        """Hear that nobody reads any more."""
        self._lost = True
        self._pending = []
        self.resume()

    def go_ahead(self) -> None:
        """Ask for a body that waits to be asked for."""
        if not self._lost:
            self._transport.write(_CONTINUE)

    def refuse(self, refused: HttpError) -> None:
        """Send the last response of a connection, to nothing that could be read."""
        self.whole(refusal(refused.status, refused.reason), keep=False, head_only=False)

    def whole(self, outgoing: HttpResponse, *, keep: bool, head_only: bool) -> bool:
        """Send a response whose body is bytes; tell whether the client must catch up first.

        It leaves at the end of this turn of the event loop, with those of other connections: whom
        the first one wakes finds the rest as well. Whatever is begun after it comes after it.
        """
        body = cast(bytes, outgoing.body)
        framing = b"" if keep else _CLOSE
        if outgoing.status not in BODILESS:
            framing = b"%bcontent-length: %d\r\n" % (framing, len(body))
        head = response_head(outgoing, framing)
        self.begun = True
        if head_only:
            self._queue(head)
        elif len(body) <= _JOINED:
            self._queue(head + body)
        else:
            self._send(head)
            self._send(body)
        return self._room is not None

    async def stream(self, request: HttpRequest, outgoing: HttpResponse, *, keep: bool) -> bool:
        """Send a response as it is produced; tell whether the connection can be used again."""
        # What has neither length nor chunks ends where the connection does.
        chunked = request.chunked_ok
        keep = keep and chunked
        framing = _CHUNKED if chunked else b""
        body = outgoing.body
        source = body if hasattr(body, "take") else aiter(cast(AsyncIterable[bytes], body))
        try:
            head = response_head(outgoing, framing if keep else framing + _CLOSE)
            self._queue(head)
            if request.method == "HEAD":
                pass
            elif hasattr(source, "take"):
                await self._send_taken(cast(DrainableBody, source), chunked=chunked)
            else:
                await self._send_parts(cast(AsyncIterator[bytes], source), chunked=chunked)
            self._flush()
        except BaseException:
            # Before anything is sent there is still time for another answer.
            if self.begun:
                self._flush()
            else:
                self._pending = []
            raise
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        await self.drained()
        return keep

    async def _send_taken(self, source: DrainableBody, *, chunked: bool) -> None:
        """Send what comes as it comes: it is together already."""
        sent = 0
        while part := await source.take():
            data = b"%x\r\n%b\r\n" % (len(part), part) if chunked else part
            if source.complete:
                self._send(data + _LAST_CHUNK if chunked else data)
                return
            self._send(data)
            if self._room is not None:
                await self.drained()
            sent += len(part)
            if sent > _BATCH:
                sent = 0
                await asyncio.sleep(0)
        if chunked:
            self._send(_LAST_CHUNK)

    async def _send_parts(self, parts: AsyncIterator[bytes], *, chunked: bool) -> None:
        async for part in parts:
            if part:
                self._queue(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                if self._size > _BATCH:
                    self._flush()
                    # A source that is never waited for must not keep others waiting.
                    await asyncio.sleep(0)
                if self._room is not None:
                    await self.drained()
        if chunked:
            self._queue(_LAST_CHUNK)

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        while self._room is not None:
            await self._room

    def _send(self, data: bytes) -> None:
        """Send something, and with it what is still pending."""
        if self._pending:
            self._pending.append(data)
            self._flush()
            return
        self.begun = True
        if not self._lost:
            self._transport.write(data)

    def _queue(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        self._flushing = False
        self._flush()

    def _flush(self) -> None:
        pending = self._pending
        if pending:
            self._pending = []
            self._size = 0
            self._send(pending[0] if len(pending) == 1 else b"".join(pending))
