"""Leases of names: at most one live process has a name.

A process settles the calls that an earlier process of its name left open. With two live processes
of one name, each would settle the open calls of the other.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from modelpact.ledger.errors import LedgerError, NameTaken
from modelpact.ledger.stores.base import Lease, Store

_LOG: Final = logging.getLogger("modelpact.gateway")
_TIMEOUT_S: Final = 3.0
"""How long to wait for a name: a database needs a moment to notice that a process was killed."""
_RETRY_S: Final = 0.2
_CHECK_INTERVAL_S: Final = 2.0


class LeaseLost(LedgerError):
    """Another process took the name of this one while the store was unreachable."""


@contextlib.asynccontextmanager
async def leased(store: Store, names: dict[str, str]) -> AsyncIterator[None]:
    """Hold names while the body runs; `names` maps each to the setting that it comes from.

    If another process takes one of them, the body is cancelled and `LeaseLost` is raised.
    """
    leases: dict[str, Lease] = {}
    lost = ""
    task = asyncio.current_task()
    assert task is not None

    async def watch() -> None:
        nonlocal lost
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            for name, lease in leases.items():
                if not await asyncio.to_thread(lease.is_held):
                    lost = name
                    _LOG.error("%s was taken over by another process: this one stops", name)
                    task.cancel()
                    return

    watcher: asyncio.Task[None] | None = None
    try:
        for name, setting in names.items():
            leases[name] = await _acquire(store, name, setting)
        watcher = asyncio.create_task(watch())
        yield
    except asyncio.CancelledError:
        if lost:
            task.uncancel()
            raise LeaseLost(f"{lost} was taken over while the store was unreachable") from None
        raise
    finally:
        try:
            if watcher is not None:
                watcher.cancel()
                await asyncio.gather(watcher, return_exceptions=True)
        finally:  # no await: a second cancellation would leave some of the leases held
            for lease in leases.values():
                lease.release()


async def _acquire(store: Store, name: str, setting: str) -> Lease:
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    while True:
        try:
            return await _try_acquire(store, name)
        except NameTaken as error:
            if asyncio.get_running_loop().time() > deadline:
                raise NameTaken(f"{error}: stop that process, or give this one another {setting}") from None
        await asyncio.sleep(_RETRY_S)


async def _try_acquire(store: Store, name: str) -> Lease:
    """Acquire a lease in a thread. A thread cannot be cancelled: a late lease is released."""
    acquiring = asyncio.create_task(asyncio.to_thread(store.lease, name))
    try:
        return await asyncio.shield(acquiring)
    except asyncio.CancelledError:
        await asyncio.wait([acquiring])
        if not acquiring.cancelled() and acquiring.exception() is None:
            acquiring.result().release()
        raise
