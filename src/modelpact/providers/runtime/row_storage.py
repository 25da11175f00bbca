"""Invocations as rows: with their content, pieces, deadlines and idempotency keys.

The rules of settlement are here too: once, with consequences for violations.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import EnvelopeClosed, LedgerUncertain
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
)
from modelpact.providers.runtime.recorder import OpenedInvocation, Settlement, UnfinishedInvocation
from modelpact.providers.runtime.records import (
    OVERDUE,
    InvocationOutcome,
    InvocationRequest,
    cancelled,
    storable,
)
from modelpact.providers.runtime.registry import Registered, departures, flag, mark_deregistered
from modelpact.providers.runtime.rows import COLUMNS, close_row, correct, load, open_row, read_row
from modelpact.vocabulary.errors import InputError

T = TypeVar("T")


class RowStorage:
    """Keeps invocations in the table `invocations`. Runtimes that share a store share the rows."""

    def __init__(
        self, ledger: Ledger, owner: str, profile: ComplianceProfile, now: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._profile = profile
        self._now = now

    def open(
        self, request: InvocationRequest, registered: Registered
    ) -> "_RowWrite[OpenedInvocation]":
        """Insert a row, or find the one with the same idempotency key."""
        owner, now = self._owner, self._now()

        def work(tx: Transaction) -> OpenedInvocation:
            return OpenedInvocation(*open_row(tx, request, registered, owner, now))

        return _RowWrite(self._ledger, work)

    def claim(self, invocation: Invocation) -> bool:  # noqa: ARG002
        """Let every caller try: the row decides within the transaction."""
        return True

    def settle(
        self, invocation: Invocation, outcome: InvocationOutcome, *, again: bool = False
    ) -> "_SettlementWrite":
        """Update a row, with the consequences that the contract has for the outcome."""
        return _SettlementWrite(self._ledger, self._profile, invocation, outcome, again=again)

    def unfinished(self) -> list[UnfinishedInvocation]:
        """Return the open invocations of this owner whose provider has not promised an answer."""
        rows = self._ledger.read(
            f"SELECT {COLUMNS} FROM invocations WHERE state = 'open' AND owner = ? "
            "AND acknowledged IS NULL ORDER BY created",
            (self._owner,),
        )
        return [UnfinishedInvocation(read_row(row)) for row in rows]


def settle(
    tx: Transaction,
    profile: ComplianceProfile,
    invocation: Invocation,
    outcome: InvocationOutcome,
    *,
    again: bool = False,
) -> tuple[Invocation, list[Invocation]]:
    """Settle an invocation once; also return what was cancelled because of a violation.

    An invocation that the caller knows as open is taken to be open; the write fails and is done
    again if it is not.

    What comes after the end changes no outcome. The first late answer corrects the cost, which was
    an estimate. A second answer is a violation, unless it is the same one, written `again` because
    nobody knew whether it had been kept.
    """
    if again or tx.recheck or invocation.state != "open" or outcome.state == "cancelled":
        invocation = load(tx, invocation.id)
    if again and invocation.answered is not None:
        return invocation, []
    overdue = invocation.deadline is not None and tx.now > invocation.deadline
    if invocation.state == "open" and outcome.answered and overdue:
        invocation = close_row(tx, invocation, OVERDUE)
    if invocation.state != "open":
        return _settle_late(tx, profile, invocation, outcome)
    settled = close_row(tx, invocation, outcome)
    if not outcome.violation:
        return settled, []
    return settled, flag_provider(
        tx, profile, settled.provider, outcome.violation, outcome.detail, settled.settled_by
    )


def _settle_late(
    tx: Transaction, profile: ComplianceProfile, invocation: Invocation, outcome: InvocationOutcome
) -> tuple[Invocation, list[Invocation]]:
    if not outcome.answered:
        return invocation, []
    if invocation.answered is not None:
        detail = f"{invocation.id} was answered already"
        affected = flag_provider(
            tx, profile, invocation.provider, "answered_twice", detail, invocation.settled_by
        )
        return load(tx, invocation.id), affected
    changed = tx.execute_update(
        "UPDATE invocations SET answered = ? WHERE id = ? AND answered IS NULL",
        (tx.now, invocation.id),
    )
    if not changed:
        tx.conflict(f"an answer to {invocation.id} came to another runtime")
    if outcome.lines and invocation.settled_by is not None:
        record = CostRecord(outcome.lines, estimate=outcome.estimate)
        correct(tx, invocation.settled_by, record, "a late answer reported it")
    return load(tx, invocation.id), []


def cancel_open(tx: Transaction, provider: str, reason: str) -> list[Invocation]:
    """Cancel every open invocation of a provider."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE provider = ? AND state = 'open' ORDER BY created",
        (provider,),
    )
    affected = []
    for (invocation_id,) in rows:
        with contextlib.suppress(EnvelopeClosed):  # one that cannot be settled blocks no other
            affected.append(close_row(tx, load(tx, invocation_id), cancelled(reason)))
    return affected


