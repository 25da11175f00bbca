"""Deferred responses to a runtime: wrong, repeated, too long or after the deadline."""

import asyncio
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger, Transaction
from modelpact.ledger.errors import LedgerUnavailable, LedgerUncertain
from modelpact.providers.http.client import MAX_RESPONSE_BYTES
from modelpact.providers.transport import Partial
from modelpact.wire import WireError
from tests.providers.fake_provider import answer_body, faking, partial_body
from tests.providers.faulty_behaviours import FLOOD, only_promises
from tests.providers.support import ECHO, World, assert_whole, call, flags, on_loop, until


@on_loop
async def test_deferred_responses_are_verified_too(world: World, ledger: Ledger) -> None:
    """Forged, foreign, unknown and repeated ones are flagged; a valid one is still accepted."""
    async with (
        world.hosting(ledger) as host,
        faking(world) as fake,
        faking(world, "rival") as rival,
        world.client("fake") as mine,
        world.client("rival") as theirs,
        world.client("stranger") as stranger,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        runtime.registry.register(rival.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}"
        body = answer_body(opened.id, {"who": "me"})

        async def push(client: Any, url: str, headers: Any, data: bytes = body) -> Any:
            status, response = await call(client, "POST", url, data, headers)
            error = response.get("error", {})
            return status, error.get("violation") or error.get("code")

        thief = world.keyring("thief")
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body, ring=thief))
        assert got == (403, "forged_signature")
        assert await push(mine, f"{url}/response", ()) == (403, "unsigned_response")
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body, 2))
        assert got == (403, "reordered_response")
        got = await push(theirs, f"{url}/response", rival.headers(opened.id, body))
        assert got == (404, "unknown_invocation")
        nowhere = f"{host.url}/v1/invocations/inv_nothing/response"
        got = await push(mine, nowhere, fake.headers("inv_nothing", body))
        assert got == (404, "unknown_invocation")
        got = await push(stranger, f"{url}/response", fake.headers(opened.id, body))
        assert got == (403, "not_yours")
        assert runtime.find(opened.id).state == "open"
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body))
        assert got == (200, None)
        got = await push(mine, f"{url}/response", fake.headers(opened.id, body))
        assert got == (409, "answered_twice")
        done = runtime.find(opened.id)
        assert (done.state, done.output) == ("completed", {"who": "me"})
        assert flags(ledger) == [
            ("fake", "forged_signature"),
            ("fake", "unsigned_response"),
            ("fake", "reordered_response"),
            ("rival", "foreign_invocation"),
            ("fake", "unknown_invocation"),
            ("fake", "answered_twice"),
        ]
    assert_whole(ledger)


