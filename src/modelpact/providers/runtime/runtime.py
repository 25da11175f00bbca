"""The runtime: invocations are recorded before they leave, settled once, and always paid for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.ledger.clock import monotonic_clock
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
from modelpact.providers.runtime import maintenance as upkeep
from modelpact.providers.runtime import settlement as settling
from modelpact.providers.runtime.human import InboxTransport
from modelpact.providers.runtime.invoke import (
    SECOND,
    InvocationRequest,
    acknowledge,
    make_order,
    open_invocation,
)
from modelpact.providers.runtime.notify import tell, tell_cancelled, tell_deregistered
from modelpact.providers.runtime.registry import Registered, Registry, departures
from modelpact.providers.runtime.settlement import InvocationOutcome, correct, end
from modelpact.providers.runtime.store import find_cost, find_invocation, list_invocations
from modelpact.providers.runtime.stream_digest import StreamDigest
from modelpact.providers.runtime.streaming import run_stream
from modelpact.providers.runtime.subscriptions import Subscriptions
from modelpact.providers.runtime.validation import ContractValidator
from modelpact.providers.transport import (
    Accepted,
    ContractViolation,
    Partial,
    Transport,
    Unreachable,
)
from modelpact.vocabulary.errors import InputError, ModelpactError

__all__ = ["Accepted", "ContractViolation", "Partial", "Runtime", "Transport", "Unreachable"]

_NO_PIECES: Final = 2**62


class Runtime:
    """Routes invocations to registered providers and keeps the record.

    Runtimes that share a store have names of their own: after a restart each knows its own.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str = "runtime",
        profile: ComplianceProfile | None = None,
        carriers: Mapping[str, Transport] | None = None,
        default_carrier: Transport | None = None,
        plain_http: frozenset[str] = frozenset(),
        not_told: Callable[[Registration, str], None] = lambda registration, why: None,  # noqa: ARG005
    ) -> None:
        self.ledger = ledger
        self.name = name
        self.profile = profile or ComplianceProfile()
        self.registry = Registry(ledger, self.profile, plain_http)
        self.carriers = dict(carriers or {})
        self.default_carrier = default_carrier
        self.not_told = not_told
        """Called with a provider that did not hear of a cancellation or of its end, and why."""
        self.now = monotonic_clock(ledger.clock)
        self.delivery = Subscriptions(ledger, self._overdue)
        self.tallies: dict[str, StreamDigest] = {}
        """Of the streams whose pieces are not kept."""
        self._to_stream: dict[str, Registration] = {}
        self._judge = ContractValidator()
        self._human = InboxTransport()

    def carrier(self, registration: Registration) -> Transport:
        """Return what leads to a provider; humans without an address have their inbox."""
        carrier = self.carriers.get(registration.id)
        if carrier is None and registration.category == "human" and not registration.base_url:
            carrier = self._human
        carrier = carrier or self.default_carrier
        if carrier is None:
            raise Unreachable(f"nothing leads to {registration.id}")
        return carrier

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
        keep_pieces: bool = True,
    ) -> Invocation:
        """Invoke a capability. Synchronous ones return settled, others return open.

        The same idempotency key gives the same invocation, and calls the provider once. Without
        `keep_content` only digests of what is asked and answered are stored: nobody but this
        caller ever gets the answer. Without `keep_pieces` those of a stream are counted and hashed
        instead: nobody can follow it from elsewhere, and its end is the first that is kept of it.
        """
        asked = InvocationRequest(
            capability,
            value,
            semantics,
            deadline_s,
            remind_every_s,
            idempotency_key,
            attribution,
            estimate,
            envelope,
            cause,
            keep_content,
        )
        registered = self.registry.remembered(provider)
        opened = None
        if registered is not None:
            with contextlib.suppress(ContractError):  # what is remembered may be out of date
                opened = await self._open(registered, asked)
        if registered is None or opened is None:
            registered = await self.registry.looked_up(provider)
            opened = await self._open(registered, asked)
        invocation, fresh = opened
        if fresh and semantics != "streaming":
            return await self.send(registered.registration, invocation)
        if fresh:
            self._to_stream[invocation.id] = registered.registration
            if not (keep_content and keep_pieces):
                self.tallies[invocation.id] = StreamDigest()
        elif semantics == "sync":
            return await self.wait(invocation.id)
        return invocation

    async def _open(
        self, registered: Registered, asked: InvocationRequest
    ) -> tuple[Invocation, bool]:
        """Judge what is asked and record it, or find what was recorded under its key."""
        carrier = self.carriers.get(registered.registration.id)
        order = make_order(asked, registered, self._judge, carrier, self.name, self.now())
        opened: list[tuple[Invocation, bool]] = []

        def work(tx: Transaction) -> tuple[Invocation, bool]:
            opened[:] = [open_invocation(tx, order)]
            return opened[0]

        try:
            return await self.ledger.write_async(work)
        except asyncio.CancelledError:
            await asyncio.shield(self._take_back(opened))
            raise

    async def _take_back(self, opened: list[tuple[Invocation, bool]]) -> None:
        """Cancel what was recorded, if it was, for a caller who went away before it left."""
        with contextlib.suppress(ModelpactError):
            await self.ledger.write_async(lambda _: None)  # what was handed in before is done now
            for invocation, fresh in opened:
                if fresh:
                    await self.cancel(invocation.id, "the caller went away")

    def seconds_left(self, invocation: Invocation) -> float | None:
        """Return how many seconds an invocation has left."""
        if invocation.deadline is None:
            return None
        return max(0.0, (invocation.deadline - self.now()) / SECOND)

    async def send(self, registration: Registration, invocation: Invocation) -> Invocation:
        """Take an open invocation to its provider, within its time."""
        try:
            async with asyncio.timeout(self.seconds_left(invocation)):
                answer = await self.carrier(registration).send(registration, invocation)
        except TimeoutError:
            ended = await self.fail(invocation, "deadline", "no answer before the deadline")
            await tell(self, registration, [invocation])
            return ended
        except ContractViolation as breach:
            return await self.violate(invocation, breach.violation, breach.detail)
        except ModelpactError as error:
            return await self.fail(invocation, "unreachable", str(error))
        except asyncio.CancelledError:
            await asyncio.shield(self.cancel(invocation.id, "the caller went away"))
            raise
        if isinstance(answer, Reply):
            return await self.take(registration, invocation, answer)
        return await self.accept(invocation, answer)

    async def accept(self, invocation: Invocation, answer: Accepted) -> Invocation:
        """Note a provider's promise to answer later."""
        if answer.invocation_id != invocation.id:
            detail = f"acknowledged {answer.invocation_id!r:.80}"
            return await self.violate(invocation, "unknown_invocation", detail)
        if invocation.semantics == "sync":
            return await self.violate(invocation, "invalid_response", "no answer, only a promise")
        if not invocation.kept:
            what = "the provider would answer later, and nothing is kept to answer to"
            return await self.fail(invocation, "not_kept", what)
        return await self.ledger.write_async(lambda tx: acknowledge(tx, invocation))

    async def stream(self, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        """Run a streaming invocation: its pieces in order, then the settled invocation.

        Whoever has got it by its idempotency key follows the one that runs.
        """
        registration = self._to_stream.pop(invocation.id, None)
        if registration is None:
            async for piece in self.signals(invocation.id):
                yield piece
            return
        try:
            async for piece in run_stream(self, registration, invocation):
                yield piece
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(self.cancel(invocation.id, "the caller went away"))
            raise
        finally:
            self.tallies.pop(invocation.id, None)

    async def take(
        self, registration: Registration, invocation: Invocation, reply: Reply
    ) -> Invocation:
        """Take a provider's final answer in: checked, paid for, settled once."""
        if reply.invocation_id != invocation.id:
            detail = f"answered {reply.invocation_id!r:.80} instead"
            return await self.violate(invocation, "unknown_invocation", detail)
        return await self._end(invocation, self._judge.outcome(registration, invocation, reply))

    async def fail(self, invocation: Invocation, code: str, detail: str) -> Invocation:
        """End an invocation for want of an answer; one that is settled stays as it is."""
        return await self._end(invocation, InvocationOutcome(error=f"{code}: {detail}"))

    async def violate(self, invocation: Invocation, violation: str, detail: str) -> Invocation:
        """End an invocation because its provider broke the contract, and flag that."""
        error = f"{violation}: {detail}"
        outcome = InvocationOutcome(error=error, violation=violation, detail=detail)
        return await self._end(invocation, outcome)

    async def _end(self, invocation: Invocation, outcome: InvocationOutcome) -> Invocation:
        tally = self.tallies.get(invocation.id)
        if tally is not None:
            outcome = msgspec.structs.replace(outcome, tally=tally)
        try:
            ended, cancelled, gone = await end(self.ledger, self.profile, invocation, outcome)
        except asyncio.CancelledError:  # the caller went away: what is in hand is kept all the same
            await asyncio.shield(end(self.ledger, self.profile, invocation, outcome, again=True))
            raise
        await tell_cancelled(self, cancelled)
        await tell_deregistered(self, gone)
        return ended

    async def flag(
        self, provider: str, violation: str, detail: str, cause: str | None = None
    ) -> None:
        """Flag a violation that settles nothing, and do what the profile says."""

        def work(tx: Transaction) -> tuple[list[Invocation], list[Event]]:
            cancelled = settling.flag_provider(tx, self.profile, provider, violation, detail, cause)
            return cancelled, departures(tx)

        cancelled, gone = await self.ledger.write_async(work)
        await tell_cancelled(self, cancelled)
        await tell_deregistered(self, gone)

    async def cancel(self, invocation_id: str, reason: str) -> Invocation:
        """Cancel an open invocation and tell its provider; a settled one stays as it is."""
        invocation, was_open = await self.ledger.write_async(
            lambda tx: settling.cancel(tx, invocation_id, reason, self.tallies.get(invocation_id))
        )
        if was_open:
            await tell_cancelled(self, [invocation])
        return invocation

    async def deregister(
        self,
        provider: str,
        reason: str = "",
        policy: DeregistrationPolicy | None = None,
        *,
        registered: str | None = None,
        release: bool = False,
        by_itself: bool = False,
    ) -> Event:
        """Stop routing to a provider; open invocations end as policy says. The event counts them.

        `registered` is the event of the registration that is meant: where another stands by now,
        nothing changes. `release` lets anybody have the name. The provider is told, unless it did
        this `by_itself`.
        """
        policy = policy or self.profile.on_deregistration
        if policy not in ("drain", "cancel"):
            raise InputError("policy: expected drain or cancel")

        event, cancelled = await self.ledger.write_async(
            lambda tx: settling.deregister(
                tx,
                provider,
                reason or "asked to",
                policy,
                registered=registered,
                release=release,
            )
        )
        await tell_cancelled(self, cancelled)
        if not by_itself:
            await tell_deregistered(self, [event])
        return event

    async def expire(self) -> list[Invocation]:
        """Fail every open invocation whose deadline has passed, whoever opened it."""
        return await upkeep.expire(self)

    async def remind(self) -> list[Invocation]:
        """Record a reminder of every open invocation that is due for one, whoever opened it."""
        return await upkeep.remind(self)

    async def recover(self) -> list[Invocation]:
        """Take up what this runtime left open when it stopped; call it before the first invoke."""
        return await upkeep.take_up(self, upkeep.left_open(self))

    async def _overdue(self, invocation: Invocation) -> bool:
        """End an invocation that somebody waits for past its deadline."""
        if invocation.deadline is None or self.now() <= invocation.deadline:
            return False
        await self.fail(invocation, "deadline", "no answer before the deadline")
        return True

    async def wait(self, invocation_id: str) -> Invocation:
        """Wait until an invocation is settled, here or by another runtime."""
        async for found in self.delivery.signals(invocation_id, after=_NO_PIECES):
            if isinstance(found, Invocation):
                return found
        raise AssertionError("signals end with the invocation")

    def signals(self, invocation_id: str, *, after: int = 0) -> AsyncIterator[Partial | Invocation]:
        """Follow an invocation: its pieces as they come, then the settled invocation."""
        return self.delivery.signals(invocation_id, after=after)

    def find(self, invocation_id: str) -> Invocation:
        """Return an invocation, or raise `unknown_invocation`; this blocks while it reads."""
        return find_invocation(self.ledger, invocation_id)

    def cost(self, invocation_id: str) -> CostRecord | None:
        """Return what an invocation cost, corrections included; None while it is open."""
        return find_cost(self.ledger, self.find(invocation_id))

    def listed(
        self, state: str | None = None, limit: int = 100, *, provider: str | None = None
    ) -> list[Invocation]:
        """Return invocations, the newest first."""
        return list_invocations(self.ledger, state or "", provider or "", limit)

    async def correct_cost(
        self, event_id: str, lines: tuple[CostLine, ...], reason: str = ""
    ) -> Event:
        """Record a corrected cost for a settled invocation; it names the event that it corrects."""
        record = CostRecord(check_lines(lines))
        return await self.ledger.write_async(lambda tx: correct(tx, event_id, record, reason))
