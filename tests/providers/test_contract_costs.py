"""The owp specification (docs/spec/owp.md), 8.3 Costs: over mutual TLS, on both stores."""

from typing import Any

import msgspec
import pytest

from modelpact.ledger import Attribution, CostLine, Ledger
from modelpact.providers.contract import Invocation
from modelpact.providers.sdk import CapabilityCall, Provider
from modelpact.wire import HttpResponse
from tests.providers.fake_provider import COST, Fake, Message, faking, right
from tests.providers.faulty_behaviours import breaks_down, forged, hangs
from tests.providers.support import ANY, ECHO, World, assert_whole, call, events_of, flags, on_loop, settling


async def fails(fake: Fake, message: Message) -> HttpResponse:
    """Answer with an error, as a provider may."""
    content = {"invocationId": message["invocationId"], "error": "no", "cost": COST}
    body = msgspec.json.encode(content)
    return HttpResponse(200, fake.headers(message["invocationId"], body), body)


@on_loop
async def test_every_invocation_has_a_cost_record_in_its_event(world: World, ledger: Ledger) -> None:
    """S003-8.3-1, S003-8.3-4: each invocation ends in a cost record, in its settling event."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        attribution = Attribution(worker="w1", intent="i1", function="f1")
        ended: list[tuple[Invocation, str, bool]] = []
        for behaviour, kind, estimated in (
            (right, "capability.completed", False),
            (fails, "capability.failed", False),
            (hangs, "capability.failed", True),
            (forged, "capability.failed", True),
            (breaks_down, "capability.failed", True),
        ):
            fake.behaviour = behaviour
            done = await runtime.invoke("fake", ECHO, {}, attribution=attribution, deadline_s=0.5)
            ended.append((done, kind, estimated))
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming", attribution=attribution)
        cancelled = await runtime.cancel(opened.id, "not needed")
        ended.append((cancelled, "capability.cancelled", True))
        for invocation, kind, estimated in ended:
            event = settling(ledger, invocation)
            cost = event.payload["cost"]
            assert (event.type, event.cause) == (kind, invocation.event)
            assert cost["lines"]
            assert cost.get("estimate", False) is estimated, kind
            assert (cost["attribution"]["provider"], cost["attribution"]["worker"]) == ("fake", "w1")
            events = [event for event in events_of(ledger, invocation) if "cost" in event.payload]
            assert events == [event], "one record, in one event"
    assert_whole(ledger)


@pytest.mark.parametrize(
    ("cost", "violation"),
    [
        ([{"unit": "tokens.input", "amount": 1}], "misstated_cost"),
        ([], "misstated_cost"),
        ([{"unit": "discrete", "amount": -1}], "misstated_cost"),
        ([{"unit": "discrete", "amount": 1.5}], "misstated_cost"),
        ([{"unit": "currency", "amount": 1, "currency": "USD"}], "misstated_cost"),
        ("free", "invalid_response"),
        (None, "invalid_response"),
    ],
)
@on_loop
async def test_cost_is_reported_in_the_registered_units(
    world: World, ledger: Ledger, cost: Any, violation: str
) -> None:
    """S003-8.3-2, S003-8.3-3: cost in the response, in the registered units."""

    async def misstates(fake: Fake, message: Message) -> HttpResponse:
        content = {"invocationId": message["invocationId"], "output": {}, "cost": cost}
        if cost is None:
            del content["cost"]
        body = msgspec.json.encode(content)
        return HttpResponse(200, fake.headers(message["invocationId"], body), body)

    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        good = await runtime.invoke("fake", ECHO, {})
        assert settling(ledger, good).payload["cost"]["lines"] == COST
        assert flags(ledger) == []
        fake.behaviour = misstates
        done = await runtime.invoke("fake", ECHO, {})
        assert settling(ledger, done).payload["cost"]["lines"]
        assert flags(ledger) == [("fake", violation)]
    assert_whole(ledger)


@on_loop
async def test_an_estimate_is_marked_and_its_correction_refers_to_the_event(world: World, ledger: Ledger) -> None:
    """S003-8.3-5, S003-8.3-7: an estimate is marked; its correction refers to the event."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)

        async def estimates(fake: Any, message: Any) -> Any:
            return fake.answer(message["invocationId"], {}, fields={"estimate": True})

        fake.behaviour = estimates
        done = await runtime.invoke("fake", ECHO, {})
        assert settling(ledger, done).payload["cost"]["estimate"] is True
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
        assert corrected.payload["corrects"] == corrected.cause == done.settled_by
        assert corrected.payload["cost"]["replaced"] == [{"unit": "discrete", "amount": 1}]
        events = [event for event in ledger.events(done.envelope) if event.type == "cost.corrected"]
        assert len(events) == 1
        assert settling(ledger, done).payload["cost"]["lines"] == COST, "nothing is edited"
    assert_whole(ledger)


@on_loop
async def test_a_provider_of_the_sdk_estimates_and_corrects(world: World, ledger: Ledger) -> None:
    """S003-8.3-6: a corrected record later."""
    provider = Provider("echo", "tool", units=("discrete",))

    @provider.capability(ECHO, input=ANY, output=ANY)
    async def roughly(value: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:
        call.spend("discrete", 3)
        call.estimate()
        return value

    async with world.hosting(ledger) as host, provider.running(world.settings("echo", host.url)):
        done = await host.runtime.invoke("echo", ECHO, {})
        estimate = settling(ledger, done).payload["cost"]
        assert (estimate["estimate"], estimate["lines"][0]["amount"]) == (True, 3)
        event = ledger.event(await provider.correct_cost(done.id, [CostLine("discrete", 4)]))
        assert event is not None
        assert (event.type, event.payload["corrects"]) == ("cost.corrected", done.settled_by)
        assert event.payload["cost"]["lines"] == [{"unit": "discrete", "amount": 4}]
    assert flags(ledger) == []
    assert_whole(ledger)
