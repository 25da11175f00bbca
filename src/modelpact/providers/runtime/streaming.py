"""Streams of partials: received from a provider, or read from the store by followers."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec

from modelpact.ledger.errors import LedgerUnavailable
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.runtime.lifecycle import CALLER_LEFT, InvocationLifecycle, ProviderNotifier
from modelpact.providers.runtime.records import StreamDigest
from modelpact.providers.runtime.rows import find_row
from modelpact.providers.transport import Accepted, Partial, Transports
from modelpact.vocabulary.errors import ModelpactError

_LOG: Final = logging.getLogger("modelpact.providers")
_POLL_INTERVAL_S: Final = 0.25
"""How often to look for what other runtimes received."""


class Subscriptions:
    """Follows invocations for any number of subscribers.

    The store is the source, so nothing is missed over a restart, and answers that another runtime
    received arrive as well. The bus only says when to read.
    """

    def __init__(self, ledger: Ledger, fail_if_overdue: Callable[[Invocation], Awaitable[bool]]) -> None:
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

    async def follow(self, invocation_id: str, *, after: int = 0) -> AsyncIterator[Partial | Invocation]:
        """Yield the partials of an invocation from the one after `after`, then its end."""
        waker = asyncio.Event()
        self._loops[waker] = asyncio.get_running_loop()
        self._waiting.setdefault(invocation_id, set()).add(waker)
        self._update_bus()
        try:
            while True:
                waker.clear()
                try:
                    invocation, partials = await asyncio.to_thread(self._read, invocation_id, after)
                except LedgerUnavailable as error:  # the store comes back, and has them all
                    _LOG.warning("%s waits for the store: %s", invocation_id, error)
                    await asyncio.sleep(_POLL_INTERVAL_S)
                    continue
                for partial in partials:
                    after = partial.number
                    yield partial
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
        """Return an invocation, then its partials: once it is settled, all of them are there."""
        invocation = find_row(self._ledger, invocation_id)
        rows = self._ledger.read(
            "SELECT number, content FROM partials WHERE invocation = ? AND number > ? ORDER BY number",
            (invocation_id, after),
        )
        partials = [Partial(invocation_id, row[0], msgspec.json.decode(row[1])) for row in rows]
        return invocation, partials


class StreamRunner:
    """Sends streaming invocations when their caller begins to read."""

    def __init__(
        self,
        lifecycle: InvocationLifecycle,
        transports: Transports,
        notifier: ProviderNotifier,
        subscriptions: Subscriptions,
    ) -> None:
        self._lifecycle = lifecycle
        self._transports = transports
        self._notifier = notifier
        self._subscriptions = subscriptions
        self._unsent: dict[str, Registration] = {}

    def add(self, registration: Registration, invocation: Invocation, *, store: bool) -> None:
        """Take an invocation that was opened; without `store` its partials are only hashed."""
        self._unsent[invocation.id] = registration
        if not store:
            self._lifecycle.digests[invocation.id] = StreamDigest()

    async def run(self, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        """Yield the partials of an answer in order, then the settled invocation.

        An invocation that was sent before is followed: it was found by its idempotency key.
        """
        registration = self._unsent.pop(invocation.id, None)
        if registration is None:
            async for signal in self._subscriptions.follow(invocation.id):
                yield signal
            return
        try:
            async for signal in self._send(registration, invocation):
                yield signal
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(self._lifecycle.cancel(invocation, CALLER_LEFT))
            raise
        finally:
            self._lifecycle.digests.pop(invocation.id, None)

    async def _send(self, registration: Registration, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        lifecycle = self._lifecycle
        items: AsyncIterator[Any] | None = None
        try:
            transport = self._transports.find(registration)
            items = aiter(transport.stream(registration, invocation))
            while True:
                async with asyncio.timeout(lifecycle.remaining_seconds(invocation)):
                    item = await anext(items, None)
                if isinstance(item, Reply):
                    yield await lifecycle.settle_reply(registration, invocation, item)
                    return
                if isinstance(item, Accepted):
                    acknowledged = await lifecycle.acknowledge(invocation, item)
                    if not acknowledged.kept:
                        yield acknowledged
                        return
                    # The provider delivers the partials later, through the store.
                    lifecycle.digests.pop(invocation.id, None)
                    async for signal in self._subscriptions.follow(invocation.id):
                        yield signal
                    return
                if not isinstance(item, Partial):
                    detail = "the stream ended without a final answer"
                    yield await lifecycle.fail(invocation, "cut_off", detail)
                    return
                counted = await lifecycle.add_partial(invocation, item)
                if counted is None:
                    yield await asyncio.to_thread(lifecycle.find, invocation.id)
                    return
                invocation = counted
                yield item
        except (TimeoutError, ModelpactError) as error:
            settled = await lifecycle.fail_unanswered(invocation, error)
            # Notify before the yield: a consumer that stops there never resumes this generator.
            if isinstance(error, TimeoutError):
                await self._notifier.notify_provider(registration, [invocation])
            yield settled
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    await close()
