"""The host: its library, its gate, its models, and the runs that are under way."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration, HostSettings
from modelpact.configuration.packs import load_pack
from modelpact.dispatch.gate import Gate, catalog_check
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerError
from modelpact.needs.node_modules import FallbackModel, Pack
from modelpact.openwop.builtin import ENVELOPES, FIXTURE, core_pack
from modelpact.openwop.clients import FindClient, Unlimited, check_start
from modelpact.openwop.model_call import Executor
from modelpact.openwop.runner import Runner
from modelpact.openwop.runs import Run, RunOwnedElsewhere
from modelpact.openwop.workflows import Library, ModelTarget, RunRequest
from modelpact.vocabulary.errors import ModelpactError

MOST_RUNNING: Final = 64
MOST_WAITING: Final = 1_000
MOST_OF_ONE: Final = 2
"""One tenant gets at most one part in so many of the places, to run and to wait."""
_AGAIN_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger("modelpact.openwop")
_LIMITS: Final = {"clarificationRounds": 3, "schemaRounds": 3, "envelopesPerTurn": 8}


class HostBusy(ModelpactError):
    """A run that is not taken because too many wait already."""


class Host:
    """An OpenWOP host. What it advertises is computed from what it has."""

    def __init__(
        self,
        ledger: Ledger,
        models: ModelCaller,
        *,
        settings: HostSettings | None = None,
        packs: tuple[Pack, ...] = (),
        executors: Mapping[str, Executor] | None = None,
        clients: FindClient = lambda _: Unlimited(),
    ) -> None:
        self.settings = settings or HostSettings()
        self.name = self.settings.name or models.configuration.gateway.name
        self.library = Library(
            (core_pack(), *packs), own=tuple(executors or ()), gating=self.settings.gating
        )
        self.models = models
        self.providers = models.supported_providers()
        self.gate = Gate(
            catalog_check(models.catalog),
            supported=self.providers,
            can_authenticate=models.can_authenticate,
            substitution=self.settings.substitution,
            redact=self.settings.redact_fallback,
            on=self.settings.gating,
        )
        self.default = ModelTarget(*models.catalog.split(self.settings.model))
        self.runner = Runner(ledger, self.library, self.gate, models, executors)
        self.runs = self.runner.runs
        self._clients = clients
        self._room = asyncio.Semaphore(MOST_RUNNING)
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._tenants: dict[str, _Tenant] = {}

    @property
    def warnings(self) -> list[str]:
        """What is worth a warning in the packs, for whoever starts the host."""
        found = [str(one) for one in self.library.warnings]
        for module in self.library.modules.values():
            if not self._can_use(module.fallback):
                found.append(f"{module.type_id}: {_USELESS}")
        for workflow in self.library.workflows.values():
            for node in workflow.nodes:
                if not self._can_use(node.fallback_model):
                    found.append(f"{workflow.workflow_id}: {node.node_id}: {_USELESS}")
        return found

    def _can_use(self, fallback: FallbackModel | None) -> bool:
        return fallback is None or fallback.provider in self.providers

    def catalog(self) -> list[dict[str, Any]]:
        """Return the modules as clients see them, without fallbacks that can never stand in."""
        return [
            module.data()
            if self._can_use(module.fallback)
            else msgspec.structs.replace(module, fallback=None).data()
            for module in self.library.modules.values()
        ]

    def discovery(self) -> dict[str, Any]:
        """Return the discovery document; capability families stand at its root, and mirrored."""
        model_capabilities: dict[str, Any] = {"supported": self.gate.on}
        if self.gate.on:
            modules = self.library.modules.values()
            model_capabilities["advertised"] = list(self.gate.advertised(modules))
            model_capabilities["substitutionSupported"] = self.gate.substitution
        families = {
            "supportedEnvelopes": list(ENVELOPES),
            "schemaVersions": dict.fromkeys(ENVELOPES, 1),
            "limits": dict(_LIMITS),
            "modelCapabilities": model_capabilities,
            "aiProviders": {"supported": list(self.providers)},
        }
        return {
            "protocolVersion": "1.0",
            **families,
            "fixtures": [FIXTURE],
            "capabilities": families,
        }

    def take(self, other: "Host") -> None:
        """Take another's settings, packs, gate and models; runs under way end with the old ones.

        The name stays: it says whose runs these are.
        """
        self.settings = msgspec.structs.replace(other.settings, name=self.settings.name)
        self.library = other.library
        self.models = other.models
        self.providers = other.providers
        self.gate = other.gate
        self.default = other.default
        self.runner = other.runner

    async def start(self, request: RunRequest, tenant: str = "") -> Run:
        """Keep a run and begin it, as far as its tenant's limits allow that."""
        if len(self._tasks) >= MOST_RUNNING + MOST_WAITING:
            raise HostBusy(f"{len(self._tasks)} runs are under way or wait; try again later")
        held = self._tenants.get(tenant)
        if held is not None and held.runs >= (MOST_RUNNING + MOST_WAITING) // MOST_OF_ONE:
            raise HostBusy(f"{held.runs} runs of yours are under way or wait; try again later")
        await check_start(self._clients, tenant, request)
        run = await self.runs.open(request, self.name, tenant)
        self._begin(run)
        return run

    def _begin(self, run: Run) -> None:
        task = asyncio.create_task(self._execute(run, self.runner))
        self._tasks[task] = run
        self._tenants.setdefault(run.tenant, _Tenant()).runs += 1
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        held = self._tenants[run.tenant]
        held.runs -= 1
        if not held.runs:
            del self._tenants[run.tenant]

    async def _execute(self, run: Run, runner: Runner) -> None:
        """Execute a run; one that loses its store is begun, or ended, when that is back."""
        async with self._tenants[run.tenant].room, self._room:
            while True:
                try:
                    if run.status == "pending":
                        await runner.execute(run, self._clients)
                    elif run.status == "running":
                        await runner.interrupted(run)
                    return
                except RunOwnedElsewhere as error:
                    _LOG.warning("%s", error)
                    return
                except Exception as error:
                    known = isinstance(error, LedgerError)
                    _LOG.error("%s cannot go on: %s", run.id, error, exc_info=not known)
                run = await self._found_again(run)

    async def _found_again(self, run: Run) -> Run:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            with contextlib.suppress(LedgerError):
                return await self.runs.find(run.id)

    async def recover(self) -> list[Run]:
        """Take up what this host left: what had not begun is run, what had is ended honestly.

        Whoever calls this makes sure that no other process of this name is alive.
        """
        left = await self.runs.unfinished(self.name)
        begun = {run.id for run in self._tasks.values()}
        left = [run for run in left if run.id not in begun]
        for run in left:
            if run.status == "pending":
                self._begin(run)
            else:
                await self.runner.interrupted(run)
        return left

    async def idle(self) -> None:
        """Wait until no run is under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, grace: float) -> None:
        """Let runs finish within the grace period; end those that do not, on the record."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.idle()
        cut_off = list(self._tasks.values())
        for task in self._tasks:
            task.cancel()
        await self.idle()
        for run in cut_off:
            try:
                if (await self.runs.find(run.id)).status == "running":
                    await self.runner.interrupted(run)
            except LedgerError as error:
                _LOG.error("%s ends when the host starts again: %s", run.id, error)


class _Tenant:
    """The places of one tenant."""

    def __init__(self) -> None:
        self.runs = 0
        self.room = asyncio.Semaphore(MOST_RUNNING // MOST_OF_ONE)


_USELESS: Final = "its fallbackModel is never used: its provider is not one that this host has"


@asynccontextmanager
async def running_host(host: Host, *, grace: float = 10.0) -> AsyncIterator[Host]:
    """Recover what the host left, and stop it in an orderly way in the end."""
    await host.recover()
    try:
        yield host
    finally:
        await host.stop(grace)


def configured_host(
    ledger: Ledger,
    models: ModelCaller,
    executors: Mapping[str, Executor] | None = None,
    clients: FindClient = lambda _: Unlimited(),
) -> Host:
    """Return the host that a configuration describes, with its packs loaded."""
    configuration: Configuration = models.configuration
    settings = configuration.host
    folder = None if configuration.path is None else configuration.path.parent
    packs = tuple(load_pack(name, folder, gating=settings.gating) for name in settings.packs)
    return Host(
        ledger, models, settings=settings, packs=packs, executors=executors, clients=clients
    )
