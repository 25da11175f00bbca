"""The owp specification (docs/spec/owp.md), 8.1 Lifecycle: over mutual TLS, on both stores."""

from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.providers.contract import ComplianceProfile, ContractError, Offer, Rate
from modelpact.providers.runtime.registry import list_providers
from tests.providers.fake_provider import COST, answer_body, faking
from tests.providers.support import ANY, ECHO, World, assert_whole, call, echo_provider, flags, on_loop, settling, until

NOWHERE = "https://127.0.0.1:1"


@on_loop
async def test_a_registration_presents_all_that_the_runtime_needs(world: World, ledger: Ledger) -> None:
    """S003-8.1-2: identity, capabilities, schemas, prices, currency, units."""
    offer = Offer(ECHO, {"type": "object"}, {"type": "object"}, rates=(Rate("discrete", 5),))
    good = world.registration("shop", NOWHERE, offers=(offer,), units=("discrete", "currency"), currency="EUR")
    registration = msgspec.to_builtins(good)
    change: dict[str, Any]
    async with world.hosting(ledger) as host, world.client("shop") as mine:
        for change in (
            {"identity": ""},
            {"signingKey": ""},
            {"offers": []},
            {"offers": [{**registration["offers"][0], "input": {"type": "nonsense"}}]},
            {"offers": [{**registration["offers"][0], "kind": "no uri"}]},
            {"units": []},
            {"currency": ""},
            {"units": ["discrete"], "currency": ""},  # prices, and no money to name them in
        ):
            status, response = await call(mine, "POST", f"{host.url}/v1/providers", {**registration, **change})
            assert status in (400, 403), change
            assert response["error"]["message"]
        assert list_providers(host.runtime.ledger) == []
        assert (await call(mine, "POST", f"{host.url}/v1/providers", registration))[0] == 201
        assert host.runtime.registry.active("shop").registration == good
    assert_whole(ledger)


@on_loop
async def test_identity_is_verified_and_the_registration_persisted(world: World, ledger: Ledger) -> None:
    """S003-8.1-3, S003-8.1-4: the identity is verified and the registration persisted."""
    async with world.hosting(ledger) as host, world.client("echo") as mine:
        url = f"{host.url}/v1/providers"
        stolen = world.registration("echo", NOWHERE, identity="sha256:" + "0" * 64)
        status, response = await call(mine, "POST", url, stolen)
        assert (status, response["error"]["code"]) == (403, "identity_mismatch")
        other = world.registration("other", NOWHERE, identity=world.fingerprint("echo"))
        status, response = await call(mine, "POST", url, other)
        assert (status, response["error"]["code"]) == (403, "identity_mismatch")
        assert ledger.events("registry") == []
        good = world.registration("echo", NOWHERE)
        status, response = await call(mine, "POST", url, good)
        assert status == 201
    with Ledger.open(world.store) as again:
        async with world.hosting(again) as host:
            assert host.runtime.registry.active("echo").registration == good
        event = again.event(response["event"])
        assert event is not None
        assert good.signing_key in event.payload["registration"]


@pytest.mark.parametrize("category", ["model", "tool", "knowledge", "human"])
@on_loop
async def test_every_invocable_kind_is_registered_invoked_and_paid(world: World, ledger: Ledger, category: str) -> None:
    """S003-8-3, S003-8.1-5: model, tool, knowledge and human providers receive invocations and
    respond.
    """
    async with world.hosting(ledger) as host, faking(world, category=category) as fake, world.client("fake") as mine:
        url = f"{host.url}/v1/providers"
        assert (await call(mine, "POST", url, fake.registration))[0] == 201
        done = await host.runtime.invoke("fake", ECHO, {"asked": category})
        assert done.output == {"asked": category}
        assert fake.received[0]["invocationId"] == done.id
        assert settling(ledger, done).payload["cost"]["lines"] == COST
    assert_whole(ledger)


