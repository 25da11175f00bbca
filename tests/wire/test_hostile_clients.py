"""Clients that lie, stall, flood or disconnect: each gets its status, and the server survives."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

import pytest

from modelpact.wire import HttpRequest, HttpResponse
from tests.wire.support import exchange, on_loop, raw, serving, until

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
ALIVE = b"GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def _post(*lines: bytes) -> bytes:
    return b"\r\n".join([b"POST / HTTP/1.1", b"Host: x", *lines, b"", b"0\r\n\r\n"])


SMUGGLING = {
    "length and chunks": (400, _post(b"Content-Length: 5", b"Transfer-Encoding: chunked")),
    "chunks and length": (400, _post(b"Transfer-Encoding: chunked", b"Content-Length: 5")),
    "two lengths": (400, _post(b"Content-Length: 5", b"Content-Length: 6")),
    "the same length twice": (400, _post(b"Content-Length: 5", b"Content-Length: 5")),
    "a list of lengths": (400, _post(b"Content-Length: 5, 5")),
    "a signed length": (400, _post(b"Content-Length: +5")),
    "a negative length": (400, _post(b"Content-Length: -5")),
    "a hexadecimal length": (400, _post(b"Content-Length: 0x5")),
    "an empty length": (400, _post(b"Content-Length:")),
    "an endless length": (400, _post(b"Content-Length: " + b"9" * 30)),
    "an unknown encoding": (501, _post(b"Transfer-Encoding: xchunked")),
    "identity": (501, _post(b"Transfer-Encoding: identity")),
    "compressed chunks": (501, _post(b"Transfer-Encoding: gzip, chunked")),
    "chunks, then not": (400, _post(b"Transfer-Encoding: chunked, identity")),
    "two encodings": (400, _post(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked")),
    "a quoted encoding": (501, _post(b'Transfer-Encoding: "chunked"')),
    "a vertical tab": (400, _post(b"Transfer-Encoding: \x0bchunked")),
    "a space before the colon": (400, _post(b"Transfer-Encoding : chunked")),
    "a folded line": (400, _post(b"X: a", b" b")),
    "a folded first line": (400, _post(b" X: a")),
    "a bare LF": (400, b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"),
    "bare LFs": (400, b"GET / HTTP/1.1\nHost: x\n\n"),
    "a bare CR": (400, b"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n"),
    "a NUL in a value": (400, _post(b"X: a\0b")),
    "a NUL in a name": (400, _post(b"X\0: a")),
    "a bad name": (400, _post(b"X(y): a")),
    "no name": (400, _post(b": a")),
    "no colon": (400, _post(b"abc")),
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two credentials": (400, _post(b"Authorization: Bearer a", b"Authorization: Bearer b")),
    "two Hosts": (400, _post(b"Host: y")),
    "a Host that is none": (400, b"GET / HTTP/1.1\r\nHost: a/b@c\r\n\r\n"),
    "chunks in 1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a fragment": (400, b"GET /#f HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a backslash": (400, b"GET /\\ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a space in the target": (400, b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "another scheme": (400, b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a user in the target": (400, b"GET http://u@x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "an asterisk to GET": (400, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a tunnel": (501, b"CONNECT y:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "no version": (505, b"GET /\r\n\r\n"),
    "HTTP/2": (505, b"GET / HTTP/2.0\r\nHost: x\r\n\r\n"),
    "the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\nHost: x\r\n\r\n"),
    "a small method": (400, b"get / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "another expectation": (417, _post(b"Expect: miracles", b"Content-Length: 5")),
    "TLS": (400, bytes.fromhex("160301020001000001fc0303")),
    "a chunk size with a space": (400, CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n"),
    "a chunk size with 0x": (400, CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with a sign": (400, CHUNKED + b"-1\r\n"),
    "an endless chunk": (400, CHUNKED + b"f" * 17 + b"\r\n"),
    "a chunk longer than said": (400, CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
    "chunks with bare LFs": (400, CHUNKED + b"3\nabc\n0\n\n"),
    "an LF in an extension": (400, CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "a length in the trailers": (400, CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n"),
}


@pytest.mark.parametrize("name", SMUGGLING)
@on_loop
async def test_ambiguous_requests_are_rejected(name: str) -> None:
    status, data = SMUGGLING[name]
    async with serving() as server:
        got = await exchange(server.port, data + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 %d " % status), got
        assert b"connection: close" in got
        assert got.count(b"\r\ndate: ") == 1
        assert b"smuggled" not in got
        assert (await exchange(server.port, ALIVE)).endswith(b"GET /alive ")


@pytest.mark.parametrize("name", SMUGGLING)
@on_loop
async def test_ambiguous_requests_are_rejected_byte_by_byte(name: str) -> None:
    status, data = SMUGGLING[name]
    async with serving() as server, raw(server.port) as peer:
        transport = peer.writer.get_extra_info("socket")
        transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(len(data)):
            peer.writer.write(data[n : n + 1])
            await asyncio.sleep(0)
        got = await peer.rest()
        assert got.startswith(b"HTTP/1.1 %d " % status), got


@on_loop
async def test_garbage_after_a_request_does_not_affect_its_response() -> None:
    async with serving() as server:
        got = await exchange(server.port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n\x00garbage")
    first, _, second = got.partition(b"GET /a ")
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 400")


@on_loop
async def test_what_follows_connection_close_is_not_served() -> None:
    async with serving() as server:
        got = await exchange(server.port, ALIVE + ALIVE)
    assert got.count(b"200 OK") == 1


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (414, b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
        (414, b"GET /" + b"a" * 3_000_000),
        (431, _post(*(b"X%d: y" % n for n in range(200)))),
        (431, _post(b"X: " + b"y" * 70_000)),
        (431, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 3_000_000),
        (431, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"y" * 3_000_000),
        (413, _post(b"Content-Length: 100001")),
        (413, CHUNKED + b"10000\r\n" + b"a" * 65_536 + b"\r\n10000\r\n" + b"a" * 65_536),
        (400, CHUNKED + b"1;" + b"a" * 100_000 + b"\r\n"),
        (400, CHUNKED + b"1\r\na\r\n0\r\n" + b"X: yyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 5_000),
    ],
    ids=lambda value: value if isinstance(value, int) else "",
)
@on_loop
async def test_requests_above_a_limit_are_rejected(status: int, data: bytes) -> None:
    async with serving(body=100_000) as server, raw(server.port) as peer:
        sending = asyncio.create_task(_pushed(peer.writer, data))
        got = await peer.rest()
        await sending
        assert got.startswith(b"HTTP/1.1 %d " % status), got[:200]
        assert (await exchange(server.port, ALIVE)).endswith(b"GET /alive ")


async def _pushed(writer: asyncio.StreamWriter, data: bytes) -> None:
    try:
        writer.write(data)
        await writer.drain()
    except ConnectionError:
        pass


@on_loop
async def test_single_byte_chunks_are_accepted() -> None:
    async with serving() as server, raw(server.port) as peer:
        await peer.send(CHUNKED + b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n")
        assert (await peer.response())[1] == b"POST / " + b"a" * 20_000


@on_loop
async def test_a_slow_head_times_out() -> None:
    async with serving(head_seconds=0.2) as server, raw(server.port) as peer:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        dripping = asyncio.create_task(_drip(peer.writer, b"GET / HTTP/1.1\r\nHost: x\r\nX: "))
        assert (await peer.rest()).startswith(b"HTTP/1.1 408")
        assert 0.15 < loop.time() - begin < 5
        dripping.cancel()


@on_loop
async def test_a_slow_head_after_a_first_request_times_out() -> None:
    async with serving(head_seconds=0.2) as server, raw(server.port) as peer:
        await peer.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b")
        await peer.response()
        assert (await peer.rest()).startswith(b"HTTP/1.1 408")


@on_loop
async def test_a_slow_body_times_out() -> None:
    async with serving(body_seconds=0.2) as server, raw(server.port) as peer:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"
        dripping = asyncio.create_task(_drip(peer.writer, head))
        assert (await peer.rest()).startswith(b"HTTP/1.1 408")
        dripping.cancel()


async def _drip(writer: asyncio.StreamWriter, start: bytes) -> None:
    """Send a byte every hundredth of a second."""
    writer.write(start)
    while True:
        writer.write(b"a")
        await asyncio.sleep(0.01)


@on_loop
async def test_a_silent_connection_is_closed() -> None:
    async with serving(head_seconds=0.1) as server, raw(server.port) as peer:
        assert await peer.rest() == b""


@on_loop
async def test_an_idle_connection_is_closed() -> None:
    async with serving(idle_seconds=0.1) as server, raw(server.port) as peer:
        await peer.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.response()
        assert await peer.rest() == b""


@on_loop
async def test_a_slow_handler_does_not_time_out_the_client() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0.4)
        return HttpResponse(200, (), await request.body())

    limits = {"head_seconds": 0.1, "body_seconds": 0.1, "idle_seconds": 0.1}
    async with serving(handler, **limits) as server, raw(server.port) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        assert (await peer.response())[1] == b"hi"


@pytest.mark.parametrize("whole", [True, False])
@on_loop
async def test_a_client_that_does_not_read_is_bounded_and_disconnected(whole: bool) -> None:
    produced = 0
    stopped = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        nonlocal produced
        try:
            while True:
                produced += 10_000
                yield b"x" * 10_000
        finally:
            stopped.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        nonlocal produced
        if not whole:
            return HttpResponse(200, (), parts())
        produced += 1_000_000
        return HttpResponse(200, (), b"x" * 1_000_000)

    async with serving(handler, write_seconds=0.3) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1_024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
        await until(lambda: server.connections == 1)
        await until(lambda: server.connections == 0)
        if not whole:
            await stopped.wait()
        assert produced < 16_000_000, "what the kernel buffers, and little more"
        writer.transport.abort()
        del reader


@on_loop
async def test_an_unread_body_pauses_its_sender() -> None:
    go_on = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        await go_on.wait()
        return HttpResponse(200, (), b"%d" % len(await request.body()))

    async with serving(handler) as server, raw(server.port) as peer:
        size = 30_000_000
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        peer.writer.write(b"a" * size)
        blocked = asyncio.create_task(peer.writer.drain())
        done, _ = await asyncio.wait([blocked], timeout=0.3)
        assert not done
        go_on.set()
        await blocked
        assert (await peer.response())[1] == b"%d" % size


@on_loop
async def test_a_rejected_upload_still_gets_its_response() -> None:
    """If the server closed at once, a reset would hide the 413 from the client."""
    async with serving(body=1_000) as server, raw(server.port) as peer:
        sending = asyncio.create_task(_pushed(peer.writer, _post(b"Content-Length: 20000000") + b"a" * 20_000_000))
        got = await peer.rest()
        await sending
        assert got.startswith(b"HTTP/1.1 413 ")
        assert got.endswith(b"the body is longer than 1000 bytes\n")


@on_loop
async def test_a_thousand_idle_connections_and_one_that_works() -> None:
    async with serving() as server:
        peers = []
        for _ in range(1_000):
            peers.append(await asyncio.open_connection("127.0.0.1", server.port))
        await until(lambda: server.connections == 1_000)
        for _ in range(20):
            assert (await exchange(server.port, ALIVE)).endswith(b"GET /alive ")
        for _, writer in peers:
            writer.transport.abort()
        await until(lambda: server.connections == 0)


@on_loop
async def test_connections_above_the_limit_are_rejected() -> None:
    async with serving(connections=2) as server, raw(server.port), raw(server.port):
        await until(lambda: server.connections == 2)
        assert (await exchange(server.port, ALIVE)).startswith(b"HTTP/1.1 503 ")
        await until(lambda: server.connections == 2)


@on_loop
async def test_a_thousand_clients_that_disconnect_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(60)
        return HttpResponse()

    with caplog.at_level(logging.WARNING):
        async with serving(handler) as server:
            for _ in range(200):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await asyncio.sleep(0)
                writer.transport.abort()
            await until(lambda: server.connections == 0)
    assert not caplog.records
