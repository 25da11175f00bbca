"""Edge cases of the runtime: abandoned invocations, failing maintenance, changed registrations."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from modelpact.ledger import Attribution, CostLine, Draft, Ledger, LedgerError, archive
from modelpact.providers.contract import ComplianceProfile, ContractError, Invocation, Offer, Rate, Registration, Reply
from modelpact.providers.transport import Accepted, Partial
from modelpact.vocabulary.errors import InputError
from tests.providers.in_process_providers import COST, ECHOING, Echo, echoing
from tests.providers.support import ANY, ECHO, assert_whole, events_of, flags, on_loop, until


class Acting(Echo):
    """Does what a test says, then answers."""

    def __init__(self, act: Callable[[Invocation], Awaitable[Any]]) -> None:
        super().__init__()
        self.act = act

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        self.received.append(invocation.id)
        reply: Reply | Accepted = await self.act(invocation)
        return reply


async def promise(invocation: Invocation) -> Accepted:
    return Accepted(invocation.id)


def held(ledger: Ledger) -> threading.Event:
    """Hold the writer until the event is set, as a busy disk does."""
    gate, held = threading.Event(), threading.Event()

    def work(tx: Any) -> None:
        held.set()
        gate.wait(30)

    ledger.submit(work)
    assert held.wait(30)
    return gate


async def given_up(task: "asyncio.Task[Any]", gate: threading.Event) -> None:
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


@on_loop
async def test_an_invocation_abandoned_while_it_is_recorded_is_cancelled(ledger: Ledger) -> None:
    """8.1: what is recorded leaves or ends; it does not stay open, never sent."""
    carrier = Acting(promise)
    runtime = echoing(ledger, carrier)

    def ask() -> Any:
        return runtime.invoke("echo", ECHO, {}, semantics="async", deadline_s=None, idempotency_key="k")

    for late in (False, True):  # before the writer takes it up, and while it writes
        gate = held(ledger)
        writing, more = threading.Event(), threading.Event()
        task = asyncio.create_task(ask())
        await asyncio.sleep(0.05)
        if late:
            ledger.submit(lambda tx, on=writing, off=more: (on.set(), off.wait(30)))  # type: ignore[misc]
            gate.set()
            assert await asyncio.to_thread(writing.wait, 30)
        await given_up(task, more if late else gate)
        assert [invocation.state for invocation in runtime.invocations("open")] == []
    assert carrier.received == []
    (done,) = runtime.invocations()
    assert (done.state, done.error) == ("cancelled", "the caller went away")
    assert_whole(ledger)


@on_loop
async def test_an_answer_that_came_is_settled_although_its_caller_left(ledger: Ledger) -> None:
    """8.3: "every invocation has a cost": an answer that came is settled and paid for."""
    gates: list[threading.Event] = []

    async def act(invocation: Invocation) -> Reply:
        gates.append(held(ledger))
        return Reply(invocation.id, {"a": 1}, cost=(CostLine("discrete", 7),))

    runtime = echoing(ledger, Acting(act))
    task = asyncio.create_task(runtime.invoke("echo", ECHO, {}, deadline_s=3_600))
    await until(lambda: gates)
    await asyncio.sleep(0.05)
    await given_up(task, gates[0])
    (done,) = runtime.invocations()
    assert (done.state, done.output) == ("completed", {"a": 1})
    cost = runtime.cost(done.id)
    assert cost is not None
    assert cost.lines == (CostLine("discrete", 7),)
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_an_envelope_with_open_invocations_is_not_archived(ledger: Ledger, tmp_path: Path) -> None:
    """8.1: an open invocation can end: nothing closes the envelope that its end belongs to."""
    runtime = echoing(ledger, Acting(promise))
    opened = await runtime.invoke("echo", ECHO, {}, semantics="async", envelope="old")
    with pytest.raises(LedgerError, match=f"1 open invocations, for example {opened.id}"):
        archive(ledger, "old", tmp_path / "old.gz")
    assert not (tmp_path / "old.gz").exists()
    await runtime.cancel(opened.id, "enough")
    assert archive(ledger, "old", tmp_path / "old.gz").ok
    assert_whole(ledger)


@on_loop
async def test_an_invocation_that_cannot_be_settled_blocks_no_other(ledger: Ledger) -> None:
    """8.2: "a bounded time window" for each, whatever became of another."""
    runtime = echoing(ledger, Acting(promise))
    stuck = await runtime.invoke(
        "echo", ECHO, {}, semantics="async", deadline_s=0.0, remind_every_s=0.001, envelope="old"
    )
    other = await runtime.invoke("echo", ECHO, {}, semantics="async", deadline_s=0.01)
    ledger.append(Draft("old", "envelope.archived", {"events": 1, "file": "", "reason": ""}))
    task = asyncio.create_task(runtime.maintenance.run(0.01))
    await until(lambda: runtime.find(other.id).state == "failed")
    assert not task.done()
    task.cancel()
    assert runtime.find(stuck.id).state == "open"
    last = await runtime.invoke("echo", ECHO, {}, semantics="async", deadline_s=None)
    await runtime.deregister("echo", policy="cancel")
    assert runtime.find(last.id).state == "cancelled"


@on_loop
async def test_maintenance_survives_any_exception(lite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = echoing(lite_ledger, Acting(promise))
    rounds: list[int] = []

    async def falls_over() -> None:
        rounds.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(runtime.maintenance, "remind", falls_over)
    task = asyncio.create_task(runtime.maintenance.run(0.001))
    await until(lambda: len(rounds) > 2)
    assert not task.done()
    task.cancel()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"remind_every_s": 0}, "remind_every_s: expected 0.001 to"),
        ({"remind_every_s": 1e-10}, "remind_every_s"),
        ({"deadline_s": float("nan")}, "deadline_s: expected 0 to"),
        ({"deadline_s": float("inf")}, "deadline_s"),
        ({"deadline_s": 1e12}, "deadline_s"),
        ({"deadline_s": -5}, "deadline_s"),
        ({"idempotency_key": "a\0b"}, "idempotency_key: expected 1 to 200 visible"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"attribution": {"worker": "x"}}, r"expected modelpact\.ledger\.Attribution"),
        ({"attribution": Attribution(worker="a\0b")}, r"attribution\.worker"),
    ],
)
@on_loop
async def test_invalid_arguments_are_refused(lite_ledger: Ledger, how: dict[str, Any], reason: str) -> None:
    runtime = echoing(lite_ledger)
    with pytest.raises(InputError, match=reason):
        await runtime.invoke("echo", ECHO, {}, **how)
    assert runtime.invocations() == []


def priced(pico: int, output: dict[str, Any], kind: str = ECHO) -> Registration:
    offer = Offer(kind, ANY, output, ("sync", "async", "streaming"), (Rate("discrete", pico),))
    return Registration("echo", "tool", (offer,), ("discrete", "currency"), "USD")


def dear(invocation: Invocation) -> Reply:
    money = CostLine("currency", 10**12, "USD")
    return Reply(invocation.id, "no object", cost=(CostLine("discrete", 1), money))


@pytest.mark.parametrize("semantics", ["sync", "streaming"])
@on_loop
async def test_an_answer_is_validated_by_the_registration_that_was_invoked(ledger: Ledger, semantics: Any) -> None:
    """8.3: costs "in registered units": at the prices at which it was asked for."""

    class Changing(Acting):
        async def stream(self, registration: Registration, invocation: Invocation) -> Any:
            yield Partial(invocation.id, 1, {})
            yield await self.act(invocation)

    async def act(invocation: Invocation) -> Reply:
        changed = runtime.registry.registration_work(priced(10**15, {}), by_provider=True)
        await ledger.write_async(changed)
        return dear(invocation)

    runtime = echoing(ledger, Changing(act))
    runtime.registry.register(priced(1_000, {"type": "object"}))
    done: Any = await runtime.invoke("echo", ECHO, {}, semantics=semantics)
    if semantics == "streaming":
        # Another registration stands already before the first piece is asked for.
        runtime.registry.register(priced(10**15, {}))
        *_, done = [item async for item in runtime.stream(done)]
    assert done.state == "failed"
    assert flags(ledger) == [("echo", "invalid_response")]
    assert_whole(ledger)


@on_loop
async def test_a_withdrawn_offer_is_still_answered(ledger: Ledger) -> None:
    async def act(invocation: Invocation) -> Reply:
        other = priced(1, {}, "urn:test:other")
        await ledger.write_async(runtime.registry.registration_work(other, by_provider=True))
        return Reply(invocation.id, {"a": 1}, cost=COST)

    runtime = echoing(ledger, Acting(act))
    done = await runtime.invoke("echo", ECHO, {})
    assert (done.state, done.output) == ("completed", {"a": 1})
    opening = events_of(ledger, done)[0]
    assert opening.payload["registered"] == done.registered == "registry:1"
    assert runtime.find(done.id).registered == "registry:1"
    assert runtime.registry.registration_for(done) == ECHOING
    assert_whole(ledger)


@on_loop
async def test_schemas_may_have_fractions(ledger: Ledger) -> None:
    """8.1: a registration declares "input and output schemas": any JSON Schema."""
    half = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0.5}}}
    runtime = echoing(ledger)
    offered = Registration("echo", "tool", (Offer(ECHO, half, ANY),), ("discrete",))
    runtime.registry.register(offered)
    assert (await runtime.invoke("echo", ECHO, {"n": 0.75})).state == "completed"
    registered = runtime.registry.find("echo")
    assert registered == (offered, "active")
    assert_whole(ledger)


@on_loop
async def test_a_deregistered_provider_can_still_be_expelled(ledger: Ledger) -> None:
    """8.6: who was deregistered for a violation is registered again by an operator only."""
    runtime = echoing(ledger, Acting(promise), profile=ComplianceProfile(on_violation="deregister"))
    opened = await runtime.invoke("echo", ECHO, {}, semantics="async", deadline_s=None)
    await runtime.deregister("echo", "requested by the provider", "drain")
    bad = Reply(opened.id, {}, cost=(CostLine("tokens.input", 1),))
    await runtime.lifecycle.settle_reply(ECHOING, opened, bad)
    registered = runtime.registry.find("echo")
    assert registered is not None
    assert registered[1] == "expelled"
    with pytest.raises(Exception, match="deregistered for a violation"):
        runtime.registry.register(ECHOING, by_provider=True)
    runtime.registry.register(ECHOING)
    assert_whole(ledger)


@on_loop
async def test_texts_that_no_store_takes_are_replaced(ledger: Ledger) -> None:
    """8.3: "every invocation has a cost": a NUL in an error does not lose it."""

    async def act(invocation: Invocation) -> Reply:
        return Reply(invocation.id, error="a\0b", cost=COST)

    runtime = echoing(ledger, Acting(act))
    done = await runtime.invoke("echo", ECHO, {})
    assert (done.state, done.error) == ("failed", "a\ufffdb")
    assert (await runtime.cancel(done.id, "x\0y")).state == "failed"
    assert_whole(ledger)


@on_loop
async def test_a_misstated_cost_is_an_estimate(ledger: Ledger) -> None:
    """8.3: costs "in registered units": what is in others is flagged and not counted."""

    async def act(invocation: Invocation) -> Reply:
        lines = (CostLine("discrete", 1), CostLine("currency", 5, "EUR"))
        return Reply(invocation.id, {}, cost=lines)

    runtime = echoing(ledger, Acting(act))
    done = await runtime.invoke("echo", ECHO, {})
    assert flags(ledger) == [("echo", "misstated_cost")]
    cost = runtime.cost(done.id)
    assert cost is not None
    assert (cost.lines, cost.estimate) == ((CostLine("discrete", 1),), True)
    corrected = await runtime.correct_cost(str(done.settled_by), (CostLine("discrete", 2),))
    await runtime.correct_cost(corrected.id, (CostLine("discrete", 3),))
    cost = runtime.cost(done.id)
    assert cost is not None
    assert cost.lines == (CostLine("discrete", 3),)


@pytest.mark.parametrize("name", ["a\0b", "\udcff"])
@on_loop
async def test_names_that_no_store_takes_are_unknown(ledger: Ledger, name: str) -> None:
    """What cannot be a name is not there; the store is not said to be away."""
    runtime = echoing(ledger)
    for code, asking in (
        ("unknown_provider", runtime.invoke(name, ECHO, {})),
        ("unknown_provider", runtime.deregister(name)),
        ("unknown_invocation", runtime.wait(name)),
    ):
        with pytest.raises(ContractError) as caught:
            await asking
        assert caught.value.code == code
    assert runtime.registry.find(name) is None
    assert runtime.invocations(provider=name) == []
