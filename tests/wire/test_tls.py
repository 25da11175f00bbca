"""TLS of client and server: verification, client certificates, and the peer certificate."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from modelpact.wire import Client, HttpRequest, HttpResponse, ServerLimits, Timeouts, WireError, WireTimeout, serve
from tests.wire.certificates import Authority, client_context, server_context
from tests.wire.support import on_loop, raw, replying, scripted, until


class Papers(NamedTuple):
    authority: Path
    server: Path
    server_der: bytes
    client: Path
    client_der: bytes
    stranger: Path
    elsewhere: Path


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("certificates")
    ours = Authority(folder, "ours")
    server, server_der = ours.issue("server", "localhost", "127.0.0.1")
    client, client_der = ours.issue("client")
    stranger, _ = Authority(folder, "theirs").issue("stranger", "127.0.0.1")
    elsewhere, _ = ours.issue("elsewhere", "elsewhere.example")
    return Papers(ours.file, server, server_der, client, client_der, stranger, elsewhere)


async def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, (), request.peer_certificate or b"nobody")


@on_loop
async def test_both_sides_get_the_peer_certificate(papers: Papers) -> None:
    tls = server_context(papers.server, papers.authority)
    async with (
        await serve(who, "127.0.0.1", 0, tls=tls) as server,
        Client(tls=client_context(papers.authority, papers.client)) as client,
    ):
        for host in ("127.0.0.1", "localhost", "127.0.0.1"):
            response = await client.request("GET", f"https://{host}:{server.port}/")
            assert await response.read() == papers.client_der
            assert response.peer_certificate == papers.server_der
        assert client.connections == 2


@pytest.mark.parametrize("certificate", ["none", "stranger"])
@on_loop
async def test_a_client_without_a_trusted_certificate_is_rejected(papers: Papers, certificate: str) -> None:
    served = False

    async def handler(request: HttpRequest) -> HttpResponse:
        nonlocal served
        served = True
        return HttpResponse()

    own = papers.stranger if certificate == "stranger" else None
    tls = server_context(papers.server, papers.authority)
    async with (
        await serve(handler, "127.0.0.1", 0, tls=tls) as server,
        Client(tls=client_context(papers.authority, own)) as client,
    ):
        with pytest.raises(WireError):
            await client.request("GET", f"https://127.0.0.1:{server.port}/")
        assert server.connections == 0
    assert not served


@on_loop
async def test_without_mutual_tls_there_is_no_client_certificate(papers: Papers) -> None:
    async with (
        await serve(who, "127.0.0.1", 0, tls=server_context(papers.server)) as server,
        Client(tls=client_context(papers.authority)) as client,
    ):
        response = await client.request("GET", f"https://127.0.0.1:{server.port}/")
        assert await response.read() == b"nobody"


@pytest.mark.parametrize("presented", ["stranger", "elsewhere"])
@on_loop
async def test_an_untrusted_server_is_rejected(papers: Papers, presented: str) -> None:
    presented_certificate = papers.stranger if presented == "stranger" else papers.elsewhere
    async with (
        await serve(who, "127.0.0.1", 0, tls=server_context(presented_certificate)) as server,
        Client(tls=client_context(papers.authority)) as client,
    ):
        with pytest.raises(WireError, match="its certificate was not accepted") as caught:
            await client.request("GET", f"https://127.0.0.1:{server.port}/")
        assert caught.value.phase == "tls"
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


@on_loop
async def test_servers_are_verified_by_default(papers: Papers) -> None:
    async with await serve(who, "127.0.0.1", 0, tls=server_context(papers.server)) as server, Client() as client:
        with pytest.raises(WireError, match="not accepted"):
            await client.request("GET", f"https://127.0.0.1:{server.port}/")


@on_loop
async def test_the_wrong_protocol_on_either_side(papers: Papers) -> None:
    async with (
        await serve(who, "127.0.0.1", 0, tls=server_context(papers.server)) as secure,
        await serve(who, "127.0.0.1", 0) as plain,
        Client(tls=client_context(papers.authority)) as client,
    ):
        with pytest.raises(WireError) as caught:
            await client.request("GET", f"https://127.0.0.1:{plain.port}/")
        assert caught.value.phase == "tls"
        with pytest.raises(WireError):
            await client.request("GET", f"http://127.0.0.1:{secure.port}/")


@on_loop
async def test_a_missing_handshake_times_out(papers: Papers) -> None:
    tls = server_context(papers.server)
    limits = ServerLimits(head_seconds=0.1)
    async with await serve(who, "127.0.0.1", 0, tls=tls, limits=limits) as server, raw(server.port) as peer:
        assert await peer.rest() == b""


@on_loop
async def test_a_server_that_never_shakes_hands_times_out(papers: Papers) -> None:
    async with scripted(replying(then_wait=True)) as url, Client(tls=client_context(papers.authority)) as client:
        secure = url.replace("http:", "https:")
        with pytest.raises(WireTimeout) as caught:
            await client.request("GET", secure, timeouts=Timeouts(connect=0.2))
        assert caught.value.phase == "connect"
        assert client.connections == 0


@on_loop
async def test_large_bodies_streams_and_disconnects_over_tls(papers: Papers) -> None:
    stopped = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            stopped.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        if request.path == "/stream":
            return HttpResponse(200, (), parts())
        return HttpResponse(200, (), await request.body())

    tls = server_context(papers.server, papers.authority)
    async with (
        await serve(handler, "127.0.0.1", 0, tls=tls) as server,
        Client(tls=client_context(papers.authority, papers.client)) as client,
    ):
        url = f"https://127.0.0.1:{server.port}"
        big = bytes(range(256)) * 20_000
        assert await (await client.request("POST", f"{url}/", (), big)).read() == big
        async with await client.request("GET", f"{url}/stream") as response:
            got = 0
            async for part in response:
                got += len(part)
                if got > 3_000_000:
                    break
        await stopped.wait()
        await until(lambda: server.connections == 0)
