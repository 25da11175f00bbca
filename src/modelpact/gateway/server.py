"""Serves the gateway and the OpenWOP host on one address.

The keys of the gateway are the clients of the host: both share rates and budgets. The server holds
a lease of its name. A process settles the calls that an earlier process of its name left open; with
two live processes of one name, each would settle the open calls of the other.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from modelpact.configuration.config import Configuration, GatewaySettings
from modelpact.gateway.keys import ClientKey
from modelpact.gateway.responses import GatewayError
from modelpact.gateway.routes import GatewayRoutes
from modelpact.gateway.service import OPERATOR, Gateway, GatewayState
from modelpact.ledger.errors import LedgerError, NameTaken
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.stores.base import Lease, Store
from modelpact.openwop.clients import FindClient, RunClient
from modelpact.openwop.host import Host, configured_host, running_host
from modelpact.openwop.routes import HostRoutes
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpRequest, Server, serve

if TYPE_CHECKING:
    from modelpact.gateway.telemetry import Telemetry

_KEYS_SECONDS: Final = 2.0
"""How often keys are loaded that other processes created or revoked."""
_LOG: Final = logging.getLogger("modelpact.gateway")
_LEASE_TIMEOUT_S: Final = 3.0
"""How long to wait for a name: a database needs a moment to notice that a process was killed."""
_LEASE_RETRY_S: Final = 0.2
_LEASE_CHECK_S: Final = 2.0


class GatewayServer:
    """A gateway that listens."""

    def __init__(self, gateway: Gateway, host: Host, routes: GatewayRoutes, server: Server, url: str) -> None:
        self.gateway = gateway
        self.host = host
        self.server = server
        self.url = url
        self._routes = routes
        self._telemetry: Telemetry | None = None

    async def reload(self, configuration: Configuration, token: str = "") -> None:
        """Take a new configuration and operator's token, or raise and change nothing."""
        new_hosts: list[Host] = []

        def check(state: GatewayState) -> None:
            new_hosts.append(configured_host(self.gateway.ledger, state.models))
            _import_telemetry(state.configuration.gateway)

        await self.gateway.reload(configuration, check)
        self.host.reconfigure(new_hosts[0])
        await self.set_telemetry(configuration.gateway)
        self.gateway.operator = token
        await asyncio.to_thread(self.gateway.load_keys)

    def restart_required(self, configuration: Configuration) -> tuple[str, ...]:
        """Return a message for each setting of a configuration that only a restart applies."""
        name = self.gateway.runtime.name
        settings = (
            ("[gateway] name", name, configuration.gateway.name),
            ("[host] name", self.host.name, configuration.host.name or name),
        )
        return tuple(
            f'{setting}: still "{current}", "{new}" after a restart'
            for setting, current, new in settings
            if current != new
        )

    async def set_telemetry(self, settings: GatewaySettings) -> None:
        """Send telemetry to the collector that the settings name, if they name one."""
        old = self._telemetry
        if old is not None and old.address == settings.telemetry:
            return
        telemetry = _import_telemetry(settings)
        self._telemetry = telemetry(settings.telemetry, settings.name) if telemetry else None
        if old is not None:
            self.gateway.request_observers.remove(old)
            self.gateway.call_observers.remove(old)
        if self._telemetry is not None:
            self.gateway.request_observers.append(self._telemetry)
            self.gateway.call_observers.append(self._telemetry)
        if old is not None:
            await old.aclose()

    async def drain(self, grace: float, notice: float = 0.0) -> None:
        """Stop in order.

        `/readyz` fails for `notice` seconds. Then the server accepts nothing new, and gives open
        requests and runs `grace` seconds to end.
        """
        self._routes.draining = True
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
    """Serve a gateway and a host as a configuration describes them; leaving the context drains.

    `token` is the secret of the operator, who has no limits. Port 0 takes any free port.
    """
    _import_telemetry(configuration.gateway)
    gateway = Gateway(ledger, configuration, environment=environment, operator=token)
    gateway.load_keys()
    host = configured_host(ledger, gateway.state.models, clients=client_finder(gateway))
    host_routes = HostRoutes(host, host_authentication(gateway), conformance=conformance)
    routes = GatewayRoutes(gateway, host_routes, conformance=conformance)
    names = {f"gateway/{gateway.runtime.name}": "[gateway] name", f"host/{host.name}": "[host] name"}
    tasks: list[asyncio.Task[None]] = []
    try:
        async with contextlib.AsyncExitStack() as stack:
            # Take the names first, then the port, and only then recover what an earlier process
            # left open: a process that cannot start must not end the work of one that is alive.
            await stack.enter_async_context(leased(ledger.store, names))
            # After this write, all that an earlier process of this name wrote is visible.
            await ledger.write_async(_write_nothing)
            invocations = await asyncio.to_thread(gateway.runtime.unfinished)
            calls = await asyncio.to_thread(gateway.recorder.unfinished)
            server = await stack.enter_async_context(await serve(routes, address, port))
            routes.connections = lambda: server.connections
            await gateway.runtime.recover(invocations)
            await gateway.recorder.recover_calls(calls)
            await stack.enter_async_context(running_host(host, grace=grace))
            tasks.append(asyncio.create_task(gateway.runtime.maintenance.run()))
            tasks.append(asyncio.create_task(_load_keys_forever(gateway)))
            url_host = f"[{address}]" if ":" in address else address
            url = f"http://{url_host}:{server.port}"
            gateway_server = GatewayServer(gateway, host, routes, server, url)
            await gateway_server.set_telemetry(configuration.gateway)
            try:
                yield gateway_server
                await gateway_server.drain(grace)
            finally:
                await gateway_server.set_telemetry(GatewaySettings())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.aclose()


