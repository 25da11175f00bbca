"""The scribe: entries of an event loop, committed by a process of its own."""

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
from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.prepared import EventRef, Precondition, PreconditionFailed, PreparedEvent
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.totals.totals import cost_totals
from modelpact.ledger.verify.tables import verify_tables
from modelpact.ledger.write import worker, worker_client
from modelpact.ledger.write.batch import EnvelopeClosed
from modelpact.ledger.write.worker import CommitReply, CommitRequest, encode_frame, take_frames
from tests.fakes.loops import on_loop
from tests.ledger.support import verified

WHO = Attribution("local", "m", "chat", "somebody")
ENTRY = PreparedEvent("calls", "capability.invoked", b'{"n":1}', opens=("gateway", "here"))
NEVER = Precondition(("the weather", "fine"), "SELECT 'rain' WHERE ? = ''", ("",), "sunshine")


def numbered(number: int) -> PreparedEvent:
    return msgspec.structs.replace(ENTRY, payload=canonical({"n": number}))


sole = False
"""Whether the loop serves one request only, as the commit worker's client is told."""


def append(ledger: Ledger, event: PreparedEvent, *, alone: bool) -> "asyncio.Future[EventRef]":
    """Append an event; `alone` as the only request that the loop serves."""
    global sole
    sole = alone
    try:
        return ledger.append_async(event)
    finally:
        sole = False


