"""Delivery: whoever waits for an invocation hears of its pieces and of its end.

The store is the truth, so that nothing is missed over a restart, and an answer that another
runtime took in arrives as well; the bus only says when to look.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerUnavailable
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.store import find_invocation
from modelpact.providers.transport import Partial

_LOG: Final = logging.getLogger("modelpact.providers")
_LOOK_SECONDS: Final = 0.25
"""How often to look for what other runtimes took in."""


class Subscriptions:
    """Internal signals of invocations, in order."""

    def __init__(self, ledger: Ledger, overdue: Callable[[Invocation], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._overdue = overdue
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loops: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._listening: Callable[[], None] | None = None

    def close(self) -> None:
        """Listen to the bus no longer."""
        if self._listening is not None:
            self._listening()
            self._listening = None

    def _listen(self) -> None:
        """Listen while somebody waits: to be told of every event costs each of them something."""
        if self._waiting and self._listening is None:
            self._listening = self._ledger.bus.subscribe(self._heard, "capability.")
        elif not self._waiting:
            self.close()

    def _heard(self, event: Event) -> None:
        """Wake whoever waits; called by the ledger's thread."""
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
        self._listen()
        try:
            while True:
                waker.clear()
                try:
                    found, pieces = await asyncio.to_thread(self._look, invocation_id, after)
                except LedgerUnavailable as error:  # the store comes back, and has them all
                    _LOG.warning("%s waits for the store: %s", invocation_id, error)
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                for piece in pieces:
                    after = piece.number
                    yield piece
                if found.state != "open":
                    yield found
                    return
                if await self._overdue(found):
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await waker.wait()
        finally:
            del self._loops[waker]
            wakers = self._waiting[invocation_id]
            wakers.discard(waker)
            if not wakers:
                del self._waiting[invocation_id]
            self._listen()

    def _look(self, invocation_id: str, after: int) -> tuple[Invocation, list[Partial]]:
        """Return an invocation, and its pieces; those of one that is settled are all there."""
        found = find_invocation(self._ledger, invocation_id)
        rows = self._ledger.read(
            "SELECT number, content FROM partials WHERE invocation = ? AND number > ? "
            "ORDER BY number",
            (invocation_id, after),
        )
        pieces = [Partial(invocation_id, row[0], msgspec.json.decode(row[1])) for row in rows]
        return found, pieces
