"""Streaming invocations: the pieces of an answer as the provider sends them, then the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.runtime.lifecycle import CALLER_LEFT, InvocationLifecycle
from modelpact.providers.runtime.notify import ProviderNotifier
from modelpact.providers.runtime.records import StreamDigest
from modelpact.providers.runtime.subscriptions import Subscriptions
from modelpact.providers.transport import Accepted, ContractViolation, Partial, Transports
from modelpact.vocabulary.errors import ModelpactError


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
        """Take an invocation that was opened; without `store` its pieces are only hashed."""
        self._unsent[invocation.id] = registration
        if not store:
            self._lifecycle.digests[invocation.id] = StreamDigest()

    async def run(self, invocation: Invocation) -> AsyncIterator[Partial | Invocation]:
        """Yield the pieces of an answer in order, then the settled invocation.

        An invocation that was sent before is followed: it was found by its idempotency key.
        """
        registration = self._unsent.pop(invocation.id, None)
        if registration is None:
            async for signal in self._subscriptions.signals(invocation.id):
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

    async def _send(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Invocation]:
        lifecycle = self._lifecycle
        pieces: AsyncIterator[Any] | None = None
        try:
            transport = self._transports.find(registration)
            pieces = aiter(transport.stream(registration, invocation))
            while True:
                async with asyncio.timeout(lifecycle.remaining_seconds(invocation)):
                    piece = await anext(pieces, None)
                if isinstance(piece, Reply):
                    yield await lifecycle.settle_reply(registration, invocation, piece)
                    return
                if isinstance(piece, Accepted):
                    acknowledged = await lifecycle.acknowledge(invocation, piece)
                    if not acknowledged.kept:
                        yield acknowledged
                        return
                    lifecycle.digests.pop(invocation.id, None)  # the pieces come through the store
                    async for signal in self._subscriptions.signals(invocation.id):
                        yield signal
                    return
                if not isinstance(piece, Partial):
                    detail = "the stream ended without a final answer"
                    yield await lifecycle.fail(invocation, "cut_off", detail)
                    return
                counted = await lifecycle.add_partial(invocation, piece)
                if counted is None:
                    yield await asyncio.to_thread(lifecycle.find, invocation.id)
                    return
                invocation = counted
                yield piece
        except TimeoutError:
            yield await lifecycle.fail(invocation, "deadline", "no answer before the deadline")
            await self._notifier.notify_provider(registration, [invocation])
        except ContractViolation as error:
            yield await lifecycle.fail_violation(invocation, error.violation, error.detail)
        except ModelpactError as error:
            yield await lifecycle.fail(invocation, "unreachable", str(error))
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    await close()
