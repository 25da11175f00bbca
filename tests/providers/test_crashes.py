"""Kill -9 of the runtime at every step of an invocation, then restart; and many runtimes."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from tests.providers.processes.runtime import Task
from tests.providers.support import ROOT, World, assert_whole, flags

PROCESSES = Path(__file__).parent / "processes"
WRITES = {"sync": 2, "async": 5, "streaming": 4}
"""How many writes an invocation of the echo takes: open, acknowledge, two pieces, settle."""

STEPS = [
    (semantics, step)
    for semantics, count in WRITES.items()
    for step in (
        "send:before",
        *(["send:after"] if semantics != "streaming" else []),
        *(f"{n}:{at}" for n in range(1, count + 1) for at in ("before", "inside", "after")),
    )
]
QUICK = [("sync", "1:after"), ("sync", "2:inside"), ("async", "1:after"), ("async", "5:inside")]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def provider(world: World, runtime: str, worked: Path, name: str = "echo") -> Iterator[None]:
    """Run the echo as a process that outlives the runtime."""
    settings = world.settings(name, runtime)
    with worked.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(PROCESSES / "echo_provider.py")],
            stderr=log,
            env={
                **os.environ,
                "PROVIDER": name,
                "WORKED": str(worked),
                "MODELPACT_RUNTIME": settings.runtime,
                "MODELPACT_IDENTITY": str(settings.identity),
                "MODELPACT_AUTHORITIES": str(settings.authorities),
                "MODELPACT_KEYRING": str(settings.keyring),
            },
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def start(task: Task) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.providers.processes.runtime"]
    return subprocess.Popen(
        [*command, msgspec.json.encode(task).decode()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, list[list[str]], str]:
    said, wrong = process.communicate(timeout=40)
    return process.returncode, [line.split(" ", 3) for line in said.splitlines()], wrong


def make_task(world: World, name: str, port: int, **more: Any) -> Task:
    identity = world.identity(name, "runtime").certificate
    authority = world.authority.certificate
    return Task(world.store, name, str(identity), str(authority), port, **more)


def survive(world: World, folder: Path, semantics: str, step: str) -> None:
    port = free_port()
    worked = folder / "worked"
    worked.touch()
    task = make_task(world, "main", port, semantics=semantics, crash=step)
    with provider(world, f"https://127.0.0.1:{port}", worked):
        code, told, wrong = finish(start(task))
        assert code == -signal.SIGKILL, (step, told, wrong)
        again = msgspec.structs.replace(task, crash="")
        code, after, wrong = finish(start(again))
        assert code == 0, wrong
    with Ledger.open(world.store) as ledger:
        assert_whole(ledger)
        rows = ledger.read("SELECT id, state, error FROM invocations")
        assert len(rows) == 1, "the idempotency key gives one invocation"
        assert flags(ledger) == []
        opened = [line[1] for line in told if line[0] == "opened"]
        assert opened in ([], [rows[0][0]])
        settled = [line for line in told if line[0] == "settled"]
        assert all(line in after for line in settled), "what was acknowledged is still so"
        if semantics == "async":
            assert rows[0][1] == "completed", rows
        else:
            assert rows[0][1] == "completed" or rows[0][2].startswith("interrupted"), rows
    times = Counter(worked.read_text().split())
    assert all(count == 1 for count in times.values()), "no work is done twice"


@pytest.mark.parametrize(("semantics", "step"), QUICK)
def test_a_killed_runtime_loses_nothing(
    lite: World, tmp_path: Path, semantics: str, step: str
) -> None:
    """Issue 4, under faults: "nothing acknowledged is lost, no invocation is answered twice"."""
    survive(lite, tmp_path, semantics, step)


@pytest.mark.slow
@pytest.mark.parametrize(("semantics", "step"), STEPS)
def test_kill_9_at_every_step(world: World, tmp_path: Path, semantics: str, step: str) -> None:
    """Issue 4, under faults: "Kill -9 of the runtime at every step of an invocation"."""
    survive(world, tmp_path, semantics, step)


@pytest.mark.parametrize("semantics", ["sync", "async"])
def test_three_runtimes_on_one_database(
    authority: Any, keys_folder: Path, postgres_url: str, tmp_path: Path, semantics: str
) -> None:
    """Issue 4: "three runtimes on one database (each invocation handled once)"."""
    world = World(keys_folder, authority, postgres_url)
    worked = tmp_path / "worked"
    worked.touch()
    ports = [free_port() for _ in range(3)]
    count = 20
    tasks = [
        make_task(world, f"main-{place}", port, semantics=semantics, count=count)
        for place, port in enumerate(ports)
    ]
    with provider(world, f"https://127.0.0.1:{ports[0]}", worked):
        running = [start(task) for task in tasks]
        results = [finish(process) for process in running]
    with Ledger.open(world.store) as ledger:
        rows = ledger.read(
            "SELECT state, error, owner, id, acknowledged, partials, created FROM invocations"
        )
        log = worked.with_suffix(".log").read_text() + worked.read_text()
        assert {row[0] for row in rows} == {"completed"}, (rows, log)
    for code, told, wrong in results:
        assert code == 0, wrong
        assert len([line for line in told if line[0] == "settled"]) == count
    # Every runtime was told the same of every invocation.
    ends = [{tuple(line[1:]) for line in told if line[0] == "settled"} for _, told, _ in results]
    assert ends[0] == ends[1] == ends[2]
    assert {end[1] for end in ends[0]} == {"completed"}
    times = Counter(worked.read_text().split())
    assert len(times) == count
    assert set(times.values()) == {1}
    with Ledger.open(world.store) as ledger:
        assert_whole(ledger)
        assert flags(ledger) == []
