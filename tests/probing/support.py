"""Helpers for probes of fake servers, over real sockets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelpact.catalog.catalog import default_catalog
from modelpact.configuration.config import Configuration, ProviderSettings
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.probing import Budget, ProbeReport, plan_probe, run_probe
from modelpact.providers.runtime.runtime import Runtime
from modelpact.wire import Client
from tests.fakes.server import FakeServer


def configuration(fake: FakeServer, kind: str) -> Configuration:
    """Return a configuration in which the provider `local` is a fake."""
    return Configuration(providers={"local": ProviderSettings(kind, fake.base_url)})


async def probe(
    fake: FakeServer,
    model: str,
    folder: Path,
    capabilities: Sequence[str] = (),
    *,
    kind: str = "openai",
    budget: Budget | None = None,
    **more: Any,
) -> ProbeReport:
    """Probe one model of a fake."""
    settings = configuration(fake, kind)
    catalog = settings.catalog(default_catalog())
    with ledger(folder) as opened_ledger:
        async with Client() as client:
            models = ModelCaller(Runtime(opened_ledger), configuration=settings, catalog=catalog, client=client)
            plan = plan_probe(catalog.resolve("local", model), capabilities, **more)
            return await run_probe(models, plan, budget=budget or Budget(money=10**12))


@contextmanager
def ledger(folder: Path) -> Iterator[Ledger]:
    """Open the ledger in a folder."""
    with Ledger.open(f"sqlite:{folder / 'probe.db'}") as opened:
        yield opened


def verdicts(report: ProbeReport) -> dict[str, str]:
    """Return the verdict of each capability."""
    return {result.capability: result.verdict for result in report.results}