def deregister(
    tx: Transaction,
    provider: str,
    reason: str,
    policy: DeregistrationPolicy,
    *,
    registered: str | None = None,
    release: bool = False,
) -> tuple[Event, list[Invocation]]:
    """Deregister a provider; also return the open invocations that were cancelled.

    `registered` is the event of the registration that is meant: a later one is left as it is.
    `release` gives up the name: any provider may register under it next.
    """
    if policy not in ("drain", "cancel"):
        raise InputError("policy: expected drain or cancel")
    if not provider.isprintable():
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if registered is not None:
        rows = tx.execute("SELECT event FROM providers WHERE id = ?", (provider,))
        if rows and rows[0][0] != registered:
            raise ContractError(
                "superseded", f"{provider} has registered anew since: {rows[0][0]} stands"
            )
    event = mark_deregistered(
        tx, provider, storable(reason), None, policy, "released" if release else "deregistered"
    )
    if event is None:
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if policy == "drain":
        return event, []
    return event, cancel_open(tx, provider, "the provider was deregistered")


def flag_provider(
    tx: Transaction,
    profile: ComplianceProfile,
    provider: str,
    violation: str,
    detail: str,
    cause: str | None,
) -> list[Invocation]:
    """Flag a violation and apply the profile; return the invocations that were cancelled."""
    flagged = flag(tx, provider, violation, storable(detail), cause)
    if profile.on_violation != "deregister":
        return []
    reason, policy = f"violation: {violation}", profile.on_deregistration
    departure = mark_deregistered(tx, provider, reason, flagged.id, policy, "expelled")
    if departure is None or policy != "cancel":
        return []
    return cancel_open(tx, provider, f"the provider was deregistered: {violation}")


class _RowWrite(Generic[T]):
    """Work on rows that was handed to the ledger."""

    def __init__(self, ledger: Ledger, work: Callable[[Transaction], T]) -> None:
        self._ledger = ledger
        self._work = work
        self._result: T | None = None
        self.future: Awaitable[T] = ledger.write_async(self._run)

    def _run(self, tx: Transaction) -> T:
        self._result = None
        self._result = result = self._work(tx)
        return result

    def finish(self, result: Any) -> T:
        done: T = result
        return done

    def fail(self, error: BaseException) -> None:
        pass

    async def resolve(self) -> T | None:
        await self._ledger.write_async(lambda _: None)  # what was handed in before is done now
        return self._result


class _SettlementWrite(_RowWrite[Settlement]):
    cost: CostRecord | None = None

    def __init__(
        self,
        ledger: Ledger,
        profile: ComplianceProfile,
        invocation: Invocation,
        outcome: InvocationOutcome,
        *,
        again: bool,
    ) -> None:
        self._profile = profile
        self._invocation = invocation
        self._outcome = outcome
        self._again = again
        super().__init__(ledger, self._settle)

    def _settle(self, tx: Transaction) -> Settlement:
        settled, affected = settle(
            tx, self._profile, self._invocation, self._outcome, again=self._again
        )
        changed = settled.settled_by is not None and any(
            event.id == settled.settled_by for event in tx.events
        )
        return Settlement(settled, changed, tuple(affected), tuple(departures(tx)))

    async def resolve(self) -> None:
        """Leave it to a retry: that looks at the row first."""

    def retry(self, error: BaseException | None = None) -> "_SettlementWrite":
        again = self._again or error is None or isinstance(error, LedgerUncertain)
        return _SettlementWrite(
            self._ledger, self._profile, self._invocation, self._outcome, again=again
        )