def children() -> set[int]:
    """Return the processes that commit for this one."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {int(line.split()[0]) for line in listed.splitlines() if "ledger.write.worker" in line}


@asynccontextmanager
async def committing(place: Path, **more: object) -> AsyncIterator[Ledger]:
    with Ledger.open(f"sqlite:{place / 'ledger.db'}", **more) as ledger:  # type: ignore[arg-type]
        ledger.start_commit_worker(lambda: sole)
        yield ledger


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not so():
            await asyncio.sleep(0.005)


def check_chain(ledger: LedgerReader, events: int) -> None:
    found = ledger.events("calls", limit=10_000)
    assert [event.sequence for event in found] == list(range(1, events + 1))
    report = verified(ledger, "calls")
    assert report.events == events
    assert all(one.ok for one in verify_tables(ledger, {"calls": report}, complete=True))


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_what_is_noted_is_durable_and_in_order(tmp_path: Path, alone: bool) -> None:
    async with committing(tmp_path) as ledger:
        if alone:
            placed = [await append(ledger, numbered(n), alone=True) for n in range(50)]
        else:
            placed = await asyncio.gather(*(ledger.append_async(numbered(n)) for n in range(500)))
        with LedgerReader.open(ledger.store.url) as other:
            check_chain(other, len(placed))
            found = other.events("calls", limit=1_000)
        assert [EventRef(event.id, event.time) for event in found] == placed
        assert [event.payload["n"] for event in found] == list(range(len(placed)))
        envelope = ledger.envelope("calls")
        assert envelope is not None
        assert (envelope.kind, envelope.subject) == ("gateway", "here")


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_costs_count(tmp_path: Path, alone: bool) -> None:
    record = CostRecord((CostLine("tokens.input", 7),), WHO)
    payload = canonical({"cost": msgspec.to_builtins(record)})
    entry = PreparedEvent(
        "calls", "capability.completed", payload, None, record, opens=("gateway", "")
    )
    async with committing(tmp_path) as ledger:
        for _ in range(3):
            await append(ledger, entry, alone=alone)
        (total,) = cost_totals(ledger, "provider")
        assert total.amounts["tokens.input"] == 21
        check_chain(ledger, 3)


@on_loop
async def test_others_may_write_to_the_same_envelope(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        for _ in range(5):
            await ledger.append_async(ENTRY)
            await append(ledger, ENTRY, alone=True)
            await ledger.write_async(lambda tx: tx.append(Draft("calls", "gateway.stopped", {})))
        check_chain(ledger, 15)


@pytest.mark.parametrize("alone", [False, True])
@on_loop
async def test_what_must_be_so_is_looked_up_when_others_wrote(tmp_path: Path, alone: bool) -> None:
    given = Precondition(("provider", "p"), "SELECT value FROM meta WHERE key = ?", ("p",), "1")
    entry = msgspec.structs.replace(ENTRY, precondition=given)
    put = "INSERT INTO meta VALUES ('p', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    async with committing(tmp_path) as ledger:
        for value in "121":
            await ledger.write_async(lambda tx, value=value: tx.execute(put, (value,)))  # type: ignore[misc]
            if value == "1":
                await append(ledger, entry, alone=alone)
                continue
            kept = asyncio.gather(ledger.append_async(ENTRY), ledger.append_async(ENTRY))
            with pytest.raises(PreconditionFailed, match="provider p") as caught:
                await append(ledger, entry, alone=alone)
            assert caught.value.key == ("provider", "p")
            await kept
        check_chain(ledger, 4)


@on_loop
async def test_an_archived_envelope_takes_nothing(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        await ledger.append_async(ENTRY)
        await ledger.write_async(lambda tx: tx.append(Draft("calls", "envelope.archived", {})))
        for alone in (False, True):
            with pytest.raises(EnvelopeClosed, match="calls is archived"):
                await append(ledger, ENTRY, alone=alone)


@on_loop
async def test_listeners_hear_of_entries_once_they_are_durable(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        heard: list[Event] = []
        ledger.bus.subscribe(heard.append, "capability.")
        other = msgspec.structs.replace(ENTRY, type="negotiation.decided")
        await asyncio.gather(
            ledger.append_async(other), ledger.append_async(ENTRY), ledger.append_async(numbered(2))
        )
        await append(ledger, numbered(3), alone=True)
        assert heard == ledger.events("calls")[1:]


@on_loop
async def test_a_cancelled_entry_is_told_to_another(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        told: list[tuple[EventRef | None, BaseException | None]] = []
        refused = msgspec.structs.replace(ENTRY, precondition=NEVER)
        for entry in (ENTRY, refused):
            future = ledger.append_async(entry, lambda place, error: told.append((place, error)))
            future.cancel()
        await ledger.append_async(ENTRY)
        assert told[0][0] is not None
        assert told[0][0].id == "calls:1"
        assert isinstance(told[1][1], PreconditionFailed)


@on_loop
async def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """Whether what it had was kept is not known, and told so; nothing is lost of what was told."""
    async with committing(tmp_path) as ledger:
        told = 0
        for _ in range(3):
            await ledger.append_async(ENTRY)
            told += 1
            (child,) = children()
            futures = [ledger.append_async(ENTRY) for _ in range(64)]
            await asyncio.sleep(0)
            os.kill(child, signal.SIGKILL)
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert all(isinstance(one, EventRef | LedgerUncertain) for one in results)
            told += sum(isinstance(one, EventRef) for one in results)
            await until(lambda child=child: child not in children())  # type: ignore[misc]
        assert (await ledger.append_async(ENTRY)).id.startswith("calls:")
        events = len(ledger.events("calls", limit=10_000))
        assert events > told
        check_chain(ledger, events)


@on_loop
async def test_who_is_alone_needs_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "_FAST_SECONDS", 60.0)  # however slow the disk is just now
    async with committing(tmp_path) as ledger:
        (child,) = children()
        os.kill(child, signal.SIGSTOP)
        try:
            for _ in range(10):
                async with asyncio.timeout(10):
                    await append(ledger, ENTRY, alone=True)
        finally:
            os.kill(child, signal.SIGCONT)
        check_chain(ledger, 10)


@on_loop
async def test_without_a_process_the_ledger_writes_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with committing(tmp_path) as ledger:
        for _ in range(5):
            with contextlib.suppress(LedgerUnavailable):
                await ledger.append_async(ENTRY)
        await ledger.append_async(ENTRY)
        check_chain(ledger, len(ledger.events("calls")))


@on_loop
async def test_modules_beside_it_are_not_taken_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    async with committing(tmp_path) as ledger:
        await ledger.append_async(ENTRY)


@on_loop
async def test_the_log_is_worked_into_the_file(tmp_path: Path) -> None:
    """Also where every commit is made by the loop."""
    entry = msgspec.structs.replace(ENTRY, payload=canonical({"text": "x" * 50_000}))
    async with committing(tmp_path) as ledger:
        for _ in range(1_200):
            await append(ledger, entry, alone=True)
        log = (tmp_path / "ledger.db-wal").stat().st_size
        assert log < 50_000_000


@on_loop
async def test_the_loop_does_not_wait_while_another_writes(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        await append(ledger, ENTRY, alone=True)
        with contextlib.closing(
            sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [append(ledger, ENTRY, alone=True) for _ in range(3)]
            for _ in range(20):  # the loop is free all the while
                await asyncio.sleep(0.001)
            assert not any(future.done() for future in waiting)
            other.execute("ROLLBACK")
        await asyncio.gather(*waiting)
        check_chain(ledger, 4)


@on_loop
async def test_long_entries_pass_whole(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        texts = [chr(97 + number) * 3_000_000 for number in range(5)]
        entries = [
            msgspec.structs.replace(ENTRY, payload=canonical({"text": text})) for text in texts
        ]
        await asyncio.gather(*(ledger.append_async(entry) for entry in entries))
        assert [event.payload["text"] for event in ledger.events("calls")] == texts


@on_loop
async def test_checkpoints_are_signed(tmp_path: Path, keyring: Keyring) -> None:
    async with committing(tmp_path, signer=keyring, checkpoint_every=10) as ledger:
        await asyncio.gather(*(ledger.append_async(ENTRY) for _ in range(25)))
        await until(lambda: bool(ledger.checkpoints("calls")))
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        assert reader.checkpoints("calls")[-1].sequence == 25


@on_loop
async def test_it_ends_with_the_ledger_and_not_by_signals(tmp_path: Path) -> None:
    async with committing(tmp_path) as ledger:
        await ledger.append_async(ENTRY)
        (child,) = children()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(child, one)
        await ledger.append_async(ENTRY)
        assert children() == {child}
    assert not children()


@on_loop
async def test_an_answer_is_never_for_what_was_sent_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two answers that came together, and a process that is gone when the first is heard."""

    class Gone:
        """A link whose process dies at the third message."""

        ready = True

        def __init__(self, *given: Any) -> None:
            self.heard, self.gone, self.sent = given[2], given[3], 0

        def send(self, data: bytes) -> bool:
            self.sent += 1
            if self.sent == 3:
                self.gone()
            return self.sent != 3

        def close(self) -> None:
            """There is nothing to close."""

    monkeypatch.setattr(worker_client, "WorkerLink", Gone)
    async with committing(tmp_path) as ledger:
        link: Any = ledger._worker._link  # type: ignore[union-attr]
        first = ledger.append_async(ENTRY)
        await asyncio.sleep(0)
        second = [ledger.append_async(ENTRY) for _ in range(8)]
        await asyncio.sleep(0)
        third = ledger.append_async(ENTRY)
        await asyncio.sleep(0)
        link.heard([CommitReply([(1, 1)]), CommitReply([(number, 1) for number in range(2, 10)])])
        assert (await first).id == "calls:1"
        assert [(await one).id for one in second] == [f"calls:{n}" for n in range(2, 10)]
        assert link.sent == 4
        assert not third.done()
        assert not link.heard([CommitReply([(10, 1), (11, 1)])])  # nobody asked for so much
        third.cancel()