@on_loop
async def test_a_provider_may_emit_signals_too(world: World, ledger: Ledger) -> None:
    """S003-8.1-6: a provider may also emit signals."""
    provider = echo_provider(max_latency_ms=30_000)
    async with world.hosting(ledger) as host, provider.running(world.settings("echo", host.url)):
        await provider.emit("echo.woke", {"n": 1})
        done = await host.runtime.invoke("echo", ECHO, {"a": 1})
        await provider.emit("echo.slept", {"n": 2})
        assert done.state == "completed"
        assert [event.type for event in host.runtime.signal_inbox.after("echo")] == ["echo.woke", "echo.slept"]
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_signal_sources_share_lifecycle_trust_and_cost(world: World, ledger: Ledger) -> None:
    """S003-8-3..5: signal sources share lifecycle, trust and cost, and cannot be invoked."""
    async with (
        world.hosting(ledger) as host,
        faking(world, "pulse", category="signal-source", offers=(), max_latency_ms=9_000) as fake,
        world.client("pulse") as mine,
    ):

        async def emit(number: int, *, signed: bool = True) -> Any:
            name = f"s{number}"
            content = {"source": "pulse", "id": name, "number": number, "type": "pulse.beat"}
            body = msgspec.json.encode({**content, "emitted": 1, "content": {}, "cost": COST})
            headers = fake.headers(f"pulse/{name}", body, number) if signed else ()
            return await call(mine, "POST", f"{host.url}/v1/signals", body, headers)

        assert (await emit(1))[0] == 403, "not registered yet"
        url = f"{host.url}/v1/providers"
        assert (await call(mine, "POST", url, fake.registration))[0] == 201
        assert (await emit(1, signed=False))[0] == 403
        assert flags(ledger) == [("pulse", "unsigned_response")]
        status, response = await emit(1)
        assert status == 200
        event = ledger.event(response["event"])
        assert event is not None
        assert event.payload["cost"]["lines"] == COST
        with pytest.raises(ContractError) as caught:
            await host.runtime.invoke("pulse", ECHO, {})
        assert caught.value.code == "unknown_capability"
        assert (await call(mine, "DELETE", f"{url}/pulse"))[0] == 200
        status, response = await emit(2)
        assert (status, response["error"]["code"]) == (409, "provider_deregistered")
    assert_whole(ledger)


@pytest.mark.parametrize(("policy", "state"), [("drain", "completed"), ("cancel", "cancelled")])
@pytest.mark.parametrize("by", ["request", "profile"])
@on_loop
async def test_after_deregistration_nothing_is_routed(
    world: World, ledger: Ledger, by: str, policy: Any, state: str
) -> None:
    """S003-8.1-7..10: no routing after deregistration; open invocations end as policy and profile
    say.
    """
    profile = ComplianceProfile("p", on_deregistration=policy) if by == "profile" else None
    async with world.hosting(ledger, profile=profile) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {"a": 1}, semantics="async")
        query = f"?policy={policy}" if by == "request" else ""
        url = f"{host.url}/v1/providers/fake{query}"
        assert (await call(mine, "DELETE", url))[0] == 200
        for semantics in ("sync", "async", "streaming"):
            with pytest.raises(ContractError, match="nothing is routed"):
                await runtime.invoke("fake", ECHO, {}, semantics=semantics)
        assert len(fake.received) == 1
        body = answer_body(opened.id, {"late": True})
        headers = fake.headers(opened.id, body)
        url = f"{host.url}/v1/invocations/{opened.id}/response"
        status, _ = await call(mine, "POST", url, body, headers)
        assert status == (200 if policy == "drain" else 409)
        assert runtime.find(opened.id).state == state
        assert fake.cancelled == ([] if policy == "drain" else [opened.id])
        assert fake.gone == [], "it knows"
    with Ledger.open(world.store) as again:
        async with world.hosting(again) as host:
            with pytest.raises(ContractError, match="nothing is routed"):
                await host.runtime.invoke("fake", ECHO, {})
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_of_the_sdk_goes_through_all_three_phases(world: World, ledger: Ledger) -> None:
    """S003-8-1, S003-8-2, S003-8.1-1: the interface, and the three phases of the lifecycle."""
    async with world.hosting(ledger) as host:
        registry = host.runtime.registry
        async with world.example("knowledge_sync.py", "library", host.url):
            await until(lambda: registry.find("library"))
            done = await host.runtime.invoke("library", "urn:example:passages", {"query": "cost"})
            assert done.state == "completed"
        # It was told to end, and deregistered itself before it did.
        with pytest.raises(ContractError, match="nothing is routed"):
            registry.active("library")
    kinds = [event.type for event in ledger.events("registry")]
    assert kinds == ["provider.registered", "provider.deregistered"]
    assert_whole(ledger)


@on_loop
async def test_only_the_provider_itself_deregisters(world: World, ledger: Ledger) -> None:
    """S003-8.1-7: a provider deregisters itself, not another."""
    async with world.hosting(ledger) as host, world.client("rival") as theirs:
        host.runtime.registry.register(world.registration("echo", NOWHERE))
        host.runtime.registry.register(world.registration("rival", NOWHERE))
        status, response = await call(theirs, "DELETE", f"{host.url}/v1/providers/echo")
        assert (status, response["error"]["code"]) == (403, "not_yours")
        assert host.runtime.registry.active("echo").registration.offers == (
            Offer(ECHO, ANY, ANY, ("sync", "async", "streaming")),
        )
