"""Attacks on the routes of a runtime over real mutual TLS: names, addresses, floods."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.identity import SIGNATURE_HEADER, Identity, fingerprint, sign_body
from modelpact.identity import certificates as make
from modelpact.identity.tls import client_context
from modelpact.ledger import CostLine, Draft, Ledger
from modelpact.providers.contract import Invocation, Registration
from modelpact.providers.http import RuntimeHost
from modelpact.providers.runtime.registry import list_providers
from modelpact.providers.transport import Accepted
from modelpact.wire import Client
from tests.identity.conftest import der
from tests.providers.support import ECHO, World, assert_whole, call, echo_provider, flags, on_loop

COST = [{"unit": "discrete", "amount": 1}]


class Promising:
    async def send(self, registration: Registration, invocation: Invocation) -> Accepted:
        return Accepted(invocation.id)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        return


def without_a_name(world: World, folder: Path, name: str) -> Identity:
    """Return a certificate of the trusted authority with a URI of another company."""
    from cryptography.hazmat.primitives.serialization import Encoding

    root, root_key = world.authority._root()
    key = make.new_key()
    leaf = make.make_leaf(
        root,
        root_key,
        key.public_key(),
        name=name,
        uri=f"spiffe://corp/{name}",
        hosts=["127.0.0.1"],
        now=datetime.datetime.now(datetime.UTC).replace(microsecond=0),
        days=9,
    )
    path = folder / f"{name}.pem"
    path.write_bytes(make.key_to_pem(key) + leaf.public_bytes(Encoding.PEM))
    path.chmod(0o600)
    return Identity(path)


@asynccontextmanager
async def hosted(world: World, ledger: Ledger, **more: Any) -> AsyncIterator[RuntimeHost]:
    """A runtime whose providers all acknowledge."""
    async with world.hosting(ledger, **more) as host:
        host.runtime.transports.default = Promising()  # type: ignore[assignment]
        yield host


def answer(world: World, ring: str, invocation: Invocation, output: Any = None) -> Any:
    body = msgspec.json.encode({"invocationId": invocation.id, "output": output or {}, "cost": COST})
    header = sign_body(world.keyring(ring), invocation.id, body, sequence=1)
    return body, ((SIGNATURE_HEADER, header),)


@on_loop
async def test_a_deregistered_name_stays_reserved(world: World, ledger: Ledger, tmp_path: Path) -> None:
    """S003-8.5-3: the verified identity of a provider outlives its deregistration."""
    other = without_a_name(world, tmp_path, "evil")
    async with (
        hosted(world, ledger) as host,
        world.client("victim") as victim,
        Client(tls=client_context(other, world.trust)) as evil,
    ):
        url, runtime = f"{host.url}/v1/providers", host.runtime
        mine = world.registration("victim", "https://127.0.0.1:1")
        assert (await call(victim, "POST", url, mine))[0] == 201
        opened = await runtime.invoke("victim", ECHO, {}, semantics="async", deadline_s=None)
        assert (await call(victim, "DELETE", f"{url}/victim"))[0] == 200
        theirs = msgspec.structs.replace(
            mine,
            identity=fingerprint(der(other.certificate)),
            signing_key=world.keyring("evil").public_keys.current.raw.hex(),
        )
        status, response = await call(evil, "POST", url, theirs)
        assert (status, response["error"]["code"]) == (403, "identity_mismatch")
        # Nor does it get a name that was never registered, without an operator.
        fresh = msgspec.structs.replace(theirs, id="fresh")
        status, response = await call(evil, "POST", url, fresh)
        assert (status, response["error"]["code"]) == (403, "identity_mismatch")
        assert "an operator registers you first" in response["error"]["message"]
        # An operator gives the name away: what was asked of the victim stays the victim's.
        await runtime.deregister("victim", release=True)
        runtime.registry.register(theirs)
        path = f"{host.url}/v1/invocations/{opened.id}/response"
        status, response = await call(evil, "POST", path, *answer(world, "evil", opened, {"x": 1}))
        assert (status, response["error"]["code"]) == (404, "unknown_invocation")
        assert flags(ledger) == [("victim", "foreign_invocation")]
        right = answer(world, "victim", opened, {"x": 2})
        assert (await call(victim, "POST", path, *right))[0] == 200
        assert runtime.find(opened.id).output == {"x": 2}
        # Registered by an operator, it comes back by itself.
        assert (await call(evil, "POST", url, theirs))[0] == 201
    assert_whole(ledger)


@on_loop
async def test_a_late_response_must_match_the_registration_that_was_invoked(world: World, ledger: Ledger) -> None:
    """S003-8.3-3: the schema and the units are those of the registration that was invoked."""
    async with hosted(world, ledger) as host, world.client("late") as client:
        url = f"{host.url}/v1/providers"
        before = world.registration("late", "https://127.0.0.1:1")
        assert (await call(client, "POST", url, before))[0] == 201
        opened = await host.runtime.invoke("late", ECHO, {}, semantics="async", deadline_s=None)
        other = msgspec.structs.replace(before.offers[0], kind="urn:test:other")
        after = msgspec.structs.replace(before, offers=(other,), units=("tokens.input",))
        assert (await call(client, "POST", url, after))[0] == 201
        path = f"{host.url}/v1/invocations/{opened.id}/response"
        assert (await call(client, "POST", path, *answer(world, "late", opened)))[0] == 200
        assert host.runtime.find(opened.id).state == "completed"
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_with_an_identity_cannot_register_a_plain_address(world: World, ledger: Ledger) -> None:
    """S003-8.5-2: a provider with an identity is reached over TLS."""
    async with world.hosting(ledger) as host, world.client("odd") as client:
        for url, recorded in (
            ("http://127.0.0.1:1/admin/delete", "only proven with TLS: use https"),
            ("http://[::1", "cannot be requested"),
            ("https://[::1", "cannot be requested"),
            ("https://localhost:99999", "expected 1 to 65535"),
            ("https://a\x1b[31mb", "cannot be requested"),
            ("https://127.0.0.1:80\\@evil/", "expected https://HOST:PORT"),
        ):
            mine = world.registration("odd", url)
            status, response = await call(client, "POST", f"{host.url}/v1/providers", mine)
            assert (status, response["error"]["code"]) == (400, "invalid_request"), url
            assert recorded in response["error"]["message"]
    assert list_providers(host.runtime.ledger) == []


@on_loop
async def test_a_refusal_is_recorded_without_secrets(world: World, ledger: Ledger) -> None:
    """S003-8.5-2: the text of a refusal is redacted before it is recorded."""
    secret = "sk-" + "a1B2" * 8

    async def admin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        parts = f"key {secret}\x00".encode()
        writer.write(b"HTTP/1.1 403 no\r\ncontent-length: %d\r\n\r\n%b" % (len(parts), parts))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(admin, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with world.hosting(ledger) as host:
        near = world.registration("near", f"http://127.0.0.1:{port}", identity="")
        host.runtime.registry.register(near)
        done = await host.runtime.invoke("near", ECHO, {})
        assert done.state == "failed"
        assert "status 403: key [REDACTED]" in str(done.error)
    server.close()
    assert_whole(ledger)


@on_loop
async def test_a_deregistration_is_for_its_own_registration(world: World, ledger: Ledger) -> None:
    """S003-8.1-7: a provider that restarts before its predecessor ends stays registered."""
    async with world.hosting(ledger) as host:
        settings = world.settings("rolling", host.url)
        old, new = echo_provider("rolling"), echo_provider("rolling")
        async with old.running(settings), new.running(settings) as standing:
            await old._connected().deregister("rolling", old._event)
            assert host.runtime.registry.find("rolling") == (standing, "active")
            assert (await host.runtime.invoke("rolling", ECHO, {"a": 1})).state == "completed"
            url = f"{host.url}/v1/providers/rolling?event={old._event}"
            async with world.client("rolling") as client:
                status, response = await call(client, "DELETE", url)
            assert (status, response["error"]["code"]) == (409, "superseded")
            await new._connected().deregister("rolling", new._event)
            assert list_providers(host.runtime.ledger) == [(standing, "deregistered")]
    assert_whole(ledger)


def correction(world: World, ring: str, invocation: Invocation, name: str, amount: int) -> Any:
    cost = [{"unit": "discrete", "amount": amount}]
    body = msgspec.json.encode({"id": name, "invocationId": invocation.id, "cost": cost})
    return body, ((SIGNATURE_HEADER, sign_body(world.keyring(ring), invocation.id, body, sequence=2)),)


@on_loop
async def test_a_correction_counts_once(world: World, ledger: Ledger) -> None:
    """S003-8.3-6: repeating a correction with the same id changes nothing."""
    async with hosted(world, ledger) as host, world.client("names") as client:
        url, runtime = f"{host.url}/v1/costs/corrections", host.runtime
        runtime.registry.register(world.registration("names", "https://127.0.0.1:1"))
        opened = await runtime.invoke("names", ECHO, {}, semantics="async", deadline_s=None, envelope="one")
        path = f"{host.url}/v1/invocations/{opened.id}/response"
        assert (await call(client, "POST", path, *answer(world, "names", opened)))[0] == 200
        for name in ("", "x" * 201, "a\x00b"):
            sent = correction(world, "names", opened, name, 10)
            status, response = await call(client, "POST", url, *sent)
            assert (status, response["error"]["code"]) == (400, "invalid_request")
            assert "correction.id: expected 1 to 200 visible" in response["error"]["message"]
        for name, amount in (("x" * 199 + "1", 20), ("x" * 199 + "2", 30), ("x" * 199 + "1", 20)):
            sent = correction(world, "names", opened, name, amount)
            assert (await call(client, "POST", url, *sent))[0] == 200
        cost = runtime.cost(opened.id)
        assert cost is not None
        assert cost.lines == (CostLine("discrete", 30),)
        # An archived envelope takes none, and says so for good: the kit does not try again.
        ledger.append(Draft("one", "envelope.archived", {"events": 4, "file": "", "reason": ""}))
        status, response = await call(client, "POST", url, *correction(world, "names", opened, "z", 1))
        assert (status, response["error"]["code"]) == (409, "closed")


@pytest.mark.parametrize("field", ["emitted", "number"])
@on_loop
async def test_signals_with_an_invalid_time_or_number_are_refused(lite: World, field: str) -> None:
    """S003-8.1-6: an invalid signal is an error that the source does not retry."""
    with Ledger.open(lite.store) as ledger:
        async with lite.hosting(ledger) as host, lite.client("timeless") as client:
            source = lite.registration("timeless", "https://127.0.0.1:1", max_latency_ms=1_000)
            host.runtime.registry.register(source)
            message = {"emitted": 1, "number": 1, field: -(2**62) if field == "number" else 2**62}
            body = msgspec.json.encode(
                {"source": "timeless", "id": "s", "type": "a.b", "content": {}, "cost": COST} | message
            )
            sequence = max(0, message["number"])
            header = sign_body(lite.keyring("timeless"), "timeless/s", body, sequence=sequence)
            sent = body, ((SIGNATURE_HEADER, header),)
            status, response = await call(client, "POST", f"{host.url}/v1/signals", *sent)
            assert status in (400, 403), response
            if field == "emitted":
                assert response["error"]["code"] == "invalid_request"


@on_loop
async def test_a_provider_does_not_flood_the_registry(lite: World) -> None:
    """S003-8.5-7: violations are flagged, up to a limit per provider and hour."""
    with Ledger.open(lite.store) as ledger:
        async with lite.hosting(ledger) as host, lite.client("flood") as client:
            host.runtime.registry.register(lite.registration("flood", "https://127.0.0.1:1"))
            for number in range(120):
                path = f"{host.url}/v1/invocations/inv_{number}"
                assert (await call(client, "GET", path))[0] == 404
            assert len(flags(ledger)) == 100
