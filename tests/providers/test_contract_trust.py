"""The owp specification (docs/spec/owp.md), 8.5 Trust: real certificates, on both stores."""

import asyncio
import ssl
from typing import Any

import msgspec
import pytest

from modelpact.identity.tls import client_context, server_context
from modelpact.ledger import Ledger
from modelpact.providers.contract import ComplianceProfile, ContractError
from modelpact.providers.runtime.registry import list_providers
from modelpact.wire import Client, HttpRequest, HttpResponse, WireError, serve
from tests.providers.fake_provider import faking
from tests.providers.support import ECHO, World, assert_whole, call, echo_provider, flags, on_loop, until
from tests.providers.tls_tap import tapped

NOWHERE = "https://127.0.0.1:1"


@on_loop
async def test_both_sides_authenticate(world: World, ledger: Ledger) -> None:
    """S003-8.5-1: runtime and provider authenticate each other."""
    async with world.hosting(ledger) as host:
        # A client without a certificate gets no connection, on either side.
        bare = ssl.create_default_context(cafile=str(world.authority.certificate))
        async with (
            echo_provider().running(world.settings("echo", host.url)) as registration,
            Client(tls=bare) as nobody,
        ):
            for url in (f"{host.url}/v1/providers", f"{registration.base_url}/invocations"):
                with pytest.raises(WireError):
                    await call(nobody, "POST", url, {})
            done = await host.runtime.invoke("echo", ECHO, {"a": 1})
            assert done.state == "completed"
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_the_runtime_calls_only_known_providers(world: World, ledger: Ledger) -> None:
    """S003-8.5-3: a verified identity of every registered provider."""
    async with world.hosting(ledger) as host, faking(world, certificate="impostor") as impostor:
        without = world.registration("fake", impostor.registration.base_url)
        without = msgspec.structs.replace(without, identity="")
        with pytest.raises(Exception, match=r"registration\.identity"):
            host.runtime.registry.register(without)
        host.runtime.registry.register(impostor.registration)
        for semantics in ("sync", "async", "streaming"):
            done: Any = await host.runtime.invoke("fake", ECHO, {}, semantics=semantics)
            if semantics == "streaming":
                *_, done = [item async for item in host.runtime.stream(done)]
            assert done.state == "failed"
        assert impostor.received == []
        # Nor does another take the place of one that is registered.
        async with world.client("impostor") as theirs:
            mine = world.registration("fake", NOWHERE, identity=world.fingerprint("impostor"))
            status, response = await call(theirs, "POST", f"{host.url}/v1/providers", mine)
            assert (status, response["error"]["code"]) == (403, "identity_mismatch")
    assert flags(ledger) == [("fake", "wrong_identity")] * 3
    assert_whole(ledger)


@on_loop
async def test_the_provider_answers_only_a_runtime_that_it_knows(world: World, ledger: Ledger) -> None:
    """S003-8.5-4: a verified identity of the runtime."""
    paths: list[str] = []

    async def impostor(request: HttpRequest) -> HttpResponse:
        paths.append(request.path)
        return HttpResponse(201, (), b"{}")

    async with (
        world.hosting(ledger) as host,
        echo_provider().running(world.settings("echo", host.url)) as registration,
        world.client("other") as other,
    ):
        # Another provider, with a certificate of the same authority, is no runtime.
        with pytest.raises(WireError):
            await call(other, "POST", f"{registration.base_url}/invocations", {})
    tls = server_context(world.identity("other"), world.trust)
    async with await serve(impostor, "127.0.0.1", 0, tls=tls) as server:
        settings = world.settings("echo", f"https://127.0.0.1:{server.port}")
        async with Client(tls=settings.client_tls()) as mine:
            with pytest.raises(WireError) as caught:
                await call(mine, "POST", f"{settings.runtime}/v1/providers", {})
            assert caught.value.phase == "tls"
    assert paths == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_refuses_a_runtime_that_is_not_pinned(world: World, ledger: Ledger) -> None:
    """S003-8.5-5: the provider refuses."""
    world.identity("main", "runtime")
    world.identity("second", "runtime")
    async with world.hosting(ledger) as host, world.hosting(ledger, name="second") as second:
        settings = world.settings("echo", host.url)
        pinned = msgspec.structs.replace(settings, runtime_pin=world.fingerprint("main"))
        async with echo_provider().running(pinned):
            done = await host.runtime.invoke("echo", ECHO, {"a": 1})
            assert done.state == "completed"
            refused = await second.runtime.invoke("echo", ECHO, {"a": 1})
            assert (refused.state, str(refused.error).partition(":")[0]) == ("failed", "unreachable")
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_the_runtime_refuses_a_revoked_provider(world: World, ledger: Ledger) -> None:
    """S003-8.5-5: the runtime refuses."""
    name = f"fallen-{world.store[:4]}"
    async with world.hosting(ledger) as host, faking(world, name) as fallen:
        async with world.client(name) as mine:
            url = f"{host.url}/v1/providers"
            assert (await call(mine, "POST", url, fallen.registration))[0] == 201
        assert (await host.runtime.invoke(name, ECHO, {})).state == "completed"
        world.authority.revoke(name, "key-compromise")
        async with Client(tls=client_context(world.identity(name), world.trust)) as mine:
            with pytest.raises(WireError):
                await call(mine, "POST", url, fallen.registration)
    async with world.hosting(ledger) as host:
        done = await host.runtime.invoke(name, ECHO, {})
        assert done.state == "failed"
        assert len(fallen.received) == 1
    assert_whole(ledger)


