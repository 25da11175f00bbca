"""Leases: one live process for a name, so that what it has under way is taken for nobody's."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from modelpact.ledger.errors import LedgerError, NameTaken
from modelpact.ledger.stores.base import Lease, Store

_LOG: Final = logging.getLogger("modelpact.gateway")
_WAIT_SECONDS: Final = 3.0
"""How long a name may take to become free: a database needs a moment to miss a killed process."""
_PAUSE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 2.0


class LeaseLost(LedgerError):
    """Another process has taken this one's name, while the store was out of reach."""


@contextlib.asynccontextmanager
async def leased(store: Store, names: dict[str, str]) -> AsyncIterator[None]:
    """Hold names for as long as the body runs; each goes with the setting that it comes from.

    Where one is lost to another process, the body is cancelled and `LeaseLost` is raised: two of
    one name would end each other's work.
    """
    held: dict[str, Lease] = {}
    lost = ""
    here = asyncio.current_task()
    assert here is not None

    async def watch() -> None:
        nonlocal lost
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for name, lease in held.items():
                if not await asyncio.to_thread(lease.is_held):
                    lost = name
                    _LOG.error("%s is another process by now: this one stops", name)
                    here.cancel()
                    return

    watching: asyncio.Task[None] | None = None
    try:
        for name, setting in names.items():
            held[name] = await _take(store, name, setting)
        watching = asyncio.create_task(watch())
        yield
    except asyncio.CancelledError:
        if lost:
            here.uncancel()
            raise LeaseLost(f"{lost} was taken over while the store was out of reach") from None
        raise
    finally:
        try:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        finally:  # without another await, at which a second cancellation would leave some held
            for lease in held.values():
                lease.release()


async def _take(store: Store, name: str, setting: str) -> Lease:
    until = asyncio.get_running_loop().time() + _WAIT_SECONDS
    while True:
        try:
            return await _taken(store, name)
        except NameTaken as taken:
            if asyncio.get_running_loop().time() > until:
                raise NameTaken(
                    f"{taken}: stop that process, or give this one another {setting}"
                ) from None
        await asyncio.sleep(_PAUSE_SECONDS)


async def _taken(store: Store, name: str) -> Lease:
    """Take a name in a thread, which nothing stops: what it takes for nobody is let go again."""
    taking = asyncio.create_task(asyncio.to_thread(store.lease, name))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await asyncio.wait([taking])
        if not taking.cancelled() and taking.exception() is None:
            taking.result().release()
        raise
