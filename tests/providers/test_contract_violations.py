"""The owp specification (docs/spec/owp.md), 8.5 Violations: over mutual TLS, on both stores."""

from typing import Any

import msgspec
import pytest

from modelpact.ledger import CostLine, Ledger
from modelpact.providers.contract import ComplianceProfile, ContractError, Offer, Rate
from modelpact.wire import HttpResponse
from tests.providers.fake_provider import Behaviour, Fake, Message, answer_body, faking
from tests.providers.faulty_behaviours import forged
from tests.providers.support import ANY, ECHO, World, assert_whole, call, flags, on_loop, settling

PRICED: dict[str, Any] = {
    "offers": (Offer(ECHO, ANY, ANY, ("sync", "async"), rates=(Rate("discrete", 2_000_000),)),),
    "units": ("discrete", "currency"),
    "currency": "USD",
}


def charging(amount: int) -> Behaviour:
    async def charges(fake: Fake, message: Message) -> HttpResponse:
        lines = [CostLine("discrete", 1), CostLine("currency", amount, "USD")]
        return fake.answer(message["invocationId"], {}, fields={"cost": lines})

    return charges


async def not_an_object(fake: Fake, message: Message) -> HttpResponse:
    return fake.answer(message["invocationId"], "not an object")


@on_loop
async def test_money_is_recomputed_from_the_registered_rates(world: World, ledger: Ledger) -> None:
    """S003-8.5-6, S003-8.5-7: a misrepresented cost is flagged."""
    async with world.hosting(ledger) as host, faking(world, **PRICED) as fake, world.client("fake") as mine:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = charging(2_000)
        good = await host.runtime.invoke("fake", ECHO, {})
        assert (good.state, flags(ledger)) == ("completed", [])
        fake.behaviour = charging(2_001)
        bad = await host.runtime.invoke("fake", ECHO, {})
        assert flags(ledger) == [("fake", "misstated_cost")]
        flagged = ledger.events("registry")[-1]
        assert flagged.cause == bad.settled_by
        assert "2001" in flagged.payload["detail"]
        # Corrections are held to the same rates.
        wrong = [{"unit": "discrete", "amount": 2}, {"unit": "currency", "amount": 1}]
        wrong[1]["currency"] = "USD"
        message = {"id": "c", "invocationId": good.id, "cost": wrong}
        body = msgspec.json.encode(message)
        status, response = await call(
            mine, "POST", f"{host.url}/v1/costs/corrections", body, fake.headers(good.id, body, 2)
        )
        assert (status, response["error"]["violation"]) == (403, "misstated_cost")
    assert flags(ledger) == [("fake", "misstated_cost")] * 2
    assert_whole(ledger)


STRICT = ComplianceProfile("strict", on_deregistration="cancel", on_violation="deregister")


@pytest.mark.parametrize("profile", [ComplianceProfile(), STRICT], ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    ("behaviour", "violation", "settled"),
    [
        (charging(1), "misstated_cost", "completed"),
        (not_an_object, "invalid_response", "failed"),
        (forged, "forged_signature", "failed"),
    ],
)
@on_loop
async def test_violations_are_flagged_and_the_profile_decides(
    world: World, ledger: Ledger, behaviour: Behaviour, violation: str, settled: str, profile: ComplianceProfile
) -> None:
    """S003-8.5-6..9: flagged in the audit envelope; the profile decides on deregistration."""
    strict = profile == STRICT
    async with world.hosting(ledger, profile=profile) as host, faking(world, **PRICED) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        waiting = await runtime.invoke("fake", ECHO, {}, semantics="async")
        fake.behaviour = behaviour
        done = await runtime.invoke("fake", ECHO, {})
        assert done.state == settled
        assert flags(ledger) == [("fake", violation)]
        kinds = {event.type: event for event in ledger.events("registry")}
        assert kinds["provider.flagged"].cause == settling(ledger, done).id
        assert ("provider.deregistered" in kinds) is strict
        registered = runtime.registry.find("fake")
        assert registered is not None
        assert registered[1] == ("expelled" if strict else "active")
        assert runtime.find(waiting.id).state == ("cancelled" if strict else "open")
        assert fake.cancelled == ([waiting.id] if strict else [])
    assert_whole(ledger)


@on_loop
async def test_an_operator_brings_back_an_expelled_provider(world: World, ledger: Ledger) -> None:
    """S003-8.5-8: an expelled provider does not come back by itself."""
    async with world.hosting(ledger, profile=STRICT) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = not_an_object
        assert (await runtime.invoke("fake", ECHO, {})).state == "failed"
        with pytest.raises(ContractError, match="nothing is routed"):
            await runtime.invoke("fake", ECHO, {})
        status, response = await call(mine, "POST", f"{host.url}/v1/providers", fake.registration)
        assert (status, response["error"]["code"]) == (403, "expelled")
        runtime.registry.register(fake.registration)
        assert runtime.registry.active("fake")
    assert_whole(ledger)


@on_loop
async def test_a_late_violation_expels_as_well(world: World, ledger: Ledger) -> None:
    """S003-8.5-7: a late response is judged alike."""
    strict = ComplianceProfile("strict", on_deregistration="drain", on_violation="deregister")
    async with world.hosting(ledger, profile=strict) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}/response"
        body = answer_body(opened.id, {})
        answers: list[Any] = [await call(mine, "POST", url, body, fake.headers(opened.id, body)) for _ in range(2)]
        assert [status for status, _ in answers] == [200, 409]
        registered = runtime.registry.find("fake")
        assert registered is not None
        assert registered[1] == "expelled"
        assert flags(ledger) == [("fake", "answered_twice")]
    assert_whole(ledger)
