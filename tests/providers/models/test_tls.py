"""Adapters over real TLS: fake servers with certificates, and clients that verify them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from modelpact.conversation.response import collect
from modelpact.providers.contract import Invocation
from modelpact.providers.models import CHAT, UpstreamError
from modelpact.providers.models.json_codec import read_response
from modelpact.wire import Client
from tests.fakes import cut, hang
from tests.fakes.loops import on_loop
from tests.fakes.replies import Script
from tests.providers.models.adapter_fixtures import APIS, KEY, Adapter, Fake, ask, at, listed
from tests.providers.models.test_model_provider import chat, lines, record, running
from tests.wire.certificates import Authority, client_context, server_context

both = pytest.mark.parametrize("api", APIS)


class Sides(NamedTuple):
    """The TLS contexts of the fake servers and of their clients."""

    server: ssl.SSLContext
    elsewhere: ssl.SSLContext
    client: ssl.SSLContext
    stranger: ssl.SSLContext


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    folder = tmp_path_factory.mktemp("certificates")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    return Sides(
        server_context(ours.issue("upstream", "127.0.0.1")[0]),
        server_context(ours.issue("elsewhere", "elsewhere.example")[0]),
        client_context(ours.file),
        client_context(theirs.file),
    )


@asynccontextmanager
async def over(
    api: str, server: ssl.SSLContext, client: ssl.SSLContext, script: Script = ()
) -> AsyncIterator[tuple[Adapter, Fake]]:
    async with Client(tls=client) as trusting, at(api, script, tls=server, client=trusting) as (port, fake):
        assert fake.base_url.startswith("https://")
        yield port, fake


@both
@on_loop
async def test_a_chat_whole_and_streamed(api: str, sides: Sides) -> None:
    async with over(api, sides.server, sides.client) as (port, fake):
        whole = await port.complete(ask(api))
        streamed = collect(await listed(port, ask(api)))
        assert streamed is not None
        assert whole.text == streamed.text == "You said: Hi"
        assert whole.usage == streamed.usage
        assert len(fake.requests) == 2
        assert fake.connections == 1, "one handshake is enough for both"


@pytest.mark.parametrize("wrong", ["authority", "host", "default"])
@both
@on_loop
async def test_an_untrusted_server_gets_nothing(api: str, wrong: str, sides: Sides) -> None:
    """Neither the prompt nor the key is sent to a server with an invalid certificate."""
    server = sides.elsewhere if wrong == "host" else sides.server
    client = {"authority": sides.stranger, "host": sides.client, "default": ssl.create_default_context()}[wrong]
    async with over(api, server, client) as (port, fake):
        with pytest.raises(UpstreamError, match="certificate") as caught:
            await port.complete(ask(api))
        assert caught.value.code == "unreachable"
        assert KEY not in str(caught.value)
        with pytest.raises(UpstreamError):
            await listed(port, ask(api))
        assert fake.requests == []


@both
@on_loop
async def test_plain_http_to_a_tls_port_and_the_reverse(api: str, sides: Sides) -> None:
    async with over(api, sides.server, sides.client) as (port, secure), at(api) as (_, plain):
        kind: Any = type(port)
        for url in (secure.base_url.replace("https:", "http:"), plain.base_url.replace("http:", "https:")):
            lost = kind(url)
            with pytest.raises(UpstreamError):
                await lost.complete(ask(api))
            await lost.aclose()
        assert secure.requests == plain.requests == []


@both
@on_loop
async def test_faults_look_the_same_as_without_tls(api: str, sides: Sides) -> None:
    for fault, code in ((cut(3), "cut_off"), (hang(3), "timeout")):
        async with over(api, sides.server, sides.client, [fault]) as (port, _):
            with pytest.raises(UpstreamError) as caught:
                await listed(port, ask(api))
            assert caught.value.code == code
            assert (await port.complete(ask(api))).text == "You said: Hi"


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@on_loop
async def test_a_model_behind_the_contract(api: str, url: str, sides: Sides) -> None:
    """Recorded, called over TLS, priced and settled, on both stores."""
    async with (
        Client(tls=sides.client) as client,
        running(url, api, tls=sides.server, client=client) as (runtime, _, fake),
    ):
        done = await runtime.invoke(api, CHAT, chat(api))
        opened = await runtime.invoke(api, CHAT, chat(api), semantics="streaming")
        *_, streamed = [piece async for piece in runtime.stream(opened)]
        assert isinstance(streamed, Invocation)
        for item in (done, streamed):
            assert item.state == "completed"
            assert read_response(item.output).text == "You said: Hi"
            assert lines(record(runtime, item))["currency"] > 0
        assert len(fake.requests) == 2
