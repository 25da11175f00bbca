"""A tap on the connection between runtime and provider that records or changes the bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from modelpact.providers.contract import Registration


class Tap:
    """Records all bytes; `tamper` flips the last bit of what the provider sends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.seen = bytearray()
        self.tamper = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._pass(reader, there[1], own=False), self._pass(there[0], writer, own=True))
        finally:
            for item in (writer, there[1]):
                item.close()
                with contextlib.suppress(OSError):
                    await item.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, own: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                self.seen += data
                if own and self.tamper:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                writer.write(data)
                await writer.drain()
            writer.write_eof()


@asynccontextmanager
async def tapped(registration: Registration) -> AsyncIterator[tuple[Tap, Registration]]:
    """Put a tap before a provider; yield it and the registration that leads through it."""
    tap = Tap(urlsplit(registration.base_url).port or 0)
    server = await asyncio.start_server(tap, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        moved = msgspec.structs.replace(registration, base_url=f"https://127.0.0.1:{port}")
        yield tap, moved
