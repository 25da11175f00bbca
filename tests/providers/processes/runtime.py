"""A runtime as a process that kills itself where it is told: `N:before`, `N:inside`, `N:after`
the Nth write of an invocation, `send:before`, `send:after`, or `bus:TYPE` when an event of that
type is durable and nobody has heard of it yet.

Prints `opened ID` and `settled ID STATE OUTPUT` as soon as its caller has been told so.
"""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from modelpact.identity import Identity, Trust
from modelpact.ledger import Ledger, LedgerError
from modelpact.ledger.ledger import Work
from modelpact.providers.contract import Invocation
from modelpact.providers.http import HttpTransport, serve_runtime
from modelpact.providers.runtime.runtime import Runtime


class Task(msgspec.Struct):
    """What the process is to do."""

    store: str
    name: str
    identity: str
    authority: str
    port: int
    semantics: Any = "sync"
    crash: str = ""
    count: int = 1
    key: str = "job"
    provider: str = "echo"
    room: int = 0
    """How many bytes its files may still grow: it works until that is used up."""


class Doomed:
    """Counts steps and dies at the one that is meant."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.armed = False
        self.writes = 0

    def reach(self, step: str) -> None:
        if self.armed and step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


class DoomedLedger(Ledger):
    doom: Doomed

    async def write_async(self, work: Work[Any]) -> Any:
        if self.doom.armed:
            self.doom.writes += 1
        number = self.doom.writes

        def inside(tx: Any) -> Any:
            result = work(tx)
            self.doom.reach(f"{number}:inside")
            return result

        self.doom.reach(f"{number}:before")
        result = await super().write_async(inside)
        self.doom.reach(f"{number}:after")
        return result


class DoomedCarrier(HttpTransport):
    doom: Doomed

    async def send(self, registration: Any, invocation: Any) -> Any:
        self.doom.reach("send:before")
        answer = await super().send(registration, invocation)
        self.doom.reach("send:after")
        return answer

    async def stream(self, registration: Any, invocation: Any) -> AsyncIterator[Any]:
        self.doom.reach("send:before")
        async for piece in super().stream(registration, invocation):
            yield piece


async def run_task(runtime: Runtime, task: Task, number: int, text: str = "") -> None:
    opened = await runtime.invoke(
        task.provider,
        "urn:test:echo",
        {"n": number, "text": text},
        semantics=task.semantics,
        idempotency_key=f"{task.key}-{number}",
        deadline_s=100.0,
    )
    print("opened", opened.id, flush=True)
    done = opened
    if opened.state == "open" and task.semantics == "streaming" and opened.owner == task.name:
        async for piece in runtime.stream(opened):
            if isinstance(piece, Invocation):
                done = piece
    elif opened.state == "open":
        done = await runtime.wait(opened.id)
    output = msgspec.json.encode(done.output).decode()
    print("settled", done.id, done.state, output, flush=True)


async def until_full(runtime: Runtime, task: Task) -> None:
    """Work on a disk that becomes full, then on one that has room again."""
    path = Path(task.store.removeprefix("sqlite:"))
    size = max(item.stat().st_size for item in (path, path.with_name(f"{path.name}-wal")))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + task.room, hard))
    number = 0
    try:
        while True:
            number += 1
            await run_task(runtime, task, number, "x" * 5_000)
    except LedgerError as error:
        print("full", error, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await run_task(runtime, task, number + 1)


async def main(task: Task) -> None:
    doom = Doomed(task.crash)
    DoomedLedger.doom = DoomedCarrier.doom = doom
    identity, trust = Identity(Path(task.identity)), Trust(Path(task.authority))
    ledger = DoomedLedger.open(task.store)
    ledger.bus.subscribe(lambda event: doom.reach(f"bus:{event.type}"))
    carrier = DoomedCarrier(identity, trust)
    runtime = Runtime(ledger, name=task.name, default_transport=carrier)
    async with serve_runtime(runtime, identity, trust, port=task.port, maintenance_s=0.1):
        while (entry := runtime.registry.find(task.provider)) is None or entry[1] != "active":
            await asyncio.sleep(0.01)
        doom.armed = True
        if task.room:
            await until_full(runtime, task)
            return
        await asyncio.gather(*(run_task(runtime, task, number) for number in range(task.count)))
        while runtime.invocations("open"):
            await asyncio.sleep(0.01)
    await carrier.aclose()
    ledger.close()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Task)))
