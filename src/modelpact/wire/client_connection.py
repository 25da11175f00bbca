"""One connection of a client: a request out, an answer in, strictly in turn."""

import asyncio
from collections.abc import AsyncIterable, Callable
from math import inf
from typing import Final, cast

from modelpact.wire.client_response import ClientResponse, ClientResponseReader
from modelpact.wire.deadlines import DeadlineTimer
from modelpact.wire.errors import ConnectionLost, Phase, WireError, WireTimeout
from modelpact.wire.exchange import peer_of
from modelpact.wire.limits import PoolLimits, Timeouts

_JOINED: Final = 65_536
"""A body up to this length travels in one write with its head; a longer one is not copied."""
_NO_TIMEOUTS: Final = Timeouts()


class ClientConnection(asyncio.Protocol):
    """A connection to one origin, used by one exchange at a time."""

    def __init__(
        self,
        name: str,
        limits: PoolLimits,
        watch: DeadlineTimer,
        freed: Callable[["ClientConnection", bool], None],
    ) -> None:
        self.name = name
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = limits.idle_seconds
        self._watch = watch
        self._freed = freed
        self._reader = ClientResponseReader(limits, self)
        self._busy = False
        self._head: asyncio.Future[ClientResponse] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._timeouts = _NO_TIMEOUTS
        self._total_by = inf
        self._phase: Phase = "first byte"
        self._held = False
        self.used = False
        """Whether an exchange was completed here: the server may have hung up since."""
        self.answering = False
        """Whether any byte of the answer has come."""
        self.dead = False
        self.read_by = inf
        self.write_by = inf
        self.peer_certificate: bytes | None = None

    async def exchange(
        self,
        head: bytes,
        body: bytes | AsyncIterable[bytes],
        timeouts: Timeouts,
        total_by: float,
        *,
        head_only: bool,
    ) -> ClientResponse:
        """Send a request and return its answer as soon as the head is there."""
        self.answering = False
        if self.dead:
            raise ConnectionLost("write", f"{self.name}: the connection was closed by the server")
        self._timeouts = timeouts
        self._total_by = total_by
        self._busy = True
        self._reader.expect(head_only=head_only)
        waiting: asyncio.Future[ClientResponse] = self._loop.create_future()
        self._head = waiting
        self._phase = "first byte"
        self._allow(timeouts.first_byte)
        if not isinstance(body, bytes):
            self._phase = "write"
            self.read_by = total_by
            self._transport.write(head)
            self._sender = self._loop.create_task(self._send(body))
        elif len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await waiting
        except asyncio.CancelledError:
            # Once the answer is complete, the connection may be another exchange's already.
            if self._head is waiting:
                self.drop()
            raise

    async def _send(self, body: AsyncIterable[bytes]) -> None:
        """Send a body as it is produced; the answer may begin before it ends."""
        try:
            async for part in body:
                if part:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
                    if self._room is not None:
                        await self._room
        except Exception as error:
            self._fail(WireError("write", f"{self.name}: the request's body failed"), error)
            return
        self._transport.write(b"0\r\n\r\n")
        self._sender = None
        if self._phase == "write":
            self._phase = "first byte"
            self._allow(self._timeouts.first_byte)

    def _allow(self, seconds: float) -> None:
        """Give the server some time, but not beyond the total."""
        by = self._loop.time() + seconds
        self.read_by = by if by < self._total_by else self._total_by

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and the certificate that the server has shown."""
        self._transport = cast(asyncio.Transport, transport)
        _, self.peer_certificate = peer_of(transport)
        self._watch.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        if not self._busy:
            # Nobody asked: what is said now would be taken for the answer to the next request.
            self.drop()
            return
        self.answering = True
        reader = self._reader
        try:
            reader.feed(data)
        except WireError as error:
            self._fail(error)
            return
        if reader.finished:
            self._finish()
        elif reader.answer is not None and not self._held:
            self._allow(self._timeouts.between_bytes)

    def answered(self, answer: ClientResponse) -> None:
        """Give the answer to whoever waits for it; called by the reader."""
        self._phase = "body"
        if self._head is not None and not self._head.done():
            self._head.set_result(answer)

    def eof_received(self) -> None:
        """Take the end of the connection for the end of the body where nothing else says it."""
        if self._busy and self._reader.ended():
            self._finish()
        else:
            self._lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits, and leave the pool."""
        self._lost(exc)
        self._watch.discard(self)

    def pause_writing(self) -> None:
        """Hear that the server does not keep up."""
        self._room = self._loop.create_future()
        self.write_by = self._loop.time() + self._timeouts.write
        self.read_by = self._total_by

    def resume_writing(self) -> None:
        """Hear that it has caught up."""
        self.write_by = inf
        if self._phase == "first byte":
            self._allow(self._timeouts.first_byte)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # Flow control, for the answer.

    def hold(self) -> None:
        """Stop reading until the answer's reader has caught up."""
        self._held = True
        self.read_by = self._total_by
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        self._held = False
        if not self.dead:
            self._allow(self._timeouts.between_bytes)
            self._transport.resume_reading()

    def wanted(self) -> None:
        """Nothing is to be done: a server sends unasked."""

    # Ends.

    def _finish(self) -> None:
        """Make the connection free for the next exchange, if it is fit for one."""
        reader = self._reader
        unsent = self._sender is not None or self._transport.get_write_buffer_size() > 0
        fit = reader.keeps_alive and not (reader.surplus or unsent or self._transport.is_closing())
        reader.answer = self._head = None
        self._busy = False
        self.used = True
        if fit:
            self.write_by = inf
            self.read_by = self._loop.time() + self._idle_seconds
            self._freed(self, True)
        else:
            self.drop()

    def drop(self) -> None:
        """End the connection at once."""
        self._bury()
        self._transport.abort()

    def _bury(self) -> None:
        if self.dead:
            return
        self.dead = True
        self._busy = False
        self.read_by = self.write_by = inf
        self._reader.close()
        sender, self._sender = self._sender, None
        if sender is not None and sender is not asyncio.current_task():
            sender.cancel()
        self._freed(self, False)

    def _lost(self, cause: Exception | None) -> None:
        if self._busy:
            why = f": {cause}" if cause is not None else " by the server"
            error = ConnectionLost(self._phase, f"{self.name}: the connection was closed{why}")
            self._fail(error, cause)
        self._bury()

    def _fail(self, error: WireError, cause: Exception | None = None) -> None:
        error.__cause__ = cause
        if self._reader.answer is not None:
            self._reader.answer.fail(error)
        elif self._head is not None and not self._head.done():
            self._head.set_exception(error)
        self.drop()

    def overdue(self, now: float) -> None:
        """Act on a deadline that has passed."""
        times = self._timeouts
        if not self._busy:
            self.drop()
        elif self._total_by <= now:
            self._time_out(self._phase, f"not done within {times.total:g} s in all")
        elif self.write_by <= now:
            self._time_out("write", f"the server read nothing for {times.write:g} s")
        elif self._phase == "body":
            self._time_out("body", f"nothing came for {times.between_bytes:g} s")
        else:
            self._time_out(self._phase, f"no answer within {times.first_byte:g} s")

    def _time_out(self, phase: Phase, what: str) -> None:
        self._fail(WireTimeout(phase, f"{self.name}: {what}"))
