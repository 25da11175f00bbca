"""The ledger on both stores: atomic, in order, and never acknowledged before it is durable."""

import asyncio
import contextlib
import os
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from modelpact.ledger import (
    Draft,
    EnvelopeClosed,
    Event,
    Ledger,
    LedgerError,
    LedgerReader,
    LedgerUnavailable,
    Transaction,
)
from modelpact.ledger.event import EventRef, Precondition, PreconditionFailed, PreparedEvent
from modelpact.vocabulary.errors import InputError
from tests.ledger.support import draft, fill, verified

TABLE = "INSERT INTO meta VALUES ('test-' || ?, 'x')"


def rows(ledger: Ledger) -> int:
    count: int = ledger.read("SELECT COUNT(*) FROM meta WHERE value = 'x'")[0][0]
    return count


def hold(ledger: Ledger) -> threading.Event:
    """Block the writer until the event is set, so that work queues up."""
    held, released = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        held.set()
        released.wait(30)

    future = ledger.submit(work)
    held.wait(30)
    assert not future.cancel()  # it runs already
    return released


def test_events_are_chained_and_read_back(ledger: Ledger) -> None:
    first, second = ledger.append(draft(number=1), draft(number=2, text="é\u20ac\U0001f600\x00"))
    assert (first.id, second.id) == ("run-1:1", "run-1:2")
    assert second.previous == first.hash
    assert ledger.events("run-1") == [first, second]
    assert ledger.event("run-1:2") == second
    assert ledger.event("run-1:3") is None
    assert ledger.event("nonsense") is None
    assert verified(ledger).events == 2


def test_the_last_events_of_an_envelope_leave_out_one_type(ledger: Ledger) -> None:
    first, second, third = ledger.append(
        Draft("run-1", "a.b", {}), Draft("run-1", "a.partial", {}), Draft("run-1", "a.c", {})
    )
    assert ledger.last_events("run-1", 2) == [second, third]
    assert ledger.last_events("run-1", 2, without="a.partial") == [first, third]
    assert ledger.last_events("run-2", 2) == []


def test_new_events_follow_the_known_ones(ledger: Ledger) -> None:
    (known,) = ledger.append(draft(number=1))
    follow = ledger.new_events([known])
    assert next(follow) == []
    (second,) = ledger.append(Draft("run-2", "test.done", {}))
    assert next(follow) == [second]
    assert next(follow) == []


def test_new_events_are_found_among_more_known_ones_than_a_page_has(ledger: Ledger) -> None:
    known = ledger.append(*(draft(number=number) for number in range(2_500)))
    follow = ledger.new_events(known)
    assert next(follow) == []
    (last,) = ledger.append(draft(number=0))
    assert next(follow) == [last]


def test_the_chain_continues_after_reopening(url: str) -> None:
    for _ in range(3):
        with Ledger.open(url) as ledger:
            fill(ledger, count=2)
    with Ledger.open(url) as ledger:
        assert verified(ledger).events == 6


def test_a_cause_chain_ends_at_the_origin_or_closes_a_circle(ledger: Ledger) -> None:
    (origin,) = ledger.append(draft("a"))
    (middle,) = ledger.append(Draft("b", "acme.middle", {}, origin.id))
    (last,) = ledger.append(Draft("a", "acme.last", {}, middle.id))
    assert ledger.cause_chain(last.id) == [last, middle, origin]
    ledger.append(Draft("c", "acme.circle", {}, "c:2"), Draft("c", "acme.circle", {}, "c:1"))
    assert [event.id for event in ledger.cause_chain("c:2")] == ["c:2", "c:1"]


def test_work_that_raises_is_undone(ledger: Ledger) -> None:
    def plain(tx: Transaction) -> None:
        tx.append(draft())
        raise RuntimeError("no")

    def touching(tx: Transaction) -> None:
        tx.append(draft())
        tx.execute(TABLE, ("1",))
        tx.append(draft())
        raise RuntimeError("no")

    for work in (plain, touching):
        with pytest.raises(RuntimeError, match="no"):
            ledger.write(work)
    assert rows(ledger) == 0
    fill(ledger, count=1)
    assert verified(ledger).events == 1


