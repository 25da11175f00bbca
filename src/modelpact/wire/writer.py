"""Responses to bytes: whole at once, or in chunks as they are produced and the client reads."""

import asyncio
from collections.abc import AsyncIterable
from typing import Final

from modelpact.vocabulary.errors import InputError
from modelpact.wire.exchange import Outgoing, has_no_body, response_head

_JOINED: Final = 65_536
"""A body up to this length travels in one write with its head; a longer one is not copied."""
_BATCH: Final = 32_768
"""Chunks of one turn of the event loop are sent together, up to this many bytes."""
_CLOSE: Final = "connection: close\r\n"
_CHUNKED: Final = "transfer-encoding: chunked\r\n"


class Writer:
    """Writes the responses of one connection, and waits where the client does not read."""

    __slots__ = ("_flushing", "_loop", "_lost", "_pending", "_room", "_size", "_transport", "begun")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []
        self._size = 0
        self._flushing = False
        self._lost = False
        self._room: asyncio.Future[None] | None = None
        self.begun = False
        """Whether any of the response at hand has been sent."""

    @property
    def paused(self) -> bool:
        """Tell whether the client must read before more is sent."""
        return self._room is not None

    def pause(self) -> None:
        """Hear that the client does not keep up."""
        if self._room is None:
            self._room = self._loop.create_future()

    def resume(self) -> None:
        """Hear that it has caught up."""
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def lost(self) -> None:
        """Hear that nobody reads any more."""
        self._lost = True
        self._pending = []
        self.resume()

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        while self._room is not None:
            # Shielded: the future is shared, and one waiter's cancellation is not the others'.
            await asyncio.shield(self._room)

    def send(self, data: bytes) -> None:
        """Send something as it is."""
        if not self._lost:
            self._transport.write(data)

    def whole(self, outgoing: Outgoing, body: bytes, *, keep: bool, head_only: bool) -> None:
        """Send a response with a body of known length."""
        framing = "" if keep else _CLOSE
        if not has_no_body(outgoing):
            framing = f"{framing}content-length: {len(body)}\r\n"
        head = response_head(outgoing, framing)
        if self._lost:
            return
        self.begun = True
        if head_only:
            self._transport.write(head)
        elif len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def stream(
        self,
        outgoing: Outgoing,
        body: AsyncIterable[bytes],
        *,
        keep: bool,
        head_only: bool,
        chunked: bool,
    ) -> None:
        """Send a response whose body is being produced; without chunks its end is the close."""
        parts = body.__aiter__()
        try:
            if has_no_body(outgoing):
                raise InputError(f"status {outgoing.status} has no body; leave it out")
            framing = ("" if keep else _CLOSE) + (_CHUNKED if chunked else "")
            self._queue(response_head(outgoing, framing))
            self.begun = True
            if not head_only:
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
                    self._queue(b"0\r\n\r\n")
            self._flush()
            await self.drained()
        finally:
            self._flush()
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()

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
        if pending and not self._lost:
            self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))
        if pending:
            self._pending = []
        self._size = 0
