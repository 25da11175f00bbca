"""Signals from providers: received in order for each source, each of them once.

Signal sources share registration, trust and cost with the providers that are invoked.
"""

import asyncio
from typing import Any, Final

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, check_lines
from modelpact.ledger.errors import WriteConflict
from modelpact.ledger.event import Draft, Event, check_type
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    Invocation,
    Offer,
    Registration,
    cost_violation,
)
from modelpact.providers.runtime.lifecycle import ProviderNotifier
from modelpact.providers.runtime.records import digest
from modelpact.providers.runtime.registry import Registry, deregistrations
from modelpact.providers.runtime.row_storage import flag_provider
from modelpact.vocabulary.errors import InputError

_MILLISECOND: Final = 1_000_000
_FREE: Final = Offer("signal:", {}, {})
MAX_ID_LENGTH: Final = 200
_LATEST: Final = 2**62
"""The latest time that a signal may bear, in the year 2116."""


class Signal(msgspec.Struct, frozen=True):
    """A signal. `number` counts the signals of its source from 1, `emitted` is in nanoseconds."""

    source: str
    id: str
    number: int
    type: str
    emitted: int
    content: Any


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """The acknowledgement that a signal is durable; a duplicate was durable before."""

    event: str
    number: int
    latency_ms: int
    duplicate: bool = False


class Latency(msgspec.Struct, frozen=True):
    """How late the signals of a source were, and what it declared."""

    source: str
    count: int
    late: int
    longest_ms: int
    mean_ms: int
    declared_ms: int | None


class SignalInbox:
    """Receives signals and keeps them in the order of their source."""

    def __init__(
        self, ledger: Ledger, registry: Registry, profile: ComplianceProfile, notifier: ProviderNotifier
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._profile = profile
        self._notifier = notifier

    async def receive(self, signal: Signal, cost: list[Any], *, estimate: bool = False) -> Receipt:
        """Receive a signal; return when it is durable.

        A signal whose predecessor is missing is refused with `out_of_order`: send that one first.
        """
        registered = await asyncio.to_thread(self._registry.active, signal.source)
        registration = registered.registration
        if registration.max_latency_ms is None:
            raise ContractError("unsupported_semantics", f"{signal.source} is not registered as a signal source")
        if not 0 < len(signal.id) <= MAX_ID_LENGTH or not signal.id.isprintable():
            raise InputError(f"signal.id: expected 1 to {MAX_ID_LENGTH} visible characters")
        if not 0 <= signal.emitted <= _LATEST or not 0 < signal.number <= MAX_SAFE_INTEGER:
            expected = "expected milliseconds since 1970, and a count from 1"
            raise InputError(f"signal.emitted, signal.number: {expected}")
        check_type(f"x-{signal.type}")

        def work(tx: Transaction) -> tuple[Receipt, list[Invocation], list[Event]]:
            receipt, cancelled = self._receive(tx, registration, signal, cost, estimate)
            return receipt, cancelled, deregistrations(tx)

        try:
            receipt, cancelled, deregistered = await self._ledger.write_async(work)
        except WriteConflict:  # another runtime received it between our read and our write
            receipt, cancelled, deregistered = await self._ledger.write_async(work)
        await self._notifier.notify(cancelled, deregistered)
        return receipt

    def _receive(
        self, tx: Transaction, registration: Registration, signal: Signal, cost: list[Any], estimate: bool
    ) -> tuple[Receipt, list[Invocation]]:
        """Store a signal; also return what was cancelled because its cost is misstated."""
        known = tx.execute(
            "SELECT event, number, received - emitted FROM signals WHERE source = ? AND id = ?",
            (signal.source, signal.id),
        )
        if known:
            event_id, number, delay = known[0]
            return Receipt(event_id, number, _milliseconds(delay), duplicate=True), []
        last = tx.execute("SELECT COALESCE(MAX(number), 0) FROM signals WHERE source = ?", (signal.source,))[0][0]
        if signal.number != last + 1:
            raise ContractError("out_of_order", f"signal {signal.number} came where {last + 1} is expected")
        content = msgspec.json.encode(signal.content)
        latency = _milliseconds(tx.now - signal.emitted)
        late = registration.max_latency_ms is not None and latency > registration.max_latency_ms
        record, problem = _cost(registration, signal, cost, estimate)
        payload = {
            "source": signal.source,
            "id": signal.id,
            "number": signal.number,
            "type": signal.type,
            "content": digest(content),
            "latency_ms": latency,
            "late": late,
            "cost": record.to_json(),
        }
        envelope = f"signals/{signal.source}"
        tx.open_envelope(envelope, "signals", signal.source)
        event = tx.append(Draft(envelope, "signal.received", payload))
        tx.record_cost(event, record)
        tx.execute(
            "INSERT INTO signals (source, id, number, event, type, content, emitted, received) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (signal.source, signal.id, signal.number, event.id, signal.type, content.decode(), signal.emitted, tx.now),
        )
        cancelled: list[Invocation] = []
        if problem:
            cancelled = flag_provider(tx, self._profile, signal.source, "misstated_cost", problem, event.id)
        return Receipt(event.id, signal.number, latency), cancelled

    def last(self, source: str) -> int:
        """Return the number of the last signal that was received."""
        rows = self._ledger.read("SELECT COALESCE(MAX(number), 0) FROM signals WHERE source = ?", (source,))
        return int(rows[0][0])

    def after(self, source: str, number: int = 0, limit: int = 100) -> list[Signal]:
        """Return the signals of a source in order, from the one after `number`."""
        rows = self._ledger.read(
            "SELECT id, number, type, emitted, content FROM signals "
            "WHERE source = ? AND number > ? ORDER BY number LIMIT ?",
            (source, number, limit),
        )
        return [
            Signal(source, signal_id, sequence, kind, emitted, msgspec.json.decode(content))
            for signal_id, sequence, kind, emitted, content in rows
        ]

    def latency(self, source: str) -> Latency:
        """Measure a source against the longest delay that it declared."""
        registered = self._registry.find(source)
        declared_ms = registered[0].max_latency_ms if registered else None
        return measure_latency(self._ledger, source, declared_ms)


def measure_latency(reader: LedgerReader, source: str, declared_ms: int | None) -> Latency:
    """Measure how late the signals of a source were."""
    limit = 2**62 if declared_ms is None else (declared_ms + 1) * _MILLISECOND - 1
    rows = reader.read(
        "SELECT COUNT(*), SUM(CASE WHEN received - emitted > ? THEN 1 ELSE 0 END), "
        "MAX(received - emitted), SUM((received - emitted) / 1000000) FROM signals "
        "WHERE source = ?",
        (limit, source),
    )
    count, late, longest, total = rows[0]
    mean = max(0, int(total) // count) if count else 0
    return Latency(source, count, int(late or 0), _milliseconds(longest or 0), mean, declared_ms)


def _milliseconds(nanoseconds: int) -> int:
    """Return a delay in milliseconds: 0 for a source whose clock runs ahead."""
    return max(0, int(nanoseconds)) // _MILLISECOND


def _cost(registration: Registration, signal: Signal, cost: list[Any], estimate: bool) -> tuple[CostRecord, str | None]:
    """Return the cost record of a signal, and what is wrong with what was reported."""
    attribution = Attribution(provider=signal.source, capability=f"signal:{signal.type}")
    try:
        lines = check_lines(cost)
        problem = cost_violation(registration, _FREE, lines)
    except InputError as error:
        return CostRecord((CostLine("discrete", 1),), attribution, estimate=True), str(error)
    return CostRecord(lines, attribution, estimate), problem
