"""The server: listens, and shuts down without dropping requests that are being handled."""

import asyncio
import ssl
from types import TracebackType
from typing import Final, Self

from modelpact.wire.deadlines import DeadlineTimer, check_interval
from modelpact.wire.limits import ServerLimits
from modelpact.wire.messages import Handler
from modelpact.wire.server_connection import ServerConnection, ServerState

DEFAULT_LIMITS: Final = ServerLimits()
_BACKLOG: Final = 2_048
_CLEANUP_SECONDS: Final = 5.0
"""Time that cancelled handlers may take to clean up."""


class Server:
    """A listening server. As a context manager it drains on exit."""

    def __init__(self, state: ServerState, listener: asyncio.Server) -> None:
        self._state = state
        self._listener = listener
        self._port: int = listener.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        """The port that the server listens on; the chosen one if port 0 was requested."""
        return self._port

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._state.connections)

    async def drain(self, grace: float = 10.0) -> None:
        """Stop accepting, let running requests finish within `grace` seconds, then close."""
        state = self._state
        self._listener.close()
        state.draining = True
        for connection in list(state.connections):
            connection.drain()
        if state.connections:
            try:
                async with asyncio.timeout(grace):
                    await state.all_closed.wait()
            except TimeoutError:
                await self._abort()
        if state.cancelled_handlers:
            await asyncio.wait(state.cancelled_handlers, timeout=_CLEANUP_SECONDS)
        await self._listener.wait_closed()

    async def aclose(self) -> None:
        """Close at once and cancel running requests."""
        await self.drain(0)

    async def _abort(self) -> None:
        for connection in list(self._state.connections):
            connection.abort()
        if self._state.connections:
            await self._state.all_closed.wait()

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
    """Listen on an address and answer each request with the handler.

    A handler is cancelled when its client disconnects. If it raises `HttpError`, the client gets
    that status; any other exception is logged and answered with 500.
    """
    loop = asyncio.get_running_loop()
    interval = check_interval(
        limits.head_seconds, limits.body_seconds, limits.idle_seconds, limits.write_seconds
    )
    state = ServerState(handler, limits, loop, DeadlineTimer(loop, interval))
    listener = await loop.create_server(
        lambda: ServerConnection(state),
        host,
        port,
        ssl=tls,
        backlog=_BACKLOG,
        ssl_handshake_timeout=limits.head_seconds if tls is not None else None,
    )
    return Server(state, listener)
