"""One connection of a server: requests in order, one handler at a time, and every deadline."""

import asyncio
import logging
from collections import deque
from math import inf
from typing import Final, cast

from modelpact.wire.errors import ClientLeft, Refused
from modelpact.wire.exchange import Handler, Incoming, Outgoing, refusal, response_head
from modelpact.wire.limits import Limits
from modelpact.wire.reader import RequestReader
from modelpact.wire.watch import Watch
from modelpact.wire.writer import Writer

_log: Final = logging.getLogger("modelpact.wire")
READ_SIZE: Final = 65_536
_SLICE: Final = 16_384
"""What is parsed at once, so that a burst of pipelined requests cannot pile up."""
_WAITING: Final = 8
"""Pipelined requests that may wait while reading goes on."""
_LINGER_SECONDS: Final = 2.0
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Service:
    """What the connections of one server share."""

    def __init__(
        self, handler: Handler, limits: Limits, loop: asyncio.AbstractEventLoop, watch: Watch
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = loop
        self.watch = watch
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Handlers whose clients have left, until they have cleaned up."""
        self.draining = False
        self.emptied = asyncio.Event()
        # Filled and parsed within one callback of the loop, so one serves all connections.
        self.buffer = memoryview(bytearray(READ_SIZE))


class Connection(asyncio.BufferedProtocol):
    """A client's connection, from its first byte to its last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = service.loop
        self._limits = service.limits
        self._reader = RequestReader(service.limits, self)
        self._queue: deque[Incoming] = deque()
        self._current: Incoming | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: Refused | None = None
        self._expecting: Incoming | None = None
        self._unparsed: memoryview | None = None
        self._deaf = False
        self._held = False
        self.read_by = inf
        self.write_by = inf
        self.peer = ("", 0)
        self.peer_certificate: bytes | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or turn it away if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = Writer(self._transport, self._loop, self._write_deadline)
        service = self._service
        if service.draining or len(service.connections) >= self._limits.connections:
            self._deaf = True
            outgoing = refusal(503, "too many connections; try again shortly")
            outgoing.headers = [*outgoing.headers, ("retry-after", "1")]
            self._writer.whole(outgoing, keep=False, head_only=False)
            self._transport.close()
            return
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.peer = (address[0], address[1])
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.peer_certificate = tls.getpeercert(binary_form=True)
        service.connections.add(self)
        service.watch.add(self)
        self.read_by = self._loop.time() + self._limits.head_seconds

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Lend the shared buffer."""
        return self._service.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has come; start on the first request if none is under way."""
        if self._deaf:
            return
        self._parse(self._service.buffer[:nbytes])
        if self._current is None:
            self._next()

    def eof_received(self) -> None:
        """Take the end of the client's input for its leaving: nothing more will be answered."""
        self._left()
        if self._current is not None or self._writer.busy:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop the handler and forget the connection."""
        self._left()
        self._deaf = True
        self._reader.close()
        self._writer.lost()
        service = self._service
        service.watch.discard(self)
        service.connections.discard(self)
        if service.draining and not service.connections:
            service.emptied.set()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writer.resume()

    # Requests in.

    def _parse(self, data: memoryview) -> None:
        reader = self._reader
        try:
            if len(data) <= _SLICE or reader.body_left >= len(data):
                reader.feed(data)
            else:
                data = self._parse_slices(data)
        except Refused as refused:
            self._refuse(refused)
            return
        now = self._loop.time()
        if reader.arriving is not None:
            if not self._held:
                earned = self.read_by if self.read_by != inf else now + self._limits.body_seconds
                earned += len(data) / self._limits.body_rate
                self.read_by = min(earned, now + self._limits.body_seconds)
        elif self._current is not None or self._queue:
            self.read_by = inf
        elif reader.in_head and not self._head_timed:
            self._head_timed = True
            self.read_by = now + self._limits.head_seconds

    _head_timed = True
    """Whether the deadline at hand is that of a head; at first it is."""

    def _parse_slices(self, data: memoryview) -> memoryview:
        """Parse until enough requests wait; keep the rest for later."""
        for start in range(0, len(data), _SLICE):
            if len(self._queue) > _WAITING:
                self._unparsed = memoryview(bytes(data[start:]))
                self._hold()
                return data[:start]
            self._reader.feed(data[start : start + _SLICE])
        return data

    def arrived(self, request: Incoming, expects: bool) -> None:
        """Put a request in the queue; called by the reader."""
        self._queue.append(request)
        if expects:
            self._expecting = request
        if len(self._queue) > _WAITING:
            self._hold()

    def _refuse(self, refused: Refused) -> None:
        """Read no more; whoever reads the unfinished body hears why, or else the client does."""
        self._deaf = True
        self.read_by = inf
        unfinished = self._reader.arriving
        if unfinished is not None:
            unfinished.fail(refused)
        if unfinished is None or unfinished is not self._current:
            if unfinished is not None and unfinished in self._queue:
                self._queue.remove(unfinished)
            self._refused = refused

    # Responses out.

    def _next(self) -> None:
        """Turn to the next request, or wait for it."""
        while not self._queue and self._unparsed is not None and not self._deaf:
            data, self._unparsed = self._unparsed, None
            self._parse(data)
        self._head_timed = False
        if self._queue:
            self._current = self._queue.popleft()
            self._task = self._loop.create_task(self._serve(self._current))
            return
        self._current = self._task = None
        if self._refused is not None:
            self._writer.whole(refusal(self._refused.status, self._refused.reason), keep=False)
            self._close()
        elif self._service.draining:
            self._close()
        elif not self._deaf:
            if self._held:
                self.go_on()
            seconds = self._limits.idle_seconds
            if self._reader.in_head:
                self._head_timed = True
                seconds = self._limits.head_seconds
            self.read_by = self._loop.time() + seconds

    async def _serve(self, request: Incoming) -> None:
        outgoing = await self._handled(request)
        writer = self._writer
        keep = self._may_keep(request)
        head_only = request.method == "HEAD"
        try:
            if isinstance(outgoing.body, bytes):
                writer.whole(outgoing, keep=keep, head_only=head_only)
                if writer.paused:
                    await writer.drained()
            else:
                keep = keep and (request.chunked_ok or head_only)
                await writer.stream(
                    outgoing, keep=keep, head_only=head_only, chunked=request.chunked_ok
                )
        except Exception:
            # What has been sent cannot be taken back: an unfinished body must not look finished.
            _log.exception("%s %s: the response failed", request.method, request.path)
            keep = False
            if not writer.begun:
                writer.whole(refusal(500, "internal error"), keep=False)
        writer.begun = False
        if keep and self._may_keep(request):
            self._next()
        else:
            self._current = self._task = None
            self._close()

    async def _handled(self, request: Incoming) -> Outgoing:
        try:
            outgoing = await self._service.handler(request)
            if isinstance(outgoing.body, bytes):
                response_head(outgoing, "")
            return outgoing
        except Refused as refused:
            return refusal(refused.status, refused.reason)
        except Exception:
            _log.exception("%s %s: the handler failed", request.method, request.path)
            return refusal(500, "internal error")

    def _may_keep(self, request: Incoming) -> bool:
        """Tell whether another request may follow: never after a body that was not all read."""
        return request.keep_alive and request.complete and not self._service.draining

    def _close(self) -> None:
        """Close once all is sent; what the client still sends is read and dropped for a while.

        Closing with unread input resets the connection, and the client may lose the response.
        """
        self.write_by = self._loop.time() + self._limits.write_seconds
        unread = self._reader.arriving is not None or self._deaf
        self._deaf = True
        if not unread:
            self._transport.close()
            return
        self._transport.resume_reading()
        self.read_by = self._loop.time() + _LINGER_SECONDS
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _left(self) -> None:
        self.read_by = inf
        self._queue.clear()
        arriving = self._reader.arriving
        if arriving is not None:
            arriving.fail(ClientLeft("the client left before its request was complete"))
        if self._current is not None:
            self._current.left()
        if self._task is not None:
            self._service.tasks.add(self._task)
            self._task.add_done_callback(self._service.tasks.discard)
            self._task.cancel()
            self._task = None

    # Deadlines and flow control.
