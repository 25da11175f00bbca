"""The recorder of a gateway: its decisions, and the calls of providers that follow from them."""

import datetime
import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from modelpact.gateway.observers import CallObserver
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.ledger.canonical import canonical
from modelpact.ledger.costs import Attribution, CostRecord
from modelpact.ledger.event import NEGOTIATION_DECIDED, PreconditionFailed, PreparedEvent
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Invocation
from modelpact.providers.models.json_codec import CHAT
from modelpact.providers.runtime.event_storage import EventStorage
from modelpact.providers.runtime.lookup import KIND
from modelpact.providers.runtime.recorder import BackgroundTasks, InvocationRecorder, UnfinishedInvocation
from modelpact.providers.runtime.records import InvocationOutcome, InvocationRequest
from modelpact.providers.runtime.registry import Registered, Registry
from modelpact.vocabulary.memo import BoundedMemo

CLIENT_LEFT: Final = "the client left"
_SECOND: Final = 1_000_000_000
_DAY_S: Final = 86_400


class _CallContext(msgspec.Struct, frozen=True):
    """What the calls of one plan and one key have in common on the record."""

    until: int
    """When the next envelope begins, in nanoseconds."""
    envelope: str
    cause: str
    """The event of the decision."""
    registered: Registered
    attribution: Attribution


class GatewayRecorder(InvocationRecorder):
    """Records the decisions and the calls of a gateway, and notifies its observers.

    A decision is written once for all calls under the same plan. Calls are stored as events only,
    without rows.
    """

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        name: str,
        observers: Sequence[CallObserver],
        *,
        keep_content: bool = False,
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._name = name
        self._observers = observers
        self.keep_content = keep_content
        self._now = ledger.monotonic_clock()
        self._envelopes = _DailyEnvelopes(name)
        tasks = BackgroundTasks()
        self._events = EventStorage(ledger, name, self._now, tasks, self._envelopes.is_current)
        self._decisions: BoundedMemo[Plan, tuple[str, str]] = BoundedMemo()
        """The envelope in which each plan was written, and the event."""
        self._contexts: BoundedMemo[tuple[Plan, str], _CallContext] = BoundedMemo()
        super().__init__(self._events, tasks, process_name="gateway", disconnect_reason=CLIENT_LEFT)

    def has_sole_call(self) -> bool:
        """Tell whether exactly one call is open, so that a commit in the loop delays no other."""
        return self._events.open_count == 1

    async def record_decision(self, plan: Plan, key: str = "") -> str:
        """Record a decision and return the id of its event.

        Give the client's `key` for a refusal: no call follows that would name it.
        """
        return await self._append_decision(plan, self._envelope(plan), {"key": key} if key else {})

    async def open_call(self, planned: PlannedRequest) -> Invocation:
        """Record the call of a provider before it is made."""
        incoming, plan, estimate = planned.incoming, planned.plan, planned.estimate
        key = incoming.caller.key.id
        for observer in self._observers:
            observer.call_opening(key, estimate)
        try:
            context = self._contexts.get((plan, key))
            if (
                context is None
                or self._now() >= context.until
                or self._registry.cached(plan.provider) is not context.registered
            ):
                context = await self._make_context(plan, key)
            while True:
                request = InvocationRequest(
                    CHAT,  # the one capability of model providers; embeddings are under it, too
                    incoming.body,
                    incoming.raw,
                    "streaming" if incoming.stream else "sync",
                    context.attribution,
                    estimate,
                    context.envelope,
                    context.cause,
                    self.keep_content,
                )
                try:
                    opened = await self.open(request, context.registered)
                    break
                except PreconditionFailed:  # the provider registered again, or is gone
                    await self._registry.fetch(plan.provider)
                    context = await self._make_context(plan, key)
        except BaseException:
            for observer in self._observers:
                observer.call_not_opened(key, estimate)
            raise
        invocation = opened.invocation
        for observer in self._observers:
            observer.call_opened(plan, invocation, estimate)
        return invocation

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return the calls that earlier processes of this name left open; this blocks."""
        return self._events.unfinished()

    async def recover_calls(self, unfinished: list[UnfinishedInvocation]) -> None:
        """Settle the calls that earlier processes of this name left open, as interrupted."""
        await self.recover(unfinished)
        await self._events.finish_unused()

    async def aclose(self) -> None:
        """Complete pending writes, and finish the envelopes.

        The next process of this name recovers what cannot be settled now.
        """
        await self.tasks.aclose()
        await self._events.aclose()

    def _envelope(self, plan: Plan) -> str:
        """Return where the calls under a plan are recorded today."""
        now = self._now()
        if now >= self._envelopes.until:
            self._envelopes.rotate(now)
            self._events.spawn_finish_unused()
            self._decisions.clear()
            self._contexts.clear()
        return self._envelopes.today("direct" if plan.workload is None else plan.workload.name)

    async def _make_context(self, plan: Plan, key: str) -> _CallContext:
        envelope = self._envelope(plan)
        until = self._envelopes.until
        decision = self._decisions.get(plan)
        if decision is None or decision[0] != envelope:
            decision = (envelope, await self._append_decision(plan, envelope, {}))
            self._decisions[plan] = decision
        registered = self._registry.cached(plan.provider)
        if registered is None:
            registered = await self._registry.fetch(plan.provider)
        workload = "" if plan.workload is None else plan.workload.name
        attribution = Attribution(plan.provider, plan.model, CHAT, key, function=workload)
        context = _CallContext(until, envelope, decision[1], registered, attribution)
        self._contexts[plan, key] = context
        return context

    async def _append_decision(self, plan: Plan, envelope: str, details: dict[str, Any]) -> str:
        payload = canonical({**plan.data(), **details})
        event = PreparedEvent(envelope, NEGOTIATION_DECIDED, payload, opens=(KIND, self._name))
        ref = await self._ledger.append_async(event)
        self._events.use(envelope)
        return ref.id

    def _ended(self, invocation: Invocation, outcome: InvocationOutcome, cost: CostRecord | None) -> None:
        assert cost is not None
        error = outcome.error
        if outcome.state == "cancelled":
            error = f"cancelled: {error}"
        for observer in self._observers:
            observer.call_ended(invocation, cost.lines, error)

    def _settled(self, invocation: Invocation, cost: CostRecord | None) -> None:
        assert cost is not None
        for observer in self._observers:
            observer.call_settled(invocation, cost.lines)


class _DailyEnvelopes:
    """Names the envelopes that a process writes to: one for each workload and day."""

    def __init__(self, name: str) -> None:
        self._prefix = f"gateway/{name}-{secrets.token_hex(3)}/"
        self._day = ""
        self.until = 0
        """When today ends, in nanoseconds."""

    def rotate(self, now: int) -> None:
        """Begin the day of a time."""
        moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC)
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        self.until = (int(midnight.timestamp()) + _DAY_S) * _SECOND
        self._day = midnight.date().isoformat()

    def today(self, workload: str) -> str:
        """Return the envelope of a workload."""
        return f"{self._prefix}{workload}/{self._day}"

    def is_current(self, envelope: str) -> bool:
        """Tell whether more may be written to an envelope."""
        return envelope.endswith(self._day) and envelope.startswith(self._prefix)
