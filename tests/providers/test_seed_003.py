"""Seed 003, "The Capability Provider Contract": each MUST, over real sockets, on both stores."""

import ssl
from typing import Any

import msgspec
import pytest

from modelpact.identity import Trust, client_context
from modelpact.ledger import Attribution, CostLine, Ledger
from modelpact.providers.carrier import Partial
from modelpact.providers.contract import ContractError, Invocation, Offer, Profile
from modelpact.providers.kit import Call, Final, Provider
from modelpact.wire import Client, Outgoing, WireError
from tests.providers.fake import COST, answer_body, faking
from tests.providers.support import (
    ANY,
    ECHO,
    World,
    assert_whole,
    call,
    events_of,
    flags,
    on_loop,
    until,
)


def echo_provider(name: str = "echo") -> Provider:
    """A provider of the kit with a capability in all three semantics."""
    provider = Provider(name, "tool", units=("discrete",))

    @provider.capability(ECHO, input=ANY, output=ANY, semantics=("sync", "async", "streaming"))
    async def echo(asked: dict[str, Any], call: Call) -> Any:
        call.spend("discrete", 1)
        yield {"half": 1}
        yield {"half": 2}
        yield Final(asked)

    return provider


@on_loop
async def test_identity_is_verified_and_the_registration_persisted(
    world: World, ledger: Ledger
) -> None:
    """8.1: "MUST verify the Provider's identity" and "MUST persist the registration"."""
    async with world.hosting(ledger) as host, world.client("echo") as mine:
        url = f"{host.url}/v1/providers"
        stolen = world.registration("echo", "https://127.0.0.1:1", identity="sha256:" + "0" * 64)
        status, said = await call(mine, "POST", url, stolen)
        assert (status, said["error"]["code"]) == (403, "identity_mismatch")
        other = world.registration(
            "other", "https://127.0.0.1:1", identity=world.fingerprint("echo")
        )
        status, said = await call(mine, "POST", url, other)
        assert (status, said["error"]["code"]) == (403, "identity_mismatch")
        assert ledger.events("registry") == []
        good = world.registration("echo", "https://127.0.0.1:1")
        status, said = await call(mine, "POST", url, good)
        assert status == 201
    with Ledger.open(world.store) as again:
        rows = again.read("SELECT identity, state FROM providers WHERE id = 'echo'")
        assert rows == [(world.fingerprint("echo"), "active")]
        event = again.event(said["event"])
        assert event is not None
        assert event.payload["registration"]["signingKey"] == good.signing_key


