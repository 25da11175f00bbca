"""The life of an invocation from its opening to its end, and the notices to its provider."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.runtime.recorder import InvocationRecorder
from modelpact.providers.runtime.records import OVERDUE, InvocationOutcome, StreamDigest, cancelled, failed
from modelpact.providers.runtime.registry import Registry
from modelpact.providers.runtime.rows import SECOND, acknowledge_row, find_row, insert_partial
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import Accepted, ContractViolation, NotifiesProviders, Partial, Transports
from modelpact.vocabulary.errors import ModelpactError

CALLER_LEFT: Final = "the caller went away"
_LOG: Final = logging.getLogger("modelpact.providers")
_TIMEOUT_S: Final = 5.0
"""How long a provider has to answer a notification."""


class ProviderNotifier:
    """Notifies providers of cancellations and of their deregistration.

    Each has five seconds to respond. A failed notification changes nothing in the runtime.
    """

    def __init__(
        self, registry: Registry, transports: Transports, on_unnotified: Callable[[Registration, str], None]
    ) -> None:
        """`on_unnotified` is called with a provider that could not be notified, and why."""
        self._registry = registry
        self._transports = transports
        self.on_unnotified = on_unnotified

    async def notify(self, cancelled: Iterable[Invocation], deregistrations: Iterable[Event]) -> None:
        """Notify providers of cancelled invocations, then of their deregistration."""
        await self.notify_cancelled(cancelled)
        await self._notify_deregistered(deregistrations)

    async def notify_cancelled(self, cancelled: Iterable[Invocation]) -> None:
        """Notify the providers of these invocations that nobody waits for them any more."""
        groups: dict[tuple[str, str], list[Invocation]] = {}
        for invocation in cancelled:
            group = (invocation.provider, invocation.registered)
            groups.setdefault(group, []).append(invocation)
        for invocations in groups.values():
            registration = await asyncio.to_thread(self._registry.registration_for, invocations[0])
            await self.notify_provider(registration, invocations)

    async def notify_provider(self, registration: Registration, cancelled: Iterable[Invocation]) -> None:
        """Notify one provider of cancellations, and stop at the first that fails."""
        for invocation in cancelled:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._transports.find(registration).cancel(registration, invocation)
            except (ModelpactError, TimeoutError) as error:
                self._report(registration, "a cancellation", error)
                return

    async def _notify_deregistered(self, deregistrations: Iterable[Event]) -> None:
        """Notify remote providers of the events that deregistered them."""
        for event in deregistrations:
            registration, _ = await asyncio.to_thread(self._registry.find, event.payload["provider"]) or (None, "")
            if registration is None or not registration.base_url:
                continue
            try:
                transport = self._transports.find(registration)
                if isinstance(transport, NotifiesProviders):
                    async with asyncio.timeout(_TIMEOUT_S):
                        await transport.notify(registration, event)
            except (ModelpactError, TimeoutError) as error:
                self._report(registration, "its deregistration", error)

    def _report(self, registration: Registration, subject: str, error: Exception) -> None:
        reason = str(error) or f"no answer within {_TIMEOUT_S:g} seconds"
        _LOG.info("%s was not notified of %s: %s", registration.id, subject, reason)
        self.on_unnotified(registration, reason)


class InvocationLifecycle:
    """Acknowledges, streams and settles open invocations, and notifies their providers."""

    def __init__(
        self,
        ledger: Ledger,
        recorder: InvocationRecorder,
        validator: ContractValidator,
        notifier: ProviderNotifier,
        now: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._recorder = recorder
        self._validator = validator
        self._notifier = notifier
        self._now = now
        self.digests: dict[str, StreamDigest] = {}
        """The digests of streams whose partials are not stored, by invocation."""

    def find(self, invocation_id: str) -> Invocation:
        """Return an invocation, or raise `unknown_invocation`; this blocks while it reads."""
        return find_row(self._ledger, invocation_id)

    def remaining_seconds(self, invocation: Invocation) -> float | None:
        """Return the time to the deadline; None without a deadline."""
        if invocation.deadline is None:
            return None
        return max(0.0, (invocation.deadline - self._now()) / SECOND)

    async def acknowledge(self, invocation: Invocation, accepted: Accepted) -> Invocation:
        """Record that a provider deferred its response."""
        if accepted.invocation_id != invocation.id:
            detail = f"acknowledged {accepted.invocation_id!r:.80}"
            return await self.fail_violation(invocation, "unknown_invocation", detail)
        if invocation.semantics == "sync":
            detail = "the provider deferred its response to a synchronous invocation"
            return await self.fail_violation(invocation, "invalid_response", detail)
        if not invocation.kept:
            detail = "the provider deferred its response, but the invocation is not stored"
            return await self.fail(invocation, "not_kept", detail)
        return await self._ledger.write_async(lambda tx: acknowledge_row(tx, invocation))

    async def add_partial(self, invocation: Invocation, partial: Partial) -> Invocation | None:
        """Store a partial, or add it to the digest; return the invocation with it counted.

        A partial out of order settles the invocation as a violation: the result is None then.
        """
        counted = msgspec.structs.replace(invocation, partials=partial.number)
        digest = self.digests.get(invocation.id)
        if partial.invocation_id == invocation.id:
            if digest is not None and partial.number == invocation.partials + 1:
                digest.add(partial.content)
                return counted
            if digest is None and await self._ledger.write_async(lambda tx: insert_partial(tx, invocation, partial)):
                return counted
        current = await asyncio.to_thread(self.find, invocation.id)
        if current.state == "open":
            expected = (current if digest is None else invocation).partials + 1
            detail = f"partial {partial.number} of {partial.invocation_id!r:.60}, not {expected}"
            await self.fail_violation(invocation, "reordered_partial", detail)
        return None

    async def settle_reply(self, registration: Registration, invocation: Invocation, reply: Reply) -> Invocation:
        """Settle an invocation with its provider's final answer, once that is validated."""
        if reply.invocation_id != invocation.id:
            detail = f"answered {reply.invocation_id!r:.80} instead"
            return await self.fail_violation(invocation, "unknown_invocation", detail)
        outcome = self._validator.judge_reply(registration, invocation, reply)
        return await self._settle(invocation, outcome)

    async def fail_unanswered(self, invocation: Invocation, error: TimeoutError | ModelpactError) -> Invocation:
        """Settle an invocation that could not be sent, or got no answer before its deadline."""
        if isinstance(error, TimeoutError):
            return await self.expire(invocation)
        if isinstance(error, ContractViolation):
            return await self.fail_violation(invocation, error.violation, error.detail)
        return await self.fail(invocation, "unreachable", str(error))

    async def expire(self, invocation: Invocation) -> Invocation:
        """Settle an invocation whose deadline has passed; a settled one stays as it is."""
        return await self._settle(invocation, OVERDUE)

    async def fail(self, invocation: Invocation, code: str, detail: str) -> Invocation:
        """Settle an invocation that got no answer; a settled one stays as it is."""
        return await self._settle(invocation, failed(f"{code}: {detail}"))

    async def fail_violation(self, invocation: Invocation, violation: str, detail: str) -> Invocation:
        """Settle an invocation whose provider broke the contract, and flag the violation."""
        outcome = InvocationOutcome("failed", f"{violation}: {detail}", violation=violation, detail=detail)
        return await self._settle(invocation, outcome)

    async def cancel(self, invocation: Invocation, reason: str) -> Invocation:
        """Cancel an open invocation and notify its provider; a settled one stays as it is."""
        outcome = cancelled(reason)
        settlement = await self._recorder.settle(invocation, self._with_digest(invocation, outcome))
        if settlement.changed:
            await self._notifier.notify_cancelled([settlement.invocation])
        return settlement.invocation

    async def _settle(self, invocation: Invocation, outcome: InvocationOutcome) -> Invocation:
        settlement = await self._recorder.settle(invocation, self._with_digest(invocation, outcome))
        await self._notifier.notify(settlement.cancelled, settlement.deregistrations)
        return settlement.invocation

    def _with_digest(self, invocation: Invocation, outcome: InvocationOutcome) -> InvocationOutcome:
        digest = self.digests.get(invocation.id)
        if digest is None:
            return outcome
        return msgspec.structs.replace(outcome, partials_digest=digest)
