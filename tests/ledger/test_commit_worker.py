"""The commit worker: a process that commits the events of a server's event loop."""

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Ledger
from modelpact.ledger.canonical import canonical
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.errors import EnvelopeClosed, LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Draft, Event, EventRef, Precondition, PreconditionFailed, PreparedEvent
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.tables import verify_tables
from modelpact.ledger.write import worker, worker_client
from modelpact.ledger.write.worker import CommitReply, CommitRequest, encode_frame, take_frames
from tests.fakes.loops import on_loop
from tests.ledger.support import verified

ATTRIBUTION = Attribution("local", "m", "chat", "somebody")
EVENT = PreparedEvent("calls", "capability.invoked", b'{"n":1}', opens=("gateway", "here"))
FAILING = Precondition(("the weather", "fine"), "SELECT 'rain' WHERE ? = ''", ("",), "sunshine")


def numbered(number: int) -> PreparedEvent:
    return msgspec.structs.replace(EVENT, payload=canonical({"n": number}))


sole = False
"""What `is_sole_request` returns."""


def append(ledger: Ledger, event: PreparedEvent, *, alone: bool) -> "asyncio.Future[EventRef]":
    """Append an event. With `alone`, it belongs to the only request of the loop."""
    global sole
    sole = alone
    try:
        return ledger.append_async(event)
    finally:
        sole = False


