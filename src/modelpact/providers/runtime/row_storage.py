"""Invocations as rows: with their content, pieces, deadlines and idempotency keys."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import LedgerUncertain
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.providers.contract import ComplianceProfile, Invocation
from modelpact.providers.runtime.recorder import OpenedInvocation, Settlement, UnfinishedInvocation
from modelpact.providers.runtime.records import InvocationOutcome
from modelpact.providers.runtime.registry import Registered, departures
from modelpact.providers.runtime.request import InvocationRequest
from modelpact.providers.runtime.rows import COLUMNS, open_row, read_row
from modelpact.providers.runtime.settlement import settle

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


class _RowWrite(Generic[T]):
    """Work on rows that was handed to the ledger."""

    cost: CostRecord | None = None

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

    def retry(self, error: BaseException | None = None) -> "_RowWrite[T]":  # noqa: ARG002
        return _RowWrite(self._ledger, self._work)


class _SettlementWrite(_RowWrite[Settlement]):
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
