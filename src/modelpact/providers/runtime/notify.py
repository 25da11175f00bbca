"""Telling providers that nobody waits any more, or that they are deregistered.

One that does not listen changes nothing here.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration
from modelpact.providers.transport import NotifiesProviders
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.runtime.runtime import Runtime

_LOG: Final = logging.getLogger("modelpact.providers")
_SECONDS: Final = 5.0
"""How long a provider may take to hear of something."""


async def tell_cancelled(runtime: "Runtime", cancelled: list[Invocation]) -> None:
    """Tell the providers of these invocations."""
    groups: dict[tuple[str, str], list[Invocation]] = {}
    for one in cancelled:
        groups.setdefault((one.provider, one.registered), []).append(one)
    for mine in groups.values():
        registration = await asyncio.to_thread(runtime.registry.under_which, mine[0])
        await tell(runtime, registration, mine)


async def tell(runtime: "Runtime", registration: Registration, cancelled: list[Invocation]) -> None:
    """Tell one provider; after the first time that it does not hear, say so and let it be."""
    for invocation in cancelled:
        try:
            async with asyncio.timeout(_SECONDS):
                await runtime.carrier(registration).cancel(registration, invocation)
        except (ModelpactError, TimeoutError) as error:
            _not_heard(runtime, registration, "a cancellation", error)
            return


async def tell_deregistered(runtime: "Runtime", gone: list[Event]) -> None:
    """Tell remote providers of the events that deregistered them."""
    for event in gone:
        found = await asyncio.to_thread(runtime.registry.find, event.payload["provider"])
        if found is None or not found[0].base_url:
            continue
        registration = found[0]
        try:
            carrier = runtime.carrier(registration)
            if isinstance(carrier, NotifiesProviders):
                async with asyncio.timeout(_SECONDS):
                    await carrier.notify(registration, event)
        except (ModelpactError, TimeoutError) as error:
            _not_heard(runtime, registration, "its deregistration", error)


def _not_heard(runtime: "Runtime", registration: Registration, what: str, error: Exception) -> None:
    why = str(error) or f"no answer within {_SECONDS:g} seconds"
    _LOG.info("%s did not hear of %s: %s", registration.id, what, why)
    runtime.not_told(registration, why)
