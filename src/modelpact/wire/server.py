"""The server, which shuts down without dropping requests that are being handled, and routes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Self
from urllib.parse import unquote_to_bytes

from modelpact.wire.errors import HttpError
from modelpact.wire.limits import DeadlineTimer, ServerLimits, check_interval
from modelpact.wire.messages import Handler, HttpResponse
from modelpact.wire.server_connection import ServerConnection, ServerState

RouteHandler = Callable[..., Awaitable[HttpResponse]]
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

    async def __aexit__(self, *_: object) -> None:
        await self.drain()


async def serve(
    handler: Handler, host: str, port: int, *, tls: ssl.SSLContext | None = None, limits: ServerLimits = DEFAULT_LIMITS
) -> Server:
    """Listen on an address and answer each request with the handler.

    A handler is cancelled when its client disconnects. If it raises `HttpError`, the client gets
    that status; any other exception is logged and answered with 500.
    """
    loop = asyncio.get_running_loop()
    interval = check_interval(limits.head_seconds, limits.body_seconds, limits.idle_seconds, limits.write_seconds)
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


class Routes:
    """A table of routes. In a path, `{}` matches one segment, which is passed to the handler.

    Paths are split at slashes before they are decoded: an encoded slash never makes a segment.
    """

    def __init__(self, *routes: tuple[str, str, RouteHandler]) -> None:
        """Each route is a method, a path and a handler."""
        self._fixed: dict[str, dict[str, RouteHandler]] = {}
        self._patterns: list[tuple[list[str], dict[str, RouteHandler]]] = []
        for method, path, handler in routes:
            self._methods(path)[method] = handler

    def find(self, method: str, path: str) -> tuple[RouteHandler, tuple[str, ...]]:
        """Return the handler and the matched segments; raise 404, or 405 with what is allowed."""
        methods = self._fixed.get(path)
        segments: tuple[str, ...] = ()
        if methods is None:
            methods, segments = self._match(path)
        handler = methods.get(method)
        if handler is None and method == "HEAD":
            handler = methods.get("GET")
        if handler is None:
            raise HttpError(405, f"expected {' or '.join(sorted(methods))}")
        return handler, segments

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Iterate over the method and path of each route."""
        for path, methods in self._fixed.items():
            yield from ((method, path) for method in methods)
        for parts, methods in self._patterns:
            yield from ((method, "/".join(parts)) for method in methods)

    def _methods(self, path: str) -> dict[str, RouteHandler]:
        if "{}" not in path:
            return self._fixed.setdefault(path, {})
        parts = path.split("/")
        for pattern, methods in self._patterns:
            if pattern == parts:
                return methods
        self._patterns.append((parts, {}))
        return self._patterns[-1][1]

    def _match(self, path: str) -> tuple[dict[str, RouteHandler], tuple[str, ...]]:
        parts = path.split("/")
        for pattern, methods in self._patterns:
            if len(pattern) == len(parts) and all(
                expected in ("{}", part) for expected, part in zip(pattern, parts, strict=True)
            ):
                segments = (part for expected, part in zip(pattern, parts, strict=True) if expected == "{}")
                return methods, tuple(map(_decode_segment, segments))
        raise HttpError(404, "no such path")


def _decode_segment(raw: str) -> str:
    try:
        decoded = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpError(400, "the path is not UTF-8") from None
    if not decoded or "\0" in decoded:
        raise HttpError(404, "no such path")
    return decoded
