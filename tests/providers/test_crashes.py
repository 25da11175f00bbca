"""Kill -9 of the runtime at every step of an invocation, then restart; and a disk that is full."""

import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from modelpact.ledger import Ledger
from modelpact.providers.runtime.runtime import Runtime
from tests.providers.processes.starting import Started, free_port, providing
from tests.providers.support import World, assert_whole, flags


class Ordeal:
    """A runtime that is killed and started again, and again, while its provider lives on."""

    def __init__(self, world: World, port: int, semantics: Any) -> None:
        self.world = world
        self.port = port
        self.semantics = semantics
        self.runs = 0

    def survives(self, step: str) -> bool:
        """Kill the runtime at a step and start it again; False where it never came to that step."""
        self.runs += 1
        how = {"semantics": self.semantics, "key": f"job-{step}"}
        killed = Started(self.world, "main", self.port, crash=step, **how).ended()
        if killed.code == 0:
            return False
        assert killed.code == -signal.SIGKILL, (step, killed)
        again = Started(self.world, "main", self.port, **how).ended()
        assert again.code == 0, again
        for line in killed.of("opened"):
            assert line in again.of("opened"), "the idempotency key gives the same invocation"
        for line in killed.of("settled"):
            assert line in again.of("settled"), "what was acknowledged is still so"
        with Ledger.open(self.world.store) as ledger:
            runtime = Runtime(ledger)
            assert len(runtime.invocations(limit=1_000)) == self.runs, "one invocation for each key"
            assert runtime.invocations("open") == []
            assert flags(ledger) == []
            (settled,) = again.of("settled")
            done = runtime.find(settled[0])
            if self.semantics == "async":
                assert done.state == "completed", (step, done)
            elif done.state != "completed":
                assert str(done.error).startswith("interrupted"), (step, done)
            assert_whole(ledger)
        return True


def put_to_the_test(world: World, folder: Path, semantics: str, *steps: str) -> None:
    """Kill at steps; without any, at every one that there is."""
    port = free_port()
    worked = folder / "worked"
    worked.touch()
    with providing(world, f"https://127.0.0.1:{port}", worked):
        ordeal = Ordeal(world, port, semantics)
        for step in steps or ("send:before",):
            assert ordeal.survives(step), step
        if not steps:
            assert ordeal.survives("send:after") or semantics == "streaming"
            for number in count(1):
                reached = [ordeal.survives(f"{number}:{at}") for at in ("before", "inside", "after")]
                assert reached in ([True] * 3, [False] * 3)
                if not reached[0]:
                    break
            assert number > 2, "an invocation is opened and settled, at least"
    times = Counter(worked.read_text().split())
    assert set(times.values()) <= {1}, "no work is done twice"


@pytest.mark.parametrize(
    ("semantics", "step"),
    [
        ("sync", "1:after"),
        ("sync", "bus:capability.completed"),
        ("async", "1:after"),
        ("async", "bus:capability.completed"),
        ("streaming", "bus:capability.partial"),
    ],
)
def test_a_killed_runtime_loses_nothing(world: World, tmp_path: Path, semantics: str, step: str) -> None:
    """MP-P5: nothing acknowledged is lost, no invocation is answered twice."""
    put_to_the_test(world, tmp_path, semantics, step)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["sync", "async", "streaming"])
def test_kill_9_at_every_step(world: World, tmp_path: Path, semantics: str) -> None:
    """MP-P1, MP-P5: kill -9 of the runtime at every step of an invocation."""
    put_to_the_test(world, tmp_path, semantics)


@pytest.mark.slow
def test_a_disk_that_fills_up_under_a_runtime(lite: World, tmp_path: Path) -> None:
    """MP-P5: a full disk, by a file-size limit on the process."""
    port = free_port()
    worked = tmp_path / "worked"
    worked.touch()
    with providing(lite, f"https://127.0.0.1:{port}", worked):
        full = Started(lite, "main", port, room=400_000).ended()
        assert full.code == 0, full
        assert len(full.of("full")) == 1
        settled = full.of("settled")
        assert len(settled) > 2
        assert {line[1] for line in settled} == {"completed"}
        again = Started(lite, "main", port, key="later").ended()
        assert (again.code, again.of("settled")[0][1]) == (0, "completed"), again
    with Ledger.open(lite.store) as ledger:
        runtime = Runtime(ledger)
        assert all(runtime.find(line[0]).state == "completed" for line in settled)
        left = [invocation for invocation in runtime.invocations(limit=1_000) if invocation.state != "completed"]
        assert len(left) <= 1, "at most the one that the full disk interrupted"
        assert all(str(item.error).startswith(("interrupted", "deadline")) for item in left)
        assert flags(ledger) == []
        assert_whole(ledger)
    assert set(Counter(worked.read_text().split()).values()) == {1}
