"""`modelpact probe`: tests with a few cheap calls what a model can do."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from modelpact.catalog.catalog import Catalog
from modelpact.cli.options import (
    Dollars,
    LedgerSource,
    complete_target,
    default_option,
    json_option,
    ledger_options,
    load_catalog,
    print_json,
    print_result,
    resolve_target,
)
from modelpact.cli.render.terminal import Progress, clip, paint, plural, table, warn
from modelpact.cli.runtime import make_runtime, override_text
from modelpact.configuration import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import forget, record
from modelpact.ledger.ledger import Ledger
from modelpact.negotiation.verdict import claim_text
from modelpact.probing import Budget, Probe, ProbePlan, ProbeReport, ProbeResult, plan_probe
from modelpact.providers.models.endpoints import ProviderAddress, find_address
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.vocabulary.money import format_money
from modelpact.wire import Client

_INTERRUPTED: Final = "interrupted"
_MARKS: Final = {
    "supported": ("✓", "green"),
    "unsupported": ("✗", "red"),
    "ignored": ("✗", "red"),
    "inconclusive": ("?", "dim"),
}


class ProbeFailed(ModelpactError):
    """The model did not answer, so the probe found out nothing."""


@click.command("probe")
@click.argument("target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option(
    "--capability", "capabilities", multiple=True, metavar="C", help="Probe only this capability; repeatable."
)
@default_option(
    "--budget",
    type=Dollars(),
    default="0.10",
    help="The most dollars to spend. The probe stops before it would exceed them.",
)
@default_option("--calls", type=click.IntRange(1, 10_000), default=80, help="The most calls to make.")
@click.option("--yes", is_flag=True, help="Do not ask before spending.")
@click.option("--context-window", is_flag=True, help="Also fill the context window: expensive.")
@click.option("--dry-run", is_flag=True, help="Print the plan and its estimate, and exit.")
@click.option("--no-store", is_flag=True, help="Store neither evidence nor a record of the calls.")
@click.option(
    "--transcript",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all prompts and answers to this file. The evidence has its hash.",
)
@click.option("--forget", "forget_evidence", is_flag=True, help="Delete evidence instead of probing.")
@json_option
@ledger_options
def probe_command(
    target: str,
    capabilities: Sequence[str],
    budget: int,
    calls: int,
    yes: bool,
    context_window: bool,
    dry_run: bool,
    no_store: bool,
    transcript: Path | None,
    forget_evidence: bool,
    as_json: bool,
    source: LedgerSource,
) -> None:
    """Test the capabilities of a model with a few cheap calls each.

    The plan and the estimated cost are shown first. The results are stored as evidence.

    Exit codes: 0 the results agree with the catalog, 1 one contradicts it, 2 the model could not be
    probed, 130 interrupted with Ctrl-C; what was found until then is stored.
    """
    configuration, catalog = load_catalog(source.config_path)
    model = resolve_target(catalog, target)
    if forget_evidence:
        _forget(model.target, capabilities, source, as_json)
        return
    plan = plan_probe(model, capabilities, context_window=context_window)
    limits = Budget(calls, budget)
    address = find_address(configuration.providers.get(model.provider_id), model.provider)
    if dry_run:
        data = _plan_json(plan, limits, address)
        print_result(data, _plan_text(plan, limits, address), as_json=as_json)
        return
    if not as_json or not yes:
        click.echo(_plan_text(plan, limits, address), err=as_json)
    if not yes:
        _confirm()
    if transcript is not None:
        _check_writable(transcript)
    with _open_ledger(source, no_store) as ledger:
        report = _run(plan, limits, configuration, catalog, ledger, quiet=as_json)
        if transcript is not None:
            transcript.write_bytes(report.transcript)
        record(ledger, *report.observations)
    interrupted = report.stopped == _INTERRUPTED
    if not (report.answered or (interrupted and as_json)):
        failed = ProbeFailed(f"{report.target} could not be probed: {report.stopped}")
        if not interrupted:
            raise failed
        warn(str(failed))
    elif as_json:
        print_json(report.to_json())
    else:
        _print_report(report, stored=not no_store)
    raise SystemExit(130 if interrupted else 1 if report.contradictions else 0)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise InputError("there is no terminal to confirm the cost: give --yes, or --dry-run")
    if not click.confirm("Continue?", default=False, err=True):
        raise SystemExit(0)


def _check_writable(path: Path) -> None:
    """Raise if the transcript cannot be written, before anything is spent."""
    try:
        path.touch()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


@contextmanager
def _open_ledger(source: LedgerSource, no_store: bool) -> Iterator[Ledger]:
    if not no_store:
        with source.open_ledger() as ledger:
            yield ledger
        return
    with tempfile.TemporaryDirectory(prefix="modelpact-") as folder, Ledger.open(f"sqlite:{folder}/probe.db") as ledger:
        yield ledger


def _run(
    plan: ProbePlan, budget: Budget, configuration: Configuration, catalog: Catalog, ledger: Ledger, *, quiet: bool
) -> ProbeReport:
    progress = Progress(f"Probing {plan.target}", len(plan.trials) + 1 + plan.window)

    def on_progress(done: int, total: int, what: str) -> None:  # noqa: ARG001
        if not quiet:
            progress.update(done)

    async def run() -> ProbeReport:
        runtime = make_runtime(ledger, configuration, "probe")
        async with Client() as client:
            models = ModelCaller(runtime, configuration=configuration, catalog=catalog, client=client)
            probe = Probe(models, plan, budget=budget, on_progress=on_progress)
            try:
                return probe.report(await probe.run())
            except asyncio.CancelledError:
                return probe.report(_INTERRUPTED)  # only Ctrl-C cancels it

    try:
        return asyncio.run(run())
    finally:
        progress.close()


def _forget(target: str, capabilities: Sequence[str], source: LedgerSource, as_json: bool) -> None:
    with source.open_ledger() as ledger:
        count = forget(ledger, target, capabilities)
    text = f"{plural(count, 'piece')} of evidence on {target} deleted."
    print_result({"target": target, "forgotten": count}, text, as_json=as_json)


def _plan_text(plan: ProbePlan, budget: Budget, address: ProviderAddress) -> str:
    names = ", ".join(plan.capabilities)
    where = f" {override_text(address)}" if address.variable else ""
    head = f"{paint('Probe', 'bold')} {plan.target}{where}: {names}"
    max_calls = min(plan.max_calls, budget.calls)
    size = f"{plan.usage.input:,} tokens in, {plan.usage.output:,} out at most"
    if plan.money is None:
        cost = "the price is unknown, so only the number of calls is limited"
    else:
        cost = f"at most {_dollars(plan.money)}, budget {_dollars(budget.money)}"
    return f"{head}\n{plan.calls} calls, at most {max_calls}; {size}; {cost}"


def _plan_json(plan: ProbePlan, budget: Budget, address: ProviderAddress) -> dict[str, Any]:
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


def _print_report(report: ProbeReport, *, stored: bool) -> None:
    click.echo()
    rows = [_row(result) for result in report.results]
    click.echo(table(rows, ("", "capability", "catalog", "probe", "", "")))
    click.echo()
    if report.stopped:
        click.echo(f"{paint('!', 'yellow')} The probe ended early: {report.stopped}")
    count = len(report.contradictions)
    if count:
        verb = "contradicts" if count == 1 else "contradict"
        click.echo(f"{paint(f'{count} of {len(report.results)}', 'yellow')} {verb} the catalog.")
    cost = "" if report.spent is None else f", {_dollars(report.spent)}"
    where = f"evidence stored, calls in {report.envelope}" if stored else "nothing stored"
    calls = plural(report.calls, "call")
    click.echo(f"{calls}{cost}; {where}; transcript {report.hash[:19]}…")


def _row(result: ProbeResult) -> tuple[str, ...]:
    sign, colour = _MARKS[result.verdict]
    outcome: object = result.verdict
    if result.verdict == "supported" and result.value is not None:
        outcome = f"{result.value:,}" if isinstance(result.value, int) else result.value
    return (
        paint(sign, colour),
        result.capability,
        claim_text(result.claimed),
        str(outcome),
        paint("contradicts", "yellow") if result.contradicts else "",
        paint(clip(result.detail, 72), "dim"),
    )


def _dollars(nano: int) -> str:
    """Write an amount in dollars, rounded to a millionth."""
    return format_money(round(nano, -3), "USD")
