"""`modelpact probe`: finds out with a few cheap calls what a model really does."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    complete_target,
    config_option,
    configured,
    json_option,
    print_json,
    resolve_target,
)
from modelpact.cli.paths import address_words, open_ledger, store_option
from modelpact.cli.render.progress import Progress
from modelpact.cli.render.tables import clip, paint, table
from modelpact.configuration import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import forget, record
from modelpact.ledger.ledger import Ledger
from modelpact.negotiation.formats import claim_text
from modelpact.probing import Budget, Probe, ProbePlan, ProbeReport, ProbeResult, plan_probe
from modelpact.providers.contract import profile_in_force
from modelpact.providers.models.endpoints import ProviderAddress, find_address
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire import Client

_NANO = 1_000_000_000
_INTERRUPTED = "interrupted"
_MARKS = {
    "supported": ("✓", "green"),
    "unsupported": ("✗", "red"),
    "ignored": ("✗", "red"),
    "inconclusive": ("?", "dim"),
}


class ProbeFailed(ModelpactError):
    """The model did not answer, so that nothing was found out."""


def _nano(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Read dollars as nano-dollars."""
    try:
        amount = Decimal(value.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount <= 1_000_000:
        told = f"{value!r:.40} is not an amount in dollars, such as 0.05"
        raise click.BadParameter(told, ctx, param)
    return int(amount * _NANO)


@click.command("probe", short_help="Find out for real what a model does, and keep the evidence.")
@click.argument("target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option(
    "--capability", "capabilities", multiple=True, metavar="C", help="Probe only this; repeatable."
)
@click.option(
    "--budget",
    metavar="USD",
    callback=_nano,
    default="0.10",
    show_default=True,
    help="The most dollars to spend; the probe stops before it would exceed them.",
)
@click.option(
    "--calls",
    type=click.IntRange(1, 10_000),
    default=80,
    show_default=True,
    help="The most calls to make.",
)
@click.option("--yes", is_flag=True, help="Do not ask before spending.")
@click.option("--context-window", is_flag=True, help="Also fill the context window; not cheap.")
@click.option("--dry-run", is_flag=True, help="Print the plan and its estimate, and stop.")
@click.option("--no-store", is_flag=True, help="Keep nothing: no evidence and no record of calls.")
@click.option(
    "--transcript",
    "transcript",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was asked and answered to this file; its hash is in the evidence.",
)
@click.option("--forget", "forgetting", is_flag=True, help="Drop evidence instead of probing.")
@store_option
@json_option
@config_option
def command(
    target: str,
    capabilities: Sequence[str],
    budget: int,
    calls: int,
    yes: bool,
    context_window: bool,
    dry_run: bool,
    no_store: bool,
    transcript: Path | None,
    forgetting: bool,
    store: str | None,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Probe a model with a few cheap calls per capability, and check its answers.

    The plan and an estimate of its cost come first. Exit codes: 0 when nothing that was found
    contradicts the catalog, 1 when something does, 2 when the model could not be probed, 130 after
    Ctrl-C, when what was found by then is told and kept.
    """
    configuration, catalog = configured(config_path)
    found = resolve_target(catalog, target)
    if forgetting:
        _forget(found.target, capabilities, store, config_path, as_json)
        return
    plan = plan_probe(found, capabilities, context_window=context_window)
    allowed = Budget(calls, budget)
    address = _address(configuration, found)
    if dry_run:
        data = _plan_data(plan, allowed, address)
        print_json(data) if as_json else _print_plan(plan, allowed, address)
        return
    if not as_json or not yes:
        _print_plan(plan, allowed, address, err=as_json)
    if not yes:
        _ask()
    if transcript is not None:
        _check_writable(transcript)
    with _ledger(store, config_path, no_store) as ledger:
        report = _run(plan, allowed, configuration, catalog, ledger, quiet=as_json)
        if transcript is not None:
            transcript.write_bytes(report.transcript)
        record(ledger, *report.observations)
    interrupted = report.stopped == _INTERRUPTED
    if not (report.answered or (interrupted and as_json)):
        failed = ProbeFailed(f"{report.target} could not be probed: {report.stopped}")
        if not interrupted:
            raise failed
        click.echo(f"modelpact: {failed}", err=True)
    elif as_json:
        print_json(report.to_json())
    else:
        _print_report(report, kept=not no_store)
    raise SystemExit(130 if interrupted else 1 if report.contradictions else 0)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise InputError("nobody is there to agree to the cost: give --yes, or --dry-run to look")
    if not click.confirm("Go on?", default=False, err=True):
        raise SystemExit(0)


def _check_writable(path: Path) -> None:
    """Find out before anything is spent whether what it buys can be written down."""
    try:
        path.touch()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


@contextmanager
def _ledger(store: str | None, config_path: Path | None, no_store: bool) -> Iterator[Ledger]:
    if not no_store:
        with open_ledger(store, config_path) as ledger:
            yield ledger
        return
    with (
        tempfile.TemporaryDirectory(prefix="modelpact-") as folder,
        Ledger.open(f"sqlite:{folder}/probe.db") as ledger,
    ):
        yield ledger


def _run(
    plan: ProbePlan,
    budget: Budget,
    configuration: Configuration,
    catalog: Catalog,
    ledger: Ledger,
    *,
    quiet: bool,
) -> ProbeReport:
    progress = Progress(f"Probing {plan.target}", len(plan.trials) + 1 + plan.window)

    def told(done: int, total: int, what: str) -> None:  # noqa: ARG001
        if not quiet:
            progress.at(done)

    async def run() -> ProbeReport:
        runtime = Runtime(
            ledger,
            name="probe",
            profile=profile_in_force(configuration),
            plain_http=frozenset(configuration.contract.plain_http),
        )
        async with Client() as client:
            models = ModelCaller(
                runtime, configuration=configuration, catalog=catalog, client=client
            )
            probe = Probe(models, plan, budget=budget, on_progress=told)
            try:
                return probe.report(await probe.run())
            except asyncio.CancelledError:
                return probe.report(_INTERRUPTED)  # by Ctrl-C: there is nobody else to cancel it

    try:
        return asyncio.run(run())
    finally:
        progress.close()


def _forget(
    target: str,
    capabilities: Sequence[str],
    store: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    with open_ledger(store, config_path) as ledger:
        count = forget(ledger, target, capabilities)
    if as_json:
        print_json({"target": target, "forgotten": count})
    else:
        what = "piece of evidence" if count == 1 else "pieces of evidence"
        stand = "stands" if count == 1 else "stand"
        click.echo(f"{count} {what} on {target} no longer {stand}.")


def _address(configuration: Configuration, found: Resolution) -> ProviderAddress:
    return find_address(configuration.providers.get(found.provider_id), found.provider)


def _print_plan(
    plan: ProbePlan, budget: Budget, address: ProviderAddress, *, err: bool = False
) -> None:
    names = ", ".join(plan.capabilities)
    where = f" {address_words(address)}" if address.variable else ""
    click.echo(f"{paint('Probe', 'bold')} {plan.target}{where}: {names}", err=err)
    most = min(plan.max_calls, budget.calls)
    size = f"{plan.usage.input:,} tokens in, {plan.usage.output:,} out at most"
    if plan.money is None:
        cost = "the price is not known, so that only the calls are bounded"
    else:
        cost = f"at most {_dollars(plan.money)}, budget {_dollars(budget.money)}"
    click.echo(f"{plan.calls} calls, at most {most}; {size}; {cost}", err=err)


def _plan_data(plan: ProbePlan, budget: Budget, address: ProviderAddress) -> dict[str, Any]:
    return {
        "target": plan.target,
        **({"address": {"url": address.url, "from": address.variable}} if address.variable else {}),
        "api": plan.api,
        "capabilities": list(plan.capabilities),
        "calls": plan.calls,
        "mostCalls": min(plan.max_calls, budget.calls),
        "tokensInput": plan.usage.input,
        "tokensOutput": plan.usage.output,
        "mostNanoUsd": plan.money,
        "budgetNanoUsd": budget.money,
    }


def _print_report(report: ProbeReport, *, kept: bool) -> None:
    click.echo()
    rows = [_row(one) for one in report.results]
    click.echo(table(rows, ("", "capability", "catalog", "probe", "", "")))
    click.echo()
    if report.stopped:
        click.echo(f"{paint('!', 'yellow')} The probe ended early: {report.stopped}")
    against = report.contradictions
    if against:
        what = "contradicts" if len(against) == 1 else "contradict"
        count = paint(f"{len(against)} of {len(report.results)}", "yellow")
        click.echo(f"{count} {what} the catalog.")
    cost = "" if report.spent is None else f", {_dollars(report.spent)}"
    where = f"evidence kept, calls in {report.envelope}" if kept else "nothing kept"
    click.echo(f"{report.calls} calls{cost}; {where}; transcript {report.hash[:19]}…")


def _row(one: ProbeResult) -> tuple[str, ...]:
    sign, colour = _MARKS[one.verdict]
    found = one.verdict
    if one.verdict == "supported" and one.value is not None:
        found = f"{one.value:,}" if isinstance(one.value, int) else one.value  # type: ignore[assignment]
    return (
        paint(sign, colour),
        one.capability,
        claim_text(one.claimed),
        str(found),
        paint("contradicts", "yellow") if one.contradicts else "",
        paint(clip(one.detail, 72), "dim"),
    )


def _dollars(nano: int) -> str:
    text = f"{nano / _NANO:.6f}".rstrip("0")
    whole, _, rest = text.partition(".")
    return f"${whole}.{rest.ljust(2, '0')}"
