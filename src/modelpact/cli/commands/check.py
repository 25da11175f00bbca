"""`modelpact check`: negotiates every workload of a modelpact.toml, for people and for CI."""

from pathlib import Path
from typing import Any

import click

from modelpact.cli.options import catalog_with_evidence, json_option, print_json
from modelpact.cli.render.ci import WorkloadReport, ci_path, workloads_junit, workloads_sarif
from modelpact.cli.render.terminal import paint, plural
from modelpact.cli.render.verdicts import print_verdict
from modelpact.configuration import load_configuration
from modelpact.configuration.check import WorkloadCheck, check_workload
from modelpact.configuration.schema import configuration_schema
from modelpact.negotiation.formats import markdown, verdict_data
from modelpact.vocabulary.errors import InputError


@click.command("check")
@click.argument(
    "file", required=False, type=click.Path(path_type=Path, dir_okay=False), metavar="[FILE]"
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "sarif", "junit"]),
    default="text",
    show_default=True,
    help="The output format.",
)
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="The same as FILE.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of modelpact.toml and exit.")
@json_option
def command(
    file: Path | None, output_format: str, config_path: Path | None, schema: bool, as_json: bool
) -> None:
    """Check that every workload's model and fallback meet its needs.

    Exits with 1 if a workload cannot run, or if its fallback does not fit.
    """
    if schema:
        print_json(configuration_schema())
        return
    configuration = load_configuration(file or config_path)
    if configuration.path is None:
        raise InputError("no modelpact.toml in this folder or above: name one with `check FILE`")
    catalog = catalog_with_evidence(configuration)
    checks = [
        check_workload(workload, configuration, catalog)
        for workload in configuration.workloads.values()
    ]
    _print_checks("json" if as_json else output_format, checks, configuration.path)
    raise SystemExit(1 if any(check.problem for check in checks) else 0)


def _print_checks(output_format: str, checks: list[WorkloadCheck], path: Path) -> None:
    failed = sum(1 for check in checks if check.problem)
    if output_format == "json":
        print_json({"ok": not failed, "workloads": [_check_json(check) for check in checks]})
    elif output_format == "sarif":
        print_json(workloads_sarif([_report(check, path) for check in checks]))
    elif output_format == "junit":
        click.echo(workloads_junit("modelpact check", [_report(check, path) for check in checks]))
    elif output_format == "markdown":
        click.echo(f"# modelpact check: {failed} of {len(checks)} workloads have a problem\n")
        for check in checks:
            click.echo(f"## {check.workload.name}\n")
            click.echo(markdown(check.verdict, check.diagnostic))
            if check.fallback is not None:
                click.echo(f"Fallback: {markdown(check.fallback).removeprefix('### ')}")
    else:
        _print_text(checks, failed, path)


def _check_json(check: WorkloadCheck) -> dict[str, Any]:
    return {
        "name": check.workload.name,
        "ok": not check.problem,
        "runs": check.runs,
        "problem": check.problem or None,
        "verdict": verdict_data(check.verdict, check.diagnostic),
        "fallback": None if check.fallback is None else verdict_data(check.fallback),
    }


def _report(check: WorkloadCheck, path: Path) -> WorkloadReport:
    details = [f"{miss.capability} {miss.sentence()}" for miss in check.verdict.missing]
    if check.fallback is not None:
        details += [
            f"fallback: {miss.capability} {miss.sentence()}" for miss in check.fallback.missing
        ]
    if check.diagnostic is not None and check.diagnostic.suggestion:
        details.append(f"suggestion: {check.diagnostic.suggestion}")
    return WorkloadReport(
        name=check.workload.name,
        problem=check.problem,
        fatal=not check.runs,
        details=details,
        file=ci_path(path),
        line=check.workload.line or 1,
    )


def _print_text(checks: list[WorkloadCheck], failed: int, path: Path) -> None:
    if not checks:
        click.echo(f"{path} has no [workloads.NAME]: there is nothing to check.")
        return
    for check in checks:
        print_verdict(check.verdict, check.diagnostic, title=check.workload.name)
        if check.fallback is not None:
            if check.fallback.ok:
                click.echo(f"  Fallback {check.fallback.target} meets every hard need.")
            else:
                print_verdict(check.fallback, None, title="  fallback")
        if check.problem and check.runs:
            click.echo(f"  {paint('!', 'yellow')} {check.problem}")
        click.echo()
    summary = paint(f"{failed} of {len(checks)} have a problem", "red") if failed else "all fit"
    click.echo(f"{plural(len(checks), 'workload')}: {summary}")