def worker_pids() -> set[int]:
    """Return the ids of the worker processes of this process."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    return {int(line.split()[0]) for line in listed.splitlines() if "ledger.write.worker" in line}


@asynccontextmanager
async def ledger_with_worker(place: Path, **more: object) -> AsyncIterator[Ledger]:
    with Ledger.open(f"sqlite:{place / 'ledger.db'}", **more) as ledger:  # type: ignore[arg-type]
        ledger.start_commit_worker(lambda: sole)
        yield ledger


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def check_chain(ledger: LedgerReader, events: int) -> None:
    stored = ledger.events("calls", limit=10_000)
    assert [event.sequence for event in stored] == list(range(1, events + 1))
    report = verified(ledger, "calls")
    assert report.events == events
    assert all(table.ok for table in verify_tables(ledger, {"calls": report}, complete=True))


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_appended_events_are_durable_and_in_order(tmp_path: Path, alone: bool) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        if alone:
            refs = [await append(ledger, numbered(n), alone=True) for n in range(50)]
        else:
            refs = await asyncio.gather(*(ledger.append_async(numbered(n)) for n in range(500)))
        with LedgerReader.open(ledger.store.url) as other:
            check_chain(other, len(refs))
            stored = other.events("calls", limit=1_000)
        assert [EventRef(event.id, event.time) for event in stored] == refs
        assert [event.payload["n"] for event in stored] == list(range(len(refs)))
        envelope = ledger.envelope("calls")
        assert envelope is not None
        assert (envelope.kind, envelope.subject) == ("gateway", "here")


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_embedded_costs_are_in_the_totals(tmp_path: Path, alone: bool) -> None:
    record = CostRecord((CostLine("tokens.input", 7),), ATTRIBUTION)
    payload = canonical({"cost": msgspec.to_builtins(record)})
    event = PreparedEvent("calls", "capability.completed", payload, None, record, opens=("gateway", ""))
    async with ledger_with_worker(tmp_path) as ledger:
        for _ in range(3):
            await append(ledger, event, alone=alone)
        (total,) = cost_totals(ledger, "provider")
        assert total.amounts["tokens.input"] == 21
        check_chain(ledger, 3)


@on_loop
async def test_other_writers_may_write_to_the_same_envelope(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        for _ in range(5):
            await ledger.append_async(EVENT)
            await append(ledger, EVENT, alone=True)
            await ledger.write_async(lambda tx: tx.append(Draft("calls", "gateway.stopped", {})))
        check_chain(ledger, 15)


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_preconditions_are_checked_again_after_another_writer(tmp_path: Path, alone: bool) -> None:
    condition = Precondition(("provider", "p"), "SELECT value FROM meta WHERE key = ?", ("p",), "1")
    event = msgspec.structs.replace(EVENT, precondition=condition)
    put = "INSERT INTO meta VALUES ('p', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    async with ledger_with_worker(tmp_path) as ledger:
        for value in "121":
            await ledger.write_async(lambda tx, value=value: tx.execute(put, (value,)))  # type: ignore[misc]
            if value == "1":
                await append(ledger, event, alone=alone)
                continue
            others = asyncio.gather(ledger.append_async(EVENT), ledger.append_async(EVENT))
            with pytest.raises(PreconditionFailed, match="provider p") as caught:
                await append(ledger, event, alone=alone)
            assert caught.value.key == ("provider", "p")
            await others
        check_chain(ledger, 4)


@on_loop
async def test_an_archived_envelope_refuses_events(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        await ledger.append_async(EVENT)
        await ledger.write_async(lambda tx: tx.append(Draft("calls", "envelope.archived", {})))
        for alone in (False, True):
            with pytest.raises(EnvelopeClosed, match="calls is archived"):
                await append(ledger, EVENT, alone=alone)


@on_loop
async def test_listeners_get_events_once_they_are_durable(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        received: list[Event] = []
        ledger.bus.subscribe(received.append, "capability.")
        other = msgspec.structs.replace(EVENT, type="negotiation.decided")
        await asyncio.gather(ledger.append_async(other), ledger.append_async(EVENT), ledger.append_async(numbered(2)))
        await append(ledger, numbered(3), alone=True)
        assert received == ledger.events("calls")[1:]


@on_loop
async def test_the_outcome_of_a_cancelled_append_goes_to_on_abandoned(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        outcomes: list[tuple[EventRef | None, BaseException | None]] = []
        refused = msgspec.structs.replace(EVENT, precondition=FAILING)
        for event in (EVENT, refused):
            future = ledger.append_async(event, lambda ref, error: outcomes.append((ref, error)))
            future.cancel()
        await ledger.append_async(EVENT)
        assert outcomes[0][0] is not None
        assert outcomes[0][0].id == "calls:1"
        assert isinstance(outcomes[1][1], PreconditionFailed)


@on_loop
async def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    """Events that it had fail as uncertain, and no acknowledged event is lost."""
    async with ledger_with_worker(tmp_path) as ledger:
        acknowledged = 0
        for _ in range(3):
            await ledger.append_async(EVENT)
            acknowledged += 1
            (pid,) = worker_pids()
            futures = [ledger.append_async(EVENT) for _ in range(64)]
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert all(isinstance(result, EventRef | LedgerUncertain) for result in results)
            acknowledged += sum(isinstance(result, EventRef) for result in results)
            await until(lambda pid=pid: pid not in worker_pids())  # type: ignore[misc]
        assert (await ledger.append_async(EVENT)).id.startswith("calls:")
        events = len(ledger.events("calls", limit=10_000))
        assert events > acknowledged
        check_chain(ledger, events)


@on_loop
async def test_a_lone_request_does_not_need_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_client, "_FAST_SECONDS", 60.0)  # even if the disk is slow
    async with ledger_with_worker(tmp_path) as ledger:
        (pid,) = worker_pids()
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(10):
                async with asyncio.timeout(10):
                    await append(ledger, EVENT, alone=True)
        finally:
            os.kill(pid, signal.SIGCONT)
        check_chain(ledger, 10)


@on_loop
async def test_without_a_worker_the_thread_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with ledger_with_worker(tmp_path) as ledger:
        for _ in range(5):
            with contextlib.suppress(LedgerUnavailable):
                await ledger.append_async(EVENT)
        await ledger.append_async(EVENT)
        check_chain(ledger, len(ledger.events("calls")))


@on_loop
async def test_the_worker_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    async with ledger_with_worker(tmp_path) as ledger:
        await ledger.append_async(EVENT)


@on_loop
async def test_the_log_of_sqlite_does_not_grow_without_bound(tmp_path: Path) -> None:
    """Even if the loop makes every commit."""
    event = msgspec.structs.replace(EVENT, payload=canonical({"text": "x" * 50_000}))
    async with ledger_with_worker(tmp_path) as ledger:
        for _ in range(1_200):
            await append(ledger, event, alone=True)
        log = (tmp_path / "ledger.db-wal").stat().st_size
        assert log < 50_000_000


@on_loop
async def test_the_loop_is_not_blocked_while_another_process_writes(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        await append(ledger, EVENT, alone=True)
        with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [append(ledger, EVENT, alone=True) for _ in range(3)]
            for _ in range(20):  # the loop is free meanwhile
                await asyncio.sleep(0.001)
            assert not any(future.done() for future in waiting)
            other.execute("ROLLBACK")
        await asyncio.gather(*waiting)
        check_chain(ledger, 4)


@on_loop
async def test_long_events_arrive_complete(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        texts = [chr(97 + number) * 3_000_000 for number in range(5)]
        events = [msgspec.structs.replace(EVENT, payload=canonical({"text": text})) for text in texts]
        await asyncio.gather(*(ledger.append_async(event) for event in events))
        assert [event.payload["text"] for event in ledger.events("calls")] == texts


@on_loop
async def test_checkpoints_are_signed(tmp_path: Path, keyring: Keyring) -> None:
    async with ledger_with_worker(tmp_path, signer=keyring, checkpoint_every=10) as ledger:
        await asyncio.gather(*(ledger.append_async(EVENT) for _ in range(25)))
        await until(lambda: bool(ledger.checkpoints("calls")))
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        assert reader.checkpoints("calls")[-1].sequence == 25


@on_loop
async def test_the_worker_ignores_signals_and_ends_with_the_ledger(tmp_path: Path) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        await ledger.append_async(EVENT)
        (pid,) = worker_pids()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        await ledger.append_async(EVENT)
        assert worker_pids() == {pid}
    assert not worker_pids()


@on_loop
async def test_replies_are_never_matched_with_events_of_another_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replies arrive together, and the worker is gone when the first is handled."""

    class DyingLink:
        """A link to a worker that dies at the third message."""

        ready = True

        def __init__(self, *arguments: Any) -> None:
            self.on_replies, self.on_lost, self.sent = arguments[2], arguments[3], 0

        def send(self, data: bytes) -> bool:
            self.sent += 1
            if self.sent == 3:
                self.on_lost()
            return self.sent != 3

        def close(self) -> None:
            """There is nothing to close."""

    monkeypatch.setattr(worker_client, "WorkerLink", DyingLink)
    async with ledger_with_worker(tmp_path) as ledger:
        link: Any = ledger._worker._link  # type: ignore[union-attr]
        first = ledger.append_async(EVENT)
        await asyncio.sleep(0)
        second = [ledger.append_async(EVENT) for _ in range(8)]
        await asyncio.sleep(0)
        third = ledger.append_async(EVENT)
        await asyncio.sleep(0)
        link.on_replies([CommitReply([(1, 1)]), CommitReply([(number, 1) for number in range(2, 10)])])
        assert (await first).id == "calls:1"
        assert [(await future).id for future in second] == [f"calls:{n}" for n in range(2, 10)]
        assert link.sent == 4
        assert not third.done()
        assert not link.on_replies([CommitReply([(10, 1), (11, 1)])])  # more outcomes than events
        third.cancel()