def test_in_a_shared_commit_only_the_work_that_is_wrong_fails(ledger: Ledger) -> None:
    """Concurrent appends share a commit, and one that fails does not affect the others."""
    ledger.write(lambda tx: tx.execute(TABLE, ("taken",)))
    released = hold(ledger)

    def taken(tx: Transaction) -> Event:
        event = tx.append(draft(number=99))
        tx.execute(TABLE, ("taken",))
        return event

    def hiding(tx: Transaction) -> Event:
        with contextlib.suppress(LedgerError):
            tx.execute(TABLE, ("taken",))
        return tx.append(draft(number=98))

    def wrong(tx: Transaction) -> None:
        tx.execute("SELECT nothing FROM nowhere")

    good = [ledger.submit(lambda tx, n=n: tx.append(draft(number=n))) for n in range(3)]  # type: ignore[misc]
    bad = [ledger.submit(work) for work in (taken, hiding, wrong)]
    touching = ledger.submit(lambda tx: tx.execute_update(TABLE, ("new",)))
    late = ledger.submit(lambda tx: tx.append(draft(number=3)))
    released.set()
    assert [future.result(30).payload["number"] for future in good] == [0, 1, 2]
    assert touching.result(30) == 1
    assert late.result(30).sequence == 4
    for future in bad:
        error = future.exception(30)
        assert isinstance(error, LedgerError)
        assert not isinstance(error, LedgerUnavailable)
    assert [event.payload["number"] for event in ledger.events("run-1")] == [0, 1, 2, 3]
    assert verified(ledger).events == 4


@pytest.mark.parametrize(
    "bad",
    [
        Draft("a b", "run.started", {}),
        Draft("a", "capability.dreamt", {}),
        Draft("a", "run.started", {"x": 1.5}),
        Draft("a", "run.started", []),  # type: ignore[arg-type]
        Draft("a", "run.started", {}, "no\x00name"),
    ],
)
def test_an_invalid_draft_is_refused_before_it_is_written(ledger: Ledger, bad: Draft) -> None:
    with pytest.raises(InputError):
        ledger.append(draft("a"), bad)
    assert ledger.events("a") == []


def test_work_sees_what_it_wrote(ledger: Ledger) -> None:
    def work(tx: Transaction) -> tuple[int, int]:
        tx.open_envelope("run-1", "run", "a test")
        tx.append(draft())
        before = tx.execute("SELECT COUNT(*) FROM events")[0][0]
        tx.append(draft())
        return before, tx.execute("SELECT COUNT(*) FROM events")[0][0]

    assert ledger.write(work) == (1, 2)
    envelope = ledger.envelope("run-1")
    assert envelope is not None
    assert (envelope.kind, envelope.subject, envelope.events) == ("run", "a test", 2)


def test_closing_commits_waiting_work_and_refuses_more(url: str) -> None:
    ledger = Ledger.open(url)
    waiting = [ledger.submit(lambda tx: tx.append(draft())) for _ in range(200)]
    ledger.close()
    assert [future.result(0).sequence for future in waiting] == list(range(1, 201))
    with pytest.raises(LedgerError, match="closed"):
        ledger.append(draft())
    with pytest.raises(LedgerError, match="closed"):
        asyncio.run(ledger.write_async(lambda tx: None))
    assert isinstance(ledger.submit(lambda tx: None).exception(0), LedgerError)
    ledger.close()


def test_closing_while_threads_write_leaves_none_waiting(lite: Ledger) -> None:
    begun = threading.Barrier(5)

    def hand_in() -> tuple[int, int]:
        begun.wait()
        committed = refused = 0
        while not refused:
            error = lite.submit(lambda tx: tx.append(draft())).exception(30)
            refused += error is not None
            committed += error is None
        return committed, refused

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(hand_in) for _ in range(4)]
        begun.wait()
        lite.append(draft())
        lite.close()
        committed = sum(future.result(30)[0] for future in futures)
    with Ledger.open(lite.store.url) as again:
        assert verified(again).events == committed + 1