def _write_nothing(_: Transaction) -> None:
    """Write nothing; the transaction waits for all earlier writes."""


def _import_telemetry(settings: GatewaySettings) -> "type[Telemetry] | None":
    """Return the class if telemetry is configured: its packages are optional, and slow to import.

    Raise `InputError` if they are not installed.
    """
    if not settings.telemetry:
        return None
    try:
        from modelpact.gateway.telemetry import Telemetry
    except ImportError:
        raise InputError("[gateway] telemetry needs OpenTelemetry: install modelpact[telemetry]") from None
    return Telemetry


async def _load_keys_forever(gateway: Gateway) -> None:
    while True:
        await asyncio.sleep(_KEYS_SECONDS)
        with contextlib.suppress(LedgerError):
            await asyncio.to_thread(gateway.load_keys)


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
            await asyncio.sleep(_LEASE_CHECK_S)
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
    deadline = asyncio.get_running_loop().time() + _LEASE_TIMEOUT_S
    while True:
        try:
            return await _try_acquire(store, name)
        except NameTaken as error:
            if asyncio.get_running_loop().time() > deadline:
                raise NameTaken(f"{error}: stop that process, or give this one another {setting}") from None
        await asyncio.sleep(_LEASE_RETRY_S)


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


class KeyClient(RunClient):
    """A client of the host that has a key.

    The runs of the host and the requests of the gateway share the rate and the budget of the key.
    """

    def __init__(self, gateway: Gateway, key: ClientKey) -> None:
        self._gateway = gateway
        self._key = key

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"the key {self._key.name}"

    def allows(self, target: str) -> bool:
        """Tell whether it may use a PROVIDER/MODEL."""
        return self._key.allows(target)

    def wait(self) -> float:
        """Take one request out of its rate; return 0, or the seconds until there is one."""
        return self._gateway.rates.wait(self._key)

    async def has_budget(self) -> bool:
        """Tell whether it may spend more."""
        return await self._gateway.budgets.has_remaining(self._key)

    def opened(self, estimate: int) -> None:
        """Reserve the estimate of a call, in nano-dollars."""
        self._gateway.budgets.reserve(self._key.id, estimate)

    def settled(self, estimate: int, cost: int) -> None:
        """Count the cost of a call instead of its estimate."""
        self._gateway.budgets.settle(self._key.id, estimate, cost)


def host_authentication(gateway: Gateway) -> Callable[[HttpRequest], str | None]:
    """Return the host's authentication: the id of the request's key is its tenant."""

    def tenant(request: HttpRequest) -> str | None:
        try:
            return gateway.authenticate(request).id
        except GatewayError:
            return None

    return tenant


def client_finder(gateway: Gateway) -> FindClient:
    """Return a function that finds the client of a tenant among the keys in force."""

    def find(tenant: str) -> RunClient | None:
        if tenant == OPERATOR:
            return RunClient()
        key = gateway.keys.by_id(tenant)
        return None if key is None else KeyClient(gateway, key)

    return find