async def _commit_for(parent: int, url: str) -> CommitReply:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serving = asyncio.create_task(asyncio.to_thread(worker.serve, theirs, url, parent))
        ours.sendall(encode_frame(CommitRequest([EVENT])))
        received = bytearray()
        while not (messages := take_frames(received)):
            received += await asyncio.to_thread(ours.recv, 65_536)
        ours.shutdown(socket.SHUT_WR)
        await serving
    return msgspec.msgpack.decode(messages[0], type=CommitReply)


@on_loop
async def test_nothing_is_committed_once_the_server_is_gone(tmp_path: Path) -> None:
    """Its successor may have settled what it left open."""
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as ledger:
        refused = await _commit_for(os.getppid() + 1, ledger.store.url)
        assert type(refused.failures[0].error()) is LedgerUnavailable
        assert not ledger.events("calls")
        assert not (await _commit_for(os.getppid(), ledger.store.url)).failures
        check_chain(ledger, 1)


@on_loop
async def test_events_do_not_wait_for_a_worker_that_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(24, "too many open files")

    async with ledger_with_worker(tmp_path) as ledger:
        await ledger.append_async(EVENT)
        (pid,) = worker_pids()
        monkeypatch.setattr(subprocess, "Popen", fail)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        await asyncio.gather(*(ledger.append_async(EVENT) for _ in range(20)))
        monkeypatch.undo()
        check_chain(ledger, 21)