@on_loop
async def test_after_deregistration_nothing_is_routed(world: World, ledger: Ledger) -> None:
    """8.1: "the runtime MUST cease routing invocations to it"; open ones drain or are cancelled."""
    for policy, state in (("drain", "completed"), ("cancel", "cancelled")):
        async with world.hosting(ledger) as host, faking(world) as fake:
            runtime = host.runtime
            runtime.registry.register(fake.registration)
            opened = await runtime.invoke("fake", ECHO, {"a": 1}, semantics="async")
            async with world.client("fake") as mine:
                where = f"{host.url}/v1/providers/fake?policy={policy}"
                assert (await call(mine, "DELETE", where))[0] == 200
                for semantics in ("sync", "async", "streaming"):
                    with pytest.raises(ContractError, match="nothing is routed"):
                        await runtime.invoke("fake", ECHO, {}, semantics=semantics)
                assert len(fake.heard) == 1
                body = answer_body(opened.id, {"late": True})
                headers = fake.headers(opened.id, body)
                where = f"{host.url}/v1/invocations/{opened.id}/response"
                status, _ = await call(mine, "POST", where, body, headers)
                assert status == (200 if policy == "drain" else 409)
            assert runtime.find(opened.id).state == state
            assert fake.cancelled == ([] if policy == "drain" else [opened.id])
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_semantics_are_declared_and_all_three_supported(world: World, ledger: Ledger) -> None:
    """8.2: "MUST be declared in its kind URI's schema"; "A runtime MUST support all three"."""
    async with world.hosting(ledger) as host:
        async with echo_provider().running(world.settings("echo", host.url)):
            runtime = host.runtime
            done = await runtime.invoke("echo", ECHO, {"way": "sync"})
            assert (done.state, done.output) == ("completed", {"way": "sync"})

            opened = await runtime.invoke("echo", ECHO, {"way": "async"}, semantics="async")
            came = [one async for one in runtime.signals(opened.id)]
            assert [one.content for one in came[:-1] if isinstance(one, Partial)] == [
                {"half": 1},
                {"half": 2},
            ]
            assert came[-1].output == {"way": "async"}  # type: ignore[union-attr]

            opened = await runtime.invoke("echo", ECHO, {"way": "str"}, semantics="streaming")
            came = [one async for one in runtime.stream(opened)]
            assert len(came) == 3
            assert came[-1].output == {"way": "str"}  # type: ignore[union-attr]
        one_way = Offer(ECHO, ANY, ANY, ("sync",))
        runtime.registry.register(
            world.registration("echo", "https://127.0.0.1:1", offers=(one_way,))
        )
        with pytest.raises(ContractError, match="as sync, not async") as caught:
            await runtime.invoke("echo", ECHO, {}, semantics="async")
        assert caught.value.code == "unsupported_semantics"
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_every_invocation_has_a_cost_record_in_its_event(
    world: World, ledger: Ledger
) -> None:
    """8.3: "MUST result in a Cost Record"; "MUST embed the Cost Record in the … event"."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        who = Attribution(worker="w1", intent="i1", function="f1")
        good = await runtime.invoke("fake", ECHO, {}, attribution=who)

        async def fails(fake: Any, message: Any) -> Any:
            said = {"invocationId": message["invocationId"], "error": "no", "cost": COST}
            body = msgspec.json.encode(said)
            return Outgoing(200, fake.headers(message["invocationId"], body), body)

        fake.behaviour = fails
        failed = await runtime.invoke("fake", ECHO, {})
        assert (failed.state, failed.error) == ("failed", "no")
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming")
        cancelled = await runtime.cancel(opened.id, "not needed")
        for one, kind in (
            (good, "capability.completed"),
            (failed, "capability.failed"),
            (cancelled, "capability.cancelled"),
        ):
            event = ledger.event(str(one.settled_by))
            assert event is not None
            assert event.type == kind
            assert event.payload["cost"]["lines"]
            assert event.payload["cost"]["attribution"]["provider"] == "fake"
            assert event.cause == one.event
        event = ledger.event(str(good.settled_by))
        assert event is not None
        assert event.payload["cost"]["attribution"]["worker"] == "w1"
    assert_whole(ledger)


@on_loop
async def test_cost_is_reported_in_the_registered_units(world: World, ledger: Ledger) -> None:
    """8.3: "MUST report cost … in the Cost units declared at registration"."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        for cost in (
            [{"unit": "tokens.input", "amount": 1}],
            [],
            [{"unit": "discrete", "amount": -1}],
            [{"unit": "discrete", "amount": 1.5}],
            [{"unit": "currency", "amount": 1, "currency": "USD"}],
            "free",
        ):

            async def misstates(fake: Any, message: Any, cost: Any = cost) -> Any:
                return fake.answer(message["invocationId"], {}, fields={"cost": cost})

            fake.behaviour = misstates
            before = len(flags(ledger))
            done = await runtime.invoke("fake", ECHO, {})
            event = ledger.event(str(done.settled_by))
            assert event is not None
            assert event.payload["cost"]["lines"]
            said = flags(ledger)[before:]
            assert said in ([("fake", "misstated_cost")], [("fake", "invalid_response")]), cost
    assert_whole(ledger)


