"""Serving: the host on an address, from a configuration."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.dispatch.models import Models
from modelpact.ledger.ledger import Ledger
from modelpact.openwop.access import one_token
from modelpact.openwop.host import Host, configured_host, running_host
from modelpact.openwop.running import Executor
from modelpact.openwop.surface import HostSurface
from modelpact.providers import upkeep
from modelpact.providers.runtime import Runtime
from modelpact.wire import Client, Server, serve


class Serving(msgspec.Struct, frozen=True):
    """A host that listens."""

    host: Host
    server: Server
    url: str


@asynccontextmanager
async def serve_host(
    ledger: Ledger,
    configuration: Configuration,
    token: str,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    conformance: bool = False,
    executors: Mapping[str, Executor] | None = None,
    grace: float = 10.0,
) -> AsyncIterator[Serving]:
    """Serve the host that a configuration describes; leaving drains it."""
    runtime = Runtime(
        ledger,
        name=configuration.host.name,
        plain_http=frozenset(configuration.contract.plain_http),
    )
    async with Client() as client:
        models = Models(runtime, configuration=configuration, client=client)
        host = configured_host(ledger, models, executors)
        await runtime.recover()
        keeping = asyncio.create_task(upkeep.keep_up(runtime, 1.0))
        try:
            async with running_host(host, grace=grace):
                surface = HostSurface(host, one_token(token), conformance=conformance)
                async with await serve(surface, address, port) as server:
                    shown = f"[{address}]" if ":" in address else address
                    yield Serving(host, server, f"http://{shown}:{server.port}")
        finally:
            keeping.cancel()
