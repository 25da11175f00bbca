"""Random bytes break neither client nor server, and the server keeps serving."""

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from modelpact.wire import Client, Timeouts, WireError
from tests.wire.support import PATIENCE, exchange, raw, scripted, serving

ALIVE = b"GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
WORDS = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n", b"POST /x HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", b"HEAD * HTTP/1.0",
        b"Host: x\r\n", b"Content-Length: 3\r\n", b"Content-Length: 99\r\n", b"\r\n", b"\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"Connection: close\r\n",
        b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"\n", b"\0", b":",
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 No Content\r\n", b" ", b"abc", b"X: y\r\n",
        b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ]
)  # fmt: skip
PIECES = st.lists(st.one_of(WORDS, st.binary(max_size=30)), min_size=1, max_size=12)


@settings(max_examples=150)
@given(st.lists(PIECES, min_size=1, max_size=4))
def test_no_bytes_break_the_server(clients: list[list[bytes]]) -> None:
    async def run() -> None:
        async with serving(head_seconds=0.05, body_seconds=0.05, idle_seconds=0.05) as server:

            async def talk(pieces: list[bytes]) -> None:
                async with raw(server.port) as peer:
                    for piece in pieces:
                        peer.writer.write(piece)
                        await asyncio.sleep(0)

            await asyncio.gather(*map(talk, clients))
            got = await exchange(server.port, ALIVE)
            assert got.endswith(b"GET /alive "), got
            async with asyncio.timeout(5):
                while server.connections:
                    await asyncio.sleep(0.002)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@settings(max_examples=150)
@given(PIECES, st.booleans())
def test_no_bytes_break_the_client(pieces: list[bytes], head: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)

    async def run() -> None:
        async with scripted(script) as url, Client() as client:
            timeouts = Timeouts(first_byte=1, between_bytes=1, total=1)
            for _ in range(2):
                with contextlib.suppress(WireError):
                    method = "HEAD" if head else "GET"
                    response = await client.request(method, url, timeouts=timeouts)
                    await response.read()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
