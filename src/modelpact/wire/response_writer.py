"""Writes responses: whole, or in chunks as they are produced and the client reads them."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from math import inf
from typing import Final, cast

from modelpact.wire.errors import HttpError
from modelpact.wire.messages import (
    BODILESS_STATUSES,
    DrainableBody,
    HttpRequest,
    HttpResponse,
    error_response,
    response_head,
)

_MAX_JOINED: Final = 65_536
"""Length up to which a body is joined with its head in one write; a longer one is not copied."""
_BATCH: Final = 32_768
"""Chunks of one iteration of the event loop are sent together, up to this many bytes."""
_MIN_PROGRESS: Final = 16_384
"""Bytes that a slow client must have read at each check."""
_CLOSE: Final = b"connection: close\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class ResponseWriter:
    """Writes the responses of one connection and waits while the client does not read."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, write_seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._write_seconds = write_seconds
        self._unread = 0
        self._finishing = False
        self.deadline = inf
        """The time by which the client must have read some of the response."""
        self._buffer: list[bytes] = []
        self._buffer_size = 0
        self._flush_scheduled = False
        self._lost = False
        self._drain_waiter: asyncio.Future[None] | None = None
        self.started = False
        """Whether any byte of the current response has been sent."""

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        if self._drain_waiter is None:
            self._drain_waiter = self._loop.create_future()
        self._start_deadline()

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        if not self._finishing:
            self.deadline = inf
        waiter, self._drain_waiter = self._drain_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def connection_lost(self) -> None:
        """Discard what was not sent."""
        self._lost = True
        self._buffer = []
        self.resume_writing()

    def finish(self) -> None:
        """Flush; from now on the client has a limited time to read everything."""
        self._flush()
        self._finishing = True
        self._start_deadline()

    def made_progress(self, now: float) -> bool:
        """Tell whether the client has read enough since the last check; restart its deadline."""
        before, self._unread = self._unread, self._transport.get_write_buffer_size()
        self.deadline = now + self._write_seconds
        return before - self._unread >= _MIN_PROGRESS

    def send_continue(self) -> None:
        """Send `100 Continue`."""
        if not self._lost:
            self._transport.write(_CONTINUE)

    def send_error(self, error: HttpError) -> None:
        """Send an error as the last response of the connection."""
        self.send(error_response(error), keep_alive=False, head_only=False)

    def send(self, response: HttpResponse, *, keep_alive: bool, head_only: bool) -> bool:
        """Send a response whose body is bytes; tell whether the caller must `drain` next.

        It leaves at the end of this iteration of the event loop, together with the responses of
        other connections, so that a process that is woken by the first finds the others as well.
        """
        body = cast(bytes, response.body)
        framing = b"" if keep_alive else _CLOSE
        if response.status not in BODILESS_STATUSES:
            framing = b"%bcontent-length: %d\r\n" % (framing, len(body))
        head = response_head(response, framing)
        self.started = True
        if head_only:
            self._enqueue(head)
        elif len(body) <= _MAX_JOINED:
            self._enqueue(head + body)
        else:
            self._write(head)
            self._write(body)
        return self._drain_waiter is not None

    async def send_stream(self, request: HttpRequest, response: HttpResponse, *, keep_alive: bool) -> bool:
        """Send a response as it is produced; tell whether the connection can be used again."""
        # A body without length and chunks ends where the connection does.
        chunked = request.accepts_chunked
        keep_alive = keep_alive and chunked
        framing = _CHUNKED if chunked else b""
        body = response.body
        drainable = hasattr(body, "read_available")
        source = body if drainable else aiter(cast(AsyncIterable[bytes], body))
        try:
            head = response_head(response, framing if keep_alive else framing + _CLOSE)
            self._enqueue(head)
            if request.method == "HEAD":
                pass
            elif drainable:
                await self._send_drainable(cast(DrainableBody, source), chunked=chunked)
            else:
                await self._send_iterator(cast(AsyncIterator[bytes], source), chunked=chunked)
            self._flush()
        except BaseException:
            # As long as nothing is sent, an error response is still possible.
            if self.started:
                self._flush()
            else:
                self._buffer = []
            raise
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        await self.drain()
        return keep_alive

    async def drain(self) -> None:
        """Wait until the client has caught up."""
        while self._drain_waiter is not None:
            await self._drain_waiter

    async def _send_drainable(self, source: DrainableBody, *, chunked: bool) -> None:
        """Send each part at once: what arrived together is already joined."""
        sent = 0
        while part := await source.read_available():
            data = b"%x\r\n%b\r\n" % (len(part), part) if chunked else part
            if source.complete:
                self._write(data + _LAST_CHUNK if chunked else data)
                return
            self._write(data)
            if self._drain_waiter is not None:
                await self.drain()
            sent += len(part)
            if sent > _BATCH:
                sent = 0
                await asyncio.sleep(0)
        if chunked:
            self._write(_LAST_CHUNK)

    async def _send_iterator(self, parts: AsyncIterator[bytes], *, chunked: bool) -> None:
        async for part in parts:
            if part:
                self._enqueue(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                if self._buffer_size > _BATCH:
                    self._flush()
                    # A source that never suspends must not starve other connections.
                    await asyncio.sleep(0)
                if self._drain_waiter is not None:
                    await self.drain()
        if chunked:
            self._enqueue(_LAST_CHUNK)

    def _start_deadline(self) -> None:
        self._unread = self._transport.get_write_buffer_size()
        self.deadline = self._loop.time() + self._write_seconds

    def _write(self, data: bytes) -> None:
        """Write to the transport, after what is still in the buffer."""
        if self._buffer:
            self._buffer.append(data)
            self._flush()
            return
        self.started = True
        if not self._lost:
            self._transport.write(data)

    def _enqueue(self, data: bytes) -> None:
        """Add to the buffer, which is flushed in this iteration of the event loop."""
        self._buffer.append(data)
        self._buffer_size += len(data)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._scheduled_flush)

    def _scheduled_flush(self) -> None:
        self._flush_scheduled = False
        self._flush()

    def _flush(self) -> None:
        buffer = self._buffer
        if buffer:
            self._buffer = []
            self._buffer_size = 0
            self._write(buffer[0] if len(buffer) == 1 else b"".join(buffer))
