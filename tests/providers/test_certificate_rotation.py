"""A new certificate without deregistration: accepted only if the signing key signs it."""

from typing import Any

import msgspec

from modelpact.identity import SIGNATURE_HEADER, sign_body
from modelpact.ledger import Ledger
from modelpact.providers.contract import Registration
from tests.providers.support import ECHO, World, assert_whole, call, echo_provider, flags, on_loop


def signed(world: World, registration: Registration, ring: str, subject: str) -> Any:
    body = msgspec.json.encode(registration)
    header = sign_body(world.keyring(ring), subject, body, sequence=0)
    return body, ((SIGNATURE_HEADER, header),)


@on_loop
async def test_a_provider_rotates_its_certificate_and_stays_registered(world: World, ledger: Ledger) -> None:
    """S003-8.5-3: the identity stays verified across a rotation."""
    async with world.hosting(ledger) as host:
        settings = world.settings("turning", host.url)
        async with echo_provider("turning").running(settings) as before:
            assert (await host.runtime.invoke("turning", ECHO, {})).state == "completed"
        world.authority.rotate("turning")
        async with echo_provider("turning").running(settings) as after:
            assert after.identity != before.identity
            assert (await host.runtime.invoke("turning", ECHO, {})).state == "completed"
    kinds = [(event.type, event.payload.get("from"), event.payload.get("to")) for event in ledger.events("registry")]
    assert ("key.rotated", before.identity, after.identity) in kinds
    assert "provider.deregistered" not in [kind for kind, _, _ in kinds]
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_certificate_alone_does_not_take_over_the_name(world: World, ledger: Ledger) -> None:
    """S003-8.5-5: a request whose authentication is not valid is refused."""
    async with world.hosting(ledger) as host:
        mine = world.registration("steady", "https://127.0.0.1:1")
        host.runtime.registry.register(mine)
        world.authority.rotate("steady")
        name, thief = "providers/steady", "steady-thief"
        other = world.registration("steady", "https://127.0.0.1:2")
        assert other.identity != mine.identity
        new_key = msgspec.structs.replace(other, signing_key=world.keyring(thief).public_keys.current.raw.hex())
        async with world.client("steady") as client:
            url = f"{host.url}/v1/providers"
            for body, headers in (
                (msgspec.json.encode(other), ()),
                signed(world, other, thief, name),
                signed(world, new_key, thief, name),
                signed(world, new_key, "steady", name),
                signed(world, other, "steady", "providers/other"),
            ):
                status, response = await call(client, "POST", url, body, headers)
                assert (status, response["error"]["code"]) == (403, "identity_mismatch")
                assert "did not sign this" in response["error"]["message"]
            registered = host.runtime.registry.find("steady")
            assert registered is not None
            assert registered[0] == mine
            assert [event.type for event in ledger.events("registry")] == ["provider.registered"]
            body, headers = signed(world, other, "steady", name)
            assert (await call(client, "POST", url, body, headers))[0] == 201
