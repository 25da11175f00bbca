"""A message on its way in: its headers, and a body that arrives while it is read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Protocol, Self

from modelpact.wire.headers import Headers

HIGH_WATER: Final = 65_536
"""Bytes that may lie unread before the sender is made to wait."""
_CHUNK_COST: Final = 64
"""What a chunk takes beside its bytes: a flood of tiny ones must not count for nothing."""


class BodySource(Protocol):
    """Where a body comes from: it can be held back while nobody reads."""

    def hold(self) -> None:
        """Stop reading from the peer."""

    def go_on(self) -> None:
        """Read again."""

    def wanted(self) -> None:
        """Hear that somebody waits for the body."""


class ArrivingBody:
    """Headers and an arriving body. The connection puts, one reader takes."""

    __slots__ = (
        "_chunks",
        "_ended",
        "_error",
        "_held",
        "_holding",
        "_source",
        "_waiter",
        "headers",
    )

    def __init__(self, headers: Headers, source: BodySource) -> None:
        self.headers = headers
        self._source = source
        self._chunks: list[bytes] = []
        self._held = 0
        self._holding = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def complete(self) -> bool:
        """Tell whether the whole body has arrived."""
        return self._ended

    @property
    def holding(self) -> bool:
        """Tell whether the sender waits for what has come to be taken."""
        return self._holding

    def put(self, chunk: bytes) -> None:
        """Add what has arrived; called by the connection."""
        self._chunks.append(chunk)
        self._held += len(chunk) + _CHUNK_COST
        if self._held > HIGH_WATER and not self._holding:
            self._holding = True
            self._source.hold()
        if self._waiter is not None:
            self._wake()

    def put_all(self, body: bytes) -> None:
        """Take a body that has come whole; called by the connection instead of `put`."""
        if body:
            self._chunks.append(body)
            self._held = len(body)
        self._ended = True
        if self._waiter is not None:
            self._wake()

    def end(self) -> None:
        """Say that the body is complete; called by the connection."""
        self._ended = True
        if self._holding:
            self._holding = False
            self._source.go_on()
        if self._waiter is not None:
            self._wake()

    def fail(self, error: Exception) -> None:
        """Say that the rest will not come; called by the connection."""
        if self._error is None and not self._ended:
            self._error = error
            if self._waiter is not None:
                self._wake()

    async def take(self) -> bytes:
        """Return what has come since the last time, or wait for it; empty at the end."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            if self._waiter is not None:
                raise RuntimeError("a body is read by one reader at a time")
            self._waiter = asyncio.get_running_loop().create_future()
            self._source.wanted()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.arrived()

    def arrived(self) -> bytes:
        """Return what has come since the last time."""
        chunks = self._chunks
        taken = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self._held = 0
        if self._holding:
            self._holding = False
            self._source.go_on()
        return taken

    async def rest(self) -> bytes:
        """Return all that has not been taken yet, as soon as it is there."""
        parts = []
        while part := await self.take():
            parts.append(part)
        return b"".join(parts)

    async def aclose(self) -> None:
        """Give up what has not arrived."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Chunks(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Chunks:
    """The iteration over a body: what arrives together comes out together."""

    __slots__ = ("_message",)

    def __init__(self, message: ArrivingBody) -> None:
        self._message = message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._message.take()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Give up the rest: an answer that is passed on ends with whom it is passed on to."""
        await self._message.aclose()
