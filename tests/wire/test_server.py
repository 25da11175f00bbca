"""The server with well-behaved clients: framing, order, streams, disconnects and draining."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from modelpact.wire import Client, HttpError, HttpRequest, HttpResponse, serve
from tests.wire.support import exchange, on_loop, raw, serving, until

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@on_loop
async def test_a_connection_serves_one_request_after_another() -> None:
    async with serving() as server, raw(server.port) as peer:
        for n in range(3):
            await peer.send(b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" % n)
            head, body = await peer.response()
            assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
            assert body == b"POST /%d hi" % n
        assert server.connections == 1


@on_loop
async def test_pipelined_requests_are_answered_in_order() -> None:
    async def slow_first(request: HttpRequest) -> HttpResponse:
        if request.path == "/0":
            await asyncio.sleep(0.02)
        return HttpResponse(200, (), request.path.encode())

    async with serving(slow_first) as server, raw(server.port) as peer:
        requests = [b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(3_000)]
        sending = asyncio.create_task(peer.send(b"".join(requests)))
        for n in range(3_000):
            assert (await peer.response())[1] == b"/%d" % n
        await sending


@on_loop
async def test_pipelined_bodies_do_not_run_into_each_other() -> None:
    item = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"a" * 70_000
    two = b"POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbcd\r\n0\r\n\r\n"
    async with serving() as server, raw(server.port) as peer:
        sending = asyncio.create_task(peer.send((item + two) * 5 + LAST))
        got = await peer.rest()
        await sending
    assert got.count(b"POST /1 " + b"a" * 70_000) == 5
    assert got.count(b"POST /2 bcd") == 5
    assert got.endswith(b"GET /last ")


@on_loop
async def test_head_has_the_length_and_no_body() -> None:
    async with serving() as server:
        got = await exchange(server.port, b"HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"content-length: 8\r\n" in got
    assert got.endswith(b"\r\n\r\n")


@on_loop
async def test_http_1_0_closes_and_gets_no_chunks() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), _parts(b"one", b"two"))

    async with serving(handler) as server:
        got = await exchange(server.port, b"GET / HTTP/1.0\r\n\r\n")
    assert got.endswith(b"connection: close\r\n\r\nonetwo")
    assert b"transfer-encoding" not in got


async def _parts(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@on_loop
async def test_a_stream_is_sent_as_it_is_produced() -> None:
    go_on = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        yield b""
        await go_on.wait()
        yield b"second"

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server, raw(server.port) as peer:
        await peer.send(GET)
        assert b"transfer-encoding: chunked\r\n" in await peer.head()
        assert await peer.reader.readexactly(10) == b"5\r\nfirst\r\n"
        go_on.set()
        assert await peer.reader.readuntil(b"0\r\n\r\n") == b"6\r\nsecond\r\n0\r\n\r\n"
        await peer.send(GET)
        await peer.head()


@on_loop
async def test_the_head_of_a_stream_does_not_wait_for_its_first_part() -> None:
    never = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        await never.wait()
        yield b""

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server, raw(server.port) as peer:
        await peer.send(GET)
        assert (await peer.head()).startswith(b"HTTP/1.1 200")


@on_loop
async def test_100_continue_is_sent_when_the_handler_reads_the_body() -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with serving() as server, raw(server.port) as peer:
        await peer.send(request)
        assert await peer.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await peer.send(b"hi")
        assert (await peer.response())[1] == b"POST / hi"
        await peer.send(GET)
        assert (await peer.response())[1] == b"GET /a "


@on_loop
async def test_100_continue_is_not_sent_when_the_handler_ignores_the_body() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        raise HttpError(403, "no")

    request = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with serving(handler) as server:
        got = await exchange(server.port, request)
    assert got.startswith(b"HTTP/1.1 403")
    assert b"connection: close" in got


@on_loop
async def test_an_upgrade_is_ignored_and_its_body_read() -> None:
    request = (
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAA\r\n%b\r\n"
    )
    sized = request % b"Content-Length: 2\r\n" + b"hi"
    chunked = request % b"Transfer-Encoding: chunked\r\n" + b"2\r\nyo\r\n0\r\n\r\n"
    async with serving() as server, raw(server.port) as peer:
        for data, body in ((sized, b"hi"), (chunked, b"yo"), (request % b"", b"")):
            await peer.send(data + GET)
            assert (await peer.response())[1] == b"POST / " + body
            assert (await peer.response())[1] == b"GET /a "


@on_loop
async def test_absolute_targets_and_parts_of_the_target() -> None:
    seen: list[HttpRequest] = []

    async def handler(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(200, (), request.decoded_path.encode())

    async with serving(handler) as server, raw(server.port) as peer:
        await peer.send(b"GET http://y:8/p%C3%A4th?q=1&r HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await peer.response())[1] == "/päth".encode()
        await peer.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\nA: 1\r\na:\t2 \r\n\r\n")
        await peer.response()
        await peer.send(b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await peer.response())[0].startswith(b"HTTP/1.1 400")
    absolute, star, _ = seen
    assert (absolute.authority, absolute.path, absolute.query) == ("y:8", "/p%C3%A4th", "q=1&r")
    assert (star.authority, star.path) == ("x", "*")
    assert (star.headers.get("A"), star.headers.all("a")) == ("1", ["1", "2"])
    assert star.peer[0] == "127.0.0.1"


@on_loop
async def test_a_failing_handler_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        raise ValueError("the secret is 42")

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as server, raw(server.port) as peer:
            for _ in range(2):
                await peer.send(GET)
                head, body = await peer.response()
                assert head.startswith(b"HTTP/1.1 500")
                assert body == b"internal error\n"


@pytest.mark.parametrize(
    "outgoing",
    [
        HttpResponse(200, {"x": "a\r\nset-cookie: b"}),
        HttpResponse(200, {"x": "a\0"}),
        HttpResponse(200, {"bad name": "a"}),
        HttpResponse(200, {"x": "€"}),
        HttpResponse(200, {"Content-Length": "3"}),
        HttpResponse(200, {"transfer-encoding": "chunked"}),
        HttpResponse(204, (), b"body"),
        HttpResponse(99),
    ],
)
@on_loop
async def test_a_response_that_would_break_the_framing_is_not_sent(
    outgoing: HttpResponse, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return outgoing

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as server, raw(server.port) as peer:
            await peer.send(GET)
            assert (await peer.response())[0].startswith(b"HTTP/1.1 500")


@pytest.mark.parametrize("begun", [True, False])
@on_loop
async def test_a_stream_that_fails_does_not_look_complete(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def parts() -> AsyncIterator[bytes]:
        if begun:
            yield b"half"
            await asyncio.sleep(0)
        raise ValueError("secret")

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as server, raw(server.port) as peer:
            await peer.send(GET)
            if begun:
                assert (await peer.rest()).endswith(b"4\r\nhalf\r\n")
            else:
                assert (await peer.response())[0].startswith(b"HTTP/1.1 500")


@on_loop
async def test_a_disconnect_cancels_the_handler() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    outlived: list[bool] = []

    async def handler(request: HttpRequest) -> HttpResponse:
        gone = request.disconnected
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            outlived.append(gone.is_set())
            stopped.set()
        return HttpResponse()

    async with serving(handler) as server:
        async with raw(server.port) as peer:
            await peer.send(GET)
            await started.wait()
        await stopped.wait()
        await until(lambda: server.connections == 0)
    assert outlived == [True]


@pytest.mark.parametrize("waiting_for", ["source", "client"])
@on_loop
async def test_a_disconnect_during_a_stream_closes_the_stream(waiting_for: str) -> None:
    stopped = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            if waiting_for == "source":
                await asyncio.sleep(60)
            while True:
                yield b"x" * 65_536
        finally:
            stopped.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server:
        async with raw(server.port) as peer:
            await peer.send(GET)
            await peer.head()
        await stopped.wait()


@on_loop
async def test_a_forwarded_response_ends_when_its_client_disconnects() -> None:
    stopped = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.sleep(60)
        finally:
            stopped.set()

    async def upstream(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(upstream) as far, Client() as client:

        async def handler(request: HttpRequest) -> HttpResponse:
            response = await client.request("GET", f"http://127.0.0.1:{far.port}/")
            return HttpResponse(response.status, response.headers.forwardable().pairs(), response)

        async with serving(handler) as near:
            async with raw(near.port) as peer:
                await peer.send(GET)
                await peer.head()
            await stopped.wait()
            assert client.connections == 0


@on_loop
async def test_a_handler_that_is_cancelled_from_within_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        raise asyncio.CancelledError

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as server, raw(server.port) as peer:
            for _ in range(2):
                await peer.send(GET)
                assert (await peer.response())[0].startswith(b"HTTP/1.1 500")


@on_loop
async def test_a_disconnect_during_the_body_raises_in_the_handler() -> None:
    failed = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        try:
            await request.body()
        finally:
            failed.set()
        return HttpResponse()

    async with serving(handler) as server:
        async with raw(server.port) as peer:
            await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        await failed.wait()


@on_loop
async def test_draining_finishes_running_requests() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        started.set()
        await go_on.wait()
        return HttpResponse(200, (), b"done")

    server = await serve(handler, "127.0.0.1", 0)
    async with raw(server.port) as idle, raw(server.port) as busy:
        await busy.send(GET)
        await started.wait()
        draining = asyncio.create_task(server.drain(grace=10))
        assert await idle.rest() == b""
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.1", server.port)
        go_on.set()
        got = await busy.rest()
        await draining
    assert got.endswith(b"done")
    assert b"connection: close" in got


@on_loop
async def test_draining_ends_after_the_grace_period() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return HttpResponse()

    server = await serve(handler, "127.0.0.1", 0)
    async with raw(server.port) as peer:
        await peer.send(GET)
        await started.wait()
        await server.drain(grace=0.05)
        assert stopped.is_set()
        assert await peer.rest() == b""


@on_loop
async def test_a_body_can_be_forwarded_while_it_arrives() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), request)

    async with serving(handler) as server, raw(server.port) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\none")
        await peer.head()
        assert await peer.reader.readexactly(8) == b"3\r\none\r\n"
        await peer.send(b"two")
        assert await peer.reader.readexactly(13) == b"3\r\ntwo\r\n0\r\n\r\n"


@on_loop
async def test_a_drainable_body_is_sent_as_it_arrives() -> None:
    """A body with `read_available` and `complete`, such as a forwarded response."""

    class Looked:
        def __init__(self, request: HttpRequest) -> None:
            self._request = request

        @property
        def complete(self) -> bool:
            return self._request.complete

        async def read_available(self) -> bytes:
            part = await self._request.read_available()
            looked.append(part)
            return part

        async def aclose(self) -> None:
            closed.set()

    looked: list[bytes] = []
    closed = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), Looked(request))

    async with serving(handler) as server, raw(server.port) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\none")
        assert b"transfer-encoding: chunked" in await peer.head()
        assert await peer.reader.readexactly(8) == b"3\r\none\r\n"
        await peer.send(b"two")
        assert await peer.reader.readexactly(13) == b"3\r\ntwo\r\n0\r\n\r\n"
        await closed.wait()
        assert looked == [b"one", b"two"]


@on_loop
async def test_a_source_that_never_suspends_does_not_starve_others() -> None:
    class Endless:
        complete = False

        async def read_available(self) -> bytes:
            return b"x" * 1_000

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), Endless() if request.path == "/endless" else b"here")

    async with serving(handler) as server, raw(server.port) as endless, raw(server.port) as peer:
        await endless.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await endless.head()
        await peer.send(GET)
        assert (await peer.response())[1] == b"here"


@on_loop
async def test_handlers_do_not_share_context() -> None:
    """A context variable of one request is not visible in the next on the same connection."""
    import contextvars

    bound = contextvars.ContextVar("bound", default="nothing")

    async def handler(request: HttpRequest) -> HttpResponse:
        before = bound.get()
        bound.set("something")
        return HttpResponse(200, (), before.encode())

    async with serving(handler) as server, raw(server.port) as peer:
        for _ in range(2):
            await peer.send(GET)
            assert (await peer.response())[1] == b"nothing"


def test_forwardable_headers_leave_out_connection_host_and_length() -> None:
    from modelpact.wire import Headers

    headers = Headers(
        [
            (b"host", b"a"),
            (b"connection", b"close, X-Private"),
            (b"x-private", b"1"),
            (b"content-length", b"3"),
            (b"x-kept", b"1"),
            (b"x-kept", b"2"),
        ]
    )
    assert headers.forwardable().pairs() == [("x-kept", "1"), ("x-kept", "2")]
    assert "a" not in repr(headers).split("(")[1].split(", ")