@on_loop
async def test_an_estimate_is_marked_and_its_correction_refers_to_the_event(
    world: World, ledger: Ledger
) -> None:
    """8.3: "a defensible estimate, marked as such"; "MUST refer to the Envelope event"."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)

        async def estimates(fake: Any, message: Any) -> Any:
            return fake.answer(message["invocationId"], {}, fields={"estimate": True})

        fake.behaviour = estimates
        done = await runtime.invoke("fake", ECHO, {})
        event = ledger.event(str(done.settled_by))
        assert event is not None
        assert event.payload["cost"]["estimate"] is True
        correction = {
            "id": "c1",
            "invocationId": done.id,
            "cost": [{"unit": "discrete", "amount": 7}],
            "reason": "invoice",
        }
        body = msgspec.json.encode(correction)
        async with world.client("fake") as mine:
            url = f"{host.url}/v1/costs/corrections"
            first = await call(mine, "POST", url, body, fake.headers(done.id, body, 2))
            again = await call(mine, "POST", url, body, fake.headers(done.id, body, 2))
            assert first == again
            assert first[1]["corrects"] == done.settled_by
        corrected = ledger.event(first[1]["event"])
        assert corrected is not None
        assert corrected.payload["corrects"] == done.settled_by
        assert corrected.payload["cost"]["replaced"] == [{"unit": "discrete", "amount": 1}]
        found = [one for one in ledger.events(done.envelope) if one.type == "cost.corrected"]
        assert len(found) == 1
    assert_whole(ledger)


@on_loop
async def test_answers_after_a_restart_find_their_invocation(world: World) -> None:
    """8.4: "persist outstanding invocations such that responses arriving after a restart"."""
    async with faking(world) as fake, world.client("fake") as mine:
        with Ledger.open(world.store) as ledger:
            async with world.hosting(ledger) as host:
                host.runtime.registry.register(fake.registration)
                opened = await host.runtime.invoke(
                    "fake", ECHO, {"q": 1}, semantics="async", deadline_s=None
                )
        with Ledger.open(world.store) as ledger:
            async with world.hosting(ledger) as host:
                where = f"{host.url}/v1/invocations/{opened.id}"
                status, said = await call(mine, "GET", where)
                assert (status, said["state"]) == (200, "open")
                body = answer_body(opened.id, {"after": "restart"})
                status, said = await call(
                    mine, "POST", f"{where}/response", body, fake.headers(opened.id, body)
                )
                assert (status, said["state"]) == (200, "completed")
                done = host.runtime.find(opened.id)
                assert done.output == {"after": "restart"}
                origin = ledger.why(str(done.settled_by))
                assert [one.id for one in origin] == [done.settled_by, opened.event]
                assert len(fake.heard) == 1
                assert flags(ledger) == []
                assert_whole(ledger)


@on_loop
async def test_the_opaque_id_is_on_every_response(world: World, ledger: Ledger) -> None:
    """8.4: "MUST attach this ID to all responses, partial and final"."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        seen = set()
        for _ in range(5):
            done = await runtime.invoke("fake", ECHO, {})
            assert fake.heard[-1]["invocationId"] == done.id
            seen.add(done.id)
        assert len(seen) == 5

        async def nameless(fake: Any, message: Any) -> Any:
            body = b'{"output": {}, "cost": [{"unit": "discrete", "amount": 1}]}'
            return Outgoing(200, fake.headers(message["invocationId"], body), body)

        fake.behaviour = nameless
        done = await runtime.invoke("fake", ECHO, {})
        assert done.state == "failed"
        assert "invocationId" in str(done.error)
    assert flags(ledger) == [("fake", "invalid_response")]


@on_loop
async def test_both_sides_authenticate(world: World, ledger: Ledger) -> None:
    """8.5: "MUST mutually authenticate"; each "MUST hold a verified identity" of the other."""
    async with world.hosting(ledger) as host:
        # A client without a certificate gets no connection.
        bare = ssl.create_default_context(cafile=str(world.authority.certificate))
        async with Client(tls=bare) as nobody:
            with pytest.raises(WireError):
                await call(nobody, "POST", f"{host.url}/v1/providers", {})
        provider = echo_provider()
        async with provider.running(world.settings("echo", host.url)) as registration:
            assert registration.identity == world.fingerprint("echo")
            # The provider answers a verified runtime only: another provider is none.
            url = f"{registration.base_url}/invocations"
            async with world.client("other") as other:
                with pytest.raises(WireError):
                    await call(other, "POST", url, {})
            # The runtime calls only who has the pinned key.
            async with faking(world, "echo", certificate="impostor") as impostor:
                moved = world.registration("echo", impostor.registration.base_url)
                host.runtime.registry.register(moved)
                done = await host.runtime.invoke("echo", ECHO, {})
                assert done.state == "failed"
                assert impostor.heard == []
    assert flags(ledger) == [("echo", "wrong_identity")]
    assert_whole(ledger)


