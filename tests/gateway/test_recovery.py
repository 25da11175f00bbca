"""Calls that a process left open are settled once, by the next process of its name."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.gateway.budgets import Budgets
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.recorder import GatewayRecorder
from modelpact.ledger.costs import Attribution, CostLine
from modelpact.ledger.errors import LedgerUncertain
from modelpact.ledger.event import Draft, EventRef, PreparedEvent
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.verify.archive import import_export
from modelpact.ledger.verify.export import export_lines
from modelpact.providers.contract import ContractError
from modelpact.providers.runtime.lookup import STOPPED, find_in_events, list_in_events
from modelpact.providers.runtime.recorder import UnfinishedInvocation
from modelpact.providers.runtime.records import INVOKED, AnswerDigest, InvokedPayload
from modelpact.providers.runtime.runtime import Runtime
from tests.gateway.support import RunningGateway, gateway_running

NAME = "gateway"
PLAN = Plan("forward", "yes", "mock/demo", "mock", "demo")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as opened:
        yield opened


def recorder(ledger: Ledger) -> GatewayRecorder:
    return GatewayRecorder(ledger, Runtime(ledger, name=NAME).registry, NAME, [Budgets(ledger)])


def died(ledger: Ledger, workload: str, calls: int) -> str:
    """Write what a gateway leaves that was killed with calls open; return the envelope."""
    envelope = f"gateway/{NAME}-dead/{workload}/2026-01-02"
    attribution = msgspec.to_builtins(Attribution("mock", "demo", "chat", "key_1"))
    payload = InvokedPayload(attribution, "chat", (CostLine("tokens.input", 7),), "sha256:0", "mock", "", "sync")

    def work(tx: Transaction) -> None:
        tx.open_envelope(envelope, "gateway", NAME)
        for _ in range(calls):
            tx.append(Draft(envelope, INVOKED, msgspec.to_builtins(payload)))

    ledger.write(work)
    return envelope


def types(ledger: Ledger, envelope: str) -> list[str]:
    return [event.type for event in ledger.events(envelope)]


def test_recovery_goes_on_while_requests_arrive(ledger: Ledger) -> None:
    """They come as soon as the port is open: the first of them begins the day."""
    envelopes = [died(ledger, name, 3) for name in ("one", "two")]

    async def restarted() -> None:
        recording = recorder(ledger)
        left: list[UnfinishedInvocation] = recording.unfinished()
        recording._envelope(PLAN)
        await asyncio.sleep(0)
        await recording.recover_calls(left)
        await recording.aclose()

    asyncio.run(restarted())
    for envelope in envelopes:
        assert types(ledger, envelope) == [INVOKED] * 3 + ["capability.failed"] * 3 + [STOPPED]


def test_imported_calls_are_not_recovered(ledger: Ledger, tmp_path: Path) -> None:
    """Its gateway may be alive, has the same name as like as not, and the record is its."""
    envelope = died(ledger, "one", 2)
    with Ledger.open(f"sqlite:{tmp_path / 'other.db'}") as other:
        lines = list(export_lines(ledger, envelope))
        import_export(other, lambda: lines, allow_unsigned=True)

        async def started() -> None:
            recording = recorder(other)
            await recording.recover_calls(recording.unfinished())
            await recording.aclose()

        asyncio.run(started())
        assert types(other, envelope) == [INVOKED] * 2
        died(ledger, "one", 1)
        more = list(export_lines(ledger, envelope))
        assert import_export(other, lambda: more, allow_unsigned=True).added == 1


def test_an_opening_whose_commit_was_uncertain_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store went away in the midst of a commit that was kept: nothing was sent."""
    unsure = threading.Event()
    with gateway_running(tmp_path) as gateway:
        real = gateway.ledger.append_async

        def append_async(entry: PreparedEvent, on_abandoned: Any = None) -> "asyncio.Future[EventRef]":
            if entry.type != INVOKED or not unsure.is_set():
                return real(entry, on_abandoned)
            result: asyncio.Future[EventRef] = asyncio.get_running_loop().create_future()
            lost = LedgerUncertain("it is not known whether it was kept")
            real(entry).add_done_callback(lambda _: result.set_exception(lost))
            return result

        monkeypatch.setattr(gateway.ledger, "append_async", append_async)
        gateway.openai.script.add("one", "two")
        assert gateway.chat("gpt-4o").status == 200
        unsure.set()
        assert gateway.chat("gpt-4o").status == 503
        unsure.clear()
        assert gateway.chat("gpt-4o").status == 200
        path = gateway.path
    with Ledger.open(f"sqlite:{path}") as ledger:
        states = [list_in_event.state for list_in_event in list_in_events(ledger, "", "", 100)[0]]
        assert sorted(states) == ["cancelled", "completed", "completed"]


