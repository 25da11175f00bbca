"""A store that goes away, a disk that is full, a clock that is put back."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from modelpact.identity import Authority
from modelpact.ledger import Ledger, LedgerError
from modelpact.providers.runtime.human import ASK, human_registration
from modelpact.providers.runtime.runtime import Runtime
from tests.providers.fake_provider import faking
from tests.providers.faulty_behaviours import hangs
from tests.providers.support import ECHO, ROOT, World, assert_whole, echo_provider, flags, on_loop, until


@on_loop
async def test_postgresql_restarted_under_load(
    authority: Authority, keys_folder: Path, postgres: Any, postgres_url: str
) -> None:
    """MP-P5: PostgreSQL is restarted under load."""
    world = World(keys_folder, authority, postgres_url)
    acknowledged: dict[str, bool] = {}
    refused = 0
    again = False
    stop = asyncio.Event()
    with Ledger.open(world.store) as ledger:
        async with world.hosting(ledger) as host, echo_provider().running(world.settings("echo", host.url)):
            runtime = host.runtime

            async def work(semantics: Any) -> None:
                nonlocal refused
                while not stop.is_set():
                    after = again
                    # What the outage leaves open ends soon; what follows has time.
                    patience = 100.0 if after else 6.0
                    try:
                        opened = await runtime.invoke("echo", ECHO, {"a": 1}, semantics=semantics, deadline_s=patience)
                    except LedgerError:
                        refused += 1
                        await asyncio.sleep(0.01)
                        continue
                    acknowledged[opened.id] = after

            workers = [asyncio.create_task(work(semantics)) for semantics in ("sync", "async") * 2]
            await until(lambda: len(acknowledged) >= 20)
            try:
                await asyncio.to_thread(postgres.stop)
                await until(lambda: refused)
            finally:
                await asyncio.to_thread(postgres.start)
                again = True
            await until(lambda: sum(acknowledged.values()) >= 20)
            stop.set()
            await asyncio.gather(*workers)
            for invocation_id, after in acknowledged.items():
                end = await runtime.wait(invocation_id)
                assert end.state == "completed" or (end.state == "failed" and not after), end
            await until(lambda: not runtime.invocations("open"))
        assert flags(ledger) == []
        assert_whole(ledger)


@on_loop
async def test_a_clock_that_is_put_back_moves_no_deadline(world: World) -> None:
    """A clock that jumps back changes no deadline."""
    shift = 0

    def clock() -> int:
        return time.time_ns() + shift

    with Ledger.open(world.store, clock=clock) as ledger:
        async with world.hosting(ledger) as host, faking(world) as fake:
            runtime = host.runtime
            runtime.registry.register(fake.registration)
            runtime.registry.register(human_registration())
            assert (await runtime.invoke("fake", ECHO, {})).state == "completed"
            shift = -3_600 * 1_000_000_000
            fake.behaviour = hangs
            began = time.monotonic()
            slow = await runtime.invoke("fake", ECHO, {}, deadline_s=0.3)
            invocation = await runtime.invoke("human", ASK, {"question": "?"}, semantics="async", deadline_s=0.3)
            ended = await runtime.wait(invocation.id)
            assert time.monotonic() - began < 10
            for failed in (slow, ended):
                assert str(failed.error).startswith("deadline")
            times = [event.time for event in ledger.events(slow.envelope)]
            assert times == sorted(times)
        assert_whole(ledger)


FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from modelpact.ledger import Ledger, LedgerError
from modelpact.providers.runtime.human import ASK, human_registration
from modelpact.providers.runtime.runtime import Runtime

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = sys.argv[1]

async def main():
    ledger = Ledger.open(f"sqlite:{path}")
    runtime = Runtime(ledger)
    runtime.registry.register(human_registration())
    size = max(Path(path).stat().st_size, Path(path + "-wal").stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200_000, size + 200_000))
    for number in range(10_000):
        try:
            opened = await runtime.invoke(
                "human", ASK, {"question": "x" * 5_000}, semantics="async", deadline_s=None
            )
        except LedgerError as error:
            print("full", error, flush=True)
            return
        print("opened", opened.id, flush=True)

asyncio.run(main())
"""


def test_a_full_disk_refuses_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """MP-P5: a full disk, by a file-size limit on the process."""
    path = tmp_path / "full.db"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    assert lines[-1][0] == "full", done.stderr
    opened = [rest for word, rest in lines if word == "opened"]
    assert opened
    with Ledger.open(f"sqlite:{path}") as ledger:
        runtime = Runtime(ledger)
        assert all(runtime.find(invocation_id).state == "open" for invocation_id in opened)
        assert_whole(ledger)
