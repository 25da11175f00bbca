"""One connection of a server: requests in order, one handler at a time, and every deadline."""

import asyncio
import logging
from collections import deque
from typing import Final, cast

from modelpact.wire.deadlines import ReadDeadlines
from modelpact.wire.errors import ClientLeft, HttpError
from modelpact.wire.exchange import HttpRequest, peer_of, refusal
from modelpact.wire.request_reader import HttpRequestReader
from modelpact.wire.response_writer import ResponseWriter
from modelpact.wire.service import Service

_log: Final = logging.getLogger("modelpact.wire")
_SLICE: Final = 16_384
"""What is parsed at once, so that a burst of pipelined requests cannot pile up."""
_WAITING: Final = 8
"""Pipelined requests that may wait while reading goes on."""
_INTERNAL: Final = HttpError(500, "internal error")


class ServerConnection(asyncio.Protocol):
    """A client's connection, from its first byte to its last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = service.loop
        self._limits = service.limits
        self._reader = HttpRequestReader(service.limits, self)
        self._queue: deque[HttpRequest] = deque()
        self._current: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: HttpError | None = None
        self._expecting = False
        self._unparsed: bytes | None = None
        self._deaf = False
        self._held = False
        self._patience = ReadDeadlines(service.limits, service.loop.time)
        self.peer = ("", 0)
        self.peer_certificate: bytes | None = None

    @property
    def read_by(self) -> float:
        """By when the client must have sent what it owes."""
        return self._patience.by

    @property
    def write_by(self) -> float:
        """By when the client must have read what it was sent."""
        return self._writer.by

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or turn it away if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = ResponseWriter(self._transport, self._loop, self._limits.write_seconds)
        service = self._service
        if service.overrun:
            self._transport.abort()
            return
        if service.full:
            self._refuse(HttpError(503, "too many connections; try again in a second"))
        service.connections.add(self)
        service.watch.add(self)
        self.peer, self.peer_certificate = peer_of(transport)
        if self._refused is not None:
            self._next()
        else:
            self._patience.first_request()

    def data_received(self, data: bytes) -> None:
        """Parse what has come; start on the first request if none is under way."""
        if self._deaf:
            return
        if self._current is None:
            request = self._reader.again(data)
            if request is not None:
                self._patience.nothing()
                self._start(request)
                return
        self._parse(data)
        if self._current is None and (self._queue or self._refused is not None):
            self._next()

    def eof_received(self) -> None:
        """Take the end of the client's input for its leaving; what was answered is still sent."""
        self._left()
        self._writer.last()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop the handler and forget the connection."""
        self._left()
        self._writer.lost()
        self._reader.close()
        service = self._service
        service.watch.discard(self)
        service.connections.discard(self)
        if service.draining and not service.connections:
            service.emptied.set()

    def pause_writing(self) -> None:
        """Hear that the client does not keep up with what it is sent."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Hear that it has caught up."""
        self._writer.resume()

    # Requests in.

    def _parse(self, data: bytes) -> None:
        reader = self._reader
        fresh = reader.at_start and not self._queue
        try:
            if len(data) <= _SLICE or reader.body_left >= len(data):
                reader.feed(data)
            else:
                self._parse_slices(memoryview(data))
        except HttpError as refused:
            self._refuse(refused)
            return
        if fresh and reader.at_start and len(self._queue) == 1:
            reader.learn(data, self._queue[0])
        if reader.arriving is not None:
            self._await_body(len(data))
        elif self._current is not None or self._queue:
            self._patience.nothing()
        elif reader.in_head:
            self._patience.head()

    def _parse_slices(self, data: memoryview) -> None:
        """Parse until enough requests wait; keep the rest for later."""
        for start in range(0, len(data), _SLICE):
            if len(self._queue) > _WAITING:
                self._unparsed = bytes(data[start:])
                return
            self._reader.feed(data[start : start + _SLICE])

    def _await_body(self, arrived: int) -> None:
        if self._held or self._expecting:
            self._patience.nothing()
        else:
            self._patience.body(arrived)

    def arrived(self, request: HttpRequest, expects: bool) -> None:
        """Put a request in the queue; called by the reader."""
        self._queue.append(request)
        self._expecting = expects
        if len(self._queue) > _WAITING:
            self.hold()

    def _refuse(self, refused: HttpError) -> None:
        """Read no more; who reads the unfinished body hears why, or else the client does."""
        self._deaf = True
        self._patience.nothing()
        if self._reader.arriving is not None:
            self._reader.arriving.fail(refused)
        else:
            self._refused = refused

    def hold(self) -> None:
        """Stop reading until what has come is used."""
        self._held = True
        self._patience.nothing()
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again, unless requests still wait."""
        if self._unparsed is not None or len(self._queue) > _WAITING:
            return
        self._held = False
        if not self._deaf:
            self._transport.resume_reading()
            if self._reader.arriving is not None:
                self._await_body(0)

    def wanted(self) -> None:
        """Ask a client that waits to be asked for the body."""
        if self._expecting:
            self._expecting = False
            self._writer.go_ahead()
            self._await_body(0)

    # Responses out.

    def _next(self) -> None:
        """Turn to the next request, or wait for it."""
        while not self._queue and self._unparsed is not None and not self._deaf:
            data, self._unparsed = self._unparsed, None
            self._parse(data)
        if self._queue:
            current = self._queue.popleft()
            self._start(current)
            if self._held and not self._queue and not current.holding:
                self.go_on()
            return
        self._current = self._task = None
        if self._refused is not None:
            self._writer.refuse(self._refused)
            self._close()
        elif self._service.draining:
            self._close()
        elif not self._deaf:
            if self._held:
                self.go_on()
            if self._reader.in_head:
                self._patience.head()
            else:
                self._patience.request()

    def _start(self, request: HttpRequest) -> None:
        """Have a request answered."""
        self._current = request
        self._task = self._loop.create_task(self._serve(request))

    async def _serve(self, request: HttpRequest) -> None:
        writer = self._writer
        writer.begun = keep = False
        try:
            outgoing = await self._service.handler(request)
            keep = self._may_keep(request)
            if not isinstance(outgoing.body, bytes):
                keep = await writer.stream(request, outgoing, keep=keep)
            elif writer.whole(outgoing, keep=keep, head_only=request.method == "HEAD"):
                await writer.drained()
        except HttpError as refused:
            keep = await self._apologise(request, refused)
        except asyncio.CancelledError:
            if self._task is None or self._task.cancelling():
                self._transport.abort()
                raise
            keep = await self._apologise(request, _INTERNAL)
        except Exception:
            keep = await self._apologise(request, _INTERNAL)
        if keep and not self._service.draining:
            self._next()
        else:
            self._close()

    async def _apologise(self, request: HttpRequest, refused: HttpError) -> bool:
        """Say why there is no answer, unless a part of one is sent: it must not look complete."""
        if refused is _INTERNAL:
            _log.exception("%s %s failed", request.method, request.path)
        if self._writer.begun:
            return False
        keep = self._may_keep(request)
        outgoing = refusal(refused.status, refused.reason)
        self._writer.whole(outgoing, keep=keep, head_only=request.method == "HEAD")
        await self._writer.drained()
        return keep

    def _may_keep(self, request: HttpRequest) -> bool:
        """Tell whether another request may follow: never after a body that was not all read."""
        return request.keep_alive and request.complete and not self._service.draining

    def _close(self) -> None:
        """Close once all is sent; what the client still sends is dropped for a while."""
        self._current = self._task = None
        self._writer.last()
        if not self._deaf and self._reader.arriving is None:
            self._deaf = True
            self._transport.close()
            return
        # To close with unread input resets the connection, and the client may lose the response.
        self._deaf = True
        self._patience.end()
        if not self._transport.is_closing():
            self._transport.resume_reading()
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def _left(self) -> None:
        """Stop all work for a client that is gone."""
        self._deaf = True
        self._patience.nothing()
        self._queue.clear()
        self._unparsed = None
        if self._reader.arriving is not None:
            self._reader.arriving.fail(ClientLeft("the client left before its body was complete"))
        if self._current is not None:
            self._current.left()
        if self._task is not None:
            self._service.leaving.add(self._task)
            self._task.add_done_callback(self._service.leaving.discard)
            self._task.cancel()
            self._task = None

    # From the watch and the server.

    def overdue(self, now: float) -> None:
        """Act on a deadline that has passed."""
        if self._writer.by <= now and not self._writer.progresses(now):
            self.abort()
        if self._patience.by > now:
            return
        owed = self._patience.owed
        self._patience.nothing()
        if self._deaf:
            self.abort()
        elif owed == "body":
            self._refuse(HttpError(408, "the body did not come in time"))
        elif owed == "head" or self._reader.in_head:
            self._refuse(HttpError(408, "the head did not come in time"))
            self._next()
        else:
            self._deaf = True
            self._transport.close()

    def drain(self) -> None:
        """Close now if nothing is under way, else after the response."""
        if self._current is None and not self._queue:
            self._close()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._left()
        self._transport.abort()