def test_cancelled_work_does_not_run(ledger: Ledger) -> None:
    released = hold(ledger)
    second = ledger.submit(lambda tx: tx.append(draft()))
    assert second.cancel()
    released.set()

    async def main() -> None:
        task = asyncio.ensure_future(ledger.write_async(lambda tx: tx.append(draft())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    (event,) = fill(ledger, count=1)
    assert event.sequence in (1, 2)  # the task may have been too late to cancel
    assert verified(ledger).events == event.sequence


EVENT = PreparedEvent("run-1", "capability.invoked", b'{"n":1}')


def test_a_prepared_event_is_an_event_like_any_other(ledger: Ledger) -> None:
    received: list[Event] = []
    ledger.bus.subscribe(received.append, "capability.")
    fill(ledger, count=1)

    async def main() -> EventRef:
        return await ledger.append_async(EVENT)

    ref = asyncio.run(main())
    assert ref.id == "run-1:2"
    event = ledger.event(ref.id)
    assert event == received[-1]
    assert event is not None
    assert (event.payload, event.time) == ({"n": 1}, ref.time)
    assert verified(ledger).events == 2


@pytest.mark.parametrize("late", [False, True])
def test_cancelling_does_not_undo_an_append(ledger: Ledger, late: bool) -> None:
    """`on_abandoned` gets the outcome, even if the task is cancelled before the commit."""
    refs: list[EventRef | None] = []

    async def main() -> None:
        began, go_on = threading.Event(), threading.Event()

        def slow(tx: Transaction) -> None:
            began.set()
            assert go_on.wait(10)

        released = hold(ledger)
        future = ledger.append_async(EVENT, lambda ref, error: refs.append(ref))
        later = asyncio.ensure_future(ledger.write_async(slow))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not late:
            future.cancel()
        released.set()
        assert await asyncio.to_thread(began.wait, 10)
        future.cancel()
        go_on.set()
        await later

    asyncio.run(main())
    assert [ref and ref.id for ref in refs] == ["run-1:1"]
    assert verified(ledger).events == 1


def test_the_error_of_a_cancelled_append_goes_to_on_abandoned(ledger: Ledger) -> None:
    errors: list[BaseException | None] = []

    async def main() -> None:
        refused = msgspec.structs.replace(
            EVENT, precondition=Precondition(("a fact",), "SELECT 'no' WHERE ? = ''", ("",), "yes")
        )
        with pytest.raises(PreconditionFailed, match="a fact"):
            await ledger.append_async(refused)
        released = hold(ledger)
        future = ledger.append_async(refused, lambda ref, error: errors.append(error))
        await asyncio.sleep(0)
        future.cancel()
        released.set()
        await ledger.write_async(lambda tx: None)

    asyncio.run(main())
    assert [type(error) for error in errors] == [PreconditionFailed]
    assert not ledger.events("run-1")


def test_a_closed_loop_does_not_stop_the_writer(lite: Ledger) -> None:
    released = hold(lite)
    loop = asyncio.new_event_loop()
    task = loop.create_task(lite.write_async(lambda tx: tx.append(draft())))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    released.set()
    fill(lite, count=1)


def test_tasks_share_commits(ledger: Ledger) -> None:
    async def main() -> list[Event]:
        return await asyncio.gather(*(ledger.write_async(lambda tx: tx.append(draft())) for _ in range(300)))

    events = asyncio.run(main())
    assert [event.sequence for event in events] == list(range(1, 301))

    async def fails() -> None:
        with pytest.raises(ZeroDivisionError):
            await ledger.write_async(lambda tx: 1 // 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await ledger.write_async(lambda tx: next(iter(())))

    asyncio.run(fails())


def test_reads_continue_during_writes(ledger: Ledger) -> None:
    stop = threading.Event()

    def read() -> int:
        most = 0
        while not stop.is_set():
            events = ledger.events("run-1")
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            assert len(events) >= most
            most = len(events)
        return most

    with ThreadPoolExecutor(2) as pool:
        readers: list[Future[int]] = [pool.submit(read) for _ in range(2)]
        acknowledged = [fill(ledger, count=2)[-1] for _ in range(40)]
        assert ledger.events("run-1")[-1] == acknowledged[-1]  # an acknowledged write is visible
        stop.set()
        assert all(reader.result(30) <= 80 for reader in readers)


def test_times_never_go_back(url: str) -> None:
    """The clock may jump back, and times in the ledger do not."""
    times = iter([100, 50, 50, 7, 200, 3])
    with Ledger.open(url, clock=lambda: next(times)) as ledger:
        recorded = [fill(ledger, f"run-{n}", 1)[0].time for n in range(6)]
    assert recorded == sorted(set(recorded))
    with Ledger.open(url, clock=lambda: 1) as ledger:
        assert fill(ledger, "later", 1)[0].time > recorded[-1]


def test_an_event_is_no_earlier_than_one_of_another_runtime(url: str) -> None:
    with Ledger.open(url, clock=lambda: 10) as slow, Ledger.open(url, clock=lambda: 1000) as fast:
        fill(slow, count=1)
        fill(fast, count=1)
        (late,) = fill(slow, count=1)
        assert late.sequence == 3
        assert late.time >= 1000


def test_two_ledgers_take_turns_on_one_envelope(url: str) -> None:
    with Ledger.open(url) as left, Ledger.open(url) as right:
        for number in range(10):
            ledger = (left, right)[number % 2]
            assert fill(ledger, count=1)[0].sequence == number + 1
            ledger.write(lambda tx, n=number: tx.execute(TABLE, (str(n),)))  # type: ignore[misc]
        assert verified(left).events == 10


def failing(event: Event) -> None:
    raise ZeroDivisionError


def test_listeners_get_durable_events_in_order(ledger: Ledger) -> None:
    received: list[str] = []
    ledger.bus.subscribe(lambda event: received.append(event.id), "run.")
    ledger.bus.subscribe(failing)
    fill(ledger, count=3)
    ledger.append(Draft("run-1", "acme.other", {}))
    with pytest.raises(ZeroDivisionError):
        ledger.write(lambda tx: (tx.append(draft()), 1 // 0))
    assert received == ["run-1:1", "run-1:2", "run-1:3"]
    assert ledger.bus.failures == 4


def test_a_listener_that_raises_system_exit_stops_nothing(ledger: Ledger) -> None:
    def leave(event: Event) -> NoReturn:
        raise SystemExit

    ledger.bus.subscribe(leave)
    for number in range(2):
        assert fill(ledger, count=1)[0].sequence == number + 1
    assert ledger.bus.failures == 2


def test_nothing_is_appended_to_an_archived_envelope(ledger: Ledger) -> None:
    fill(ledger)
    ledger.append(Draft("run-1", "envelope.archived", {}))
    for _ in range(2):
        with pytest.raises(EnvelopeClosed, match="archived"):
            fill(ledger)
    with Ledger.open(ledger.store.url) as other, pytest.raises(EnvelopeClosed):
        fill(other)


def test_urls_of_other_databases_are_refused(tmp_path: Path) -> None:
    for url in ("sqlite::memory:", "sqlite:", "mysql://x", ""):
        with pytest.raises(InputError, match=r"store\.url"):
            Ledger.open(url)


def test_a_closed_ledger_is_a_single_file(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:{file}") as ledger:
        fill(ledger)
        assert len(ledger.events("run-1")) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
    shutil.copy(file, tmp_path / "copy.db")
    with LedgerReader.open(f"sqlite:{tmp_path / 'copy.db'}") as reader:
        assert len(reader.events("run-1")) == 5


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_only_the_owner_can_read_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "data" / "ledger.db"
    with Ledger.open(f"sqlite:{path}") as ledger:
        ledger.append(draft())
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-wal", "ledger.db-shm"), 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    path.chmod(0o660)
    with Ledger.open(f"sqlite:{path}"):
        assert path.stat().st_mode & 0o777 == 0o660
