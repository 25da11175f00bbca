"""Serving: the gateway and the OpenWOP host on one address, from a configuration."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from modelpact.configuration.config import Configuration
from modelpact.gateway.answers import GatewayError
from modelpact.gateway.gateway import Gateway
from modelpact.gateway.state import State
from modelpact.gateway.surface import GatewaySurface
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.store import LedgerError
from modelpact.openwop.host import Host, configured_host, running_host
from modelpact.openwop.surface import HostSurface
from modelpact.providers import upkeep
from modelpact.wire import Incoming, Server, serve

_KEYS_SECONDS = 2.0
"""How soon a key that was made or revoked elsewhere is heard of."""


class Serving:
    """A gateway that listens."""

    def __init__(
        self, gateway: Gateway, host: Host, surface: GatewaySurface, server: Server, url: str
    ) -> None:
        self.gateway = gateway
        self.host = host
        self.server = server
        self.url = url
        self._surface = surface

    async def reload(self, configuration: Configuration, token: str = "") -> None:
        """Take a new configuration and operator's token, or raise and leave all as it was."""
        fresh: list[Host] = []

        def check(state: State) -> None:
            fresh.append(configured_host(self.gateway.ledger, state.models))

        await self.gateway.reload(configuration, check)
        self.host.take(fresh[0])
        self.gateway.operator = token
        await asyncio.to_thread(self.gateway.load_keys)

    async def drain(self, grace: float, notice: float = 0.0) -> None:
        """Stop: `/readyz` says so for a while, then nothing new is taken, and the rest may end."""
        self._surface.draining = True
        await asyncio.sleep(notice)
        await asyncio.gather(self.server.drain(grace), self.host.stop(grace))


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
    host = configured_host(ledger, gateway.state.models)
    host_surface = HostSurface(host, _authorise(gateway), conformance=conformance)
    surface = GatewaySurface(gateway, host_surface)
    await gateway.runtime.recover()
    tasks = [
        asyncio.create_task(upkeep.keep_up(gateway.runtime, 1.0)),
        asyncio.create_task(_keep_keys(gateway)),
    ]
    try:
        async with (
            running_host(host, grace=grace),
            await serve(surface, address, port) as server,
        ):
            shown = f"[{address}]" if ":" in address else address
            url = f"http://{shown}:{server.port}"
            serving = Serving(gateway, host, surface, server, url)
            yield serving
            await serving.drain(grace)
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