@on_loop
async def test_partials_must_be_in_order(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = only_promises
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming")
        came: list[Any] = []

        async def follow() -> None:
            async for item in runtime.stream(opened):
                came.append(item)

        following = asyncio.create_task(follow())
        url = f"{host.url}/v1/invocations/{opened.id}"
        await until(lambda: runtime.find(opened.id).acknowledged)
        for number in (1, 2):
            body = partial_body(opened.id, number, {"n": number})
            headers = fake.headers(opened.id, body, number)
            assert (await call(mine, "POST", f"{url}/partials", body, headers))[0] == 200
        body = partial_body(opened.id, 4, {})
        status, response = await call(mine, "POST", f"{url}/partials", body, fake.headers(opened.id, body, 4))
        assert (status, response["error"]["violation"]) == (403, "reordered_response")
        body = answer_body(opened.id, {"end": 1})
        status, _ = await call(mine, "POST", f"{url}/response", body, fake.headers(opened.id, body, 3))
        assert status == 200
        await following
        assert [item.content["n"] for item in came[:-1]] == [1, 2]
        assert came[-1].output == {"end": 1}
    assert_whole(ledger)


@on_loop
async def test_a_response_after_the_deadline_corrects_only_the_cost(world: World, ledger: Ledger) -> None:
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async", deadline_s=0.2)
        done = await runtime.wait(opened.id)
        assert str(done.error).startswith("deadline")
        url = f"{host.url}/v1/invocations/{opened.id}/response"
        body = answer_body(opened.id, {"late": True}, cost=[{"unit": "discrete", "amount": 9}])
        status, response = await call(mine, "POST", url, body, fake.headers(opened.id, body))
        assert (status, response["error"]["code"]) == (409, "settled")
        last = ledger.events(opened.envelope)[-1]
        assert (last.type, last.payload["corrects"]) == ("cost.corrected", done.settled_by)
        assert runtime.find(opened.id).output is None
        assert flags(ledger) == []
        status, response = await call(mine, "POST", url, body, fake.headers(opened.id, body))
        assert (status, response["error"]["code"]) == (409, "answered_twice")
        assert flags(ledger) == [("fake", "answered_twice")]
    assert_whole(ledger)


def fail_commits(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, number: int, error: LedgerUnavailable, times: int
) -> None:
    """Fail the commits that store a partial; one that is uncertain is kept nevertheless."""
    write_async, remaining = ledger.write_async, times
    stored = isinstance(error, LedgerUncertain)

    async def write(work: Any) -> Any:
        fails = False

        def observed(tx: Transaction) -> Any:
            nonlocal remaining, fails
            result = work(tx)
            numbers = [event.payload.get("number") for event in tx.events]
            if number in numbers and remaining:
                remaining, fails = remaining - 1, True
                if not stored:
                    raise error
            return result

        result = await write_async(observed)
        if fails:
            raise error
        return result

    monkeypatch.setattr(ledger, "write_async", write)


@on_loop
async def test_a_deadline_that_passes_while_a_partial_is_not_stored_is_no_violation(
    world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away when the last partial comes, and comes back after the deadline.

    The numbers of the response and of a correction count the partial that the runtime refused.
    """
    fail_commits(ledger, monkeypatch, 2, LedgerUnavailable("away"), 1)
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as client:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async", deadline_s=1.0)
        url = f"{host.url}/v1/invocations/{opened.id}"

        async def send(path: str, body: bytes, number: int) -> tuple[int, Any]:
            return await call(client, "POST", path, body, fake.headers(opened.id, body, number))

        first, second = (partial_body(opened.id, number, {}) for number in (1, 2))
        assert (await send(f"{url}/partials", first, 1))[0] == 200
        assert (await send(f"{url}/partials", second, 2))[0] == 503
        ended = await runtime.wait(opened.id)
        assert (ended.state, ended.partials) == ("failed", 1)
        response = answer_body(opened.id, {"late": True})
        for path, body, number in (("partials", second, 2), ("response", response, 3)):
            status, content = await send(f"{url}/{path}", body, number)
            assert (status, content["error"]["code"]) == (409, "settled")
        cost = [{"unit": "discrete", "amount": 2}]
        body = msgspec.json.encode({"id": "c", "invocationId": opened.id, "cost": cost})
        assert (await send(f"{host.url}/v1/costs/corrections", body, 4))[0] == 200
        corrections = ledger.events(opened.envelope)[-2:]
        assert [event.type for event in corrections] == ["cost.corrected"] * 2
        assert [event.cause for event in corrections] == [ended.settled_by] * 2
        assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_partial_that_is_sent_again_is_stored_once(
    world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was uncertain has stored it; or the first delivery is still being written."""
    fail_commits(ledger, monkeypatch, 1, LedgerUncertain("away"), 1)
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as client:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        opened = await runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}"

        async def send(number: int, content: Any, signed: int) -> int:
            body = partial_body(opened.id, number, content)
            headers = fake.headers(opened.id, body, signed)
            return (await call(client, "POST", f"{url}/partials", body, headers))[0]

        assert await send(1, {"n": 1}, 1) == 503
        assert await send(1, {"n": 1}, 1) == 200
        at_once = await asyncio.gather(*(send(2, {"n": 2}, 2) for _ in range(4)))
        assert at_once == [200] * 4
        assert flags(ledger) == []
        # Another content, a number that was not signed, and a partial before the last are refused.
        assert await send(2, {"n": 3}, 2) == 403
        assert await send(1, {"n": 1}, 2) == 403
        assert await send(1, {"n": 1}, 1) == 403
        assert flags(ledger) == [("fake", "reordered_response")] * 3
        body = answer_body(opened.id, {"end": 1})
        headers = fake.headers(opened.id, body, 3)
        assert (await call(client, "POST", f"{url}/response", body, headers))[0] == 200
        *pieces, settled = [signal async for signal in runtime.follow(opened.id)]
        assert pieces == [Partial(opened.id, number, {"n": number}) for number in (1, 2)]
        assert settled == runtime.find(opened.id)
        assert runtime.find(opened.id).state == "completed"
    assert_whole(ledger)


@pytest.mark.parametrize("path", ["response", "partials"])
@on_loop
async def test_a_late_response_that_is_too_long_is_flagged(world: World, ledger: Ledger, path: str) -> None:
    """MP-P6: a late response of 100 MB is refused, and the next request works."""
    async with world.hosting(ledger) as host, faking(world) as fake, world.client("fake") as mine:
        host.runtime.registry.register(fake.registration)
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="async")
        url = f"{host.url}/v1/invocations/{opened.id}"
        text = "x" * (MAX_RESPONSE_BYTES + 1)
        long = {"response": answer_body(opened.id, {"long": text}), "partials": partial_body(opened.id, 1, text)}[path]
        headers = fake.headers(opened.id, long)
        status, response = await call(mine, "POST", f"{url}/{path}", long, headers)
        assert (status, response["error"]["violation"]) == (403, "oversized_response")
        assert flags(ledger) == [("fake", "oversized_response")]
        try:
            status, _ = await call(mine, "POST", f"{url}/{path}", b" " * FLOOD)
            assert status == 413
        except WireError:
            pass  # it did not hear why, over all that it was sending
        assert host.runtime.find(opened.id).state == "open"
        body = answer_body(opened.id, {"short": 1})
        headers = fake.headers(opened.id, body)
        assert (await call(mine, "POST", f"{url}/response", body, headers))[0] == 200
    assert_whole(ledger)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"id":',
        b"[" * 10_000,
        msgspec.json.encode({"id": "A B", "category": "tool", "offers": [], "units": []}),
    ],
)
@on_loop
async def test_garbage_is_an_error_and_changes_nothing(world: World, ledger: Ledger, body: bytes) -> None:
    async with world.hosting(ledger) as host, world.client("fake") as mine:
        for path in ("/v1/providers", "/v1/costs/corrections", "/v1/signals"):
            status, response = await call(mine, "POST", f"{host.url}{path}", body)
            assert status == 400, path
            assert response["error"]["message"]
        for method, path in (("GET", "/v1/providers"), ("PUT", "/v1/signals"), ("GET", "/x")):
            status, _ = await call(mine, method, f"{host.url}{path}")
            assert status in (404, 405)
        assert ledger.events("registry") == []
