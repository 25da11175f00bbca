"""The owp specification (docs/spec/owp.md), 8.4 Long invocations, over mutual TLS."""

from typing import Any

import pytest

from modelpact.ledger import Ledger
from modelpact.wire import HttpResponse
from tests.providers.fake_provider import Fake, Message, answer_body, faking, partial_body, streamed
from tests.providers.faulty_behaviours import EVENTS, only_promises
from tests.providers.support import ECHO, World, assert_whole, call, events_of, flags, on_loop


@pytest.mark.parametrize("category", ["tool", "human"])
@pytest.mark.parametrize("after", ["main", "another"])
@on_loop
async def test_responses_after_a_restart_find_their_invocation(world: World, category: str, after: str) -> None:
    """S003-8.4-1..3: open invocations persist; late responses find their opening event."""
    async with faking(world, category=category) as fake, world.client("fake") as mine:
        with Ledger.open(world.store) as ledger:
            async with world.hosting(ledger) as host:
                host.runtime.registry.register(fake.registration)
                opened, other = [
                    await host.runtime.invoke("fake", ECHO, {"q": n}, semantics="async", deadline_s=None)
                    for n in (1, 2)
                ]
                first = partial_body(opened.id, 1, {"half": 1})
                url = f"{host.url}/v1/invocations/{opened.id}/partials"
                status, _ = await call(mine, "POST", url, first, fake.headers(opened.id, first))
                assert status == 200
        with Ledger.open(world.store) as ledger:
            async with world.hosting(ledger, name=after) as host:
                url = f"{host.url}/v1/invocations/{opened.id}"
                status, response = await call(mine, "GET", url)
                assert (status, response["state"], response["partials"]) == (200, "open", 1)
                body = answer_body(opened.id, {"after": "restart"})
                status, response = await call(mine, "POST", f"{url}/response", body, fake.headers(opened.id, body, 2))
                assert (status, response["state"]) == (200, "completed")
                done = host.runtime.find(opened.id)
                assert done.output == {"after": "restart"}
                origin = ledger.cause_chain(str(done.settled_by))
                assert [item.id for item in origin] == [done.settled_by, opened.event]
                assert host.runtime.find(other.id).state == "open"
                assert [item["invocationId"] for item in fake.received] == [opened.id, other.id]
                assert flags(ledger) == []
                assert_whole(ledger)


@on_loop
async def test_the_id_is_issued_with_the_invocation(world: World, ledger: Ledger) -> None:
    """S003-8.4-5: the runtime issues the id at the moment of the invocation."""
    recorded: list[str] = []

    async def looks(fake: Fake, message: Message) -> HttpResponse:
        events = ledger.events("invocations/main")
        recorded.extend(event.payload["invocation"] for event in events if event.type == "capability.invoked")
        return fake.answer(message["invocationId"], {})

    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        done = [await runtime.invoke("fake", ECHO, {"same": "input"}) for _ in range(5)]
        assert [item["invocationId"] for item in fake.received] == [item.id for item in done]
        assert len({item.id for item in done}) == 5
        fake.behaviour = looks
        last = await runtime.invoke("fake", ECHO, {})
        assert recorded[-1] == last.id, "it was on record before the provider heard of it"
        assert events_of(ledger, last)[0].id == last.event
    assert_whole(ledger)


async def nameless_answer(fake: Fake, message: Message) -> HttpResponse:
    body = b'{"output": {}, "cost": [{"unit": "discrete", "amount": 1}]}'
    return HttpResponse(200, fake.headers(message["invocationId"], body), body)


async def nameless_promise(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(202, fake.headers(message["invocationId"], b"{}", 0), b"{}")


async def nameless_partial(fake: Fake, message: Message) -> HttpResponse:
    body = b'{"number": 1, "content": {}}'
    return streamed(fake.event("partial", message["invocationId"], body, 1))


async def nameless_end(fake: Fake, message: Message) -> HttpResponse:
    body = b'{"output": {}, "cost": [{"unit": "discrete", "amount": 1}]}'
    return HttpResponse(200, EVENTS, fake.event("final", message["invocationId"], body, 1))


@pytest.mark.parametrize(
    ("semantics", "behaviour"),
    [
        ("sync", nameless_answer),
        ("async", nameless_promise),
        ("async", nameless_answer),
        ("streaming", nameless_partial),
        ("streaming", nameless_end),
    ],
)
@on_loop
async def test_the_id_is_on_every_response(world: World, ledger: Ledger, semantics: Any, behaviour: Any) -> None:
    """S003-8.4-4, S003-8.4-6: the id is on every response, partial and final."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = behaviour
        done: Any = await runtime.invoke("fake", ECHO, {}, semantics=semantics)
        if semantics == "streaming":
            *_, done = [item async for item in runtime.stream(done)]
        assert done.state == "failed"
        assert "invocationId" in str(done.error)
        assert flags(ledger) == [("fake", "invalid_response")]
    assert_whole(ledger)


@on_loop
async def test_the_id_is_on_every_late_response(world: World, ledger: Ledger) -> None:
    """S003-8.4-6: the id is on every response, late ones too."""
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = only_promises
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="async")
        other = await host.runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}"
        for path, body in (
            ("partials", b'{"number": 1, "content": {}}'),
            ("response", b'{"output": {}, "cost": []}'),
            ("partials", partial_body(other.id, 1, {})),
            ("response", answer_body(other.id, {})),
        ):
            headers = fake.headers(opened.id, body)
            status, response = await call(mine, "POST", f"{url}/{path}", body, headers)
            assert (status, response["error"]["code"]) == (403, "breach"), path
        assert [item.state for item in map(host.runtime.find, (opened.id, other.id))] == ["open", "open"]
        assert flags(ledger) == [
            ("fake", "invalid_response"),
            ("fake", "invalid_response"),
            ("fake", "foreign_response"),
            ("fake", "foreign_response"),
        ]
    assert_whole(ledger)
