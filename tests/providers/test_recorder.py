"""The recorder of invocations does the same over rows and over events alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from modelpact.ledger import CostLine, Ledger
from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.costs import Attribution
from modelpact.ledger.errors import LedgerUnavailable, LedgerUncertain, SettlementNotRecorded
from modelpact.ledger.event import Draft
from modelpact.providers.contract import ComplianceProfile, Invocation
from modelpact.providers.runtime.event_storage import EventStorage
from modelpact.providers.runtime.lookup import KIND, find_cost, find_invocation, list_invocations
from modelpact.providers.runtime.recorder import BackgroundTasks, InvocationRecorder
from modelpact.providers.runtime.records import InvocationOutcome, InvocationRequest, cancelled, cost_record, failed
from modelpact.providers.runtime.row_storage import RowStorage
from tests.providers.in_process_providers import ECHOING, echoing
from tests.providers.support import ECHO, assert_whole, on_loop

ENVELOPE = "calls/1"
REQUEST = InvocationRequest(
    ECHO,
    {"a": 1},
    b'{"a":1}',
    attribution=Attribution("echo", capability=ECHO),
    estimate=(CostLine("discrete", 3),),
    envelope=ENVELOPE,
)
DONE = InvocationOutcome("completed", "", (CostLine("discrete", 2),), data=b'{"b":2}', output={"b": 2}, answered=True)
Storage = RowStorage | EventStorage


@asynccontextmanager
async def recording(
    ledger: Ledger, storage: str, retry_delays: tuple[float, ...] | None = ()
) -> AsyncIterator[tuple[InvocationRecorder, Storage, Callable[[], Any]]]:
    """Give a recorder on a storage, the storage, and a function that opens an invocation."""
    runtime, tasks = echoing(ledger), BackgroundTasks()
    registered = await runtime.registry.fetch(ECHOING.id)
    made: Storage
    if storage == "rows":
        made = RowStorage(ledger, "test", ComplianceProfile(), ledger.clock)
    else:
        ledger.write(lambda tx: tx.open_envelope(ENVELOPE, KIND, "test"))
        made = EventStorage(ledger, "test", ledger.clock, tasks, lambda _: True)
    recorder = InvocationRecorder(
        made, tasks, process_name="test", disconnect_reason="the caller left", retry_delays=retry_delays
    )
    yield recorder, made, lambda: recorder.open(REQUEST, registered)
    await tasks.aclose()


@pytest.fixture(params=["rows", "events"])
def storage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def settling_events(ledger: Ledger, invocation: Invocation) -> list[str]:
    events = ledger.events(invocation.envelope)
    return [event.type for event in events if event.cause == invocation.event]


@on_loop
async def test_an_invocation_is_found_as_it_was_recorded(ledger: Ledger, storage: str) -> None:
    async with recording(ledger, storage) as (recorder, _, opening):
        opened, fresh = (result := await opening()).invocation, result.fresh
        assert fresh
        assert opened == find_invocation(ledger, opened.id)
        assert list_invocations(ledger, "open") == ([opened], False)
        settlement = await recorder.settle(opened, DONE)
        assert settlement.changed
        invocation = find_invocation(ledger, opened.id)
        assert invocation == settlement.invocation
        assert (invocation.state, invocation.output) == ("completed", {"b": 2})
        cost = find_cost(ledger, invocation)
        assert cost is not None
        assert (cost.lines, cost.estimate) == (DONE.lines, False)
        assert cost.attribution == REQUEST.attribution
    assert_whole(ledger)


@on_loop
async def test_events_of_both_storages_say_the_same(ledger: Ledger) -> None:
    payloads = []
    for name in ("rows", "events"):
        async with recording(ledger, name) as (recorder, _, opening):
            for outcome in (DONE, failed("broken: x"), cancelled("no longer needed")):
                opened = (await opening()).invocation
                settlement = await recorder.settle(opened, outcome)
                for event_id in (opened.event, settlement.invocation.settled_by):
                    event = ledger.event(str(event_id))
                    assert event is not None
                    payload = {**event.payload}
                    for field in ("invocation", "content", "registered"):
                        payload.pop(field, None)
                    if outcome is not DONE and "cost" in payload:
                        assert payload["cost"]["lines"][0].pop("amount") >= 0
                    payloads.append((event.type, payload))
    half = len(payloads) // 2
    assert payloads[:half] == payloads[half:]


@on_loop
async def test_an_invocation_is_settled_once(ledger: Ledger, storage: str) -> None:
    async with recording(ledger, storage) as (recorder, _, opening):
        opened = (await opening()).invocation
        first, second = await asyncio.gather(
            recorder.settle(opened, failed("first")), recorder.cancel(opened, "second")
        )
        assert (first.changed, second.changed) == (True, False)
        assert settling_events(ledger, opened) == ["capability.failed"]
        assert find_invocation(ledger, opened.id).error == "first"


@on_loop
async def test_what_a_caller_abandons_while_it_is_opened_is_cancelled(ledger: Ledger, storage: str) -> None:
    async with recording(ledger, storage) as (_, _, opening):
        task = asyncio.create_task(opening())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    invocations, _ = list_invocations(ledger)
    assert [(invocation.state, invocation.error) for invocation in invocations] in (
        [("cancelled", "the caller left")],
        [],
    )
    assert_whole(ledger)


@on_loop
async def test_what_a_caller_abandons_while_it_is_settled_is_settled(ledger: Ledger, storage: str) -> None:
    async with recording(ledger, storage) as (recorder, _, opening):
        opened = (await opening()).invocation
        task = asyncio.create_task(recorder.settle(opened, DONE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert find_invocation(ledger, opened.id).state == "completed"
        assert settling_events(ledger, opened) == ["capability.completed"]


@pytest.mark.parametrize("stored", [False, True])
@on_loop
async def test_a_settlement_that_failed_is_written_again_once(
    ledger: Ledger, storage: str, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """The store fails at the commit, and the write was stored or was not."""
    async with recording(ledger, storage, retry_delays=(0.01,)) as (recorder, _, opening):
        opened = (await opening()).invocation
        name = "write_async" if storage == "rows" else "append_async"
        write, failures = getattr(ledger, name), [LedgerUncertain("away")]

        async def fail_once(*args: Any) -> Any:
            if not failures:
                return await write(*args)
            if stored:
                await write(*args)
            raise failures.pop()

        monkeypatch.setattr(ledger, name, fail_once)
        await recorder.settle(opened, DONE)
        assert settling_events(ledger, opened) == ["capability.completed"]
        assert find_invocation(ledger, opened.id).state == "completed"
    assert_whole(ledger)


@on_loop
async def test_a_settlement_can_be_left_to_the_background(
    ledger: Ledger, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recording(ledger, storage, retry_delays=None) as (recorder, _, opening):
        opened = (await opening()).invocation
        name = "write_async" if storage == "rows" else "append_async"
        write, failures = getattr(ledger, name), [LedgerUnavailable("away")]

        async def fail_once(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return await write(*args)

        monkeypatch.setattr(ledger, name, fail_once)
        with pytest.raises(SettlementNotRecorded, match="away"):
            await recorder.settle(opened, DONE)
    assert find_invocation(ledger, opened.id).state == "completed"


@on_loop
async def test_what_a_process_left_open_fails_as_interrupted(ledger: Ledger, storage: str) -> None:
    async with recording(ledger, storage) as (_, _, opening):
        opened = (await opening()).invocation
    async with recording(ledger, storage) as (recorder, made, _):
        unfinished = made.unfinished()
        assert [item.invocation for item in unfinished] == [opened]
        (recovered,) = await recorder.recover(unfinished)
        assert recovered.error == "interrupted: the test stopped before the answer came"
        assert find_invocation(ledger, opened.id) == recovered
        await recorder.recover(unfinished)
        assert settling_events(ledger, opened) == ["capability.failed"]
    assert_whole(ledger)


@on_loop
async def test_what_was_settled_meanwhile_is_not_recovered(lite_ledger: Ledger) -> None:
    async with recording(lite_ledger, "events") as (recorder, made, opening):
        opened = (await opening()).invocation
        unfinished = made.unfinished()
        lite_ledger.append(Draft(ENVELOPE, "capability.completed", {}, opened.id))
        await recorder.recover(unfinished)
        assert settling_events(lite_ledger, opened) == ["capability.completed"]


def test_an_elapsed_time_stays_within_what_can_be_recorded() -> None:
    """Nanoseconds outgrow the largest safe integer after 104 days."""
    opened = Invocation("i", "p", ECHO, "async", "open", None, "e", "e:1", 0)
    record = cost_record(opened, failed("late"), 200 * 86_400 * 10**9)
    assert record.lines == (CostLine("time", MAX_SAFE_INTEGER),)
    assert record.estimate
    reported = msgspec.structs.replace(DONE, lines=(CostLine("time", MAX_SAFE_INTEGER + 1),))
    with pytest.raises(Exception, match="cannot be recorded"):
        cost_record(opened, reported, 0)