@on_loop
async def test_a_provider_refuses_a_runtime_that_is_not_pinned(
    lite: World, lite_ledger: Ledger
) -> None:
    """8.5: "Either party MAY refuse a request whose authentication is invalid"."""
    lite.identity("main", "runtime")
    lite.identity("second", "runtime")
    async with lite.hosting(lite_ledger) as host:
        settings = lite.settings("echo", host.url)
        pinned = msgspec.structs.replace(settings, runtime_pin=lite.fingerprint("main"))
        async with echo_provider().running(pinned) as registration:
            done = await host.runtime.invoke("echo", ECHO, {"a": 1})
            assert done.state == "completed"
            trust = Trust(lite.authority.certificate)
            async with Client(tls=client_context(lite.identity("second"), trust)) as second:
                with pytest.raises(WireError):
                    await call(second, "POST", f"{registration.base_url}/invocations", {})


@on_loop
async def test_traffic_is_never_plain_unless_allowed_by_name(world: World, ledger: Ledger) -> None:
    """8.5: "REQUIRES authenticated, integrity-protected, confidential transport"."""
    async with world.hosting(ledger, plain_http=frozenset(["models.lan"])) as host:
        registry = host.runtime.registry
        far = world.registration("far", "http://far.example:80", identity="")
        with pytest.raises(ContractError, match="plain_http") as caught:
            registry.register(far)
        assert caught.value.code == "plain_http"
        registry.register(world.registration("lan", "http://models.lan:80", identity=""))
        registry.register(world.registration("near", "http://127.0.0.1:1", identity=""))
        told = [one for one in ledger.events("registry") if one.type == "upstream.allowed"]
        assert [one.payload for one in told] == [{"provider": "lan", "host": "models.lan"}]


@on_loop
async def test_violations_are_flagged_and_the_profile_decides(world: World, ledger: Ledger) -> None:
    """8.5: "MUST be flagged in the Audit Envelope and MAY be deregistered by the runtime"."""
    strict = Profile("strict", on_deregistration="cancel", on_violation="deregister")
    async with world.hosting(ledger, profile=strict) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        waiting = await runtime.invoke("fake", ECHO, {}, semantics="async")

        async def wrong(fake: Any, message: Any) -> Any:
            return fake.answer(message["invocationId"], "not an object")

        fake.behaviour = wrong
        done = await runtime.invoke("fake", ECHO, {})
        assert done.state == "failed"
        assert "invalid response" in str(done.error)
        assert flags(ledger) == [("fake", "invalid_response")]
        found = runtime.registry.find("fake")
        assert found is not None
        assert found[1] == "expelled"
        assert runtime.find(waiting.id).state == "cancelled"
        assert fake.cancelled == [waiting.id]
        with pytest.raises(ContractError, match="nothing is routed"):
            await runtime.invoke("fake", ECHO, {})
        async with world.client("fake") as mine:
            status, said = await call(mine, "POST", f"{host.url}/v1/providers", fake.registration)
            assert (status, said["error"]["code"]) == (403, "expelled")
        runtime.registry.register(fake.registration)
        assert runtime.registry.active("fake")
    assert_whole(ledger)


@on_loop
async def test_a_profile_may_demand_identities(lite: World, lite_ledger: Ledger) -> None:
    """8.5: "Compliance Profiles MAY require" more."""
    strict = Profile("strict", require_identity=True)
    async with lite.hosting(lite_ledger, profile=strict) as host:
        bare = lite.registration("bare", "", identity="", signing_key="")
        with pytest.raises(ContractError, match="identity"):
            host.runtime.registry.register(bare)


@on_loop
async def test_inputs_are_checked_before_anything_is_recorded(
    lite: World, lite_ledger: Ledger
) -> None:
    schema = {"type": "object", "required": ["city"]}
    offer = Offer(ECHO, schema, ANY)
    async with lite.hosting(lite_ledger) as host, faking(lite, offers=(offer,)) as fake:
        host.runtime.registry.register(fake.registration)
        for value in ({}, "text", {"city": float("nan")}, {"city": object()}):
            with pytest.raises(ContractError):
                await host.runtime.invoke("fake", ECHO, value)
        assert host.runtime.listed() == []
        assert fake.heard == []


