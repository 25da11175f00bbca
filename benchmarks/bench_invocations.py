"""Invocations in this process: what recording each of them durably, before and after, costs."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import environment
from modelpact.ledger import CostLine, Draft, Ledger
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from rows import Row, emit
from timing import per_round, settle

KIND = "urn:bench:echo"
TOGETHER = 64
CALLS = 3_200
ALONE = 200
PIECES = 100
ROUNDS = 5
SMALL, LARGE = 10_000, 1_000_000
VALUE = {"model": "claude-opus-4-5", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
OFFER = Offer(KIND, {"type": "object"}, {"type": "object"}, ("sync", "streaming"))
ECHO = Registration("echo", "tool", (OFFER,), ("discrete",))
COST = (CostLine("discrete", 1),)


class Echo:
    async def send(self, _: Registration, invocation: Invocation) -> Reply:
        return Reply(invocation.id, invocation.input, cost=COST)

    async def stream(self, _: Registration, invocation: Invocation) -> AsyncIterator[Partial | Reply]:
        for number in range(1, PIECES + 1):
            yield Partial(invocation.id, number, {"text": "Paris"})
        yield Reply(invocation.id, VALUE, cost=COST)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        pass


One = Callable[[], Coroutine[Any, Any, object]]


def calls(one: One, together: int, count: int) -> Callable[[], float]:
    """Do something so often, so many at a time; return the seconds of each."""

    async def caller() -> None:
        for _ in range(count // together):
            await one()

    async def everyone() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(together)))
        return (time.perf_counter() - start) / count

    return lambda: asyncio.run(everyone())


def commits(ledger: Ledger) -> Callable[[], float]:
    """Commit one row, with nothing of ours around it."""
    connection = ledger.store.connect(writer=True)
    connection.execute("CREATE TABLE bare (number BIGINT)")

    def one_round() -> float:
        start = time.perf_counter()
        for number in range(ALONE):
            connection.begin()
            connection.execute("INSERT INTO bare VALUES (?)", (number,))
            connection.commit()
        return (time.perf_counter() - start) / ALONE

    return one_round


def overhead(folder: Path) -> list[Row]:
    with Ledger.open(f"sqlite:{folder / 'ledger.db'}") as ledger:
        runtime = Runtime(ledger, transports={"echo": Echo()})
        runtime.registry.register(ECHO)
        draft = Draft("bare", "capability.invoked", {"provider": "echo", "input": "sha256:…"})

        async def append() -> object:
            return await ledger.write_async(lambda tx: tx.append(draft))

        async def invoke() -> object:
            return await runtime.invoke("echo", KIND, VALUE)

        async def private() -> object:
            return await runtime.invoke("echo", KIND, VALUE, keep_content=False)

        async def stream() -> object:
            opened = await runtime.invoke("echo", KIND, VALUE, semantics="streaming", keep_content=False)
            return [piece async for piece in runtime.stream(opened)]

        settle()
        best = per_round(
            {
                "commit": commits(ledger),
                "append": calls(append, 1, ALONE),
                "invoke": calls(invoke, 1, ALONE),
                "append 64": calls(append, TOGETHER, CALLS),
                "invoke 64": calls(invoke, TOGETHER, CALLS),
                "private 64": calls(private, TOGETHER, CALLS),
                "stream 64": calls(stream, TOGETHER, CALLS),
            },
            rounds=ROUNDS,
        )
    alone, many = "invocation, alone", "invocation, 64 at once"
    return [
        Row(alone, best["invoke"], best["append"], "a durable append, alone", kind="at most"),
        Row(alone, best["invoke"], best["commit"], "a bare commit", kind="at most"),
        Row(many, best["invoke 64"], 1 / 4_000, "4,000 a second", bar=1),
        Row(many, best["invoke 64"], best["append 64"], "a durable append, 64 at once", "s", "at most"),
        Row(many, best["invoke 64"], best["commit"], "a bare commit", bar=1),
        Row(f"{many}, not kept", best["private 64"], best["invoke 64"], "kept", "s", "at most"),
        Row(
            f"stream of {PIECES} pieces, 64 at once, not kept",
            best["stream 64"],
            best["private 64"],
            "the same answered whole",
            "s",
            "at most",
        ),
    ]


def growth(folder: Path) -> list[Row]:
    """Measure up to ten thousand events, and again up to a million."""
    with Ledger.open(f"sqlite:{folder / 'large.db'}") as ledger:
        runtime = Runtime(ledger, transports={"echo": Echo()})
        runtime.registry.register(ECHO)

        async def invoke() -> object:
            return await runtime.invoke("echo", KIND, VALUE)

        some = calls(invoke, TOGETHER, CALLS)
        times = [some() for _ in range(LARGE // (2 * CALLS))]
    few = SMALL // (2 * CALLS) + 1
    first, last = min(times[:few]), min(times[-few:])
    what = f"{TOGETHER} at once, up to {LARGE:,} events"
    return [Row(what, last, first, f"the same up to {SMALL:,}", "s", "at most", 1.5)]


def main() -> None:
    base = environment.ROOT / ".bench"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix="invocations-"))
    try:
        rows = [*overhead(folder), *growth(folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    emit(
        *rows,
        note=(
            "SQLite in WAL mode with `synchronous=FULL`, on the disk. An invocation is of a "
            "provider in this process that answers at once: its input is checked and recorded "
            "durably before the provider is called, its answer checked, paid for and settled "
            "durably before the caller has it; that is two commits when it is alone. Callers are "
            f"tasks of one event loop. Least of {ROUNDS} interleaved rounds."
        ),
    )


if __name__ == "__main__":
    main()
