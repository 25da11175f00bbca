"""A proxy for the tests: it tunnels or forwards every host to one real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """The requests that a proxy received, and its address."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[bytes] = []
        self.authorised: list[bytes] = []


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxying(port: int, *, refuse: bool = False) -> AsyncIterator[Proxy]:
    """Run a proxy that connects every request to one port of this machine."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            proxy.requests.append(head.partition(b" HTTP/")[0])
            proxy.authorised.extend(line for line in head.split(b"\r\n") if line.lower().startswith(b"proxy-auth"))
            if refuse:
                writer.write(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                far_writer.write(head)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
