"""One connection of a client: one request and its response at a time."""

import asyncio
from collections.abc import AsyncIterable, Callable
from math import inf
from typing import Final, cast

from modelpact.wire.client_response import ClientResponse, ClientResponseReader
from modelpact.wire.errors import ConnectionLost, Phase, WireError, WireTimeout
from modelpact.wire.limits import DeadlineTimer, PoolLimits, Timeouts
from modelpact.wire.messages import peer_info

_MAX_JOINED: Final = 65_536
"""Length up to which a body is joined with its head in one write; a longer one is not copied."""
_NO_TIMEOUTS: Final = Timeouts()


class ClientConnection(asyncio.Protocol):
    """A connection to one origin, used by one exchange at a time."""

    def __init__(
        self,
        name: str,
        limits: PoolLimits,
        timer: DeadlineTimer,
        on_released: Callable[["ClientConnection", bool], None],
    ) -> None:
        self.name = name
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = limits.idle_seconds
        self._timer = timer
        self._on_released = on_released
        self._reader = ClientResponseReader(limits, self)
        self._busy = False
        self._response: asyncio.Future[ClientResponse] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._drain_waiter: asyncio.Future[None] | None = None
        self._timeouts = _NO_TIMEOUTS
        self._total_deadline = inf
        self._phase: Phase = "first byte"
        self._reading_paused = False
        self.used = False
        """Whether an exchange was completed: the server may have closed the connection since."""
        self.response_started = False
        """Whether any byte of the response has arrived."""
        self.closed = False
        self.read_deadline = inf
        self.write_deadline = inf
        self.peer_certificate: bytes | None = None

    async def exchange(
        self,
        head: bytes,
        body: bytes | AsyncIterable[bytes],
        timeouts: Timeouts,
        total_deadline: float,
        *,
        head_only: bool,
    ) -> ClientResponse:
        """Send a request and return the response as soon as its head has arrived."""
        self.response_started = False
        if self.closed:
            raise ConnectionLost("write", f"{self.name}: the connection was closed by the server")
        self._timeouts = timeouts
        self._total_deadline = total_deadline
        self._busy = True
        self._reader.start(head_only=head_only)
        response: asyncio.Future[ClientResponse] = self._loop.create_future()
        self._response = response
        self._phase = "first byte"
        self._set_read_deadline(timeouts.first_byte)
        if not isinstance(body, bytes):
            self._phase = "write"
            self.read_deadline = total_deadline
            self._transport.write(head)
            self._sender = self._loop.create_task(self._send_body(body))
        elif len(body) <= _MAX_JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await response
        except asyncio.CancelledError:
            # Once the response is complete, the connection may serve another exchange already.
            if self._response is response:
                self.abort()
            raise

    async def _send_body(self, body: AsyncIterable[bytes]) -> None:
        """Send a body as it is produced; the response may begin before the body ends."""
        try:
            async for part in body:
                if part:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
                    if self._drain_waiter is not None:
                        await self._drain_waiter
        except Exception as error:
            self._fail(WireError("write", f"{self.name}: the body of the request failed"), error)
            return
        self._transport.write(b"0\r\n\r\n")
        self._sender = None
        if self._phase == "write":
            self._phase = "first byte"
            self._set_read_deadline(self._timeouts.first_byte)

    def _set_read_deadline(self, seconds: float) -> None:
        """Give the server some time, but not beyond the total timeout."""
        deadline = self._loop.time() + seconds
        total = self._total_deadline
        self.read_deadline = deadline if deadline < total else total

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and the certificate of the server."""
        self._transport = cast(asyncio.Transport, transport)
        _, self.peer_certificate = peer_info(transport)
        self._timer.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if not self._busy:
            # No request is pending: this would be taken for the response to the next one.
            self.abort()
            return
        self.response_started = True
        reader = self._reader
        try:
            reader.feed(data)
        except WireError as error:
            self._fail(error)
            return
        if reader.finished:
            self._finish()
        elif reader.response is not None and not self._reading_paused:
            self._set_read_deadline(self._timeouts.between_bytes)

    def response_received(self, response: ClientResponse) -> None:
        """Pass the response to the caller; called by the reader when its head is complete."""
        self._phase = "body"
        if self._response is not None and not self._response.done():
            self._response.set_result(response)

    def eof_received(self) -> None:
        """Treat the end of input as the end of a body that has no length."""
        if self._busy and self._reader.feed_eof():
            self._finish()
        else:
            self._connection_closed(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the running exchange and leave the pool."""
        self._connection_closed(exc)
        self._timer.discard(self)

    def pause_writing(self) -> None:
        """Stop sending: the server reads too slowly."""
        self._drain_waiter = self._loop.create_future()
        self.write_deadline = self._loop.time() + self._timeouts.write
        self.read_deadline = self._total_deadline

    def resume_writing(self) -> None:
        """Send again: the server has caught up."""
        self.write_deadline = inf
        if self._phase == "first byte":
            self._set_read_deadline(self._timeouts.first_byte)
        waiter, self._drain_waiter = self._drain_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # Flow control of the response.

    def pause_reading(self) -> None:
        """Stop reading until the reader of the response has caught up."""
        self._reading_paused = True
        self.read_deadline = self._total_deadline
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._reading_paused = False
        if not self.closed:
            self._set_read_deadline(self._timeouts.between_bytes)
            self._transport.resume_reading()

    def request_body(self) -> None:
        """Do nothing: a server sends its body unasked."""

    # End of an exchange, end of the connection.

    def _finish(self) -> None:
        """Release the connection to the pool if it can be reused."""
        reader = self._reader
        unsent = self._sender is not None or self._transport.get_write_buffer_size() > 0
        reusable = reader.keep_alive and not (reader.has_extra_data or unsent or self._transport.is_closing())
        reader.response = self._response = None
        self._busy = False
        self.used = True
        if reusable:
            self.write_deadline = inf
            self.read_deadline = self._loop.time() + self._idle_seconds
            self._on_released(self, True)
        else:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._mark_closed()
        self._transport.abort()

    def _mark_closed(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._busy = False
        self.read_deadline = self.write_deadline = inf
        self._reader.close()
        sender, self._sender = self._sender, None
        if sender is not None and sender is not asyncio.current_task():
            sender.cancel()
        self._on_released(self, False)

    def _connection_closed(self, cause: Exception | None) -> None:
        if self._busy:
            reason = f": {cause}" if cause is not None else " by the server"
            error = ConnectionLost(self._phase, f"{self.name}: the connection was closed{reason}")
            self._fail(error, cause)
        self._mark_closed()

    def _fail(self, error: WireError, cause: Exception | None = None) -> None:
        error.__cause__ = cause
        if self._reader.response is not None:
            self._reader.response.set_exception(error)
        elif self._response is not None and not self._response.done():
            self._response.set_exception(error)
        self.abort()

    def on_deadline(self, now: float) -> None:
        """Handle a deadline that has passed."""
        timeouts = self._timeouts
        if not self._busy:
            self.abort()
        elif self._total_deadline <= now:
            self._time_out(self._phase, f"not complete within {timeouts.total:g} s in total")
        elif self.write_deadline <= now:
            self._time_out("write", f"the server read nothing for {timeouts.write:g} s")
        elif self._phase == "body":
            self._time_out("body", f"the server sent nothing for {timeouts.between_bytes:g} s")
        else:
            self._time_out(self._phase, f"no response within {timeouts.first_byte:g} s")

    def _time_out(self, phase: Phase, message: str) -> None:
        self._fail(WireTimeout(phase, f"{self.name}: {message}"))
