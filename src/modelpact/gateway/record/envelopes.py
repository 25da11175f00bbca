"""Envelopes: those that a gateway writes to, how many calls are open in each, and their ends.

One is for a process, a workload and a day. What an earlier process of the same name left open when
it died is settled here as well.
"""

import asyncio
import datetime
import logging
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from modelpact.gateway.record.calls import (
    STOPPED,
    CallSettled,
    OpenCall,
    left_open,
    listed,
    unfinished,
)
from modelpact.ledger.canonical import canonical_unchecked
from modelpact.ledger.costs import CostLine, CostRecord
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.prepared import PreparedEvent
from modelpact.ledger.stores.base import LedgerError, LedgerUnavailable, LedgerUncertain

_LOG: Final = logging.getLogger("modelpact.gateway")
_SECOND: Final = 1_000_000_000
_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_NO_TIME: Final = (CostLine("time", 0),)


class Envelopes:
    """The envelopes of a gateway that are not finished."""

    def __init__(self, ledger: Ledger, name: str, now: Callable[[], int]) -> None:
        self._ledger = ledger
        self._name = name
        self._now = now
        self._process = f"{name}-{secrets.token_hex(3)}"
        self._day = ""
        self.until = 0
        """When the envelopes of today are no longer those to write to."""
        self._open: dict[str, int] = {}
        """How many calls are open in each."""
        self.calls = 0
        """How many calls are open in all."""
        self._unsure: dict[str, int] = {}
        """Those in which openings may stand that nobody knows of, and until when."""
        self._tasks: set[asyncio.Task[None]] = set()

    def today(self, workload: str) -> str:
        """Return the envelope of a workload."""
        return f"gateway/{self._process}/{workload}/{self._day}"

    def turn_over(self, now: int) -> None:
        """Begin a day: its records have envelopes of their own."""
        moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC)
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        self.until = (int(midnight.timestamp()) + 86_400) * _SECOND
        self._day = midnight.date().isoformat()
        for envelope, count in self._open.items():
            if not count and not self._lives(envelope):
                self.later(self._finish(envelope))

    def _lives(self, envelope: str) -> bool:
        """Tell whether more may be written to an envelope."""
        return envelope.endswith(self._day) and envelope.startswith(f"gateway/{self._process}/")

    def used(self, envelope: str) -> None:
        """Take note of an envelope, whether or not a call is open in it."""
        self._open.setdefault(envelope, 0)

    def opening(self, envelope: str) -> None:
        """Count a call that is about to be opened."""
        self.calls += 1
        self._open[envelope] = self._open.get(envelope, 0) + 1

    def not_opened(self, envelope: str, error: BaseException | None) -> None:
        """Take note that a call was not opened, or that nobody knows whether it was."""
        if isinstance(error, LedgerUncertain):
            self._unsure[envelope] = self._now()
        self.ended(envelope)

    def ended(self, envelope: str) -> None:
        """Count a call that has ended."""
        self.calls -= 1
        left = self._open[envelope] = self._open[envelope] - 1
        if not left and not self._lives(envelope):
            self.later(self._finish(envelope))

    async def end_later(self, entry: PreparedEvent, kept: Callable[[], None]) -> None:
        """Write an end that could not be written when it came, once the store takes it."""
        while True:
            try:
                await self._ledger.write_async(partial(_settled_once, entry=entry))
            except LedgerUnavailable:
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            except LedgerError as error:
                _LOG.warning("%s cannot be settled: %s", entry.cause, error)
            kept()
            return

    def left_open(self) -> list[OpenCall]:
        """Return what earlier processes of this name left open; this blocks while it reads."""
        found = []
        for envelope in unfinished(self._ledger, self._name):
            calls = left_open(self._ledger, envelope)
            self._open[envelope] = len(calls)
            self.calls += len(calls)
            found += calls
        return found

    async def recover(self, left: list[OpenCall]) -> None:
        """Settle what an earlier process of this name left open when it died."""
        error = "interrupted: the gateway stopped before the answer came"
        for one in left:
            entry = _ending(one, "capability.failed", one.told.estimate or _NO_TIME, error=error)
            await self.end_later(entry, partial(self.ended, one.envelope))
        for envelope in list(self._open):
            if not self._lives(envelope):
                await self._finish(envelope)

    async def _finish(self, envelope: str) -> None:
        """Say that an envelope has no open call; whoever comes after need not look."""
        if self._open.get(envelope) != 0:
            return  # it is done already, or something in it is open again
        del self._open[envelope]
        try:
            if envelope in self._unsure:
                await self._end_unknown(envelope, self._unsure.pop(envelope))
            await self._ledger.write_async(lambda tx: tx.append(Draft(envelope, STOPPED, {})))
        except LedgerError as error:
            _LOG.warning("%s is not finished: %s", envelope, error)

    async def _end_unknown(self, envelope: str, until: int) -> None:
        """End what was opened after all, as none is open that is known: nothing was sent."""
        try:
            left = await asyncio.to_thread(left_open, self._ledger, envelope)
        except LedgerUnavailable:
            # The store was away, and the connection broke with it: the next one is new.
            left = await asyncio.to_thread(left_open, self._ledger, envelope)
        reason = "nothing was sent: whether this was recorded was not known"
        for one in left:
            if one.time <= until:
                entry = _ending(one, "capability.cancelled", _NO_TIME, reason=reason)
                await self._ledger.write_async(partial(_settled_once, entry=entry))

    async def aclose(self) -> None:
        """Finish all; what cannot be settled now is left to the next process."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for envelope in list(self._open):
            await self._finish(envelope)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work that nobody waits for, before all is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.warning("%s; it is settled when that can be", error)


def _ending(one: OpenCall, kind: str, lines: tuple[CostLine, ...], **why: str) -> PreparedEvent:
    """Return the entry that ends a call which nobody else ends."""
    record = CostRecord(lines, one.attribution, estimate=True)
    told = CallSettled(one.told.capability, record, one.told.provider, **why)
    return PreparedEvent(one.envelope, kind, canonical_unchecked(told), one.event, record)


def _settled_once(tx: Transaction, entry: PreparedEvent) -> None:
    """Append an end, unless there is one: whether a write was kept is not always known.

    It may also be another process's, that took this one for dead while the store was away.
    """
    assert entry.cause is not None
    assert entry.cost is not None
    sequence = int(entry.cause.rpartition(":")[2])
    kept = tx.execute(
        "SELECT 1 FROM events WHERE envelope = ? AND sequence > ? AND cause = ? "
        f"AND type IN ({listed()})",
        (entry.envelope, sequence, entry.cause),
    )
    if not kept:
        payload = msgspec.json.decode(entry.payload)
        event = tx.append(Draft(entry.envelope, entry.type, payload, entry.cause))
        tx.record_cost(event, entry.cost)
