"""Limits of costs: chains of corrections, sums beyond 64 bits, amounts that are refused."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from modelpact.ledger import CostLine, CostRecord, Draft, Ledger, Transaction
from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.verify.tables import verify_hourly_sums
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from modelpact.vocabulary.errors import InputError
from tests.ledger.support import draft, fill, only, spend, usd, verified


def test_a_correction_of_a_correction_corrects_the_work(ledger: Ledger) -> None:
    """Totals count the work once, however often it is corrected."""
    event = spend(ledger, CostRecord((usd(100),)))
    names = [event.id]
    for nano, name in ((80, 0), (70, 1), (60, 0), (50, 2), (40, 3)):
        names.append(spend(ledger, CostRecord((usd(nano),), corrects=names[name])).id)
        total = only(cost_totals(ledger, "provider"))
        assert (total.money, total.records) == (nano, 1)


def test_sums_beyond_64_bits_are_exact(ledger: Ledger) -> None:
    pieces = CostRecord((CostLine("discrete", MAX_SAFE_INTEGER), CostLine("tokens.input", 1)))

    def work(tx: Transaction) -> None:
        for _ in range(1_100):
            event = tx.append(Draft("run-1", "capability.completed", {"cost": pieces.to_json()}))
            tx.record_cost(event, pieces)

    for _ in range(2):
        ledger.write(work)
    total = only(cost_totals(ledger, "provider"))
    assert total.amounts["discrete"] == 2_200 * MAX_SAFE_INTEGER > 2**63
    assert total.amounts["tokens.input"] == 2_200
    assert only(cost_totals(ledger, "provider", since=1)).amounts == total.amounts
    assert verify_hourly_sums(ledger).ok


def test_large_and_small_amounts_share_a_commit(ledger: Ledger) -> None:
    """Large amounts have their own sums, small ones share one."""
    amounts = (MAX_SAFE_INTEGER, 1, 2**36, 2, MAX_SAFE_INTEGER, 2**36 - 1, 0)

    def work(tx: Transaction) -> None:
        tx.open_envelope("run", "run", "")
        for amount in amounts:
            record = CostRecord((CostLine("discrete", amount), CostLine("tokens.input", 3)))
            payload = {"cost": record.to_json()}
            tx.record_cost(tx.append(Draft("run", "capability.completed", payload)), record)

    ledger.write(work)
    (total,) = cost_totals(ledger, "provider")
    assert total.records == len(amounts)
    assert total.amounts["discrete"] == sum(amounts)
    assert total.amounts["tokens.input"] == 3 * len(amounts)
    assert verify_hourly_sums(ledger).ok


class Charging:
    """A provider that replies with a given cost."""

    def __init__(self, *cost: CostLine) -> None:
        self.cost = cost

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:
        return Reply(invocation.id, {}, "", self.cost)

    def stream(self, registration: Registration, invocation: Invocation) -> AsyncIterator[Partial | Reply]:
        raise NotImplementedError

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        pass


@pytest.mark.parametrize(
    "cost",
    [
        (CostLine("discrete", MAX_SAFE_INTEGER),) * 1_025,
        (CostLine("discrete", 2**70),),
        (CostLine("currency", 9, "\x1b[31mEVIL\x07"),),
    ],
)
def test_an_invalid_cost_completes_the_invocation_and_flags_the_provider(
    ledger: Ledger, cost: tuple[CostLine, ...]
) -> None:
    runtime = Runtime(ledger, transports={"p": Charging(*cost)})
    runtime.registry.register(Registration("p", "tool", (Offer("urn:x:a", {}, {}),), ("discrete",)))
    assert asyncio.run(runtime.invoke("p", "urn:x:a", {})).state == "completed"
    (flagged,) = [event for event in ledger.events("registry") if event.type == "provider.flagged"]
    assert flagged.payload["violation"] == "misstated_cost"
    total = only(cost_totals(ledger, "provider"))
    assert (total.currency, total.amounts["discrete"]) == ("", 0)


def test_only_the_work_that_is_wrong_fails(ledger: Ledger) -> None:
    """Work that raises is undone alone, even if only the store detects the error."""
    started, gate = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        started.set()
        gate.wait(30)

    def bad_cost(tx: Transaction) -> None:
        event = tx.append(draft("bad"))
        tx.record_cost(event, CostRecord((CostLine("discrete", 2**63),)))

    def bad_row(tx: Transaction) -> None:
        event = tx.append(draft("bad"))
        tx._rows.events[-1] = (*tx._rows.events[-1][:3], 2**70, *tx._rows.events[-1][4:])
        assert event

    holding = ledger.submit(hold)
    assert started.wait(30)
    first = ledger.submit(lambda tx: tx.append(draft("good")))
    refused = [ledger.submit(bad_cost), ledger.submit(bad_row)]
    touching = ledger.submit(lambda tx: tx.execute("SELECT COUNT(*) FROM events"))
    last = ledger.submit(lambda tx: tx.append(draft("good")))
    gate.set()
    assert holding.result(30) is None
    assert [first.result(30).sequence, last.result(30).sequence] == [1, 2]
    assert touching.result(30) == [(1,)]
    assert isinstance(refused[0].exception(30), InputError)
    assert refused[1].exception(30) is not None
    assert ledger.events("bad") == []
    fill(ledger, "good", 1)
    assert verified(ledger, "good").events == 3
