"""Servers that lie, stall or flood: each exchange fails in time, and the error has its phase."""

import asyncio
import socket

import pytest

from modelpact.wire import Client, PoolLimits, Timeouts, WireError, WireTimeout
from tests.wire.support import on_loop, replying, scripted

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

MALFORMED = {
    "garbage": ("head", b"\x00\x01garbage\r\n\r\n"),
    "another protocol": ("head", b"SSH-2.0-OpenSSH_9.6\r\n"),
    "HTTP/2": ("head", b"HTTP/2 200\r\n\r\n"),
    "a status of two digits": ("head", b"HTTP/1.1 20 OK\r\n\r\n"),
    "a status out of range": ("head", b"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n"),
    "a status of zero": ("head", b"HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n"),
    "an upgrade": ("head", b"HTTP/1.1 101 Y\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc"),
    "bare LFs": ("head", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    "a folded line": ("head", b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"),
    "a NUL": ("head", b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"),
    "length and chunks": ("head", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "two lengths": ("head", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n"),
    "another encoding": ("head", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
    "too many headers": ("head", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n"),
    "a long header": ("head", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"),
    "an endless header": ("head", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 3_000_000),
    "an endless reason": ("head", b"HTTP/1.1 200 " + b"y" * 3_000_000),
    "endless interim answers": ("head", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "an early end of the head": ("first byte", b"HTTP/1.1 200 OK\r\nX: y"),
    "an early end of the body": ("body", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    "an early end of the chunks": ("body", CHUNKED + b"9\r\nhalf"),
    "no last chunk": ("body", CHUNKED + b"4\r\nhalf\r\n"),
    "a bad chunk": ("body", CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n"),
    "an endless extension": ("body", CHUNKED + b"1;" + b"a" * 100_000 + b"\r\n"),
    "nothing": ("first byte", b""),
}


@pytest.mark.parametrize("name", MALFORMED)
@on_loop
async def test_a_malformed_response_is_an_error_of_its_phase(name: str) -> None:
    phase, reply = MALFORMED[name]
    async with scripted(replying(reply)) as url, Client() as client:
        with pytest.raises(WireError) as caught:
            await (await client.request("GET", url)).read()
        assert caught.value.phase == phase
        assert str(caught.value).startswith("http://127.0.0.1:")
        assert client.connections == 0


@pytest.mark.parametrize("surplus", [OK, b"x", b"HTTP/1.1 200 OK\r\nContent-Le"])
@on_loop
async def test_an_unrequested_response_is_never_used(surplus: bytes) -> None:
    poison = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    for first in (OK + surplus, OK + poison):
        async with scripted(replying(first, first, then_wait=True)) as url, Client() as client:
            for _ in range(3):
                assert await (await client.request("GET", url)).read() == b"ok"


@on_loop
async def test_data_between_requests_closes_the_connection() -> None:
    go_on = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await go_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await reader.read()

    async with scripted(script) as url, Client() as client:
        assert await (await client.request("GET", url)).read() == b"ok"
        go_on.set()
        while client.connections:
            await asyncio.sleep(0.002)
        assert await (await client.request("GET", url)).read() == b"ok"


@on_loop
async def test_a_body_after_head_is_not_taken_for_a_response() -> None:
    lie = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with scripted(replying(lie)) as url, Client() as client:
        assert await (await client.request("HEAD", url)).read() == b""
        assert client.connections == 0


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@on_loop
async def test_first_byte_timeout() -> None:
    async with scripted(_silent) as url, Client() as client:
        with pytest.raises(WireTimeout) as caught:
            await client.request("GET", url, timeouts=Timeouts(first_byte=0.1))
        assert caught.value.phase == "first byte"
        assert client.connections == 0


@on_loop
async def test_a_slow_head_does_not_extend_the_timeout() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            writer.write(b"y")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted(script) as url, Client() as client:
        with pytest.raises(WireTimeout, match="no response within"):
            await client.request("GET", url, timeouts=Timeouts(first_byte=0.2))


@on_loop
async def test_between_bytes_timeout() -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    async with scripted(replying(reply, then_wait=True)) as url, Client() as client:
        response = await client.request("GET", url, timeouts=Timeouts(between_bytes=0.1))
        with pytest.raises(WireTimeout) as caught:
            await response.read()
        assert caught.value.phase == "body"


@on_loop
async def test_total_timeout() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"y")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted(script) as url, Client() as client:
        response = await client.request("GET", url, timeouts=Timeouts(total=0.2))
        with pytest.raises(WireTimeout, match=r"0\.2 s in total"):
            await response.read()


@on_loop
async def test_write_timeout() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with scripted(script) as url, Client() as client:
        with pytest.raises(WireTimeout) as caught:
            await client.request("POST", url, (), b"x" * 20_000_000, timeouts=Timeouts(write=0.1))
        assert caught.value.phase == "write"
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if task.get_coro().__name__ == "play":  # type: ignore[union-attr]
                task.cancel()


@on_loop
async def test_connect_timeout() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        full = [socket.socket() for _ in range(4)]
        for connection in full:
            connection.setblocking(False)
            connection.connect_ex(listening.getsockname())
        async with Client() as client:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            with pytest.raises(WireTimeout) as caught:
                await client.request("GET", url, timeouts=Timeouts(connect=0.1))
            assert caught.value.phase == "connect"
            assert client.connections == 0
        for connection in full:
            connection.close()


@on_loop
async def test_connection_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with Client() as client:
            with pytest.raises(WireError) as caught:
                await client.request("GET", f"http://127.0.0.1:{unused.getsockname()[1]}/")
            assert caught.value.phase == "connect"
            with pytest.raises(WireError) as caught:
                await client.request("GET", "http://name.invalid/")
            assert caught.value.phase == "connect"


@on_loop
async def test_a_failed_connection_lets_a_waiting_caller_connect() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        async with Client(limits=PoolLimits(connections=1)) as client:
            tries = [client.request("GET", url) for _ in range(10)]
            for error in await asyncio.gather(*tries, return_exceptions=True):
                assert isinstance(error, WireError)
                assert error.phase == "connect"
            assert client.connections == 0


@on_loop
async def test_a_slow_reader_does_not_time_out_the_server() -> None:
    """While the caller does not read, the timeout between bytes is suspended."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n" + b"x" * 20_000_000)
        await writer.drain()
        await reader.read()

    async with scripted(script) as url, Client() as client:
        response = await client.request("GET", url, timeouts=Timeouts(between_bytes=0.1, total=15))
        await asyncio.sleep(0.4)
        assert len(await response.read()) == 20_000_000
