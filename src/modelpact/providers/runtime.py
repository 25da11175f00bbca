"""The runtime: invocations are recorded before they leave, settled once, and always paid for."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from modelpact.emulation.validation import Schema
from modelpact.ledger.canonical import NotCanonical
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, check_lines
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import (
    ContractError,
    Invocation,
    Offer,
    Profile,
    Registration,
    Reply,
    Semantics,
    cost_violation,
)
from modelpact.providers.invocations import (
    COLUMNS,
    check_json,
    elapsed,
    latest_cost,
    load,
    read_row,
)
from modelpact.providers.registry import Registry, flag, mark_deregistered
from modelpact.vocabulary.errors import InputError, ModelpactError

SECOND: Final = 1_000_000_000


class Partial(msgspec.Struct, frozen=True):
    """A piece of a streamed answer; numbers count from 1."""

    invocation_id: str
    number: int
    content: Any


class Accepted(msgspec.Struct, frozen=True):
    """A provider's acknowledgement that it will answer later."""

    invocation_id: str


class Carrier(Protocol):
    """What takes invocations to a provider, in this process or over a wire."""

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        """Take a synchronous or asynchronous invocation there."""

    def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply]:
        """Take a streaming invocation there; the last thing that comes is the reply."""

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Tell the provider that nobody waits for this any more."""


class Runtime:
    """Routes invocations to registered providers and keeps the record."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str = "runtime",
        profile: Profile | None = None,
        carriers: Mapping[str, Carrier] | None = None,
        default_carrier: Carrier | None = None,
    ) -> None:
        self.ledger = ledger
        self.name = name
        self.profile = profile or Profile()
        self.registry = Registry(ledger, self.profile)
        self.carriers = dict(carriers or {})
        self.default_carrier = default_carrier
        self._schemas: dict[tuple[str, str, str], tuple[dict[str, Any], Schema]] = {}

    def _carrier(self, provider: str) -> Carrier:
        carrier = self.carriers.get(provider) or self.default_carrier
        if carrier is None:
            raise ContractError("unreachable", f"nothing leads to {provider}")
        return carrier

    def _check(self, registration: Registration, offer: Offer, way: str, value: Any) -> list[str]:
        document = offer.input if way == "input" else offer.output
        key = (registration.id, offer.kind, way)
        known = self._schemas.get(key)
        if known is None or known[0] != document:
            known = (document, Schema(document, f"{offer.kind} {way}"))
            self._schemas[key] = known
        try:
            check_json(value)
        except NotCanonical as error:
            return [str(error)]
        return known[1].findings(value)

    async def invoke(
        self,
        provider: str,
        capability: str,
        value: Any,
        *,
        semantics: Semantics = "sync",
        deadline_s: float | None = 30.0,
        idempotency_key: str | None = None,
        attribution: Attribution | None = None,
        estimate: tuple[CostLine, ...] = (),
        envelope: str | None = None,
        cause: str | None = None,
    ) -> Invocation:
        """Invoke a capability. Synchronous ones return settled, others return open.

        The same idempotency key gives the same invocation, and calls the provider once.
        """
        registration = self.registry.active(provider)
        offer = registration.offer(capability)
        if semantics not in offer.semantics:
            raise ContractError(
                "unsupported_semantics",
                f"{provider} offers {capability} as {', '.join(offer.semantics)}, not {semantics}",
            )
        wrong = self._check(registration, offer, "input", value)
        if wrong:
            raise ContractError("invalid_input", f"{capability}: {'; '.join(wrong)}")
        who = attribution or Attribution()
        who = msgspec.structs.replace(who, provider=provider, capability=capability)
        envelope = envelope or f"invocations/{self.name}"
        invocation, fresh = await self.ledger.write_async(
            lambda tx: self._open(
                tx,
                provider,
                capability,
                value,
                semantics,
                deadline_s,
                idempotency_key,
                who,
                estimate,
                envelope,
                cause,
            )
        )
        if not fresh or semantics == "streaming":
            return invocation
        return await self._send(registration, invocation, deadline_s)

    def _open(
        self,
        tx: Transaction,
        provider: str,
        capability: str,
        value: Any,
        semantics: Semantics,
        deadline_s: float | None,
        idempotency_key: str | None,
        who: Attribution,
        estimate: tuple[CostLine, ...],
        envelope: str,
        cause: str | None,
    ) -> tuple[Invocation, bool]:
        if idempotency_key is not None:
            rows = tx.execute(
                "SELECT id FROM invocations WHERE provider = ? AND idempotency_key = ?",
                (provider, idempotency_key),
            )
            if rows:
                return load(tx, rows[0][0]), False
        identity = f"inv_{secrets.token_urlsafe(18)}"
        deadline = None if deadline_s is None else tx.now + int(deadline_s * SECOND)
        tx.open_envelope(envelope, "invocations", self.name)
        payload = {
            "invocation": identity,
            "provider": provider,
            "capability": capability,
            "semantics": semantics,
            "estimate": msgspec.to_builtins(estimate),
            "attribution": msgspec.to_builtins(who),
        }
        event = tx.append(Draft(envelope, "capability.invoked", payload, cause))
        tx.execute(
            "INSERT INTO invocations VALUES (?, ?, ?, ?, 'open', ?, ?, ?, NULL, ?, ?, NULL, NULL, "
            "?, 0, ?, ?, NULL)",
            (
                identity,
                provider,
                capability,
                semantics,
                idempotency_key,
                envelope,
                event.id,
                self.name,
                msgspec.json.encode(value).decode(),
                msgspec.json.encode(who).decode(),
                tx.now,
                deadline,
            ),
        )
        opened = Invocation(
            identity,
            provider,
            capability,
            semantics,
            "open",
            value,
            envelope,
            event.id,
            tx.now,
            deadline,
            attribution=who,
        )
        return opened, True

    async def _send(
        self, registration: Registration, invocation: Invocation, deadline_s: float | None
    ) -> Invocation:
        carrier = self._carrier(registration.id)
        try:
            async with asyncio.timeout(deadline_s):
                answer = await carrier.send(registration, invocation)
        except TimeoutError:
            return await self._failed(invocation, "deadline", "no answer before the deadline")
        except ModelpactError as error:
            return await self._failed(invocation, "unreachable", str(error))
        except asyncio.CancelledError:
            await asyncio.shield(self.cancel(invocation.id, "the caller went away"))
            raise
        if isinstance(answer, Accepted):
            if answer.invocation_id != invocation.id:
                detail = f"acknowledged {answer.invocation_id!r:.80}"
                return await self._violated(invocation, "unknown_invocation", detail)
            if invocation.semantics == "sync":
                return await self._violated(
                    invocation, "invalid_response", "no answer, only a promise"
                )
            return invocation
        return await self.settle(answer, expected=invocation.id)

    async def stream(self, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        """Run a streaming invocation: its partials in order, then the settled invocation."""
        registration = self.registry.active(invocation.provider)
        carrier = self._carrier(registration.id)
        number = 0
        async for piece in carrier.stream(registration, invocation):
            if isinstance(piece, Reply):
                yield await self.settle(piece, expected=invocation.id)
                return
            number += 1
            if piece.invocation_id != invocation.id or piece.number != number:
                detail = f"partial {piece.number} of {piece.invocation_id!r:.60}, not {number}"
                yield await self._violated(invocation, "reordered_partial", detail)
                return
            await self.ledger.write_async(
                lambda tx, piece=piece: self._keep_partial(tx, invocation, piece)  # type: ignore[misc]
            )
            yield piece
        yield await self._failed(invocation, "cut_off", "the stream ended without a final answer")

    def _keep_partial(self, tx: Transaction, invocation: Invocation, piece: Partial) -> None:
        tx.changed(
            "UPDATE invocations SET partials = ? WHERE id = ? AND state = 'open'",
            (piece.number, invocation.id),
        )
        payload = {"invocation": invocation.id, "number": piece.number}
        tx.append(Draft(invocation.envelope, "capability.partial", payload, invocation.event))

    async def settle(self, reply: Reply, *, expected: str | None = None) -> Invocation:
        """Take a provider's final answer in: checked, paid for, settled once."""
        if expected is not None and reply.invocation_id != expected:
            mine = self.find(expected)
            detail = f"answered {reply.invocation_id!r:.80} instead"
            return await self._violated(mine, "unknown_invocation", detail)
        invocation = self.find(reply.invocation_id)
        found = self.registry.find(invocation.provider)
        if found is None:
            raise ContractError("unknown_provider", f"{invocation.provider} was never registered")
        registration = found[0]
        offer = registration.offer(invocation.capability)
        lines = reply.cost
        violation, detail = "", ""
        try:
            lines = check_lines(lines)
            problem = cost_violation(registration, offer, lines)
        except InputError as told:
            lines, problem = (), str(told)
        if problem:
            violation, detail = "misstated_cost", problem
        error = reply.error
        if not error:
            wrong = self._check(registration, offer, "output", reply.output)
            if wrong:
                violation, detail = "invalid_response", "; ".join(wrong)
                error = f"invalid response: {detail}"
        record = CostRecord(lines, invocation.attribution, reply.estimate)
        return await self.ledger.write_async(
            lambda tx: self._settle(
                tx,
                invocation,
                None if error else reply.output,
                error,
                record if lines else elapsed(tx, invocation),
                violation,
                detail,
            )
        )

    async def _failed(self, invocation: Invocation, code: str, detail: str) -> Invocation:
        error = f"{code}: {detail}"
        return await self.ledger.write_async(
            lambda tx: self._settle(tx, invocation, None, error, elapsed(tx, invocation), "", "")
        )

    async def _violated(self, invocation: Invocation, violation: str, detail: str) -> Invocation:
        error = f"{violation}: {detail}"
        return await self.ledger.write_async(
            lambda tx: self._settle(
                tx, invocation, None, error, elapsed(tx, invocation), violation, detail
            )
        )

    def _settle(
        self,
        tx: Transaction,
        invocation: Invocation,
        output: Any,
        error: str,
        record: CostRecord,
        violation: str,
        detail: str,
    ) -> Invocation:
        state = "failed" if error else "completed"
        changed = tx.changed(
            "UPDATE invocations SET state = ?, output = ?, error = ?, settled = ? "
            "WHERE id = ? AND state = 'open'",
            (
                state,
                None if error else msgspec.json.encode(output).decode(),
                error or None,
                tx.now,
                invocation.id,
            ),
        )
        if not changed:
            self._flag(tx, invocation, "answered_twice", f"{invocation.id} was settled already")
            return load(tx, invocation.id)
        payload = {
            "invocation": invocation.id,
            "provider": invocation.provider,
            "capability": invocation.capability,
            "cost": record.to_json(),
            **({"error": error[:500]} if error else {}),
        }
        kind = f"capability.{state}"
        event = tx.append(Draft(invocation.envelope, kind, payload, invocation.event))
        tx.record_cost(event, record)
        tx.execute("UPDATE invocations SET settled_by = ? WHERE id = ?", (event.id, invocation.id))
        if violation:
            self._flag(tx, invocation, violation, detail, event)
        return load(tx, invocation.id)

    def _flag(
        self,
        tx: Transaction,
        invocation: Invocation,
        violation: str,
        detail: str,
        cause: Event | None = None,
    ) -> None:
        because = invocation.event if cause is None else cause.id
        flagged = flag(tx, invocation.provider, violation, detail, because)
        if self.profile.on_violation == "deregister":
            active = tx.execute(
                "SELECT 1 FROM providers WHERE id = ? AND state = 'active'", (invocation.provider,)
            )
            if active:
                mark_deregistered(tx, invocation.provider, f"violation: {violation}", flagged.id)

    async def flag_provider(self, provider: str, violation: str, detail: str) -> None:
        """Flag a violation that no invocation of ours stands behind."""
        await self.ledger.write_async(lambda tx: flag(tx, provider, violation, detail, None))

    async def cancel(self, invocation_id: str, reason: str) -> Invocation:
        """Cancel an open invocation; a settled one stays as it is."""
        invocation = self.find(invocation_id)

        def work(tx: Transaction) -> Invocation:
            changed = tx.changed(
                "UPDATE invocations SET state = 'cancelled', error = ?, settled = ? "
                "WHERE id = ? AND state = 'open'",
                (reason, tx.now, invocation_id),
            )
            if changed:
                record = elapsed(tx, invocation)
                payload = {
                    "invocation": invocation_id,
                    "provider": invocation.provider,
                    "capability": invocation.capability,
                    "reason": reason,
                    "cost": record.to_json(),
                }
                tx.append(
                    Draft(invocation.envelope, "capability.cancelled", payload, invocation.event)
                )
            return load(tx, invocation_id)

        return await self.ledger.write_async(work)

    async def expire(self) -> list[Invocation]:
        """Fail every open invocation whose deadline has passed, whoever opened it."""
        rows = self.ledger.read(
            "SELECT id FROM invocations WHERE state = 'open' AND deadline IS NOT NULL "
            "AND deadline < ?",
            (self.ledger.clock(),),
        )
        expired = []
        for (identity,) in rows:
            found = self.find(identity)
            expired.append(await self._failed(found, "deadline", "no answer before the deadline"))
        return expired

    async def deregister(self, provider: str, reason: str = "", policy: str | None = None) -> Event:
        """Stop routing to a provider; open invocations end as policy says."""
        policy = policy or self.profile.on_deregistration
        if policy not in ("drain", "cancel"):
            raise InputError("policy: expected drain or cancel")
        event = await self.ledger.write_async(
            lambda tx: mark_deregistered(tx, provider, reason or "asked to", None)
        )
        if policy == "cancel":
            rows = self.ledger.read(
                "SELECT id FROM invocations WHERE provider = ? AND state = 'open'", (provider,)
            )
            for (identity,) in rows:
                await self.cancel(identity, "the provider was deregistered")
        return event

    def find(self, invocation_id: str) -> Invocation:
        """Return an invocation, or raise `unknown_invocation`."""
        rows = self.ledger.read(f"SELECT {COLUMNS} FROM invocations WHERE id = ?", (invocation_id,))
        if not rows:
            raise ContractError("unknown_invocation", f"no invocation {invocation_id!r:.80}")
        return read_row(rows[0])

    def listed(self, state: str | None = None, limit: int = 100) -> list[Invocation]:
        """Return invocations, the newest first."""
        where = "" if state is None else "WHERE state = ?"
        params = () if state is None else (state,)
        rows = self.ledger.read(
            f"SELECT {COLUMNS} FROM invocations {where} ORDER BY created DESC LIMIT ?",
            (*params, limit),
        )
        return [read_row(row) for row in rows]

    async def correct_cost(
        self, event_id: str, lines: tuple[CostLine, ...], reason: str = ""
    ) -> Event:
        """Record a corrected cost for a settled invocation; it names the event that it corrects."""
        settled = self.ledger.event(event_id)
        if settled is None or "cost" not in settled.payload:
            raise ContractError("unknown_event", f"{event_id!r:.80} embeds no cost record")
        checked = check_lines(list(msgspec.to_builtins(lines)))

        def work(tx: Transaction) -> Event:
            before = latest_cost(tx, settled)
            record = CostRecord(
                checked, before.attribution, corrects=event_id, replaced=before.lines
            )
            payload = {"corrects": event_id, "reason": reason, "cost": record.to_json()}
            event = tx.append(Draft(settled.envelope, "cost.corrected", payload, event_id))
            tx.record_cost(event, record)
            return event

        return await self.ledger.write_async(work)