@on_loop
async def test_money_is_recomputed_from_the_registered_rates(
    lite: World, lite_ledger: Ledger
) -> None:
    """8.5: "misrepresents Cost"."""
    from modelpact.providers.contract import Rate

    offer = Offer(ECHO, ANY, ANY, rates=(Rate("discrete", 2_000_000),))
    units = ("discrete", "currency")
    async with (
        lite.hosting(lite_ledger) as host,
        faking(lite, offers=(offer,), units=units, currency="USD") as fake,
    ):
        host.runtime.registry.register(fake.registration)
        for amount in (2_000, 2_001):

            async def charges(fake: Any, message: Any, amount: int = amount) -> Any:
                lines = [
                    CostLine("discrete", 1),
                    CostLine("currency", amount, "USD"),
                ]
                return fake.answer(message["invocationId"], {}, fields={"cost": lines})

            fake.behaviour = charges
            done = await host.runtime.invoke("fake", ECHO, {})
            assert done.state == "completed"
    assert flags(lite_ledger) == [("fake", "misstated_cost")]


@on_loop
async def test_idempotency_keys_give_the_same_invocation(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        first = await runtime.invoke("fake", ECHO, {"a": 1}, idempotency_key="k")
        again = await runtime.invoke("fake", ECHO, {"a": 1}, idempotency_key="k")
        assert first == again
        assert len(fake.heard) == 1
        with pytest.raises(ContractError, match="another invocation") as caught:
            await runtime.invoke("fake", ECHO, {"a": 2}, idempotency_key="k")
        assert caught.value.code == "idempotency_conflict"


@on_loop
async def test_humans_are_reminded_and_deadlines_kept_by_any_runtime(
    world: World, ledger: Ledger
) -> None:
    from modelpact.providers.human import ASK, human_registration

    async with world.hosting(ledger, name="first") as one:
        one.runtime.registry.register(human_registration())
        opened = await one.runtime.invoke(
            "human", ASK, {"question": "?"}, semantics="async", deadline_s=0.6, remind_every_s=0.1
        )
        assert isinstance(opened, Invocation)
    # The runtime that opened it is gone; another one on the store keeps time.
    async with world.hosting(ledger, name="second") as two:
        done = await until(
            lambda: (found := two.runtime.find(opened.id)).state == "failed" and found
        )
        assert "deadline" in str(done.error)
    kinds = [one.type for one in events_of(ledger, opened)]
    assert kinds.count("capability.reminded") >= 1
    assert kinds[-1] == "capability.failed"
    assert_whole(ledger)


@on_loop
async def test_a_stream_asked_for_twice_runs_once(lite: World, lite_ledger: Ledger) -> None:
    async with (
        lite.hosting(lite_ledger) as host,
        echo_provider().running(lite.settings("echo", host.url)),
    ):
        runtime = host.runtime
        how: Any = {"semantics": "streaming", "idempotency_key": "k"}
        first = await runtime.invoke("echo", ECHO, {"a": 1}, **how)
        again = await runtime.invoke("echo", ECHO, {"a": 1}, **how)
        assert first.id == again.id
        one = [piece async for piece in runtime.stream(first)]
        two = [piece async for piece in runtime.stream(again)]
        assert one == two
        assert len(one) == 3
    assert_whole(lite_ledger)


def test_deadlines_hold_without_a_host(lite_ledger: Ledger) -> None:
    import asyncio

    from modelpact.providers.human import ASK, human_registration
    from modelpact.providers.runtime import Runtime

    async def main() -> None:
        runtime = Runtime(lite_ledger)
        runtime.registry.register(human_registration())
        asked = await runtime.invoke(
            "human", ASK, {"question": "?"}, semantics="async", deadline_s=0.1
        )
        done = await runtime.wait(asked.id)
        assert str(done.error).startswith("deadline")

    asyncio.run(asyncio.wait_for(main(), 10))