async def _committed_for(starter: int, url: str) -> CommitReply:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serving = asyncio.create_task(asyncio.to_thread(worker.serve, theirs, url, starter))
        ours.sendall(encode_frame(CommitRequest([ENTRY])))
        come = bytearray()
        while not (found := take_frames(come)):
            come += await asyncio.to_thread(ours.recv, 65_536)
        ours.shutdown(socket.SHUT_WR)
        await serving
    return msgspec.msgpack.decode(found[0], type=CommitReply)


@on_loop
async def test_nothing_is_committed_for_who_is_gone(tmp_path: Path) -> None:
    """Who comes after may have settled what was left open."""
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as ledger:
        refused = await _committed_for(os.getppid() + 1, ledger.store.url)
        assert type(refused.failures[0].error()) is LedgerUnavailable
        assert not ledger.events("calls")
        assert not (await _committed_for(os.getppid(), ledger.store.url)).failures
        check_chain(ledger, 1)


@on_loop
async def test_a_process_that_cannot_be_started_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: object, **__: object) -> None:
        raise OSError(24, "too many open files")

    async with committing(tmp_path) as ledger:
        await ledger.append_async(ENTRY)
        (child,) = children()
        monkeypatch.setattr(subprocess, "Popen", no)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        await asyncio.gather(*(ledger.append_async(ENTRY) for _ in range(20)))
        monkeypatch.undo()
        check_chain(ledger, 21)


