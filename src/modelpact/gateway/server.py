"""Serving: the gateway and the OpenWOP host on one address, from a configuration."""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from modelpact.configuration.config import Configuration, GatewaySettings
from modelpact.gateway.errors import GatewayError
from modelpact.gateway.key_limits import clients_of
from modelpact.gateway.record.leases import leased
from modelpact.gateway.routes import GatewayRoutes
from modelpact.gateway.service import Gateway
from modelpact.gateway.state import GatewayState
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.stores.base import LedgerError
from modelpact.openwop.host import Host, configured_host, running_host
from modelpact.openwop.routes import HostRoutes
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpRequest, Server, serve

if TYPE_CHECKING:
    from modelpact.gateway.observe.telemetry import Telemetry

_KEYS_SECONDS = 2.0
"""How soon a key that was made or revoked elsewhere is heard of."""


class GatewayServer:
    """A gateway that listens."""

    def __init__(
        self, gateway: Gateway, host: Host, surface: GatewayRoutes, server: Server, url: str
    ) -> None:
        self.gateway = gateway
        self.host = host
        self.server = server
        self.url = url
        self._surface = surface
        self._telemetry: Telemetry | None = None

    async def reload(self, configuration: Configuration, token: str = "") -> None:
        """Take a new configuration and operator's token, or raise and leave all as it was."""
        fresh: list[Host] = []

        def check(state: GatewayState) -> None:
            fresh.append(configured_host(self.gateway.ledger, state.models))
            _check_telemetry(state.configuration.gateway)

        await self.gateway.reload(configuration, check)
        self.host.reconfigure(fresh[0])
        await self.watched(configuration)
        self.gateway.operator = token
        await asyncio.to_thread(self.gateway.load_keys)

    def restart_required(self, configuration: Configuration) -> tuple[str, ...]:
        """Return a message for each setting of a configuration that only a restart applies."""
        name = self.gateway.runtime.name
        names = (
            ("[gateway] name", name, configuration.gateway.name),
            ("[host] name", self.host.name, configuration.host.name or name),
        )
        return tuple(
            f'{setting}: still "{now}", "{then}" after a restart'
            for setting, now, then in names
            if now != then
        )

    async def watched(self, configuration: Configuration | None) -> None:
        """Send telemetry where a configuration wants it, and to nobody else."""
        before, self._telemetry = self._telemetry, None
        settings = GatewaySettings() if configuration is None else configuration.gateway
        if before is not None and before.address == settings.telemetry:
            self._telemetry = before
            return
        if settings.telemetry:
            self._telemetry = _telemetry(settings)
        if before is not None:
            self.gateway.observers.remove(before)
        if self._telemetry is not None:
            self.gateway.observers.append(self._telemetry)
        if before is not None:
            await before.aclose()

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
) -> AsyncIterator[GatewayServer]:
    """Serve what a configuration describes; leaving drains it.

    Whoever shows the `token` is the operator, beside the clients that have keys.
    """
    _check_telemetry(configuration.gateway)
    gateway = Gateway(ledger, configuration, environment=environment, operator=token)
    gateway.load_keys()
    host = configured_host(ledger, gateway.state.models, clients=clients_of(gateway))
    host_surface = HostRoutes(host, _authorise(gateway), conformance=conformance)
    surface = GatewayRoutes(gateway, host_surface, conformance=conformance)
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
            # What an earlier process of this name had begun to write is written, or never will be.
            await ledger.write_async(_nothing)
            invocations = await asyncio.to_thread(gateway.runtime.unfinished)
            calls = await asyncio.to_thread(gateway.recorder.unfinished)
            server = await stack.enter_async_context(await serve(surface, address, port))
            surface.connections = lambda: server.connections
            await gateway.runtime.recover(invocations)
            await gateway.recorder.recover_calls(calls)
            await stack.enter_async_context(running_host(host, grace=grace))
            tasks.append(asyncio.create_task(gateway.runtime.maintenance.run()))
            tasks.append(asyncio.create_task(_keep_keys(gateway)))
            shown = f"[{address}]" if ":" in address else address
            url = f"http://{shown}:{server.port}"
            serving = GatewayServer(gateway, host, surface, server, url)
            await serving.watched(configuration)
            try:
                yield serving
                await serving.drain(grace)
            finally:
                await serving.watched(None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.aclose()


def _nothing(_: Transaction) -> None:
    """Do nothing, when nobody else writes."""


def _check_telemetry(settings: GatewaySettings) -> None:
    """Raise where telemetry is wanted and its packages are not there."""
    if not settings.telemetry:
        return
    try:
        importlib.import_module("modelpact.gateway.observe.telemetry")
    except ImportError:
        told = "[gateway] telemetry needs OpenTelemetry: install modelpact[telemetry]"
        raise InputError(told) from None


def _telemetry(settings: GatewaySettings) -> "Telemetry":
    """Return what sends telemetry; it is imported only where it is wanted."""
    from modelpact.gateway.observe.telemetry import Telemetry

    return Telemetry(settings.telemetry, settings.name)


async def _keep_keys(gateway: Gateway) -> None:
    """Hear of keys that others make and revoke."""
    while True:
        await asyncio.sleep(_KEYS_SECONDS)
        with contextlib.suppress(LedgerError):
            await asyncio.to_thread(gateway.load_keys)


def _authorise(gateway: Gateway) -> Callable[[HttpRequest], str | None]:
    def authorise(request: HttpRequest) -> str | None:
        try:
            return gateway.authenticate(request).id
        except GatewayError:
            return None

    return authorise
