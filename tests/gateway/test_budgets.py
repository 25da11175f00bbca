"""Budgets: what is under way counts with its estimate, what has ended with its cost, at once."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from modelpact.gateway import budgets
from modelpact.gateway.key_store import create_key
from modelpact.gateway.keys import KeySettings
from modelpact.ledger.event import EventRef, PreparedEvent
from modelpact.ledger.ledger import Ledger
from tests.fakes import Fail, Reply, cut
from tests.gateway.support import HI, Answer, RunningGateway, gateway_running
from tests.gateway.test_failures import left, opened

LONG_AGO = 3_600.0
"""A total of the store stays good for so long where a test is about this process alone."""


@pytest.fixture(autouse=True)
def _no_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MAX_AGE_TO_ALLOW_SECONDS", LONG_AGO)


def cost(answer: Answer) -> int:
    return round(float(answer.headers["modelpact-cost-usd"]) * 1e9)


def ask(gateway: RunningGateway, key: str, **more: Any) -> Answer:
    """Ask for what may cost a cent, and costs next to nothing."""
    return gateway.chat("gpt-4o", key=key, max_tokens=1_000, **more)


ESTIMATE = 1_000 * 10_000
"""What gpt-4o asks for a thousand tokens of output, in nano-dollars; the prompt comes to it."""


def test_a_request_that_has_ended_counts_with_its_cost(gateway: RunningGateway) -> None:
    """Estimates of ended requests would fill this budget after two; their costs do not."""
    secret = gateway.new_key(budget=2 * ESTIMATE, period="day")
    answers = [ask(gateway, secret) for _ in range(20)]
    assert [answer.status for answer in answers] == [200] * 20
    assert sum(map(cost, answers)) < 2 * ESTIMATE


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_spent_beyond_the_budget(gateway: RunningGateway, stream: bool) -> None:
    """One after the other, the first request after the last nano-dollar is refused."""
    price = cost(ask(gateway, gateway.key))
    secret = gateway.new_key(budget=3 * price - 1, period="day")
    statuses = []
    for _ in range(5):
        statuses.append(ask(gateway, secret, stream=stream).status)
        gateway.settled()
    assert statuses == [200, 200, 200, 429, 429]


def test_a_stream_counts_while_it_is_under_way(gateway: RunningGateway) -> None:
    """Its head has long been sent; what it may cost is still reserved."""
    secret = gateway.new_key(budget=ESTIMATE, period="day")
    begun, release = threading.Event(), threading.Event()
    gateway.openai.hold = (begun, release)
    body = {"model": "gpt-4o", "messages": HI, "max_tokens": 1_000, "stream": True}
    before, gateway.key = gateway.key, secret
    with opened(gateway, "/v1/chat/completions", json.dumps(body).encode()):
        assert begun.wait(30)
        gateway.openai.hold = None
        assert ask(gateway, secret).status == 429, "what is under way may take all of it"
    release.set()
    gateway.key = before
    gateway.settled()
    assert ask(gateway, secret).status == 429, "it was given up, but sent: it may be paid for"


def test_requests_at_once_do_not_overrun_it(gateway: RunningGateway) -> None:
    """So many fit by their estimates, and no more are sent, though all come at once."""
    secret = gateway.new_key(budget=2 * ESTIMATE, period="day")
    begun, release = threading.Event(), threading.Event()
    gateway.openai.hold = (begun, release)
    answers: list[Answer] = []
    asking = [threading.Thread(target=lambda: answers.append(ask(gateway, secret))) for _ in "x" * 8]
    for thread in asking:
        thread.start()
    gateway.wait_until(lambda: len(answers) == 6)
    assert [answer.status for answer in answers] == [429] * 6
    release.set()
    for thread in asking:
        thread.join(30)
    assert sorted(answer.status for answer in answers) == [200] * 2 + [429] * 6
    gateway.openai.hold = None
    assert ask(gateway, secret).status == 200, "they have ended, and cost next to nothing"


def test_failures_and_leaving_give_back_what_was_reserved(gateway: RunningGateway) -> None:
    secret = gateway.new_key(budget=ESTIMATE, period="day")
    gateway.openai.script.add(Fail(500), Fail(429), Reply("x" * 500, fault=cut(3)))
    assert [ask(gateway, secret).status for _ in range(2)] == [500, 429]
    assert ask(gateway, secret, stream=True).status == 200
    gateway.settled()
    before, gateway.key = gateway.key, secret
    left(gateway, "/v1/chat/completions", {"model": "gpt-4o", "messages": HI, "stream": True})
    gateway.key = before
    gateway.settled()
    assert ask(gateway, secret).status == 200


def test_a_fallback_counts_once(tmp_path: Path) -> None:
    more = (
        '[workloads.falls]\nmodel = "openai/gpt-4o"\nneeds = []\n'
        'fallback = "openai/gpt-4o-mini"\nfallback_on = ["5xx"]\n'
    )
    with gateway_running(tmp_path, more) as gateway:
        secret = gateway.new_key(budget=2 * ESTIMATE, period="day")
        for _ in range(10):
            gateway.openai.script.add(Fail(500))
            answer = gateway.chat("workload/falls", key=secret, max_tokens=1_000)
            assert answer.status == 200
            assert "modelpact-substituted" in answer.headers


def test_carried_requests_count_too(gateway: RunningGateway) -> None:
    price = cost(gateway.message("gpt-4o", max_tokens=1_000))
    secret = gateway.new_key(budget=2 * price - 1, period="day")
    statuses = []
    for stream in (False, True, False):
        answer = gateway.message("gpt-4o", key=secret, max_tokens=1_000, stream=stream)
        statuses.append(answer.status)
        gateway.settled()
    assert statuses == [200, 200, 429]


def test_others_spend_too(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another gateway on the same store is heard of within the refresh period."""
    monkeypatch.setattr(budgets, "MAX_AGE_TO_ALLOW_SECONDS", 0.0)
    price = cost(ask(gateway, gateway.key))
    secret = gateway.new_key(budget=2 * price - 1, period="day")
    assert ask(gateway, secret).status == 200
    other = budgets.Budgets(gateway.ledger)
    key = gateway.gateway.keys.find(secret)
    assert key is not None
    assert gateway.on_loop_async(lambda: other.has_remaining(key)) is True
    assert ask(gateway, secret).status == 200
    assert gateway.on_loop_async(lambda: other.has_remaining(key)) is False


