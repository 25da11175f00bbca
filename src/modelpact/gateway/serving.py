"""Serving: the gateway and the OpenWOP host on one address, from a configuration."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.gateway.answers import GatewayError
from modelpact.gateway.clients import clients_of
from modelpact.gateway.gateway import Gateway
from modelpact.gateway.leases import leased
from modelpact.gateway.surface import GatewaySurface
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.store import LedgerError
from modelpact.openwop.host import Host, configured_host, running_host
from modelpact.openwop.surface import HostSurface
from modelpact.providers import upkeep
from modelpact.wire import Incoming, Server, serve

_KEYS_SECONDS = 2.0
"""How soon a key that was made or revoked elsewhere is heard of."""


class Serving(msgspec.Struct, frozen=True):
    """A gateway that listens."""

    gateway: Gateway
    host: Host
    server: Server
    url: str


@asynccontextmanager
async def serve_gateway(
    ledger: Ledger,
    configuration: Configuration,
    *,
    token: str = "",
    address: str = "127.0.0.1",
    port: int = 0,
    conformance: bool = False,
    grace: float = 30.0,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[Serving]:
    """Serve what a configuration describes; leaving drains it.

    Whoever shows the `token` is the operator, beside the clients that have keys.
    """
    gateway = Gateway(ledger, configuration, environment=environment, operator=token)
    gateway.load_keys()
    host = configured_host(ledger, gateway.state.models, clients=clients_of(gateway))
    host_surface = HostSurface(host, _authorise(gateway), conformance=conformance)
    surface = GatewaySurface(gateway, host_surface)
    names = {
        f"gateway/{gateway.runtime.name}": "[gateway] name",
        f"host/{host.name}": "[host] name",
    }
    tasks: list[asyncio.Task[None]] = []
    try:
        async with contextlib.AsyncExitStack() as stack:
            # First the names, then the port, and only then what an earlier process left: a process
            # that cannot start must not end the work of one that is alive.
            await stack.enter_async_context(leased(ledger.store, names))
            left = await asyncio.to_thread(upkeep.left_open, gateway.runtime)
            server = await stack.enter_async_context(await serve(surface, address, port))
            await upkeep.take_up(gateway.runtime, left)
            await stack.enter_async_context(running_host(host, grace=grace))
            tasks.append(asyncio.create_task(upkeep.keep_up(gateway.runtime, 1.0)))
            tasks.append(asyncio.create_task(_keep_keys(gateway)))
            shown = f"[{address}]" if ":" in address else address
            yield Serving(gateway, host, server, f"http://{shown}:{server.port}")
            surface.draining = True
            await server.drain(grace)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.aclose()


async def _keep_keys(gateway: Gateway) -> None:
    """Hear of keys that others make and revoke."""
    while True:
        await asyncio.sleep(_KEYS_SECONDS)
        with contextlib.suppress(LedgerError):
            await asyncio.to_thread(gateway.load_keys)


def _authorise(gateway: Gateway) -> Callable[[Incoming], str | None]:
    def authorise(request: Incoming) -> str | None:
        try:
            return gateway.key_of(request).id
        except GatewayError:
            return None

    return authorise
