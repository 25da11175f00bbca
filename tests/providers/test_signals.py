"""Signals over the surface: at least once, in order, once each, their delay measured."""

import time
from typing import Any

import msgspec

from modelpact.ledger import Ledger
from tests.providers.fake_provider import COST, faking
from tests.providers.support import World, assert_whole, call, flags, on_loop


@on_loop
async def test_signals_come_once_and_in_order(world: World, ledger: Ledger) -> None:
    """S003-8-4: signals arrive at least once, in order and deduplicated, with their latency."""
    async with (
        world.hosting(ledger) as host,
        faking(world, "pulse", category="signal-source", offers=(), max_latency_ms=1_000) as fake,
        world.client("pulse") as mine,
        world.client("rival") as theirs,
    ):
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        url = f"{host.url}/v1/signals"

        async def emit(name: str, number: int, client: Any = mine, **more: Any) -> Any:
            content = {
                "source": "pulse",
                "id": name,
                "number": number,
                "type": "pulse.beat",
                "emitted": time.time_ns() // 1_000_000 - more.pop("ago", 0),
                "content": {"rate": 0.5},
                "cost": COST,
                **more,
            }
            body = msgspec.json.encode(content)
            status, response = await call(client, "POST", url, body, fake.headers(f"pulse/{name}", body, number))
            return status, response.get("duplicate", response.get("error", {}).get("code"))

        assert await emit("a", 1) == (200, False)
        assert await emit("a", 1) == (200, True)
        assert await emit("c", 3) == (409, "out_of_order")
        assert await emit("b", 2, ago=5_000) == (200, False)
        assert await emit("c", 3) == (200, False)
        assert await emit("again", 2) == (409, "out_of_order")
        assert await emit("d", 4, client=theirs) == (403, "not_yours")
        assert flags(ledger) == []
        assert await emit("d", 4, cost=[{"unit": "tokens.input", "amount": 1}]) == (200, False)
        assert flags(ledger) == [("pulse", "misstated_cost")]
        inbox = runtime.signal_inbox
        assert [event.id for event in inbox.after("pulse")] == ["a", "b", "c", "d"]
        measured = inbox.latency("pulse")
        assert (measured.count, measured.late) == (4, 1)
        assert measured.longest_ms >= 5_000
        late = [event.payload["late"] for event in ledger.events("signals/pulse")]
        assert late == [False, True, False, False]
    assert_whole(ledger)