def test_a_no_is_never_old(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal rests on a total of this moment, however long a yes may rest on an older one."""
    monkeypatch.setattr(budgets, "MAX_AGE_TO_REFUSE_SECONDS", 0.0)
    with Ledger.open(f"sqlite:{gateway.path}") as ledger:
        key, _ = create_key(ledger, "other", KeySettings(budget=1_000, period="day"))
    counted = budgets.Budgets(gateway.ledger)
    totals = [5_000, 5_000, 0]
    monkeypatch.setattr(counted, "_total", lambda key: totals.pop(0))
    assert gateway.on_loop_async(lambda: counted.has_remaining(key)) is False
    assert gateway.on_loop_async(lambda: counted.has_remaining(key)) is True, "a correction was written"


def test_what_has_ended_counts_while_its_record_is_on_its_way(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A total that is read meanwhile does not have it yet."""
    monkeypatch.setattr(budgets, "MAX_AGE_TO_ALLOW_SECONDS", 0.0)
    secret = gateway.new_key(budget=1, period="day")
    real, ending, release = gateway.ledger.append_async, threading.Event(), threading.Event()

    def append_async(entry: PreparedEvent, on_abandoned: Any = None) -> "asyncio.Future[EventRef]":
        async def later() -> EventRef:
            await asyncio.to_thread(release.wait, 30)
            return await real(entry, on_abandoned)

        if entry.type != "capability.completed":
            return real(entry, on_abandoned)
        ending.set()
        return asyncio.ensure_future(later())

    monkeypatch.setattr(gateway.ledger, "append_async", append_async)
    first: list[Answer] = []
    asking = threading.Thread(target=lambda: first.append(ask(gateway, secret)))
    asking.start()
    try:
        assert ending.wait(30)
        assert ask(gateway, secret).status == 429
    finally:
        release.set()
        asking.join(30)
    assert first[0].status == 200
    assert ask(gateway, secret).status == 429
    assert gateway.gateway.budgets._reserved[gateway.gateway.keys.find(secret).id] == 0  # type: ignore[union-attr]