def test_every_call_is_settled_once_while_the_database_restarts(
    postgres: Any, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is on the record in the end has one beginning and one end."""
    opening = Ledger.open
    monkeypatch.setattr("tests.gateway.support.Ledger.open", classmethod(lambda *_, **__: opening(postgres_url)))
    stop = threading.Event()
    statuses: list[int] = []

    def ask(gateway: RunningGateway) -> None:
        while not stop.is_set():
            statuses.append(gateway.chat("mock/demo").status)

    with gateway_running(tmp_path) as gateway:
        threads = [threading.Thread(target=ask, args=(gateway,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                before = len(statuses)
                gateway.wait_until(lambda before=before: 200 in statuses[before + 20 :])  # type: ignore[misc]
                postgres.stop()
                try:
                    before = len(statuses)
                    gateway.wait_until(lambda before=before: 503 in statuses[before:])  # type: ignore[misc]
                finally:
                    postgres.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        gateway.wait_until(lambda: gateway.chat("mock/demo").status == 200)
    with opening(postgres_url) as ledger:
        calls, _ = list_in_events(ledger, "", "", 100_000)
        assert {call.state for call in calls} <= {"completed", "failed", "cancelled"}
        rows = ledger.read("SELECT cause FROM events WHERE type LIKE 'capability.%' AND type <> ?", (INVOKED,))
        assert sorted(invocation for (invocation,) in rows) == sorted(call.id for call in calls)
        assert statuses.count(200) + 1 <= sum(call.state == "completed" for call in calls)


def test_a_call_that_another_process_settled_is_not_settled_again(ledger: Ledger) -> None:
    """Where the store was away, each of two processes may take the other for dead."""
    envelope = died(ledger, "one", 2)

    async def restarted() -> None:
        recording = recorder(ledger)
        left = recording.unfinished()
        ledger.append(Draft(envelope, "capability.completed", {}, left[0].invocation.id))
        await recording.recover_calls(left)
        await recording.aclose()

    asyncio.run(restarted())
    ends = ["capability.completed", "capability.failed"]
    assert types(ledger, envelope) == [INVOKED] * 2 + ends + [STOPPED]


def test_imported_events_of_no_invocation_are_skipped(ledger: Ledger) -> None:
    """An import is verified for what it is, not for what it says."""
    died(ledger, "one", 1)

    def work(tx: Transaction) -> None:
        tx.open_envelope("elsewhere", "gateway", "another")
        payloads: list[dict[str, Any]] = [{}, {"attribution": 7}, {"estimate": [{}]}]
        for payload in payloads:
            opened = tx.append(Draft("elsewhere", INVOKED, payload))
            tx.append(Draft("elsewhere", "capability.completed", {"cost": 1}, opened.id))

    ledger.write(work)
    assert len(list_in_events(ledger, "", "", 100)[0]) == 1
    with pytest.raises(ContractError, match="no call"):
        find_in_events(ledger, "elsewhere:1")


def test_an_endless_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelpact.providers.runtime.records._MAX_KEPT_BYTES", 10)
    digest = AnswerDigest(keep=True)
    for _ in range(3):
        digest.add(b"12345")
    assert digest.result() == (f"sha256:{hashlib.sha256(b'12345' * 3).hexdigest()}", None)
