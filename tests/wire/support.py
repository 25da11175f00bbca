"""Helpers of the wire tests: servers, and peers that send exact bytes."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from modelpact.wire import Handler, HttpRequest, HttpResponse, Server, ServerLimits, serve

P = ParamSpec("P")
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PATIENCE = 20.0


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test with a timeout."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


async def echo(request: HttpRequest) -> HttpResponse:
    """Respond with the method, the path and the body."""
    body = await request.body()
    text = f"{request.method} {request.path} ".encode() + body
    return HttpResponse(200, {"content-type": "text/plain"}, text)


@asynccontextmanager
async def serving(handler: Handler = echo, **limits: Any) -> AsyncIterator[Server]:
    """Run a server for the length of a block."""
    server = await serve(handler, "127.0.0.1", 0, limits=ServerLimits(**limits))
    try:
        yield server
    finally:
        await server.aclose()


class Raw:
    """A client that sends raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def response(self) -> tuple[bytes, bytes]:
        """Read one response that has a content-length."""
        head = await self.head()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        return head, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Read to the end of the connection, also after a reset."""
        parts = []
        try:
            while part := await self.reader.read(65_536):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)


@asynccontextmanager
async def raw(port: int, limit: int = 65_536) -> AsyncIterator[Raw]:
    """Connect a raw client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()


async def exchange(port: int, data: bytes) -> bytes:
    """Send bytes and return everything until the server closes."""
    async with raw(port) as peer:
        await peer.send(data)
        return await peer.rest()


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """Run a server that follows a script; yield its URL."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def replying(*replies: bytes, then_wait: bool = False) -> Script:
    """Answer each request with the next bytes of a list, then close or stay silent."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            await writer.drain()
        if then_wait:
            await reader.read()

    return script


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; the timeout of the test is the limit."""
    while not condition():
        await asyncio.sleep(0.002)
