"""A runtime as a process that kills itself where it is told: `N:before`, `N:inside`, `N:after`
the Nth write of an invocation, or `send:before`, `send:after`.

Prints `opened ID` and `settled ID STATE OUTPUT` as soon as its caller has been told so.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from modelpact.identity import Identity, Trust
from modelpact.ledger import Ledger
from modelpact.ledger.ledger import Work
from modelpact.providers.binding import HttpCarrier, serve_runtime
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime import Runtime


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


class Doomed:
    """Counts steps and dies at the one that is meant."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.armed = False
        self.writes = 0

    def reach(self, step: str) -> None:
        if self.armed and step == self.where:
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


class DoomedCarrier(HttpCarrier):
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


async def one(runtime: Runtime, task: Task, number: int) -> None:
    opened = await runtime.invoke(
        task.provider,
        "urn:test:echo",
        {"n": number},
        semantics=task.semantics,
        idempotency_key=f"{task.key}-{number}",
        deadline_s=20.0,
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


async def main(task: Task) -> None:
    doom = Doomed(task.crash)
    DoomedLedger.doom = DoomedCarrier.doom = doom
    identity, trust = Identity(Path(task.identity)), Trust(Path(task.authority))
    ledger = DoomedLedger.open(task.store)
    carrier = DoomedCarrier(identity, trust)
    runtime = Runtime(ledger, name=task.name, default_carrier=carrier)
    async with serve_runtime(runtime, identity, trust, port=task.port, upkeep_s=0.1):
        while (found := runtime.registry.find(task.provider)) is None or found[1] != "active":
            await asyncio.sleep(0.01)
        doom.armed = True
        await asyncio.gather(*(one(runtime, task, number) for number in range(task.count)))
        while runtime.listed("open"):
            await asyncio.sleep(0.01)
    await carrier.aclose()
    ledger.close()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Task)))
