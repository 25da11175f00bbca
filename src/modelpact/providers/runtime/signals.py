"""Signal sources: at least once, in order for each source, each signal taken in once.

A subsystem of its own that shares registration, trust and cost with the invocable providers.
"""

import asyncio
from typing import Any, Final

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER
from modelpact.ledger.costs import Attribution as Who
from modelpact.ledger.costs import CostLine, CostRecord, check_lines
from modelpact.ledger.event import Draft, Event, check_type
from modelpact.ledger.ledger import Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import WriteConflict
from modelpact.providers.contract import (
    ContractError,
    Invocation,
    Offer,
    Registration,
    cost_violation,
)
from modelpact.providers.runtime import settlement as settling
from modelpact.providers.runtime.notify import tell_cancelled, tell_deregistered
from modelpact.providers.runtime.registry import departures
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.runtime.store import digest
from modelpact.vocabulary.errors import InputError

_MILLISECOND: Final = 1_000_000
_FREE: Final = Offer("signal:", {}, {})
LONGEST_ID: Final = 200
_LATEST: Final = 2**62
"""The last nanosecond that a signal may say to be of, in the year 2116."""


class Signal(msgspec.Struct, frozen=True):
    """Something that a source tells. `number` counts its signals from 1, `emitted` is in ns."""

    source: str
    id: str
    number: int
    type: str
    emitted: int
    content: Any


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """The acknowledgement: the signal is durable. A duplicate was so before."""

    event: str
    number: int
    latency_ms: int
    duplicate: bool = False


class Latency(msgspec.Struct, frozen=True):
    """How late a source's signals were, against what it declared."""

    source: str
    count: int
    late: int
    longest_ms: int
    mean_ms: int
    declared_ms: int | None


class SignalInbox:
    """Takes signals in and keeps them in the order of their source."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ledger = runtime.ledger

    async def receive(self, signal: Signal, cost: list[Any], *, estimate: bool = False) -> Receipt:
        """Take a signal in; returns after the commit.

        A signal whose predecessor is missing is refused with `out_of_order`: send that one first.
        """
        found = await asyncio.to_thread(self._runtime.registry.active, signal.source)
        registration = found.registration
        if registration.max_latency_ms is None:
            raise ContractError(
                "unsupported_semantics", f"{signal.source} is not registered as a signal source"
            )
        if not 0 < len(signal.id) <= LONGEST_ID or not signal.id.isprintable():
            raise InputError(f"signal.id: expected 1 to {LONGEST_ID} visible characters")
        if not 0 <= signal.emitted <= _LATEST or not 0 < signal.number <= MAX_SAFE_INTEGER:
            what = "expected milliseconds since 1970, and a count from 1"
            raise InputError(f"signal.emitted, signal.number: {what}")
        check_type(f"x-{signal.type}")

        def work(tx: Transaction) -> tuple[Receipt, list[Invocation], list[Event]]:
            receipt, cancelled = self._take(tx, registration, signal, cost, estimate)
            return receipt, cancelled, departures(tx)

        try:
            receipt, cancelled, gone = await self._ledger.write_async(work)
        except WriteConflict:  # another runtime took it in between our look and our write
            receipt, cancelled, gone = await self._ledger.write_async(work)
        await tell_cancelled(self._runtime, cancelled)
        await tell_deregistered(self._runtime, gone)
        return receipt

    def _take(
        self,
        tx: Transaction,
        registration: Registration,
        signal: Signal,
        cost: list[Any],
        estimate: bool,
    ) -> tuple[Receipt, list[Invocation]]:
        """Take a signal in; also return what was cancelled because its cost is misstated."""
        known = tx.execute(
            "SELECT event, number, received - emitted FROM signals WHERE source = ? AND id = ?",
            (signal.source, signal.id),
        )
        if known:
            event_id, number, delay = known[0]
            return Receipt(event_id, number, _milliseconds(delay), duplicate=True), []
        last = tx.execute(
            "SELECT COALESCE(MAX(number), 0) FROM signals WHERE source = ?", (signal.source,)
        )[0][0]
        if signal.number != last + 1:
            raise ContractError(
                "out_of_order", f"signal {signal.number} came where {last + 1} is expected"
            )
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
            (
                signal.source,
                signal.id,
                signal.number,
                event.id,
                signal.type,
                content.decode(),
                signal.emitted,
                tx.now,
            ),
        )
        cancelled: list[Invocation] = []
        if problem:
            profile, what = self._runtime.profile, "misstated_cost"
            cancelled = settling.flag_provider(tx, profile, signal.source, what, problem, event.id)
        return Receipt(event.id, signal.number, latency), cancelled

    def last(self, source: str) -> int:
        """Return the number of the last signal that was taken in."""
        rows = self._ledger.read(
            "SELECT COALESCE(MAX(number), 0) FROM signals WHERE source = ?", (source,)
        )
        return int(rows[0][0])

    def after(self, source: str, number: int = 0, limit: int = 100) -> list[Signal]:
        """Return a source's signals in order, from the one after `number`."""
        rows = self._ledger.read(
            "SELECT id, number, type, emitted, content FROM signals "
            "WHERE source = ? AND number > ? ORDER BY number LIMIT ?",
            (source, number, limit),
        )
        return [
            Signal(source, name, place, kind, emitted, msgspec.json.decode(content))
            for name, place, kind, emitted, content in rows
        ]

    def latency(self, source: str) -> Latency:
        """Measure a source against the longest delay that it declared."""
        found = self._runtime.registry.find(source)
        return measure_latency(self._ledger, source, found[0].max_latency_ms if found else None)


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
    """Return a delay; a source whose clock runs ahead has none."""
    return max(0, int(nanoseconds)) // _MILLISECOND


def _cost(
    registration: Registration, signal: Signal, cost: list[Any], estimate: bool
) -> tuple[CostRecord, str | None]:
    """Return the cost record of a signal, and what is wrong with what was reported."""
    who = Who(provider=signal.source, capability=f"signal:{signal.type}")
    try:
        lines = check_lines(cost)
        problem = cost_violation(registration, _FREE, lines)
    except InputError as told:
        return CostRecord((CostLine("discrete", 1),), who, estimate=True), str(told)
    return CostRecord(lines, who, estimate), problem
