"""The server: listens, and ends without dropping what is under way."""

import asyncio
import ssl
from types import TracebackType
from typing import Final, Self

from modelpact.wire.deadlines import DeadlineTimer, pace
from modelpact.wire.exchange import Handler
from modelpact.wire.limits import ServerLimits
from modelpact.wire.server_connection import ServerConnection
from modelpact.wire.service import Service

DEFAULT_LIMITS: Final = ServerLimits()
_BACKLOG: Final = 2_048
_CLEANUP_SECONDS: Final = 5.0
"""How long handlers that were cancelled may take to clean up."""


class Server:
    """A listening server; leaving it as a context manager drains it."""

    def __init__(self, service: Service, listening: asyncio.Server) -> None:
        self._service = service
        self._listening = listening
        self._port: int = listening.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        """The port listened on; tells which one was free if 0 was asked for."""
        return self._port

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._service.connections)

    async def drain(self, grace: float = 10.0) -> None:
        """Accept no more, let requests under way finish within the grace period, then close."""
        service = self._service
        self._listening.close()
        service.draining = True
        for connection in list(service.connections):
            connection.drain()
        if service.connections:
            try:
                async with asyncio.timeout(grace):
                    await service.emptied.wait()
            except TimeoutError:
                await self._abort()
        if service.leaving:
            await asyncio.wait(service.leaving, timeout=_CLEANUP_SECONDS)
        await self._listening.wait_closed()

    async def aclose(self) -> None:
        """Close at once, whatever is under way."""
        await self.drain(0)

    async def _abort(self) -> None:
        for connection in list(self._service.connections):
            connection.abort()
        if self._service.connections:
            await self._service.emptied.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.drain()


async def serve(
    handler: Handler,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
) -> Server:
    """Listen on an address and have each request answered by the handler.

    A handler is cancelled when its client leaves. What it raises is logged and answered with 500,
    except `Refused`, which says what to answer.
    """
    loop = asyncio.get_running_loop()
    seconds = (
        limits.head_seconds,
        limits.body_seconds,
        limits.idle_seconds,
        limits.write_seconds,
    )
    service = Service(handler, limits, loop, DeadlineTimer(loop, pace(*seconds)))
    listening = await loop.create_server(
        lambda: ServerConnection(service),
        host,
        port,
        ssl=tls,
        backlog=_BACKLOG,
        ssl_handshake_timeout=limits.head_seconds if tls is not None else None,
    )
    return Server(service, listening)
