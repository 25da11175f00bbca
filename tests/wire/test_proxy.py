"""Requests through a proxy: sent by aiohttp, with the same responses and errors."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modelpact.vocabulary.errors import InputError
from modelpact.wire import (
    Client,
    ConnectionLost,
    HttpRequest,
    HttpResponse,
    PoolFull,
    PoolLimits,
    RawHeaders,
    Timeouts,
    WireError,
    WireTimeout,
    serve,
)
from modelpact.wire.url import Url, environment_proxies, proxy_for
from tests.wire.certificates import Authority, client_context, server_context
from tests.wire.proxy_server import proxying
from tests.wire.support import on_loop, serving, until

URL = "http://upstream.test/v1"


async def echo_request(request: HttpRequest) -> HttpResponse:
    """Respond with the request itself."""
    body = await request.body()
    headers = "\n".join(f"{name}: {value}" for name, value in request.headers)
    return HttpResponse(201, {"x-told": "yes"}, f"{request.method} {request.path}\n{headers}\n\n".encode() + body)


@on_loop
async def test_a_request_through_a_proxy_has_no_added_headers() -> None:
    async with (
        serving(echo_request) as server,
        proxying(server.port) as proxy,
        Client(proxies={"http": proxy.url}) as client,
    ):
        for headers in ({"x-mine": "1"}, RawHeaders.encode({"x-mine": "1"})):
            response = await client.request("POST", URL, headers, b"body")
            assert response.status == 201
            assert response.headers.get("x-told") == "yes"
            head, _, body = (await response.read()).partition(b"\n\n")
            assert body == b"body"
            names = {line.partition(b":")[0] for line in head.split(b"\n")[1:]}
            assert names == {b"host", b"x-mine", b"content-length"}
        assert proxy.requests[0] == b"POST http://upstream.test/v1"
        await until(lambda: client.connections == 0)


@on_loop
async def test_tls_goes_through_a_tunnel_to_the_server_itself(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, der = ours.issue("server", "upstream.test")
    tls = server_context(certificate)
    async with await serve(echo_request, "127.0.0.1", 0, tls=tls) as server, proxying(server.port) as proxy:
        async with Client(tls=client_context(ours.file), proxies={"https": proxy.url}) as client:
            response = await client.request("GET", "https://upstream.test/v1")
            assert (await response.read()).startswith(b"GET /v1\n")
            assert response.peer_certificate == der
            assert proxy.requests == [b"CONNECT upstream.test:443"]
        async with Client(proxies={"https": proxy.url}) as client:
            with pytest.raises(WireError) as caught:
                await client.request("GET", "https://upstream.test/v1")
            assert caught.value.phase == "tls"


@on_loop
async def test_streams_arrive_as_they_are_sent_and_end_when_closed() -> None:
    go_on, stopped = asyncio.Event(), asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await go_on.wait()
            yield b"two"
            await asyncio.sleep(60)
        finally:
            stopped.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with (
        serving(handler) as server,
        proxying(server.port) as proxy,
        Client(proxies={"http": proxy.url}) as client,
    ):
        response = await client.request("GET", URL)
        assert await response.read_available() == b"one"
        go_on.set()
        assert await response.read_available() == b"two"
        await response.aclose()
        await stopped.wait()
        await until(lambda: client.connections == 0)


@on_loop
async def test_a_slow_reader_pauses_the_server_through_a_proxy() -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            yield b"x" * 65_536
            sent += 65_536

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), parts())

    async with (
        serving(handler) as server,
        proxying(server.port) as proxy,
        Client(proxies={"http": proxy.url}) as client,
    ):
        response = await client.request("GET", URL)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 32_000_000
        assert len(await response.read(100_000_000)) == 65_536_000


@on_loop
async def test_every_failure_has_its_phase() -> None:
    async def never(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(60)
        return HttpResponse()

    taken = asyncio.Event()

    async def half(request: HttpRequest) -> HttpResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"half"
            if request.path == "/broken":
                await taken.wait()
                raise ConnectionResetError
            await asyncio.sleep(60)

        return HttpResponse(200, (), parts())

    async with serving(never) as server, proxying(server.port) as proxy, Client(proxies={"http": proxy.url}) as client:
        quick = Timeouts(connect=0.5, write=0.05, first_byte=0.1)
        with pytest.raises(WireTimeout) as caught:
            await client.request("GET", URL, timeouts=quick)
        assert caught.value.phase == "first byte"
    async with serving(half) as server, proxying(server.port) as proxy:
        async with Client(proxies={"http": proxy.url}) as client:
            response = await client.request("GET", URL, timeouts=Timeouts(between_bytes=0.1))
            with pytest.raises(WireTimeout) as caught:
                await response.read()
            assert caught.value.phase == "body"
            response = await client.request("GET", "http://upstream.test/broken")
            assert await response.read_available() == b"half"
            taken.set()
            with pytest.raises(ConnectionLost) as lost:
                await response.read()
            assert lost.value.phase == "body"
            response = await client.request("GET", URL)
        with pytest.raises(WireError):
            await response.read()
        with pytest.raises(WireError, match="closed"):
            await client.request("GET", URL)


@on_loop
async def test_a_proxy_that_rejects_or_does_not_listen() -> None:
    hidden = "s" + "esame"
    async with proxying(1, refuse=True) as proxy:
        url = proxy.url.replace("//", f"//me:{hidden}@")
        async with Client(proxies={"https": url}) as client:
            with pytest.raises(WireError, match="the proxy answered 407") as caught:
                await client.request("GET", "https://upstream.test/")
            assert caught.value.phase == "connect"
            assert hidden not in str(caught.value)
            assert proxy.authorised
    async with Client(proxies={"all": proxy.url}) as client:
        with pytest.raises(WireError, match=r"through http://127\.0\.0\.1") as caught:
            await client.request("GET", URL)
        assert caught.value.phase == "connect"


@on_loop
async def test_too_many_callers_of_a_proxy_get_pool_full() -> None:
    async def never(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(60)
        return HttpResponse()

    async with (
        serving(never) as server,
        proxying(server.port) as proxy,
        Client(proxies={"http": proxy.url}, limits=PoolLimits(connections=1, waiting=1)) as client,
    ):
        callers = [asyncio.create_task(client.request("GET", URL)) for _ in range(2)]
        await until(lambda: client.connections == 2)
        with pytest.raises(PoolFull):
            await client.request("GET", URL)
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        assert client.connections == 0


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("https://api.example.com/", True),
        ("http://api.example.com/", False),
        ("https://localhost/", False),
        ("https://127.0.0.1:8000/", False),
        ("https://[::1]/", False),
        ("https://a.internal/", False),
        ("https://internal/", False),
        ("https://notinternal/", True),
        ("https://host:8080/", False),
        ("https://host:8081/", True),
    ],
)
def test_which_origins_are_behind_a_proxy(url: str, proxied: bool) -> None:
    proxies = {"https": "proxy.example:3128", "no": ".internal, host:8080"}
    proxy = proxy_for(Url.parse(url).origin, proxies)
    assert proxy == ("http://proxy.example:3128" if proxied else None)


def test_no_proxy_at_all() -> None:
    origin = Url.parse("https://api.example.com/").origin
    assert proxy_for(origin, {"https": "http://p:1", "no": "*"}) is None
    assert proxy_for(origin, {}) is None


def test_an_invalid_proxy_url_is_an_error() -> None:
    origin = Url.parse("https://api.example.com/").origin
    for proxy in ("socks5://p:1", "http://p/with/a/path", "https://p:1"):
        with pytest.raises(InputError, match="HTTPS_PROXY"):
            proxy_for(origin, {"https": proxy})


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", "a")
    assert environment_proxies()["https"] == "http://p:1"
    assert environment_proxies()["no"] == "a"


@on_loop
async def test_without_aiohttp_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "modelpact.wire.proxied_origin", raising=False)
    async with Client(proxies={"http": "http://p:1"}) as client:
        with pytest.raises(InputError, match=r"modelpact\[proxy\]"):
            await client.request("GET", URL)


def test_aiohttp_is_imported_only_for_proxies() -> None:
    code = "import sys, modelpact.wire; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
