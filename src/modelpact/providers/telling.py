"""Telling providers that nobody waits any more; one that does not listen changes nothing here."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from modelpact.providers.contract import Invocation, Registration
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.runtime import Runtime

_LOG: Final = logging.getLogger("modelpact.providers")
_SECONDS: Final = 5.0
"""How long a provider may take to hear of a cancellation."""


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
            why = str(error) or f"no answer within {_SECONDS:g} seconds"
            _LOG.info("%s did not hear of a cancellation: %s", registration.id, why)
            runtime.not_told(registration, why)
            return