@on_loop
async def test_only_the_event_that_cannot_be_encoded_fails(tmp_path: Path) -> None:
    broken = msgspec.structs.replace(EVENT, cause="e:\ud800")
    async with ledger_with_worker(tmp_path) as ledger:
        futures = [ledger.append_async(event) for event in (EVENT, broken, EVENT)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(results[1], LedgerError)
        check_chain(ledger, 2)


@on_loop
async def test_only_the_events_with_an_invalid_precondition_fail(tmp_path: Path) -> None:
    """The events that share its commit are kept, in order."""
    wrong = Precondition(("nothing",), "SELECT nothing FROM nowhere WHERE ? = ''", ("",), "")
    invalid = msgspec.structs.replace(EVENT, precondition=wrong)
    async with ledger_with_worker(tmp_path) as ledger:
        events = [invalid if n in (0, 7, 30) else numbered(n) for n in range(31)]
        futures = [ledger.append_async(event) for event in events]
        results = await asyncio.gather(*futures, return_exceptions=True)
        failed = [n for n, result in enumerate(results) if isinstance(result, LedgerError)]
        assert failed == [0, 7, 30]
        check_chain(ledger, 28)
        numbers = [event.payload["n"] for event in ledger.events("calls", limit=100)]
        assert numbers == [n for n in range(31) if n not in failed]


@on_loop
async def test_a_worker_with_invalid_replies_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        worker_client,
        "_PROGRAM",
        "import socket; it = socket.socket(fileno=0); it.recv(9); it.send(b'\\3\\0\\0\\0abc')",
    )
    async with ledger_with_worker(tmp_path) as ledger:
        for _ in range(5):
            with contextlib.suppress(LedgerUncertain):
                await asyncio.gather(ledger.append_async(EVENT), ledger.append_async(EVENT))
        await ledger.append_async(EVENT)
        check_chain(ledger, len(ledger.events("calls")))


@pytest.mark.parametrize("other_thread", [False, True])
@on_loop
async def test_closing_commits_the_events_that_wait(tmp_path: Path, other_thread: bool) -> None:
    async with ledger_with_worker(tmp_path) as ledger:
        sent = [ledger.append_async(EVENT) for _ in range(20)]
        await asyncio.sleep(0)
        waiting = [ledger.append_async(EVENT) for _ in range(3)]
        if other_thread:
            await asyncio.to_thread(ledger.close)
        else:
            ledger.close()
        refs = await asyncio.gather(*sent, *waiting)
    assert [ref.id for ref in refs] == [f"calls:{number}" for number in range(1, 24)]
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        check_chain(reader, 23)


def test_the_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Even if that is killed. Events that were not committed by then are not committed."""
    program = f"""
import asyncio, os, signal
from modelpact.ledger import Ledger
from modelpact.ledger.event import PreparedEvent

async def main():
    ledger = Ledger.open("sqlite:{tmp_path / "ledger.db"}")
    ledger.start_commit_worker(lambda: False)
    event = PreparedEvent("calls", "capability.invoked", b"{{}}", opens=("gateway", ""))
    await ledger.append_async(event)
    ledger.append_async(event)
    await asyncio.sleep(0)
    print(ledger._worker._link._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = Path(f"/proc/{int(done.stdout)}")

    async def gone() -> None:
        await until(lambda: not pid.exists())

    asyncio.run(gone())
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        check_chain(reader, len(reader.events("calls")))
