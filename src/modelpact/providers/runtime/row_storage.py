"""Invocations as rows: with their content, partials, deadlines and idempotency keys.

The rules of settlement are here too: once, with consequences for violations.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import EnvelopeClosed, LedgerUncertain
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import ComplianceProfile, ContractError, DeregistrationPolicy, Invocation
from modelpact.providers.runtime.recorder import OpenedInvocation, Settlement, UnfinishedInvocation
from modelpact.providers.runtime.records import OVERDUE, InvocationOutcome, InvocationRequest, cancelled, storable
from modelpact.providers.runtime.registry import Registered, deregistrations, flag, mark_deregistered
from modelpact.providers.runtime.rows import COLUMNS, close_row, correct, load, open_row, read_row
from modelpact.vocabulary.errors import InputError

T = TypeVar("T")


class RowStorage:
    """Keeps invocations in the table `invocations`. Runtimes that share a store share the rows."""

    def __init__(self, ledger: Ledger, owner: str, profile: ComplianceProfile, now: Callable[[], int]) -> None:
        self._ledger = ledger
        self._owner = owner
        self._profile = profile
        self._now = now

    def open(self, request: InvocationRequest, registered: Registered) -> "_RowWrite[OpenedInvocation]":
        """Insert a row, or find the one with the same idempotency key."""
        owner, now = self._owner, self._now()

        def work(tx: Transaction) -> OpenedInvocation:
            return OpenedInvocation(*open_row(tx, request, registered, owner, now))

        return _RowWrite(self._ledger, work)

    def claim(self, invocation: Invocation) -> bool:  # noqa: ARG002
        """Return True: the transaction that settles the row decides."""
        return True

    def settle(
        self, invocation: Invocation, outcome: InvocationOutcome, *, may_already_be_settled: bool = False
    ) -> "_SettlementWrite":
        """Update a row, with the consequences that the contract has for the outcome."""
        return _SettlementWrite(
            self._ledger, self._profile, invocation, outcome, may_already_be_settled=may_already_be_settled
        )

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
    may_already_be_settled: bool = False,
) -> tuple[Invocation, list[Invocation]]:
    """Settle an invocation once; also return what was cancelled because of a violation.

    The write is optimistic: it assumes that an invocation which the caller knows as open is open.
    A conflict runs it again with `tx.recheck`, which reads the row first.

    A response after the end changes no outcome. The first such response corrects the cost, which
    was an estimate. A second response is a violation, except in a retry of an uncertain write
    (`may_already_be_settled`), which may repeat the first.
    """
    if may_already_be_settled or tx.recheck or invocation.state != "open" or outcome.state == "cancelled":
        invocation = load(tx, invocation.id)
    if may_already_be_settled and invocation.answered is not None:
        return invocation, []
    overdue = invocation.deadline is not None and tx.now > invocation.deadline
    if invocation.state == "open" and outcome.answered and overdue:
        invocation = close_row(tx, invocation, OVERDUE)
    if invocation.state != "open":
        return _receive_after_end(tx, profile, invocation, outcome)
    settled = close_row(tx, invocation, outcome)
    if not outcome.violation:
        return settled, []
    return settled, flag_provider(tx, profile, settled.provider, outcome.violation, outcome.detail, settled.settled_by)


def _receive_after_end(
    tx: Transaction, profile: ComplianceProfile, invocation: Invocation, outcome: InvocationOutcome
) -> tuple[Invocation, list[Invocation]]:
    if not outcome.answered:
        return invocation, []
    if invocation.answered is not None:
        detail = f"{invocation.id} was answered already"
        affected = flag_provider(tx, profile, invocation.provider, "answered_twice", detail, invocation.settled_by)
        return load(tx, invocation.id), affected
    changed = tx.execute_update(
        "UPDATE invocations SET answered = ? WHERE id = ? AND answered IS NULL", (tx.now, invocation.id)
    )
    if not changed:
        tx.conflict(f"an answer to {invocation.id} came to another runtime")
    if outcome.lines and invocation.settled_by is not None:
        record = CostRecord(outcome.lines, estimate=outcome.estimate)
        correct(tx, invocation.settled_by, record, "a response after the end reported it")
    return load(tx, invocation.id), []


def cancel_open(tx: Transaction, provider: str, reason: str) -> list[Invocation]:
    """Cancel every open invocation of a provider."""
    rows = tx.execute("SELECT id FROM invocations WHERE provider = ? AND state = 'open' ORDER BY created", (provider,))
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
            raise ContractError("superseded", f"{provider} has registered anew since: {rows[0][0]} stands")
    event = mark_deregistered(tx, provider, storable(reason), None, policy, "released" if release else "deregistered")
    if event is None:
        raise ContractError("unknown_provider", f"no active provider {provider!r:.80}")
    if policy == "drain":
        return event, []
    return event, cancel_open(tx, provider, "the provider was deregistered")


def flag_provider(
    tx: Transaction, profile: ComplianceProfile, provider: str, violation: str, detail: str, cause: str | None
) -> list[Invocation]:
    """Flag a violation and apply the profile; return the invocations that were cancelled."""
    flagged = flag(tx, provider, violation, storable(detail), cause)
    if profile.on_violation != "deregister":
        return []
    reason, policy = f"violation: {violation}", profile.on_deregistration
    deregistration = mark_deregistered(tx, provider, reason, flagged.id, policy, "expelled")
    if deregistration is None or policy != "cancel":
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
        # Writes run in order: when this one ends, the one before has ended, too.
        await self._ledger.write_async(lambda _: None)
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
        may_already_be_settled: bool,
    ) -> None:
        self._profile = profile
        self._invocation = invocation
        self._outcome = outcome
        self._may_already_be_settled = may_already_be_settled
        super().__init__(ledger, self._settle)

    def _settle(self, tx: Transaction) -> Settlement:
        settled, affected = settle(
            tx, self._profile, self._invocation, self._outcome, may_already_be_settled=self._may_already_be_settled
        )
        changed = settled.settled_by is not None and any(event.id == settled.settled_by for event in tx.events)
        return Settlement(settled, changed, tuple(affected), tuple(deregistrations(tx)))

    async def resolve(self) -> None:
        """Leave it to a retry: that looks at the row first."""

    def retry(self, error: BaseException | None = None) -> "_SettlementWrite":
        may_be_settled = self._may_already_be_settled or error is None or isinstance(error, LedgerUncertain)
        return _SettlementWrite(
            self._ledger, self._profile, self._invocation, self._outcome, may_already_be_settled=may_be_settled
        )
