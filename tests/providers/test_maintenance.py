"""Maintenance deletes the partials of answers an hour after the settlement."""

import time

from modelpact.ledger import Ledger
from tests.providers.in_process_providers import echoing
from tests.providers.support import ECHO, World, on_loop


@on_loop
async def test_partials_are_deleted_an_hour_after_the_settlement(world: World) -> None:
    shift = 0

    def clock() -> int:
        return time.time_ns() + shift

    with Ledger.open(world.store, clock=clock) as ledger:
        runtime = echoing(ledger)

        async def streamed() -> str:
            opened = await runtime.invoke("echo", ECHO, {}, semantics="streaming", deadline_s=None)
            assert len([item async for item in runtime.stream(opened)]) == 3
            return opened.id

        old = await streamed()
        still = await runtime.invoke("echo", ECHO, {}, semantics="streaming", deadline_s=None)
        stream = runtime.stream(still)
        await anext(stream)
        assert await runtime.maintenance.prune() == 0
        assert len([item async for item in runtime.follow(old, after=1)]) == 2
        shift = 3_601 * 1_000_000_000
        new = await streamed()
        assert await runtime.maintenance.prune() == 1
        assert [item async for item in runtime.follow(old)] == [runtime.find(old)]
        assert runtime.find(old).output == {}
        assert len([item async for item in runtime.follow(new)]) == 3
        assert ledger.read("SELECT COUNT(*) FROM partials WHERE invocation = ?", (still.id,)) == [(1,)]
        await stream.aclose()  # type: ignore[attr-defined]
