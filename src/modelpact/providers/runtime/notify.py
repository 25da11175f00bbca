"""Notifications to providers: an invocation was cancelled, or the provider was deregistered.

A provider that does not listen changes nothing in the runtime.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration
from modelpact.providers.runtime.registry import Registry
from modelpact.providers.transport import NotifiesProviders, Transports
from modelpact.vocabulary.errors import ModelpactError

_LOG: Final = logging.getLogger("modelpact.providers")
_TIMEOUT_S: Final = 5.0


class ProviderNotifier:
    """Notifies providers; each has five seconds to answer."""

    def __init__(
        self,
        registry: Registry,
        transports: Transports,
        on_unnotified: Callable[[Registration, str], None],
    ) -> None:
        """`on_unnotified` is called with a provider that could not be notified, and why."""
        self._registry = registry
        self._transports = transports
        self.on_unnotified = on_unnotified

    async def notify_cancelled(self, cancelled: Iterable[Invocation]) -> None:
        """Notify the providers of these invocations that nobody waits for them any more."""
        groups: dict[tuple[str, str], list[Invocation]] = {}
        for invocation in cancelled:
            group = (invocation.provider, invocation.registered)
            groups.setdefault(group, []).append(invocation)
        for invocations in groups.values():
            registration = await asyncio.to_thread(self._registry.registration_for, invocations[0])
            await self.notify_provider(registration, invocations)

    async def notify_provider(
        self, registration: Registration, cancelled: Iterable[Invocation]
    ) -> None:
        """Notify one provider of cancellations, until it fails to listen to one of them."""
        for invocation in cancelled:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._transports.find(registration).cancel(registration, invocation)
            except (ModelpactError, TimeoutError) as error:
                self._report(registration, "a cancellation", error)
                return

    async def notify_deregistered(self, departures: Iterable[Event]) -> None:
        """Notify remote providers of the events that deregistered them."""
        for event in departures:
            found = await asyncio.to_thread(self._registry.find, event.payload["provider"])
            if found is None or not found[0].base_url:
                continue
            registration = found[0]
            try:
                transport = self._transports.find(registration)
                if isinstance(transport, NotifiesProviders):
                    async with asyncio.timeout(_TIMEOUT_S):
                        await transport.notify(registration, event)
            except (ModelpactError, TimeoutError) as error:
                self._report(registration, "its deregistration", error)

    def _report(self, registration: Registration, subject: str, error: Exception) -> None:
        reason = str(error) or f"no answer within {_TIMEOUT_S:g} seconds"
        _LOG.info("%s was not notified of %s: %s", registration.id, subject, reason)
        self.on_unnotified(registration, reason)
