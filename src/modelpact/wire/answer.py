"""An answer to a request that was sent: its head, and a body that arrives while it is read."""

from types import TracebackType
from typing import Protocol, Self

from modelpact.wire.errors import WireError
from modelpact.wire.headers import Headers
from modelpact.wire.message import Message, Source


class Line(Source, Protocol):
    """The connection that an answer comes by."""

    name: str
    peer_certificate: bytes | None

    def drop(self) -> None:
        """End the connection at once."""


class Answer(Message):
    """A response. Read all of it or close it: left half-read, it keeps its connection."""

    __slots__ = ("_default_limit", "_line", "peer_certificate", "status")

    def __init__(self, status: int, headers: Headers, line: Line, default_limit: int) -> None:
        super().__init__(headers, line)
        self.status = status
        self.peer_certificate = line.peer_certificate
        """The server's certificate (DER), or None without TLS."""
        self._line = line
        self._default_limit = default_limit

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; one longer than the limit is given up, not cut."""
        limit = self._default_limit if limit is None else limit
        if self._ended and self._held <= limit:
            return self.arrived()
        parts = [self.arrived()]
        room = limit - len(parts[0])
        try:
            while room >= 0 and (part := await self.take()):
                parts.append(part)
                room -= len(part)
        except BaseException:
            await self.aclose()
            raise
        if room < 0:
            await self.aclose()
            raise WireError("body", f"{self._line.name}: the answer is longer than {limit} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Give up what has not arrived, and the connection with it; harmless when all has."""
        if not self._ended:
            self.fail(WireError("body", "the answer was closed before its end"))
            self._line.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Answer {self.status}>"