@on_loop
async def test_nobody_on_the_way_reads_or_changes_anything(world: World, ledger: Ledger) -> None:
    """S003-8.5-2: authenticated, integrity-protected, confidential transport."""
    name, secret = "what-is-asked", "what-is-answered"
    async with world.hosting(ledger) as host, faking(world) as fake, tapped(fake.registration) as (tap, through):
        runtime = host.runtime
        runtime.registry.register(through)
        done = await runtime.invoke("fake", ECHO, {name: secret})
        assert done.output == {name: secret}
        opened = await runtime.invoke("fake", ECHO, {name: secret}, semantics="streaming")
        assert [item async for item in runtime.stream(opened)]
        assert len(tap.seen) > 2_000
        for text in (name, secret, done.id, opened.id, ECHO):
            assert text.encode() not in tap.seen
        tap.tamper = True
        bad = await runtime.invoke("fake", ECHO, {name: secret}, deadline_s=5)
        assert (bad.state, bad.output) == ("failed", None)
        # Whoever sits on the wire cannot put the blame on the provider.
        assert flags(ledger) == []
        tap.tamper = False
        assert (await runtime.invoke("fake", ECHO, {})).state == "completed"
    assert_whole(ledger)


@on_loop
async def test_plain_text_gets_no_answer(world: World, ledger: Ledger) -> None:
    """S003-8.5-2: nothing without TLS."""
    async with world.hosting(ledger) as host, echo_provider().running(world.settings("echo", host.url)) as registration:
        for url in (host.url, registration.base_url):
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/providers HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            try:
                response = await reader.read(100)
            except ConnectionError:
                response = b""
            assert b"HTTP" not in response
            writer.close()
            await until(writer.is_closing)
    assert_whole(ledger)


@on_loop
async def test_traffic_is_never_plain_unless_allowed_by_name(world: World, ledger: Ledger) -> None:
    """S003-8.5-2: plain HTTP only to hosts allowed by name, and recorded."""
    async with world.hosting(ledger, plain_http=frozenset(["models.lan"])) as host:
        registry = host.runtime.registry
        far = world.registration("far", "http://far.example:80", identity="")
        with pytest.raises(ContractError, match="plain_http") as caught:
            registry.register(far)
        assert caught.value.code == "plain_http"
        registry.register(world.registration("lan", "http://models.lan:80", identity=""))
        registry.register(world.registration("near", "http://127.0.0.1:1", identity=""))
        events = [event for event in ledger.events("registry") if event.type == "upstream.allowed"]
        assert [event.payload for event in events] == [{"provider": "lan", "host": "models.lan"}]
    assert_whole(ledger)


@on_loop
async def test_a_profile_may_demand_identities(world: World, ledger: Ledger) -> None:
    """S003-8.5-3, MP-P7: a profile may require identities of providers in the same process too."""
    strict = ComplianceProfile("strict", require_identity=True)
    async with world.hosting(ledger, profile=strict) as host:
        bare = world.registration("bare", "", identity="", signing_key="")
        with pytest.raises(ContractError, match="identity") as caught:
            host.runtime.registry.register(bare)
        assert caught.value.code == "identity_required"
        assert list_providers(host.runtime.ledger) == []
        async with echo_provider().running(world.settings("echo", host.url)):
            assert (await host.runtime.invoke("echo", ECHO, {})).state == "completed"
    assert_whole(ledger)
