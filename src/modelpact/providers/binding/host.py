"""A runtime on the network: its surface, its deadlines, and what it left open before."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from modelpact.identity import Identity, Trust, server_context
from modelpact.providers import upkeep
from modelpact.providers.binding.surface import Surface
from modelpact.providers.runtime import Runtime
from modelpact.wire import Server, serve


class RuntimeHost(msgspec.Struct, frozen=True):
    """A runtime that providers can reach."""

    runtime: Runtime
    server: Server
    url: str


@asynccontextmanager
async def serve_runtime(
    runtime: Runtime,
    identity: Identity,
    trust: Trust,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    upkeep_s: float = 1.0,
) -> AsyncIterator[RuntimeHost]:
    """Serve a runtime's surface over mutual TLS; take up what it left open; keep deadlines."""
    tls = server_context(identity, trust)
    left = upkeep.left_open(runtime)
    async with await serve(Surface(runtime), host, port, tls=tls) as server:
        shown = f"[{host}]" if ":" in host else host
        tasks = [
            asyncio.create_task(upkeep.keep_up(runtime, upkeep_s)),
            asyncio.create_task(upkeep.take_up(runtime, left)),
        ]
        try:
            yield RuntimeHost(runtime, server, f"https://{shown}:{server.port}")
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
