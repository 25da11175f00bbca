"""Many runtimes on one database: each invocation is handled once, whoever gets to it."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from modelpact.ledger import CostLine, Ledger
from modelpact.providers.contract import ComplianceProfile, Reply
from modelpact.providers.runtime.human import ASK, human_registration
from modelpact.providers.runtime.runtime import Runtime
from tests.providers.processes.starting import Started, free_port, providing
from tests.providers.support import World, assert_whole, flags, on_loop

ENDS = ("capability.completed", "capability.failed", "capability.cancelled")


@pytest.mark.parametrize("semantics", ["sync", "async"])
def test_three_runtimes_on_one_database(world: World, tmp_path: Path, semantics: str) -> None:
    """Three runtimes on one database handle each invocation once."""
    worked = tmp_path / "worked"
    worked.touch()
    ports = [free_port() for _ in range(3)]
    count = 20
    with providing(world, f"https://127.0.0.1:{ports[0]}", worked):
        running = [
            Started(world, f"main-{place}", port, semantics=semantics, count=count) for place, port in enumerate(ports)
        ]
        results = [result.ended() for result in running]
    log = worked.with_suffix(".log").read_text()
    for result in results:
        assert result.code == 0, (result.wrong, log)
        assert {line[1] for line in result.of("settled")} == {"completed"}, (result, log)
        assert len(result.of("settled")) == count
    # Every runtime was told the same of every invocation.
    ends = [{tuple(line) for line in result.of("settled")} for result in results]
    assert ends[0] == ends[1] == ends[2]
    times = Counter(worked.read_text().split())
    assert len(times) == count
    assert set(times.values()) == {1}
    with Ledger.open(world.store) as ledger:
        assert_whole(ledger)
        assert flags(ledger) == []


@on_loop
async def test_an_invocation_that_many_end_at_once_is_settled_once(url: str) -> None:
    """A response and two cancellations on three runtimes settle the invocation once."""
    with Ledger.open(url) as first_ledger, Ledger.open(url) as second_ledger, Ledger.open(url) as third_ledger:
        first, second, third = (
            Runtime(ledger, name=f"main-{place}")
            for place, ledger in enumerate((first_ledger, second_ledger, third_ledger))
        )
        first.registry.register(human_registration())
        for number in range(100):
            opened = await first.invoke(
                "human",
                ASK,
                {"question": "?"},
                semantics="async",
                envelope=f"run-{number}",  # which the others have not seen yet
            )
            reply = Reply(opened.id, {"answer": "yes"}, cost=(CostLine("discrete", 1),))
            ends = await asyncio.gather(
                second.lifecycle.settle_reply(human_registration(), opened, reply),
                first.cancel(opened.id, "one"),
                third.cancel(opened.id, "three"),
            )
            assert len({end.state for end in ends}) == 1
            kinds = [event.type for event in first_ledger.events(opened.envelope)]
            assert len([kind for kind in kinds if kind in ENDS]) == 1, kinds
        assert_whole(first_ledger)


@on_loop
async def test_a_provider_that_many_expel_at_once_is_expelled_once(url: str) -> None:
    """Two violations reported to two runtimes expel the provider once."""
    strict = ComplianceProfile("strict", on_deregistration="cancel", on_violation="deregister")
    with Ledger.open(url) as first_ledger, Ledger.open(url) as second_ledger:
        first, second = (
            Runtime(ledger, name=f"main-{place}", profile=strict)
            for place, ledger in enumerate((first_ledger, second_ledger))
        )
        for number in range(30):
            first.registry.register(human_registration())
            opened = [
                await runtime.invoke("human", ASK, {"question": "?"}, semantics="async", envelope=f"run-{number}")
                for runtime in (first, second)
            ]
            await asyncio.gather(
                first.lifecycle.fail_violation(opened[0], "invalid_response", "first"),
                second.lifecycle.fail_violation(opened[1], "invalid_response", "second"),
            )
            states = [first.find(invocation.id).state for invocation in opened]
            assert set(states) <= {"failed", "cancelled"}
            assert "failed" in states
        kinds = Counter(event.type for event in first_ledger.events("registry", limit=1_000))
        assert kinds["provider.deregistered"] == 30
        assert_whole(first_ledger)
