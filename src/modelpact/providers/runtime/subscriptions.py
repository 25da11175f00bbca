"""Subscriptions to invocations: their pieces as they come, and their end.

The store is the source, so nothing is missed over a restart, and answers that another runtime
received arrive as well. The bus only says when to read.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from modelpact.ledger.errors import LedgerUnavailable
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.rows import find_row
from modelpact.providers.transport import Partial

_LOG: Final = logging.getLogger("modelpact.providers")
_POLL_INTERVAL_S: Final = 0.25
"""How often to look for what other runtimes received."""


class Subscriptions:
    """Follows invocations for any number of subscribers."""

    def __init__(
        self, ledger: Ledger, fail_if_overdue: Callable[[Invocation], Awaitable[bool]]
    ) -> None:
        self._ledger = ledger
        self._fail_if_overdue = fail_if_overdue
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loops: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def close(self) -> None:
        """Unsubscribe from the bus."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _update_bus(self) -> None:
        """Subscribe to the bus only while somebody waits: each event costs its subscribers time."""
        if self._waiting and self._unsubscribe is None:
            self._unsubscribe = self._ledger.bus.subscribe(self._wake, "capability.")
        elif not self._waiting:
            self.close()

    def _wake(self, event: Event) -> None:
        """Wake the subscribers of an invocation; called by the ledger's thread."""
        for waker in tuple(self._waiting.get(str(event.payload.get("invocation")), ())):
            loop = self._loops.get(waker)
            if loop is not None:
                with contextlib.suppress(RuntimeError):  # its loop has ended
                    loop.call_soon_threadsafe(waker.set)

    async def signals(
        self, invocation_id: str, *, after: int = 0
    ) -> AsyncIterator[Partial | Invocation]:
        """Yield the pieces of an invocation from the one after `after`, then its end."""
        waker = asyncio.Event()
        self._loops[waker] = asyncio.get_running_loop()
        self._waiting.setdefault(invocation_id, set()).add(waker)
        self._update_bus()
        try:
            while True:
                waker.clear()
                try:
                    invocation, pieces = await asyncio.to_thread(self._read, invocation_id, after)
                except LedgerUnavailable as error:  # the store comes back, and has them all
                    _LOG.warning("%s waits for the store: %s", invocation_id, error)
                    await asyncio.sleep(_POLL_INTERVAL_S)
                    continue
                for piece in pieces:
                    after = piece.number
                    yield piece
                if invocation.state != "open":
                    yield invocation
                    return
                if await self._fail_if_overdue(invocation):
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_INTERVAL_S):
                        await waker.wait()
        finally:
            del self._loops[waker]
            wakers = self._waiting[invocation_id]
            wakers.discard(waker)
            if not wakers:
                del self._waiting[invocation_id]
            self._update_bus()

    def _read(self, invocation_id: str, after: int) -> tuple[Invocation, list[Partial]]:
        """Return an invocation, then its pieces: once it is settled, all of them are there."""
        invocation = find_row(self._ledger, invocation_id)
        rows = self._ledger.read(
            "SELECT number, content FROM partials WHERE invocation = ? AND number > ? "
            "ORDER BY number",
            (invocation_id, after),
        )
        pieces = [Partial(invocation_id, row[0], msgspec.json.decode(row[1])) for row in rows]
        return invocation, pieces
