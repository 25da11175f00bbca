"""Recording: each request is a call, on the record before it leaves and settled when it ends."""

import asyncio
import datetime
import hashlib
import logging
import secrets
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from modelpact.catalog.facts import Price
from modelpact.conversation.response import Usage
from modelpact.gateway.budgets import Budgets
from modelpact.gateway.calls import INVOKED, KIND, STOPPED, Call, Ended, Invoked, Open, unfinished
from modelpact.gateway.calls import left_open as calls_left_open
from modelpact.gateway.plan import Plan
from modelpact.gateway.reports import money_of
from modelpact.gateway.watching import Watch
from modelpact.ledger.canonical import LARGEST, canonical_plain
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, price_cost, usage_lines
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.store import LedgerError, LedgerUnavailable
from modelpact.ledger.transaction import Entry, Given, Placed
from modelpact.ledger.waiting import Unheard
from modelpact.providers.adapters.values import CHAT
from modelpact.providers.contract import ContractError, Semantics
from modelpact.providers.invocations import digest, plain
from modelpact.providers.registry import Registered, Registry, as_registered
from modelpact.providers.steady import steady

_LOG: Final = logging.getLogger("modelpact.gateway")
_SECOND: Final = 1_000_000_000
_MOST_REMEMBERED: Final = 10_000
_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0


class Unrecorded(LedgerError):
    """How a request ended could not be written: whoever asked must not take it for recorded."""


class Said:
    """An answer that goes by in pieces: its digest, and itself where it is to be kept."""

    __slots__ = ("_hash", "_kept")

    def __init__(self, *, keep: bool) -> None:
        self._hash = hashlib.sha256()
        self._kept: list[bytes] | None = [] if keep else None

    def add(self, piece: bytes) -> None:
        """Take a piece in."""
        self._hash.update(piece)
        if self._kept is not None:
            self._kept.append(piece)

    def told(self) -> tuple[str, str | None]:
        """Return the digest, and the text if it is kept."""
        text = None
        if self._kept is not None:
            text = b"".join(self._kept).decode("utf-8", "replace")
        return f"sha256:{self._hash.hexdigest()}", text


class _Ready(msgspec.Struct):
    """What the requests of one plan and one client have in common on the record."""

    plan: Plan
    until: int
    """When its envelope is no longer the one to write to."""
    envelope: str
    cause: str
    registered: Registered
    given: Given
    attribution: Attribution
    written: msgspec.Raw
    """The attribution in canonical JSON."""


