"""`modelpact check`: negotiates every workload of a configuration, for people and for CI."""

from pathlib import Path
from typing import Any

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.cli.options import json_option, print_json, with_evidence
from modelpact.cli.render.ci import ci_path, junit, sarif
from modelpact.cli.render.tables import paint
from modelpact.cli.render.verdicts import print_verdict
from modelpact.configuration import Configuration, Workload, load_configuration
from modelpact.configuration.schema import configuration_schema
from modelpact.emulation.emulator import emulator_strategies
from modelpact.negotiation import diagnose, markdown, negotiate, verdict_data
from modelpact.negotiation.verdict import Diagnostic, Verdict
from modelpact.vocabulary.errors import InputError


class WorkloadCheck(msgspec.Struct, frozen=True):
    """What became of one workload: its model's verdict, and its fallback's."""

    workload: Workload
    verdict: Verdict
    diagnostic: Diagnostic | None
    fallback: Verdict | None

    @property
    def ok(self) -> bool:
        """Whether the work runs: on its model, or on a fallback that was checked in full."""
        return self.verdict.ok or (self.fallback is not None and self.fallback.ok)

    @property
    def problem(self) -> str:
        """What is wrong, in a sentence; empty where nothing is."""
        if self.verdict.ok and (self.fallback is None or self.fallback.ok):
            return ""
        if self.verdict.ok and self.fallback is not None:
            return f"the fallback {self.fallback.target} does not meet the needs"
        if self.ok and self.fallback is not None:
            return f"{self.verdict.target} does not fit; every call will go to the fallback"
        return f"{self.verdict.target} does not meet the needs"


@click.command("check", short_help="Negotiate every workload of a modelpact.toml.")
@click.argument(
    "file", required=False, type=click.Path(path_type=Path, dir_okay=False), metavar="[FILE]"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "sarif", "junit"]),
    default="text",
    show_default=True,
)
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="The same as FILE.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of modelpact.toml and stop.")
@json_option
def command(
    file: Path | None, form: str, config_path: Path | None, schema: bool, as_json: bool
) -> None:
    """Check that every workload's model, and its fallback, meets what the work needs.

    Exits with 1 when a workload cannot run, or its fallback would not do.
    """
    if schema:
        print_json(configuration_schema())
        return
    configuration = load_configuration(file or config_path)
    if configuration.path is None:
        raise InputError("no modelpact.toml here or in a folder above; name one: check FILE")
    catalog = with_evidence(configuration)
    results = [check(one, configuration, catalog) for one in configuration.workloads.values()]
    _write("json" if as_json else form, results, configuration)
    raise SystemExit(1 if any(one.problem for one in results) else 0)


def check(workload: Workload, configuration: Configuration, catalog: Catalog) -> WorkloadCheck:
    """Negotiate one workload's needs with its model and with its fallback."""
    policy = configuration.policy
    verdict = negotiate(
        workload.needs, workload.model, policy, strategies=emulator_strategies(), catalog=catalog
    )
    fallback = None
    if workload.fallback is not None:
        fallback = negotiate(
            workload.needs,
            workload.fallback,
            policy,
            strategies=emulator_strategies(),
            catalog=catalog,
        )
    diagnostic = diagnose(verdict, policy=policy, catalog=catalog)
    return WorkloadCheck(workload, verdict, diagnostic, fallback)


def _write(form: str, results: list[WorkloadCheck], configuration: Configuration) -> None:
    if form == "json":
        print_json({"ok": not any(one.problem for one in results), "workloads": _data(results)})
    elif form == "sarif":
        print_json(sarif([_finding(one, configuration) for one in results]))
    elif form == "junit":
        click.echo(junit("modelpact check", [_finding(one, configuration) for one in results]))
    elif form == "markdown":
        bad = sum(1 for one in results if one.problem)
        click.echo(f"# modelpact check: {bad} of {len(results)} workloads have a problem\n")
        for one in results:
            click.echo(f"## {one.workload.name}\n")
            click.echo(markdown(one.verdict, one.diagnostic))
            if one.fallback is not None:
                click.echo(f"Fallback: {markdown(one.fallback).removeprefix('### ')}")
    else:
        _print(results, configuration)


def _data(results: list[WorkloadCheck]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.workload.name,
            "ok": not one.problem,
            "runs": one.ok,
            "problem": one.problem or None,
            "verdict": verdict_data(one.verdict, one.diagnostic),
            "fallback": None if one.fallback is None else verdict_data(one.fallback),
        }
        for one in results
    ]


def _finding(one: WorkloadCheck, configuration: Configuration) -> dict[str, Any]:
    lines = [f"{miss.capability} {miss.sentence()}" for miss in one.verdict.missing]
    if one.fallback is not None:
        lines += [f"fallback: {miss.capability} {miss.sentence()}" for miss in one.fallback.missing]
    if one.diagnostic is not None and one.diagnostic.suggestion:
        lines.append(f"suggestion: {one.diagnostic.suggestion}")
    return {
        "name": one.workload.name,
        "problem": one.problem,
        "fatal": not one.ok,
        "details": lines,
        "file": ci_path(configuration.path or Path("modelpact.toml")),
        "line": one.workload.line or 1,
    }


def _print(results: list[WorkloadCheck], configuration: Configuration) -> None:
    for one in results:
        print_verdict(one.verdict, one.diagnostic, title=one.workload.name)
        if one.fallback is not None:
            if one.fallback.ok:
                click.echo(f"  Fallback {one.fallback.target} meets every hard need.")
            else:
                print_verdict(one.fallback, None, title="  fallback")
        if one.problem and one.ok:
            click.echo(f"  {paint('!', 'yellow')} {one.problem}")
        click.echo()
    if not results:
        click.echo(f"{configuration.path} has no [workloads.NAME]; there is nothing to check.")
        return
    bad = sum(1 for one in results if one.problem)
    words = paint(f"{bad} of {len(results)} have a problem", "red") if bad else "all fit"
    count = f"{len(results)} workload{'s' if len(results) != 1 else ''}"
    click.echo(f"{count}: {words}")
