"""One connection of a server: parses requests, runs one handler at a time, keeps deadlines."""

import asyncio
import logging
from collections import deque
from typing import Final, cast

from modelpact.wire.errors import ClientDisconnected, HttpError
from modelpact.wire.limits import DeadlineTimer, ReadDeadlines, ServerLimits
from modelpact.wire.messages import Handler, HttpRequest, error_response, peer_info
from modelpact.wire.request_reader import HttpRequestReader
from modelpact.wire.response_writer import ResponseWriter

_log: Final = logging.getLogger("modelpact.wire")
_SLICE: Final = 16_384
"""Bytes parsed at once, so that a burst of pipelined requests cannot pile up."""
_MAX_PIPELINED: Final = 8
"""Pipelined requests that may wait before the connection stops reading."""
_INTERNAL_ERROR: Final = HttpError(500, "internal error")


class ServerState:
    """What the connections of one server share."""

    def __init__(
        self, handler: Handler, limits: ServerLimits, loop: asyncio.AbstractEventLoop, timer: DeadlineTimer
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = loop
        self.timer = timer
        self.connections: set[ServerConnection] = set()
        self.cancelled_handlers: set[asyncio.Task[None]] = set()
        """Handlers whose clients disconnected, until they have cleaned up."""
        self.draining = False
        self.all_closed = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether a new connection is answered with 503."""
        return self.draining or len(self.connections) >= self.limits.connections

    @property
    def overloaded(self) -> bool:
        """Whether so many connections are being rejected that a new one is just dropped."""
        return len(self.connections) > self.limits.connections * 9 // 8 + 8


class ServerConnection(asyncio.Protocol):
    """A client's connection, from its first byte to its last."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._loop = state.loop
        self._limits = state.limits
        self._reader = HttpRequestReader(state.limits, self)
        self._queue: deque[HttpRequest] = deque()
        self._current: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._rejection: HttpError | None = None
        self._expects_continue = False
        self._unparsed: bytes | None = None
        self._input_closed = False
        self._reading_paused = False
        self._deadlines = ReadDeadlines(state.limits, state.loop.time)
        self.peer = ("", 0)
        self.peer_certificate: bytes | None = None

    @property
    def read_deadline(self) -> float:
        """The time by which the client must have sent what the server awaits."""
        return self._deadlines.deadline

    @property
    def write_deadline(self) -> float:
        """The time by which the client must have read some of the response."""
        return self._writer.deadline

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or reject it if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = ResponseWriter(self._transport, self._loop, self._limits.write_seconds)
        state = self._state
        if state.overloaded:
            self._transport.abort()
            return
        if state.full:
            self._reject(HttpError(503, "too many connections; try again in a second"))
        state.connections.add(self)
        state.timer.add(self)
        self.peer, self.peer_certificate = peer_info(transport)
        if self._rejection is not None:
            self._handle_next()
        else:
            self._deadlines.await_first_request()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; start the first request if none is being handled."""
        if self._input_closed:
            return
        if self._current is None:
            request = self._reader.match_cached_head(data)
            if request is not None:
                self._deadlines.clear()
                self._start_handler(request)
                return
        self._parse(data)
        if self._current is None and (self._queue or self._rejection is not None):
            self._handle_next()

    def eof_received(self) -> None:
        """Treat the end of the client's input as a disconnect; pending output is still sent."""
        self._client_disconnected()
        self._writer.finish()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancel the handler and forget the connection."""
        self._client_disconnected()
        self._writer.connection_lost()
        self._reader.close()
        state = self._state
        state.timer.discard(self)
        state.connections.discard(self)
        if state.draining and not state.connections:
            state.all_closed.set()

    def pause_writing(self) -> None:
        """Stop writing: the client reads too slowly."""
        self._writer.pause_writing()

    def resume_writing(self) -> None:
        """Write again: the client has caught up."""
        self._writer.resume_writing()

    # Requests.

    def _parse(self, data: bytes) -> None:
        reader = self._reader
        fresh = reader.at_start and not self._queue
        try:
            if len(data) <= _SLICE or reader.body_remaining >= len(data):
                reader.feed(data)
            else:
                self._parse_slices(memoryview(data))
        except HttpError as error:
            self._reject(error)
            return
        if fresh and reader.at_start and len(self._queue) == 1:
            reader.cache_head(data, self._queue[0])
        if reader.incomplete is not None:
            self._await_body(len(data))
        elif self._current is not None or self._queue:
            self._deadlines.clear()
        elif reader.in_head:
            self._deadlines.await_head()

    def _parse_slices(self, data: memoryview) -> None:
        """Parse until enough requests are queued; keep the rest for later."""
        for start in range(0, len(data), _SLICE):
            if len(self._queue) > _MAX_PIPELINED:
                self._unparsed = bytes(data[start:])
                return
            self._reader.feed(data[start : start + _SLICE])

    def _await_body(self, received: int) -> None:
        if self._reading_paused or self._expects_continue:
            self._deadlines.clear()
        else:
            self._deadlines.await_body(received)

    def request_received(self, request: HttpRequest, expects_continue: bool) -> None:
        """Queue a request; called by the reader when its head is complete."""
        self._queue.append(request)
        self._expects_continue = expects_continue
        if len(self._queue) > _MAX_PIPELINED:
            self.pause_reading()

    def _reject(self, error: HttpError) -> None:
        """Stop reading; raise the error from an unfinished body, or else send it to the client."""
        self._input_closed = True
        self._deadlines.clear()
        if self._reader.incomplete is not None:
            self._reader.incomplete.set_exception(error)
        else:
            self._rejection = error

    def pause_reading(self) -> None:
        """Stop reading until received data is consumed."""
        self._reading_paused = True
        self._deadlines.clear()
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless too many requests are queued."""
        if self._unparsed is not None or len(self._queue) > _MAX_PIPELINED:
            return
        self._reading_paused = False
        if not self._input_closed:
            self._transport.resume_reading()
            if self._reader.incomplete is not None:
                self._await_body(0)

    def request_body(self) -> None:
        """Send `100 Continue` if the client waits for it."""
        if self._expects_continue:
            self._expects_continue = False
            self._writer.send_continue()
            self._await_body(0)

    # Responses.

    def _handle_next(self) -> None:
        """Handle the next request, or wait for one."""
        while not self._queue and self._unparsed is not None and not self._input_closed:
            data, self._unparsed = self._unparsed, None
            self._parse(data)
        if self._queue:
            current = self._queue.popleft()
            self._start_handler(current)
            if self._reading_paused and not self._queue and not current.paused:
                self.resume_reading()
            return
        self._current = self._task = None
        if self._rejection is not None:
            self._writer.send_error(self._rejection)
            self._close()
        elif self._state.draining:
            self._close()
        elif not self._input_closed:
            if self._reading_paused:
                self.resume_reading()
            if self._reader.in_head:
                self._deadlines.await_head()
            else:
                self._deadlines.await_request()

    def _start_handler(self, request: HttpRequest) -> None:
        self._current = request
        self._task = self._loop.create_task(self._handle(request))

    async def _handle(self, request: HttpRequest) -> None:
        """Run the handler, send its response and continue with the next request."""
        writer = self._writer
        writer.started = keep_alive = False
        try:
            response = await self._state.handler(request)
            keep_alive = self._can_keep_alive(request)
            if not isinstance(response.body, bytes):
                keep_alive = await writer.send_stream(request, response, keep_alive=keep_alive)
            elif writer.send(response, keep_alive=keep_alive, head_only=request.method == "HEAD"):
                await writer.drain()
        except HttpError as error:
            keep_alive = await self._send_error(request, error)
        except asyncio.CancelledError:
            if self._task is None or self._task.cancelling():
                self._transport.abort()
                raise
            keep_alive = await self._send_error(request, _INTERNAL_ERROR)
        except Exception:
            keep_alive = await self._send_error(request, _INTERNAL_ERROR)
        if keep_alive and not self._state.draining:
            self._handle_next()
        else:
            self._close()

    async def _send_error(self, request: HttpRequest, error: HttpError) -> bool:
        """Send an error unless a response has begun, which must not look complete."""
        if error is _INTERNAL_ERROR:
            _log.exception("%s %s failed", request.method, request.path)
        if self._writer.started:
            return False
        keep_alive = self._can_keep_alive(request)
        head_only = request.method == "HEAD"
        self._writer.send(error_response(error), keep_alive=keep_alive, head_only=head_only)
        await self._writer.drain()
        return keep_alive

    def _can_keep_alive(self, request: HttpRequest) -> bool:
        """Tell whether another request may follow: never after a partly received body."""
        return request.keep_alive and request.complete and not self._state.draining

    def _close(self) -> None:
        """Close once everything is sent; drop what the client still sends for a while."""
        self._current = self._task = None
        self._writer.finish()
        if not self._input_closed and self._reader.incomplete is None:
            self._input_closed = True
            self._transport.close()
            return
        # Closing with unread input resets the connection, and the client may lose the response.
        self._input_closed = True
        self._deadlines.await_close()
        if not self._transport.is_closing():
            self._transport.resume_reading()
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def _client_disconnected(self) -> None:
        """Stop all work for a client that has disconnected."""
        self._input_closed = True
        self._deadlines.clear()
        self._queue.clear()
        self._unparsed = None
        if self._reader.incomplete is not None:
            self._reader.incomplete.set_exception(
                ClientDisconnected("the client disconnected before its body was complete")
            )
        if self._current is not None:
            self._current.disconnected.set()
        if self._task is not None:
            self._state.cancelled_handlers.add(self._task)
            self._task.add_done_callback(self._state.cancelled_handlers.discard)
            self._task.cancel()
            self._task = None

    # Called by the timer and the server.

    def on_deadline(self, now: float) -> None:
        """Handle a deadline that has passed."""
        if self._writer.deadline <= now and not self._writer.made_progress(now):
            self.abort()
        if self._deadlines.deadline > now:
            return
        awaited = self._deadlines.awaited
        self._deadlines.clear()
        if self._input_closed:
            self.abort()
        elif awaited == "body":
            self._reject(HttpError(408, "the body did not arrive in time"))
        elif awaited == "head" or self._reader.in_head:
            self._reject(HttpError(408, "the head did not arrive in time"))
            self._handle_next()
        else:
            self._input_closed = True
            self._transport.close()

    def drain(self) -> None:
        """Close now if no request is being handled, else after the response."""
        if self._current is None and not self._queue:
            self._close()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._client_disconnected()
        self._transport.abort()