class Recorder:
    """Writes the record of a gateway: one envelope for a process, a workload and a day."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        name: str,
        budgets: Budgets,
        *,
        keep_content: bool = False,
    ) -> None:
        self.ledger = ledger
        self._budgets = budgets
        self._registry = registry
        self._name = name
        self._process = _process(name)
        self.keep_content = keep_content
        self.watch: Watch | None = None
        self._now = steady(ledger.clock)
        self._day = ("", 0)
        self._ready: dict[tuple[int, str], _Ready] = {}
        self._decided: dict[int, tuple[Plan, str, str]] = {}
        """By the plan itself: the envelope in which it was written, and its event."""
        self._open: dict[str, int] = {}
        """How many calls are open in each envelope that is not finished."""
        self._tasks: set[asyncio.Task[None]] = set()

    def envelope(self, plan: Plan) -> str:
        """Return where the requests of a plan are recorded today."""
        now = self._now()
        if now >= self._day[1]:
            self._turn_over(now)
        workload = "direct" if plan.workload is None else plan.workload.name
        return f"gateway/{self._process}/{workload}/{self._day[0]}"

    def _turn_over(self, now: int) -> None:
        """Begin a day: its records have envelopes of their own."""
        moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC)
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        until = (int(midnight.timestamp()) + 86_400) * _SECOND
        self._day = (midnight.date().isoformat(), until)
        self._decided.clear()
        self._ready.clear()
        for envelope, count in self._open.items():
            if not count and not self._lives(envelope):
                self._later(self._finish(envelope))

    def _lives(self, envelope: str) -> bool:
        """Tell whether more may be written to an envelope."""
        day = self._day[0]
        return envelope.endswith(day) and envelope.startswith(f"gateway/{self._process}/")

    async def decided(self, plan: Plan, envelope: str, **more: Any) -> Event:
        """Record a decision."""
        payload = {**plan.data(), **more}

        def work(tx: Transaction) -> Event:
            tx.open_envelope(envelope, KIND, self._name)
            return tx.append(Draft(envelope, "negotiation.decided", payload))

        event = await self.ledger.write_async(work)
        self._open.setdefault(envelope, 0)
        return event

    async def _decision(self, plan: Plan, envelope: str) -> str:
        """Return the event of a decision: written once for all requests that it is about."""
        known = self._decided.get(id(plan))
        if known is not None and known[0] is plan and known[1] == envelope:
            return known[2]
        event = await self.decided(plan, envelope)
        if len(self._decided) >= _MOST_REMEMBERED:
            self._decided.clear()
        self._decided[id(plan)] = (plan, envelope, event.id)
        return event.id

    async def _make_ready(self, plan: Plan, worker: str) -> _Ready:
        envelope = self.envelope(plan)
        until = self._day[1]
        cause = await self._decision(plan, envelope)
        registered = self._registry.remembered(plan.provider)
        if registered is None:
            registered = await self._registry.looked_up(plan.provider)
        workload = "" if plan.workload is None else plan.workload.name
        who = Attribution(plan.provider, plan.model, CHAT, worker, function=workload)
        given = as_registered(plan.provider, registered.event)
        written = msgspec.Raw(canonical_plain(who))
        ready = _Ready(plan, until, envelope, cause, registered, given, who, written)
        if len(self._ready) >= _MOST_REMEMBERED:
            self._ready.clear()
        self._ready[id(plan), worker] = ready
        return ready

    async def open(
        self,
        plan: Plan,
        body: bytes,
        semantics: Semantics,
        worker: str,
        estimate: tuple[CostLine, ...],
    ) -> Call:
        """Record a request before it leaves; what it may cost counts before anything waits."""
        money = 0
        if self._budgets.counts(worker):
            money = money_of(estimate) or 0
            self._budgets.opened(worker, money)
        try:
            call = await self._opened(plan, body, semantics, worker, estimate)
        except BaseException:
            if money:
                self._budgets.settled(worker, money, 0)
            raise
        call.money = money
        if self.watch is not None:
            self.watch.opened(plan, call)
        return call

    async def _opened(
        self,
        plan: Plan,
        body: bytes,
        semantics: Semantics,
        worker: str,
        estimate: tuple[CostLine, ...],
    ) -> Call:
        ready = self._ready.get((id(plan), worker))
        if (
            ready is None
            or ready.plan is not plan
            or self._now() >= ready.until
            or self._registry.remembered(plan.provider) is not ready.registered
        ):
            ready = await self._make_ready(plan, worker)
        told = Invoked(
            ready.written,
            CHAT,
            estimate,
            digest(body),
            plan.provider,
            ready.registered.event,
            semantics,
            body.decode() if self.keep_content else None,
        )
        envelope, who = ready.envelope, ready.attribution
        entry = Entry(envelope, INVOKED, canonical_plain(told), ready.cause, given=ready.given)

        def unheard(placed: Placed | None, error: BaseException | None) -> None:  # noqa: ARG001
            if placed is None:
                self._ended(envelope)
                return
            left = Call(placed.event, envelope, plan.provider, who, placed.time)
            self._later(self.cancel(left, "the client left"))

        self._open[envelope] = self._open.get(envelope, 0) + 1
        noted = self.ledger.note(entry, unheard)
        try:
            placed = await noted
        except asyncio.CancelledError:
            _heard_after_all(noted, unheard)
            raise
        except BaseException as error:
            self._ended(envelope)
            if isinstance(error, ContractError) and error.code == "registration_changed":
                await self._registry.looked_up(plan.provider)
                return await self._opened(plan, body, semantics, worker, estimate)
            raise
        return Call(placed.event, envelope, plan.provider, who, placed.time)

    def settle(
        self,
        call: Call,
        lines: tuple[CostLine, ...],
        *,
        error: str = "",
        answer: bytes | Said = b"",
        estimate: bool = False,
    ) -> Coroutine[Any, Any, None]:
        """Record how a request ended and what it cost."""
        if call.ended:
            return asyncio.sleep(0)
        record = self._record(call, lines, estimate=estimate)
        if error:
            kind, told = "capability.failed", Ended(CHAT, record, call.provider, error=plain(error))
        else:
            if isinstance(answer, Said):
                output, content = answer.told()
            else:
                output, content = digest(answer), None
                if self.keep_content:
                    content = answer.decode("utf-8", "replace")
            kind = "capability.completed"
            told = Ended(CHAT, record, call.provider, output, content=content)
        if self.watch is not None:
            self.watch.settled(call, lines, error)
        return self._end(call, kind, told, record)

    def cancel(
        self, call: Call, reason: str, lines: tuple[CostLine, ...] = ()
    ) -> Coroutine[Any, Any, None]:
        """Record that nobody waits for an answer any more, and what was made of it by then."""
        if call.ended:
            return asyncio.sleep(0)
        if self.watch is not None:
            self.watch.settled(call, lines, f"cancelled: {reason}")
        record = self._record(call, lines, estimate=True)
        told = Ended(CHAT, record, call.provider, reason=plain(reason))
        return self._end(call, "capability.cancelled", told, record)

    def _record(
        self, call: Call, lines: tuple[CostLine, ...], *, estimate: bool = False
    ) -> CostRecord:
        """Return the cost of a call that ends; where nothing is known of it, how long it took."""
        call.ended = True
        worker = call.attribution.worker
        if self._budgets.counts(worker):
            self._budgets.settled(worker, call.money, money_of(lines) or 0)
        if not lines:
            lines = (CostLine("time", max(0, self._now() - call.created)),)
            estimate = True
        for line in lines:
            if not 0 <= line.amount <= LARGEST:
                raise LedgerError(f"{line.unit}: {line.amount} cannot be recorded")
        return CostRecord(lines, call.attribution, estimate)

    async def _end(self, call: Call, kind: str, told: Ended, record: CostRecord) -> None:
        entry = Entry(call.envelope, kind, canonical_plain(told), call.id, record)

        def unheard(placed: Placed | None, error: BaseException | None) -> None:  # noqa: ARG001
            if error is None:
                self._ended(call.envelope)
            else:
                self._later(self._end_later(entry))

        noted = self.ledger.note(entry, unheard)
        try:
            await noted
        except asyncio.CancelledError:
            _heard_after_all(noted, unheard)
            raise
        except LedgerError as error:
            unheard(None, error)
            raise Unrecorded(str(error)) from error
        self._ended(call.envelope)

    def _ended(self, envelope: str) -> None:
        left = self._open[envelope] = self._open[envelope] - 1
        if not left and not self._lives(envelope):
            self._later(self._finish(envelope))

    async def _end_later(self, entry: Entry) -> None:
        """Write an end that could not be written when it came, once the store takes it."""
        while True:
            try:
                await self.ledger.write_async(lambda tx: _settled_once(tx, entry))
            except LedgerUnavailable:
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            except LedgerError as error:
                _LOG.warning("%s cannot be settled: %s", entry.cause, error)
            self._ended(entry.envelope)
            return

    async def recover(self, left: list[Open]) -> None:
        """Settle what an earlier process of this name left open when it died."""
        for one in left:
            lines = one.told.estimate or (CostLine("time", 0),)
            record = CostRecord(lines, one.attribution, estimate=True)
            error = "interrupted: the gateway stopped before the answer came"
            told = Ended(one.told.capability, record, one.told.provider, error=error)
            payload = canonical_plain(told)
            entry = Entry(one.envelope, "capability.failed", payload, one.event, record)
            self._open[one.envelope] += 1
            await self._end_later(entry)
        for envelope in list(self._open):
            if not self._lives(envelope):
                await self._finish(envelope)

    def left_open(self) -> list[Open]:
        """Return what earlier processes of this name left open; this blocks while it reads."""
        found = []
        for envelope in unfinished(self.ledger, self._name):
            self._open.setdefault(envelope, 0)
            found += calls_left_open(self.ledger, envelope)
        return found

    async def _finish(self, envelope: str) -> None:
        """Say that an envelope has no open call; whoever comes after need not look."""
        if self._open.get(envelope) != 0:
            return  # it is done already, or something in it is open again
        del self._open[envelope]
        try:
            await self.ledger.write_async(lambda tx: tx.append(Draft(envelope, STOPPED, {})))
        except LedgerError as error:
            _LOG.warning("%s is not finished: %s", envelope, error)

    async def aclose(self) -> None:
        """Finish the envelopes; what cannot be settled now is left to the next process."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for envelope in list(self._open):
            await self._finish(envelope)

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _process(name: str) -> str:
    return f"{name}-{secrets.token_hex(3)}"


def _heard_after_all(noted: "asyncio.Future[Placed]", unheard: Unheard) -> None:
    """Tell what became of an entry that was done just when its caller was cancelled."""
    if noted.cancelled():
        return  # it is yet to be written, and will be told then
    error = noted.exception()
    unheard(None if error else noted.result(), error)


def _settled_once(tx: Transaction, entry: Entry) -> None:
    """Append an end, unless it is there: whether a write was kept is not always known."""
    assert entry.cause is not None
    assert entry.cost is not None
    sequence = int(entry.cause.rpartition(":")[2])
    kept = tx.execute(
        "SELECT 1 FROM events WHERE envelope = ? AND sequence > ? AND cause = ? AND type = ?",
        (entry.envelope, sequence, entry.cause, entry.type),
    )
    if not kept:
        payload = msgspec.json.decode(entry.payload)
        event = tx.append(Draft(entry.envelope, entry.type, payload, entry.cause))
        tx.record_cost(event, entry.cost)


def cost_of(price: Price | None, usage: Usage) -> tuple[CostLine, ...]:
    """Return what a usage costs: its tokens, and money where the price is known."""
    money = None if price is None else price_cost(price, usage)
    lines = usage_lines(usage)
    return lines if money is None else (*lines, money)
