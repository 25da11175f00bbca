"""One connection of a client: a request out, an answer in, strictly in turn."""

import asyncio
from collections.abc import AsyncIterable, Callable
from math import inf
from typing import Final, cast

import httptools

from modelpact.wire.answer import Answer
from modelpact.wire.errors import ConnectionLost, Phase, WireError, WireTimeout
from modelpact.wire.headers import Headers
from modelpact.wire.limits import PoolLimits, Timeouts
from modelpact.wire.reader import FREE_OVERHEAD, OVERHEAD_RATE
from modelpact.wire.watch import Watch

_JOINED: Final = 65_536
_MOST_INTERIM: Final = 16
"""Answers of the 100s before the real one."""


class ClientLine(asyncio.BufferedProtocol):
    """A connection to one origin, used by one exchange at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: PoolLimits,
        watch: Watch,
        buffer: memoryview,
        free: Callable[["ClientLine", bool], None],
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._watch = watch
        self._buffer = buffer
        self._free = free
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = None
        self._sender: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._error: WireError | None = None
        self._timeouts = Timeouts()
        self._phase: Phase = "write"
        self._started = self._total_by = inf
        self._fed = self._got = self._interim = 0
        self._in_head = self._head_only = self._chunked = self._until_close = False
        self._finished = self._surplus = self._keeps = False
        self.used = False
        """Whether an exchange was completed here: the server may have closed it since."""
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
    ) -> Answer:
        """Send a request and return its answer as soon as the head is there."""
        self._timeouts = timeouts
        self._total_by = total_by
        self._head_only = head_only
        self._phase = "first byte"
        self.answering = False
        self._fed = self._got = self._interim = 0
        waiting = self._head = self._loop.create_future()
        self.read_by = min(self._loop.time() + timeouts.first_byte, total_by)
        if not isinstance(body, bytes):
            self.read_by = total_by
            self._phase = "write"
            self._transport.write(head)
            self._sender = self._loop.create_task(self._send(body))
        elif len(body) <= _JOINED:
            self._transport.write(head + body if body else head)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await waiting
        except asyncio.CancelledError:
            self.drop()
            raise
        finally:
            self._head = None

    async def _send(self, body: AsyncIterable[bytes]) -> None:
        try:
            async for part in body:
                if part:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
                    if self._room is not None:
                        await self._room
            self._transport.write(b"0\r\n\r\n")
        except Exception as error:
            self._fail(WireError("write", f"the body of the request failed: {error!r}"), error)
            return
        self._sender = None
        if self._phase == "write":
            self._phase = "first byte"
            now = self._loop.time()
            self.read_by = min(now + self._timeouts.first_byte, self._total_by)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and the certificate that the server has shown."""
        self._transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.peer_certificate = tls.getpeercert(binary_form=True)
        self._watch.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Lend the shared buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has come."""
        if self._head is None and self._answer is None:
            # Nobody asked: what is said now would be taken for the answer to the next request.
            self.drop()
            return
        self.answering = True
        parser = self._parser
        if parser is None:
            return
        try:
            parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._finished:
                self._fail(self._error or self._malformed(str(error)))
                return
            self._surplus = True
        if self._finished:
            self._finish()
            return
        self._bound(nbytes)
        if self._answer is not None and self.read_by != inf:
            now = self._loop.time()
            self.read_by = min(now + self._timeouts.between_bytes, self._total_by)

    def eof_received(self) -> None:
        """Take the end of the connection for the end of the body where nothing else says it."""
        if self._answer is not None and self._until_close:
            self._keeps = False
            self._answer.end()
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

    def resume_writing(self) -> None:
        """Hear that it has caught up."""
        self.write_by = inf
        if self._phase == "first byte" and self._head is not None:
            now = self._loop.time()
            self.read_by = min(now + self._timeouts.first_byte, self._total_by)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A head begins; a second one in an exchange is nobody's."""
        if self._finished:
            self._surplus = True
        self._fields = []
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are dropped."""
        if self._in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and give the answer to whoever waits for it."""
        self._in_head = False
        if self._finished or self._parser is None or self._head is None:
            return
        status = self._parser.get_status_code()
        headers = Headers(self._fields)
        self._check(status, headers)
        if status < 200:
            return
        encoding = headers.index.get(b"transfer-encoding")
        self._chunked = encoding is not None
        self._until_close = not (
            self._chunked or b"content-length" in headers.index or status in (204, 304)
        )
        self._keeps = self._parser.should_keep_alive()
        self._phase = "body"
        self._fed = 0
        self._answer = Answer(status, headers, self, self._limits.body)
        if self._head_only:
            # The parser expects a body here, so it has had its day.
            self._until_close = False
            self._finished = True
            self._answer.end()
        if not self._head.done():
            self._head.set_result(self._answer)

    def on_body(self, chunk: bytes) -> None:
        """Pass on a part of the body."""
        if self._answer is None or self._finished:
            self._surplus = True
            return
        self._got += len(chunk)
        self._answer.put(chunk)

    def on_message_complete(self) -> None:
        """Note the end of the answer; an interim one is forgotten."""
        if self._answer is not None and not self._finished:
            self._finished = True
            self._answer.end()

    def _check(self, status: int, headers: Headers) -> None:
        if not 100 <= status <= 599 or status == 101:
            self._refuse(f"status {status} is none that was asked for")
        if status < 200:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                self._refuse("interim answers without end")
        if len(headers) > self._limits.headers or headers.size > self._limits.head:
            self._refuse(
                f"the head has more than {self._limits.headers} headers "
                f"or {self._limits.head} bytes"
            )
        encoding = headers.index.get(b"transfer-encoding")
        if encoding is not None and encoding.rstrip(b" \t").lower() != b"chunked":
            self._refuse("a transfer encoding other than `chunked`")
        if b"transfer-encoding" in headers.repeated:
            self._refuse("more than one Transfer-Encoding")

    def _refuse(self, what: str) -> None:
        self._error = self._malformed(what)
        raise self._error

    def _malformed(self, what: str) -> WireError:
        phase: Phase = "head" if self._answer is None else "body"
        return WireError(phase, f"malformed answer: {what}")

    def _bound(self, fed: int) -> None:
        """Bound what the parser has not told of: an endless head, endless chunk framing."""
        self._fed += fed
        if self._answer is None:
            if self._fed > self._limits.head + FREE_OVERHEAD:
                self._fail(self._malformed(f"the head is longer than {self._limits.head} bytes"))
        elif self._chunked and self._fed > OVERHEAD_RATE * self._got + FREE_OVERHEAD:
            self._fail(self._malformed("far more chunk framing than body"))

    # Flow control, for the answer.

    def hold(self) -> None:
        """Stop reading until the answer's reader has caught up."""
        self.read_by = self._total_by
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._answer is not None and not self.dead:
            now = self._loop.time()
            self.read_by = min(now + self._timeouts.between_bytes, self._total_by)
            self._transport.resume_reading()

    def wanted(self) -> None:
        """Nothing is to be done: a server sends unasked."""

    # Ends.

    def _finish(self) -> None:
        """Make the connection free for the next exchange, if it is fit for one."""
        unsent = self._sender is not None or self._transport.get_write_buffer_size() > 0
        fit = self._keeps and not (self._surplus or unsent or self._head_only or self.dead)
        self._answer = None
        self._finished = False
        self._stop_sender()
        self.write_by = inf
        self.used = True
        if not fit or self._transport.is_closing():
            self.drop()
            return
        self._transport.resume_reading()
        self.read_by = self._loop.time() + self._limits.idle_seconds
        self._free(self, True)

    def drop(self) -> None:
        """End the connection at once."""
        self._bury()
        self._transport.abort()

    def _bury(self) -> None:
        if not self.dead:
            self.dead = True
            self.read_by = self.write_by = inf
            self._stop_sender()
            self._parser = None
            self._free(self, False)

    def _stop_sender(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()

    def _lost(self, cause: Exception | None) -> None:
        if self._head is not None or self._answer is not None:
            why = f": {cause}" if cause is not None else " by the server"
            self._fail(ConnectionLost(self._phase, f"the connection was closed{why}"), cause)
        self._bury()

    def _fail(self, error: WireError, cause: Exception | None = None) -> None:
        error.__cause__ = cause
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(error)
        elif self._head is not None and not self._head.done():
            self._head.set_exception(error)
        self.drop()

    def overdue(self, now: float) -> None:
        """Act on a deadline that has passed."""
        if self._head is None and self._answer is None:
            self.drop()
        elif self._total_by <= now:
            self._fail(WireTimeout(self._phase, "the exchange took longer than its total timeout"))
        elif self.write_by <= now:
            seconds = self._timeouts.write
            self._fail(WireTimeout("write", f"the server read nothing for {seconds:g} s"))
        else:
            times = self._timeouts
            seconds = times.between_bytes if self._answer is not None else times.first_byte
            self._fail(WireTimeout(self._phase, f"nothing came for {seconds:g} s"))
