"""The client with well-behaved servers: exchanges, the pool, and retries."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from modelpact.vocabulary.errors import InputError
from modelpact.wire import (
    Client,
    ClientResponse,
    ConnectionLost,
    HttpRequest,
    HttpResponse,
    PoolFull,
    PoolLimits,
    Timeouts,
    WireError,
    WireTimeout,
)
from tests.wire.support import on_loop, replying, scripted, serving, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@on_loop
async def test_requests_share_a_connection() -> None:
    async with serving() as server, Client() as client:
        url = f"http://127.0.0.1:{server.port}"
        for n in range(5):
            response = await client.request("POST", f"{url}/{n}?q", {"x-a": "b"}, b"hi")
            assert response.status == 200
            assert response.headers.get("Content-Type") == "text/plain"
            assert await response.read() == b"POST /%d hi" % n
        assert (client.connections, server.connections) == (1, 1)
        assert await (await client.request("GET", url)).read() == b"GET / "
        assert await (await client.request("GET", f"{url}?q#f")).read() == b"GET / "


@on_loop
async def test_head_and_empty_responses() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(int(request.path[1:]), (), b"" if request.path != "/200" else b"body")

    async with serving(handler) as server, Client() as client:
        url = f"http://127.0.0.1:{server.port}"
        for method, path in (("HEAD", "/200"), ("GET", "/204"), ("GET", "/304"), ("GET", "/299")):
            response = await client.request(method, url + path)
            assert response.status == int(path[1:])
            assert await response.read() == b""
        assert await (await client.request("GET", f"{url}/200")).read() == b"body"


@on_loop
async def test_a_stream_is_read_as_it_arrives() -> None:
    go_on = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await go_on.wait()
        yield b"second"

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server, Client() as client:
        response = await client.request("GET", f"http://127.0.0.1:{server.port}/")
        got = []
        async for part in response:
            got.append(part)
            go_on.set()
        assert got == [b"first", b"second"]
        assert client.connections == 1


@on_loop
async def test_a_body_is_sent_as_it_is_produced() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 50_000

    async with serving() as server, Client() as client:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(2):
            response = await client.request("PUT", url, (), parts())
            assert len(await response.read()) == 5_000_000 + len("PUT / ")
        big = b"y" * 5_000_000
        assert (await (await client.request("POST", url, (), big)).read()).endswith(big)
        assert client.connections == 1


@on_loop
async def test_a_body_that_fails_fails_the_request() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x"
        raise ValueError("no more")

    async with serving() as server, Client() as client:
        with pytest.raises(WireError, match="write") as caught:
            await client.request("PUT", f"http://127.0.0.1:{server.port}/", (), parts())
        assert isinstance(caught.value.__cause__, ValueError)
        assert client.connections == 0


@on_loop
async def test_a_slow_reader_pauses_the_server() -> None:
    produced = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal produced
        for _ in range(400):
            produced += 1
            yield b"x" * 50_000

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server, Client() as client:
        response = await client.request("GET", f"http://127.0.0.1:{server.port}/")
        last = -1
        while produced != last:
            last = produced
            await asyncio.sleep(0.05)
        assert produced < 400
        assert len(await response.read()) == 20_000_000
        assert client.connections == 1


@on_loop
async def test_closing_a_response_drops_its_connection() -> None:
    stopped = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            stopped.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with serving(handler) as server, Client() as client:
        async with await client.request("GET", f"http://127.0.0.1:{server.port}/") as response:
            assert await response.read_available()
        assert client.connections == 0
        await stopped.wait()
        with pytest.raises(WireError, match="closed before its end"):
            await response.read()


@on_loop
async def test_a_cancelled_request_drops_its_connection() -> None:
    started = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        started.set()
        await asyncio.sleep(60)
        return HttpResponse()

    async with serving(handler) as server, Client() as client:
        asking = asyncio.create_task(client.request("GET", f"http://127.0.0.1:{server.port}/"))
        await started.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert client.connections == 0
        await until(lambda: server.connections == 0)


@on_loop
async def test_a_response_longer_than_the_limit_is_an_error() -> None:
    async with serving() as server, Client() as client:
        response = await client.request("POST", f"http://127.0.0.1:{server.port}/", (), b"x" * 99)
        with pytest.raises(WireError, match="longer than 50 bytes"):
            await response.read(50)


@on_loop
async def test_callers_wait_for_a_connection_in_turn() -> None:
    running = most = 0

    async def handler(request: HttpRequest) -> HttpResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return HttpResponse(200, (), request.path.encode())

    limits = PoolLimits(connections=3)
    async with serving(handler) as server, Client(limits=limits) as client:
        url = f"http://127.0.0.1:{server.port}"

        async def ask(n: int) -> bytes:
            return await (await client.request("GET", f"{url}/{n}")).read()

        assert await asyncio.gather(*map(ask, range(60))) == [b"/%d" % n for n in range(60)]
        assert most == 3
        assert client.connections == 3


@on_loop
async def test_a_connection_is_free_before_the_caller_has_read_the_response() -> None:
    """Another exchange may start on it before the first caller resumes."""
    async with serving() as server, Client() as client:
        url = f"http://127.0.0.1:{server.port}"

        async def ask(name: int) -> None:
            for n in range(30):
                response = await client.request("GET", f"{url}/{name}-{n}")
                assert await response.read() == b"GET /%d-%d " % (name, n)

        await asyncio.gather(*map(ask, range(40)))
        assert client.connections <= 40


@on_loop
async def test_cancelled_callers_do_not_harm_others() -> None:
    async with serving() as server, Client(limits=PoolLimits(connections=4)) as client:
        url = f"http://127.0.0.1:{server.port}/"
        count = 0

        async def ask(patience: float) -> None:
            nonlocal count
            for _ in range(10):
                try:
                    async with asyncio.timeout(patience):
                        assert await (await client.request("GET", url)).read() == b"GET / "
                        count += 1
                except TimeoutError:
                    pass

        patience = [0.001 * (n % 5) if n % 2 else 10 for n in range(40)]
        await asyncio.gather(*map(ask, patience))
        assert count >= 200
        assert 1 <= client.connections <= 4


@on_loop
async def test_too_many_waiting_callers_get_pool_full() -> None:
    go_on = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        await go_on.wait()
        return HttpResponse()

    limits = PoolLimits(connections=1, waiting=1)
    async with serving(handler) as server, Client(limits=limits) as client:
        url = f"http://127.0.0.1:{server.port}/"
        first = asyncio.create_task(client.request("GET", url))
        second = asyncio.create_task(client.request("GET", url))
        await until(lambda: server.connections == 1)
        with pytest.raises(PoolFull) as caught:
            await client.request("GET", url)
        assert (caught.value.phase, caught.value.retry_after) == ("pool", 1.0)
        second.cancel()
        await asyncio.sleep(0)
        with pytest.raises(WireTimeout, match="pool"):
            await client.request("GET", url, timeouts=Timeouts(connect=0.05))
        go_on.set()
        assert (await first).status == 200
        assert (await client.request("GET", url)).status == 200


@on_loop
async def test_a_closed_connection_of_the_pool_is_replaced_once() -> None:
    async with scripted(replying(OK)) as url, Client() as client:
        for _ in range(4):
            assert await (await client.request("POST", url, (), b"")).read() == b"ok"


@on_loop
async def test_a_reused_connection_that_is_lost_is_replaced_once() -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(1 if connections == 1 else 2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")

    async def parts() -> AsyncIterator[bytes]:
        yield b"x"

    async with scripted(script) as url, Client() as client:
        assert (await client.request("GET", url)).status == 200
        assert (await client.request("GET", url)).status == 200
        assert connections == 2
        assert (await client.request("GET", url)).status == 200
        with pytest.raises(ConnectionLost):
            await client.request("PUT", url, (), parts())
        assert connections == 2


@on_loop
async def test_a_new_connection_that_is_lost_is_not_replaced() -> None:
    count = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        await reader.readuntil(b"\r\n\r\n")
        count += 1

    async with scripted(script) as url, Client() as client:
        with pytest.raises(ConnectionLost, match=r"closed by the server \(while: first byte\)"):
            await client.request("GET", url)
    assert count == 1


@on_loop
async def test_no_retry_once_the_response_has_begun() -> None:
    count = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        for reply in (OK, b"HTTP/1.1 2"):
            await reader.readuntil(b"\r\n\r\n")
            count += 1
            writer.write(reply)

    async with scripted(script) as url, Client() as client:
        await client.request("GET", url)
        with pytest.raises(ConnectionLost):
            await client.request("GET", url)
    assert count == 2


@on_loop
async def test_an_idle_connection_is_closed_after_a_while() -> None:
    limits = PoolLimits(idle_seconds=0.05)
    async with serving() as server, Client(limits=limits) as client:
        await (await client.request("GET", f"http://127.0.0.1:{server.port}/")).read()
        await until(lambda: client.connections == 0)
        await until(lambda: server.connections == 0)


@on_loop
async def test_a_closed_client_sends_nothing() -> None:
    async with serving() as server:
        client = Client()
        url = f"http://127.0.0.1:{server.port}/"
        await client.request("GET", url)
        await client.aclose()
        with pytest.raises(WireError, match="closed"):
            await client.request("GET", url)
        await until(lambda: server.connections == 0)


@on_loop
async def test_interim_responses_are_skipped() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with scripted(replying(b"HTTP/1.1 100 Continue\r\n\r\n" + hints + OK, OK)) as url, Client() as client:
        for _ in range(2):
            response = await client.request("GET", url)
            assert (response.status, await response.read()) == (200, b"ok")
            assert "link" not in response.headers


@on_loop
async def test_trailers_are_skipped() -> None:
    reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Late: 1\r\n\r\n"
    async with scripted(replying(reply, reply)) as url, Client() as client:
        for _ in range(2):
            response = await client.request("GET", url)
            assert await response.read() == b"ok"
            assert "x-late" not in response.headers
            assert client.connections == 1


@on_loop
async def test_a_body_may_end_with_the_connection() -> None:
    async with scripted(replying(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as url, Client() as client:
        assert await (await client.request("GET", url)).read() == b"all of it"
        assert client.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "http://",
        "http:///x",
        "/x",
        "http://u:p@x/",
        "http://x/a b",
        "http://x/\r\nHost: y",
        "http://x:99999/",
        "http://x:0/",
        "http://x/é",
        "http://[::1/",
        "",
    ],
)
@on_loop
async def test_an_invalid_url_is_an_error(url: str) -> None:
    async with Client() as client:
        with pytest.raises(InputError):
            await client.request("GET", url)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET /", ()),
        ("get", ()),
        ("CONNECT", ()),
        ("GET", {"a": "b\r\nc: d"}),
        ("GET", {"a\r\nb": "c"}),
        ("GET", {"Host": "x"}),
        ("GET", {"Content-Length": "1"}),
        ("GET", [("Transfer-Encoding", "chunked")]),
    ],
)
@on_loop
async def test_a_request_that_would_break_the_framing_is_not_sent(method: str, headers: dict[str, str]) -> None:
    async with Client() as client:
        with pytest.raises(InputError):
            await client.request(method, "http://127.0.0.1:1/", headers)


def test_client_and_server_work_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def run() -> None:
        async with serving() as server, Client() as client:
            url = f"http://127.0.0.1:{server.port}/"
            for _ in range(3):
                response = await client.request("POST", url, (), b"x" * 300_000)
                assert len(await response.read()) == 300_000 + len("POST / ")
            assert client.connections == 1

    uvloop.run(run())


@on_loop
async def test_a_retired_client_finishes_requests_and_keeps_no_connection() -> None:
    go_on = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await go_on.wait()
        yield b"second"

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts() if request.path == "/stream" else b"ok")

    async with serving(handler) as server, Client() as client:
        url = f"http://127.0.0.1:{server.port}"
        stream = await client.request("GET", f"{url}/stream")
        assert await (await client.request("GET", url)).read() == b"ok"
        assert client.connections == 2
        client.retire()
        assert client.connections == 1, "the free one is dropped at once"
        go_on.set()
        assert await stream.read() == b"firstsecond"
        assert await (await client.request("GET", url)).read() == b"ok", "late requests are served"
        assert client.connections == 0
        await until(lambda: server.connections == 0)


@on_loop
async def test_a_retired_client_drops_a_connection_that_its_caller_no_longer_awaits() -> None:
    async def handler(_: HttpRequest) -> HttpResponse:
        waiting.append(asyncio.create_task(client.request("GET", url)))
        await asyncio.sleep(0)
        client.retire()
        return HttpResponse(200, (), b"ok")

    waiting: list[asyncio.Task[ClientResponse]] = []
    async with serving(handler) as server, Client(limits=PoolLimits(connections=1)) as client:
        url = f"http://127.0.0.1:{server.port}"
        response = await client.request("GET", url)
        waiting[0].cancel()  # it has been given the connection, but has not run since
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        assert await response.read() == b"ok"
        assert client.connections == 0
