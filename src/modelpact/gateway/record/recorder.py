"""An answer that goes by in pieces: what the record has of it."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from modelpact.gateway.errors import SettlementNotRecorded
from modelpact.gateway.observe.observer import Observer
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.record.answer_digest import AnswerDigest
from modelpact.gateway.record.calls import INVOKED, KIND, CallOpened, CallSettled, GatewayCall
from modelpact.gateway.record.envelopes import Envelopes
from modelpact.ledger.canonical import MAX_SAFE_INTEGER, canonical, canonical_unchecked
from modelpact.ledger.clock import monotonic_clock
from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.prepared import EventRef, Precondition, PreconditionFailed, PreparedEvent
from modelpact.ledger.stores.base import LedgerError
from modelpact.ledger.write.pending import OnAbandoned
from modelpact.providers.contract import Semantics
from modelpact.providers.models.json_codec import CHAT
from modelpact.providers.runtime.registry import Registered, Registry, as_registered
from modelpact.providers.runtime.store import digest, plain

DECIDED: Final = "negotiation.decided"
_MOST_REMEMBERED: Final = 2_000


class _Ready(msgspec.Struct):
    """What the requests of one plan and one client have in common on the record."""

    plan: Plan
    until: int
    """When its envelope is no longer the one to write to."""
    envelope: str
    cause: str
    registered: Registered
    given: Precondition
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
        observers: Sequence[Observer],
        *,
        keep_content: bool = False,
    ) -> None:
        self.ledger = ledger
        self._observers = observers
        self._registry = registry
        self._name = name
        self.keep_content = keep_content
        self._now = monotonic_clock(ledger.clock)
        self.envelopes = Envelopes(ledger, name, self._now)
        self._ready: dict[tuple[int, str], _Ready] = {}
        self._decided: dict[int, tuple[Plan, str, str]] = {}
        """By the plan itself: the envelope in which it was written, and its event."""

    def has_sole_call(self) -> bool:
        """Tell whether exactly one call is open, so that a commit in the loop delays no other."""
        return self.envelopes.calls == 1

    def envelope(self, plan: Plan) -> str:
        """Return where the requests of a plan are recorded today."""
        now = self._now()
        if now >= self.envelopes.until:
            self.envelopes.turn_over(now)
            self._decided.clear()
            self._ready.clear()
        return self.envelopes.today("direct" if plan.workload is None else plan.workload.name)

    async def decided(self, plan: Plan, envelope: str, **more: Any) -> str:
        """Record a decision, and return its event."""
        payload = canonical({**plan.data(), **more})
        opens = (KIND, self._name)
        placed = await self.ledger.append_async(
            PreparedEvent(envelope, DECIDED, payload, opens=opens)
        )
        self.envelopes.used(envelope)
        return placed.id

    async def _decision(self, plan: Plan, envelope: str) -> str:
        """Return the event of a decision: written once for all requests that it is about."""
        known = self._decided.get(id(plan))
        if known is not None and known[0] is plan and known[1] == envelope:
            return known[2]
        event = await self.decided(plan, envelope)
        if len(self._decided) >= _MOST_REMEMBERED:
            self._decided.clear()
        self._decided[id(plan)] = (plan, envelope, event)
        return event

    async def _make_ready(self, plan: Plan, worker: str) -> _Ready:
        envelope = self.envelope(plan)
        until = self.envelopes.until
        cause = await self._decision(plan, envelope)
        registered = self._registry.remembered(plan.provider)
        if registered is None:
            registered = await self._registry.looked_up(plan.provider)
        workload = "" if plan.workload is None else plan.workload.name
        who = Attribution(plan.provider, plan.model, CHAT, worker, function=workload)
        given = as_registered(plan.provider, registered.event)
        written = msgspec.Raw(canonical_unchecked(who))
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
    ) -> GatewayCall:
        """Record a request before it leaves; what it may cost counts before anything waits."""
        for observer in self._observers:
            observer.call_opening(worker, estimate)
        try:
            return await self._opened(plan, body, semantics, worker, estimate)
        except BaseException:
            for observer in self._observers:
                observer.call_not_opened(worker, estimate)
            raise

    async def _opened(
        self,
        plan: Plan,
        body: bytes,
        semantics: Semantics,
        worker: str,
        estimate: tuple[CostLine, ...],
    ) -> GatewayCall:
        ready = self._ready.get((id(plan), worker))
        if (
            ready is None
            or ready.plan is not plan
            or self._now() >= ready.until
            or self._registry.remembered(plan.provider) is not ready.registered
        ):
            ready = await self._make_ready(plan, worker)
        told = CallOpened(
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
        entry = PreparedEvent(
            envelope, INVOKED, canonical_unchecked(told), ready.cause, precondition=ready.given
        )

        def on_abandoned(placed: EventRef | None, error: BaseException | None) -> None:
            if placed is None:
                self.envelopes.not_opened(envelope, error)
                return
            left = GatewayCall(placed.id, envelope, plan.provider, who, placed.time)
            self.envelopes.later(self.cancel(left, "the client left"))

        self.envelopes.opening(envelope)
        noted = self.ledger.append_async(entry, on_abandoned)
        try:
            placed = await noted
        except asyncio.CancelledError:
            _heard_after_all(noted, on_abandoned)
            raise
        except BaseException as error:
            self.envelopes.not_opened(envelope, error)
            if isinstance(
                error, PreconditionFailed
            ):  # it came anew or went; if it went, this raises
                await self._registry.looked_up(plan.provider)
                return await self._opened(plan, body, semantics, worker, estimate)
            raise
        call = GatewayCall(placed.id, envelope, plan.provider, who, placed.time, estimate)
        for observer in self._observers:
            observer.call_opened(plan, call)
        return call

    def settle(
        self,
        call: GatewayCall,
        lines: tuple[CostLine, ...],
        *,
        error: str = "",
        answer: bytes | AnswerDigest = b"",
        estimate: bool = False,
    ) -> Coroutine[Any, Any, None]:
        """Record how a request ended and what it cost."""
        if call.ended:
            return asyncio.sleep(0)
        record = self._record(call, lines, error, estimate=estimate)
        if error:
            kind, told = (
                "capability.failed",
                CallSettled(CHAT, record, call.provider, error=plain(error)),
            )
        else:
            if isinstance(answer, AnswerDigest):
                output, content = answer.told()
            else:
                output, content = digest(answer), None
                if self.keep_content:
                    content = answer.decode("utf-8", "replace")
            kind = "capability.completed"
            told = CallSettled(CHAT, record, call.provider, output, content=content)
        return self._end(call, kind, told, record)

    def cancel(
        self, call: GatewayCall, reason: str, lines: tuple[CostLine, ...] = ()
    ) -> Coroutine[Any, Any, None]:
        """Record that nobody waits for an answer any more, and what it may cost nevertheless."""
        if call.ended:
            return asyncio.sleep(0)
        record = self._record(call, lines, f"cancelled: {reason}", estimate=True)
        told = CallSettled(CHAT, record, call.provider, reason=plain(reason))
        return self._end(call, "capability.cancelled", told, record)

    def _record(
        self, call: GatewayCall, lines: tuple[CostLine, ...], error: str, *, estimate: bool
    ) -> CostRecord:
        """Return the cost of a call that ends; where nothing is known of it, how long it took."""
        call.ended = True
        call.cost = lines
        for observer in self._observers:
            observer.call_ended(call, error)
        if not lines:
            lines = (CostLine("time", max(0, self._now() - call.created)),)
            estimate = True
        for line in lines:
            if not 0 <= line.amount <= MAX_SAFE_INTEGER:
                raise LedgerError(f"{line.unit}: {line.amount} cannot be recorded")
        return CostRecord(lines, call.attribution, estimate)

    async def _end(
        self, call: GatewayCall, kind: str, told: CallSettled, record: CostRecord
    ) -> None:
        entry = PreparedEvent(call.envelope, kind, canonical_unchecked(told), call.id, record)

        def on_abandoned(placed: EventRef | None, error: BaseException | None) -> None:  # noqa: ARG001
            if error is None:
                self._kept(call)
            else:
                self.envelopes.later(self.envelopes.end_later(entry, partial(self._kept, call)))

        noted = self.ledger.append_async(entry, on_abandoned)
        try:
            await noted
        except asyncio.CancelledError:
            _heard_after_all(noted, on_abandoned)
            raise
        except LedgerError as error:
            on_abandoned(None, error)
            raise SettlementNotRecorded(str(error)) from error
        self._kept(call)

    def _kept(self, call: GatewayCall) -> None:
        """Take note that the end of a call is on the record: totals have its cost from now on."""
        for observer in self._observers:
            observer.call_settled(call)
        self.envelopes.ended(call.envelope)


def _heard_after_all(noted: "asyncio.Future[EventRef]", on_abandoned: OnAbandoned) -> None:
    """Tell what became of an entry that was done just when its caller was cancelled."""
    if noted.cancelled():
        return  # it is yet to be written, and will be told then
    error = noted.exception()
    on_abandoned(None if error else noted.result(), error)
