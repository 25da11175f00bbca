"""The host: its workflows, its gate, its models, and the runs in progress."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration, HostSettings
from modelpact.configuration.load import load_pack
from modelpact.dispatch.gate import Gate, catalog_check
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import FallbackModel, Pack
from modelpact.openwop.clients import FindClient, RunClient, check_start
from modelpact.openwop.documents import FIXTURE, core_pack, envelope_schemas
from modelpact.openwop.executor import Executor
from modelpact.openwop.runner import Runner
from modelpact.openwop.runs import Run, RunOwnedElsewhere
from modelpact.openwop.workflows import ModelTarget, RunRequest, WorkflowLibrary
from modelpact.vocabulary.errors import ModelpactError

MAX_RUNNING: Final = 64
MAX_WAITING: Final = 1_000
TENANT_SHARE: Final = 2
"""One tenant gets at most this fraction (a half) of the places to run and to wait."""
_RETRY_SECONDS: Final = 1.0
_UNUSED_FALLBACK: Final = "its fallbackModel is never used: its provider is not one that this host has"
_LOG: Final = logging.getLogger("modelpact.openwop")
_LIMITS: Final = {"clarificationRounds": 3, "schemaRounds": 3, "envelopesPerTurn": 8}


class HostBusy(ModelpactError):
    """A run was not accepted because too many are waiting."""


class Host:
    """An OpenWOP host. What it advertises is computed from its modules and settings."""

    def __init__(
        self,
        ledger: Ledger,
        models: ModelCaller,
        *,
        settings: HostSettings | None = None,
        packs: tuple[Pack, ...] = (),
        executors: Mapping[str, Executor] | None = None,
        clients: FindClient = lambda _: RunClient(),
    ) -> None:
        self.settings = settings or HostSettings()
        self.name = self.settings.name or models.configuration.gateway.name
        self.library = WorkflowLibrary(
            (core_pack(), *packs), custom_types=tuple(executors or ()), gating=self.settings.gating
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
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._tenants: dict[str, _TenantLimits] = {}

    @property
    def warnings(self) -> list[str]:
        """Warnings about the packs, for the operator."""
        warnings = [str(warning) for warning in self.library.warnings]
        for module in self.library.modules.values():
            if not self._can_use(module.fallback):
                warnings.append(f"{module.type_id}: {_UNUSED_FALLBACK}")
        for workflow in self.library.workflows.values():
            for node in workflow.nodes:
                if not self._can_use(node.fallback_model):
                    warnings.append(f"{workflow.workflow_id}: {node.node_id}: {_UNUSED_FALLBACK}")
        return warnings

    def _can_use(self, fallback: FallbackModel | None) -> bool:
        return fallback is None or fallback.provider in self.providers

    def catalog(self) -> list[dict[str, Any]]:
        """Return the modules as plain data, without fallbacks that can never be used."""
        return [
            module.data() if self._can_use(module.fallback) else msgspec.structs.replace(module, fallback=None).data()
            for module in self.library.modules.values()
        ]

    def discovery(self) -> dict[str, Any]:
        """Return the discovery document.

        The capability families are at its root and again in `capabilities`.
        """
        model_capabilities: dict[str, Any] = {"supported": self.gate.on}
        if self.gate.on:
            modules = self.library.modules.values()
            model_capabilities["advertised"] = list(self.gate.advertised(modules))
            model_capabilities["substitutionSupported"] = self.gate.substitution
        families = {
            "supportedEnvelopes": list(envelope_schemas()),
            "schemaVersions": dict.fromkeys(envelope_schemas(), 1),
            "limits": dict(_LIMITS),
            "modelCapabilities": model_capabilities,
            "aiProviders": {"supported": list(self.providers)},
        }
        return {"protocolVersion": "1.0", **families, "fixtures": [FIXTURE], "capabilities": families}

    def reconfigure(self, other: "Host") -> None:
        """Take the settings, packs, gate and models of another host.

        Runs in progress finish with the old ones. The name stays, since it marks this host's runs.
        """
        self.settings = msgspec.structs.replace(other.settings, name=self.settings.name)
        self.library = other.library
        self.models = other.models
        self.providers = other.providers
        self.gate = other.gate
        self.default = other.default
        self.runner = other.runner

    async def start(self, request: RunRequest, tenant: str = "") -> Run:
        """Store a run and begin it, if the limits of the host and of the tenant allow it."""
        if len(self._tasks) >= MAX_RUNNING + MAX_WAITING:
            raise HostBusy(f"{len(self._tasks)} runs are in progress or waiting; try again later")
        limits = self._tenants.get(tenant)
        if limits is not None and limits.runs >= (MAX_RUNNING + MAX_WAITING) // TENANT_SHARE:
            raise HostBusy(f"{limits.runs} runs of yours are in progress or waiting; try again later")
        await check_start(self._clients, tenant, request)
        run = await self.runs.open(request, self.name, tenant)
        self._begin(run)
        return run

    def _begin(self, run: Run) -> None:
        task = asyncio.create_task(self._execute(run, self.runner))
        self._tasks[task] = run
        self._tenants.setdefault(run.tenant, _TenantLimits()).runs += 1
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        limits = self._tenants[run.tenant]
        limits.runs -= 1
        if not limits.runs:
            del self._tenants[run.tenant]

    async def _execute(self, run: Run, runner: Runner) -> None:
        """Execute a run. If the store fails, begin or end the run when the store is back."""
        async with self._tenants[run.tenant].slots, self._slots:
            while True:
                try:
                    if run.status == "pending":
                        await runner.execute(run, self._clients)
                    elif run.status == "running":
                        await runner.fail_interrupted(run)
                    return
                except RunOwnedElsewhere as error:
                    _LOG.warning("%s", error)
                    return
                except Exception as error:
                    is_store = isinstance(error, LedgerError)
                    _LOG.error("%s cannot go on: %s", run.id, error, exc_info=not is_store)
                run = await self._reload(run)

    async def _reload(self, run: Run) -> Run:
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            with contextlib.suppress(LedgerError):
                return await self.runs.find(run.id)

    async def recover(self) -> list[Run]:
        """Recover the runs that an earlier process of this host left, and return them.

        Those that had not begun are run. The others end as interrupted, since their calls may have
        been made. The caller makes sure that no other process with this host's name is alive.
        """
        in_progress = {run.id for run in self._tasks.values()}
        unfinished = await self.runs.unfinished(self.name)
        left = [run for run in unfinished if run.id not in in_progress]
        for run in left:
            if run.status == "pending":
                self._begin(run)
            else:
                await self.runner.fail_interrupted(run)
        return left

    async def wait_idle(self) -> None:
        """Wait until no run is in progress."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, grace: float) -> None:
        """Let runs finish within the grace period. Cancel the others, and record that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.wait_idle()
        cancelled = list(self._tasks.values())
        for task in self._tasks:
            task.cancel()
        await self.wait_idle()
        for run in cancelled:
            try:
                if (await self.runs.find(run.id)).status == "running":
                    await self.runner.fail_interrupted(run)
            except LedgerError as error:
                _LOG.error("%s ends when the host starts again: %s", run.id, error)


class _TenantLimits:
    """The runs of one tenant, and its slots."""

    def __init__(self) -> None:
        self.runs = 0
        self.slots = asyncio.Semaphore(MAX_RUNNING // TENANT_SHARE)


@asynccontextmanager
async def running_host(host: Host, *, grace: float = 10.0) -> AsyncIterator[Host]:
    """Recover the host's unfinished runs, and stop the host at the end."""
    await host.recover()
    try:
        yield host
    finally:
        await host.stop(grace)


def configured_host(
    ledger: Ledger,
    models: ModelCaller,
    executors: Mapping[str, Executor] | None = None,
    clients: FindClient = lambda _: RunClient(),
) -> Host:
    """Return the host of a configuration, with its packs loaded."""
    configuration: Configuration = models.configuration
    settings = configuration.host
    folder = None if configuration.path is None else configuration.path.parent
    packs = tuple(load_pack(name, folder, gating=settings.gating) for name in settings.packs)
    return Host(ledger, models, settings=settings, packs=packs, executors=executors, clients=clients)