@on_loop
async def test_only_an_entry_that_cannot_be_sent_fails(tmp_path: Path) -> None:
    broken = msgspec.structs.replace(ENTRY, cause="e:\ud800")
    async with committing(tmp_path) as ledger:
        futures = [ledger.append_async(one) for one in (ENTRY, broken, ENTRY)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(results[1], LedgerError)
        check_chain(ledger, 2)


@on_loop
async def test_only_an_entry_whose_condition_is_no_statement_fails(tmp_path: Path) -> None:
    """What shares its commit is kept, in order."""
    wrong = Precondition(("nothing",), "SELECT nothing FROM nowhere WHERE ? = ''", ("",), "")
    guilty = msgspec.structs.replace(ENTRY, precondition=wrong)
    async with committing(tmp_path) as ledger:
        entries = [guilty if n in (0, 7, 30) else numbered(n) for n in range(31)]
        futures = [ledger.append_async(one) for one in entries]
        results = await asyncio.gather(*futures, return_exceptions=True)
        failed = [n for n, one in enumerate(results) if isinstance(one, LedgerError)]
        assert failed == [0, 7, 30]
        check_chain(ledger, 28)
        found = [event.payload["n"] for event in ledger.events("calls", limit=100)]
        assert found == [n for n in range(31) if n not in failed]


@on_loop
async def test_a_process_that_makes_no_sense_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        worker_client,
        "_PROGRAM",
        "import socket; it = socket.socket(fileno=0); it.recv(9); it.send(b'\\3\\0\\0\\0abc')",
    )
    async with committing(tmp_path) as ledger:
        for _ in range(5):
            with contextlib.suppress(LedgerUncertain):
                await asyncio.gather(ledger.append_async(ENTRY), ledger.append_async(ENTRY))
        await ledger.append_async(ENTRY)
        check_chain(ledger, len(ledger.events("calls")))


@pytest.mark.parametrize("apart", [False, True])
@on_loop
async def test_closing_finishes_what_waits(tmp_path: Path, apart: bool) -> None:
    async with committing(tmp_path) as ledger:
        sent = [ledger.append_async(ENTRY) for _ in range(20)]
        await asyncio.sleep(0)
        waiting = [ledger.append_async(ENTRY) for _ in range(3)]
        if apart:
            await asyncio.to_thread(ledger.close)
        else:
            ledger.close()
        placed = await asyncio.gather(*sent, *waiting)
    assert [one.id for one in placed] == [f"calls:{number}" for number in range(1, 24)]
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        check_chain(reader, 23)


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Also when that one is killed; what it had not committed by then is not committed."""
    program = f"""
import asyncio, os, signal
from modelpact.ledger import Ledger
from modelpact.ledger.prepared import PreparedEvent

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
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    child = Path(f"/proc/{int(done.stdout)}")

    async def gone() -> None:
        await until(lambda: not child.exists())

    asyncio.run(gone())
    with LedgerReader.open(f"sqlite:{tmp_path / 'ledger.db'}") as reader:
        check_chain(reader, len(reader.events("calls")))
