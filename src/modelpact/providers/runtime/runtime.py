"""The runtime of the provider contract: it routes invocations to registered providers.

Every invocation is recorded before it is sent, settled once, and its cost is recorded.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from modelpact.ledger.costs import Attribution, CostLine, CostRecord, check_lines
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
    Registration,
    Reply,
    Semantics,
)
from modelpact.providers.runtime.human import HumanInbox
from modelpact.providers.runtime.lifecycle import CALLER_LEFT, InvocationLifecycle, ProviderNotifier
from modelpact.providers.runtime.lookup import find_cost
from modelpact.providers.runtime.maintenance import Maintenance
from modelpact.providers.runtime.recorder import (
    BackgroundTasks,
    InvocationRecorder,
    OpenedInvocation,
    UnfinishedInvocation,
)
from modelpact.providers.runtime.records import InvocationRequest
from modelpact.providers.runtime.registry import Registered, Registry, deregistrations
from modelpact.providers.runtime.row_storage import RowStorage, deregister, flag_provider
from modelpact.providers.runtime.rows import correct, list_rows
from modelpact.providers.runtime.signals import SignalInbox
from modelpact.providers.runtime.streaming import StreamRunner, Subscriptions
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import Accepted, ContractViolation, Partial, Transport, Transports, Unreachable
from modelpact.vocabulary.errors import ModelpactError

__all__ = ["Accepted", "ContractViolation", "Partial", "Runtime", "Transport", "Unreachable"]

_AFTER_ALL_PARTIALS: Final = 2**62
_SETTLEMENT_RETRIES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


class Runtime:
    """Routes invocations to registered providers and records them.

    Runtimes that share a store need different names: each recovers its own invocations.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str = "runtime",
        profile: ComplianceProfile | None = None,
        transports: Mapping[str, Transport] | None = None,
        default_transport: Transport | None = None,
        plain_http: frozenset[str] = frozenset(),
        on_unnotified: Callable[[Registration, str], None] = lambda registration, reason: None,  # noqa: ARG005
    ) -> None:
        """Create a runtime on a ledger.

        `transports` lead to the providers that they are named after, `default_transport` to all
        others. `on_unnotified` is called with a provider that could not be notified of a
        cancellation or of its deregistration, and with the reason.
        """
        self.ledger = ledger
        self.name = name
        self.profile = profile or ComplianceProfile()
        self.now = ledger.monotonic_clock()
        self.registry = Registry(ledger, self.profile, plain_http)
        self._validator = ContractValidator()
        self.inbox = HumanInbox(ledger, self.registry, self.profile, self._validator)
        self.transports = Transports(transports or {}, default_transport, self.inbox)
        self.notifier = ProviderNotifier(self.registry, self.transports, on_unnotified)
        self._storage = RowStorage(ledger, name, self.profile, self.now)
        self._recorder = InvocationRecorder(
            self._storage,
            BackgroundTasks(),
            process_name="runtime",
            disconnect_reason=CALLER_LEFT,
            retry_delays=_SETTLEMENT_RETRIES_S,
        )
        self.lifecycle = InvocationLifecycle(ledger, self._recorder, self._validator, self.notifier, self.now)
        self.subscriptions = Subscriptions(ledger, self._fail_if_overdue)
        self._streams = StreamRunner(self.lifecycle, self.transports, self.notifier, self.subscriptions)
        self.signal_inbox = SignalInbox(ledger, self.registry, self.profile, self.notifier)
        self.maintenance = Maintenance(ledger, self._recorder, self.notifier, self.now)

    async def invoke(
        self,
        provider: str,
        capability: str,
        value: Any,
        *,
        semantics: Semantics = "sync",
        deadline_s: float | None = 30.0,
        remind_every_s: float | None = None,
        idempotency_key: str | None = None,
        attribution: Attribution | None = None,
        estimate: tuple[CostLine, ...] | None = None,
        envelope: str | None = None,
        cause: str | None = None,
        keep_content: bool = True,
        keep_partials: bool = True,
    ) -> Invocation:
        """Invoke a capability. Synchronous invocations return settled, others return open.

        The same idempotency key returns the same invocation, and calls the provider once. Without
        `keep_content` only digests of input and output are stored: nobody but this caller ever
        gets the answer. Without `keep_partials` the partials of a stream are counted and hashed
        instead of stored: nobody else can follow it, and its end is the first that is stored.
        """
        request = InvocationRequest(
            capability,
            value,
            semantics=semantics,
            attribution=Attribution() if attribution is None else attribution,
            estimate=estimate,
            envelope=envelope or "",
            cause=cause,
            keep_content=keep_content,
            deadline_s=deadline_s,
            remind_every_s=remind_every_s,
            idempotency_key=idempotency_key,
        )
        registered = self.registry.cached(provider)
        opened = None
        if registered is not None:
            with contextlib.suppress(ContractError):  # the cached registration may be out of date
                opened = await self._open(registered, request)
        if registered is None or opened is None:
            registered = await self.registry.fetch(provider)
            opened = await self._open(registered, request)
        invocation = opened.invocation
        if opened.fresh and semantics != "streaming":
            return await self._send(registered.registration, invocation)
        if opened.fresh:
            store = keep_content and keep_partials
            self._streams.add(registered.registration, invocation, store=store)
        elif semantics == "sync":
            return await self.wait(invocation.id)
        return invocation

    async def _open(self, registered: Registered, request: InvocationRequest) -> OpenedInvocation:
        """Check a request and record it, or find what was recorded under its key."""
        registration = registered.registration
        transport = self.transports.get(registration.id)
        envelope = f"invocations/{self.name}"
        prepared = self._validator.prepare(request, registration, transport, envelope)
        return await self._recorder.open(prepared, registered)

    async def _send(self, registration: Registration, invocation: Invocation) -> Invocation:
        """Send an open invocation to its provider, within its deadline."""
        lifecycle = self.lifecycle
        try:
            async with asyncio.timeout(lifecycle.remaining_seconds(invocation)):
                transport = self.transports.find(registration)
                answer = await transport.send(registration, invocation)
        except (TimeoutError, ModelpactError) as error:
            settled = await lifecycle.fail_unanswered(invocation, error)
            if isinstance(error, TimeoutError):
                await self.notifier.notify_provider(registration, [invocation])
            return settled
        except asyncio.CancelledError:
            await asyncio.shield(lifecycle.cancel(invocation, CALLER_LEFT))
            raise
        if isinstance(answer, Reply):
            return await lifecycle.settle_reply(registration, invocation, answer)
        return await lifecycle.acknowledge(invocation, answer)

    def stream(self, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        """Run a streaming invocation: yield its partials in order, then the settled invocation.

        A caller that got the invocation by its idempotency key follows the one that runs.
        """
        return self._streams.run(invocation)

    async def cancel(self, invocation_id: str, reason: str) -> Invocation:
        """Cancel an open invocation and notify its provider; a settled one stays as it is."""
        invocation = await asyncio.to_thread(self.find, invocation_id)
        return await self.lifecycle.cancel(invocation, reason)

    async def flag(self, provider: str, violation: str, detail: str, cause: str | None = None) -> None:
        """Flag a violation that settles no invocation, and apply the profile."""

        def work(tx: Transaction) -> tuple[list[Invocation], list[Event]]:
            cancelled = flag_provider(tx, self.profile, provider, violation, detail, cause)
            return cancelled, deregistrations(tx)

        cancelled, deregistered = await self.ledger.write_async(work)
        await self.notifier.notify(cancelled, deregistered)

    async def deregister(
        self,
        provider: str,
        reason: str = "",
        policy: DeregistrationPolicy | None = None,
        *,
        registered: str | None = None,
        release: bool = False,
        by_provider: bool = False,
    ) -> Event:
        """Stop routing to a provider; return the event, which counts its open invocations.

        `policy` says what becomes of those. `registered` is the event of the registration that is
        meant: a later one is left as it is. `release` lets any provider have the name. The
        provider is notified, unless the request came from it (`by_provider`).
        """
        event, cancelled = await self.ledger.write_async(
            lambda tx: deregister(
                tx,
                provider,
                reason or "asked to",
                policy or self.profile.on_deregistration,
                registered=registered,
                release=release,
            )
        )
        await self.notifier.notify(cancelled, [] if by_provider else [event])
        return event

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return what this runtime left open when it stopped; this blocks while it reads.

        Acknowledged invocations are not among it: their answers will come.
        """
        return self._storage.unfinished()

    async def recover(self, unfinished: list[UnfinishedInvocation] | None = None) -> list[Invocation]:
        """Resume what this runtime left open when it stopped; call it before the first `invoke`.

        Asynchronous invocations that may never have been sent are sent again, under the same id.
        The callers of all others are gone: those invocations fail as interrupted.
        """
        if unfinished is None:
            unfinished = self.unfinished()
        return await self._recorder.recover(unfinished, self._resume)

    async def _resume(self, invocation: Invocation) -> Invocation | None:
        current = await asyncio.to_thread(self.find, invocation.id)
        if current.state != "open" or current.acknowledged is not None:
            return current
        if current.semantics != "async":
            return None
        registration = await asyncio.to_thread(self.registry.registration_for, current)
        return await self._send(registration, current)

    async def _fail_if_overdue(self, invocation: Invocation) -> bool:
        if invocation.deadline is None or self.now() <= invocation.deadline:
            return False
        await self.lifecycle.expire(invocation)
        return True

    async def wait(self, invocation_id: str) -> Invocation:
        """Wait until an invocation is settled, by this or by another runtime."""
        async for signal in self.subscriptions.follow(invocation_id, after=_AFTER_ALL_PARTIALS):
            if isinstance(signal, Invocation):
                return signal
        raise AssertionError("following ends with the invocation")

    def follow(self, invocation_id: str, *, after: int = 0) -> AsyncIterator[Partial | Invocation]:
        """Follow an invocation: its partials as they come, then the settled invocation."""
        return self.subscriptions.follow(invocation_id, after=after)

    def find(self, invocation_id: str) -> Invocation:
        """Return an invocation, or raise `unknown_invocation`; this blocks while it reads."""
        return self.lifecycle.find(invocation_id)

    def cost(self, invocation_id: str) -> CostRecord | None:
        """Return what an invocation cost, corrections included; None while it is open."""
        return find_cost(self.ledger, self.find(invocation_id))

    def invocations(
        self, state: str | None = None, limit: int = 100, *, provider: str | None = None
    ) -> list[Invocation]:
        """Return invocations, the newest first."""
        return list_rows(self.ledger, state or "", provider or "", limit)

    async def correct_cost(self, event_id: str, lines: tuple[CostLine, ...], reason: str = "") -> Event:
        """Record a corrected cost for a settled invocation, named by the event that settled it."""
        record = CostRecord(check_lines(lines))
        return await self.ledger.write_async(lambda tx: correct(tx, event_id, record, reason))
