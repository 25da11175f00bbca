"""The host: its library, its gate, its models, and the runs that are under way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration, HostSettings
from modelpact.configuration.packs import load_pack
from modelpact.dispatch.gate import Gate, catalog_lacks
from modelpact.dispatch.models import Models
from modelpact.ledger.ledger import Ledger
from modelpact.needs.modules import Pack
from modelpact.openwop.core import FIXTURE, core_pack
from modelpact.openwop.envelopes import ENVELOPES
from modelpact.openwop.running import Executor, Runner
from modelpact.openwop.runs import Run
from modelpact.openwop.workflows import Library, RunRequest, Target
from modelpact.vocabulary.errors import ModelpactError

MOST_RUNNING: Final = 64
MOST_WAITING: Final = 1_000
_LIMITS: Final = {"clarificationRounds": 3, "schemaRounds": 3, "envelopesPerTurn": 8}


class Busy(ModelpactError):
    """A run that is not taken because too many wait already."""


class Host:
    """An OpenWOP host. What it advertises is computed from what it has."""

    def __init__(
        self,
        ledger: Ledger,
        models: Models,
        *,
        settings: HostSettings | None = None,
        packs: tuple[Pack, ...] = (),
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.settings = settings or HostSettings()
        self.library = Library((core_pack(), *packs))
        self.models = models
        self.providers = models.supported()
        self.gate = Gate(
            catalog_lacks(models.catalog),
            supported=self.providers,
            can_authenticate=models.can_authenticate,
            substitution=self.settings.substitution,
            redact=self.settings.redact_fallback,
            on=self.settings.gating,
        )
        self.default = Target(*models.catalog.split(self.settings.model))
        self.runner = Runner(ledger, self.library, self.gate, models, executors)
        self.runs = self.runner.runs
        self._room = asyncio.Semaphore(MOST_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()

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
        """Keep a run and begin it."""
        if len(self._tasks) >= MOST_RUNNING + MOST_WAITING:
            raise Busy(f"{len(self._tasks)} runs are under way or wait; try again later")
        run = await self.runs.open(request, self.settings.name, tenant)
        self._begin(run)
        return run

    def _begin(self, run: Run) -> None:
        task = asyncio.create_task(self._execute(run, self.runner))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, run: Run, runner: Runner) -> None:
        async with self._room:
            await runner.execute(run)

    async def recover(self) -> list[Run]:
        """Take up what this host left: what had not begun is run, what had is ended honestly."""
        left = await self.runs.unfinished(self.settings.name)
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
        for task in self._tasks:
            task.cancel()
        await self.idle()
        for run in await self.runs.unfinished(self.settings.name):
            if run.status == "running":
                await self.runner.interrupted(run)


@asynccontextmanager
async def running_host(host: Host, *, grace: float = 10.0) -> AsyncIterator[Host]:
    """Recover what the host left, and stop it in an orderly way in the end."""
    await host.recover()
    try:
        yield host
    finally:
        await host.stop(grace)


def configured_host(
    ledger: Ledger, models: Models, executors: Mapping[str, Executor] | None = None
) -> Host:
    """Return the host that a configuration describes, with its packs loaded."""
    configuration: Configuration = models.configuration
    settings = configuration.host
    folder = None if configuration.path is None else configuration.path.parent
    packs = tuple(load_pack(name, folder, gating=settings.gating) for name in settings.packs)
    return Host(ledger, models, settings=settings, packs=packs, executors=executors)
