"""`modelpact negotiate`, `check`, `gate` and `emulate`: whether models meet needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.cli.options import (
    catalog_with_evidence,
    complete_target,
    config_option,
    format_option,
    json_option,
    load_catalog,
    need_option,
    print_json,
    read_json,
    read_needs,
    resolve_target,
)
from modelpact.cli.render.ci import workloads_junit, workloads_sarif
from modelpact.cli.render.terminal import paint, plural, table
from modelpact.configuration import load_configuration
from modelpact.configuration.check import WorkloadCheck, check_workload
from modelpact.conversation.message import read_conversation, write_conversation
from modelpact.dispatch.gate import catalog_check, decide_json
from modelpact.emulation.emulator import emulator_strategies
from modelpact.emulation.strategies import EmulationConfig, EmulationEngine, default_strategies, read_config
from modelpact.negotiation import abp, stud
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import NO_STRATEGIES, negotiate
from modelpact.negotiation.verdict import (
    MARKS,
    Diagnostic,
    Finding,
    Policy,
    Verdict,
    claim_text,
    evidence_text,
    markdown,
    verdict_data,
)
from modelpact.vocabulary.errors import InputError

_EMULATE_FIELDS: Final = ("capabilities", "conversation", "config")
_OUTCOME_COLOURS: Final = {
    "met": "green",
    "emulated": "yellow",
    "missing": "red",
    "preferred-unmet": "yellow",
    "probe-pending": "yellow",
}
_ANSWERS: Final = {"yes": ("fits", "green"), "labelled": ("fits, with labels", "yellow"), "no": ("does not fit", "red")}

_always_json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON."
)


@click.command("negotiate")
@click.argument("file", required=False)
@click.option("--dialect", type=click.Choice(["stud", "abp"]), help="Read and print JSON of this dialect.")
@click.option("--report", is_flag=True, help="For abp: print the CompatibilityReport.")
@click.option(
    "--emulate",
    is_flag=True,
    help="Count emulated capabilities: for abp with its default strategies, else with all that modelpact has.",
)
@click.option("--target", metavar="PROVIDER/MODEL", help="The model to negotiate with.", shell_complete=complete_target)
@need_option('What it must meet, such as "tools,context>=200k"; repeatable.')
@click.option(
    "--unknown",
    type=click.Choice(["refuse", "probe"]),
    help="What to do if a capability is unknown. By default as in modelpact.toml, else refuse.",
)
@json_option
@config_option
def negotiate_command(
    file: str | None,
    dialect: str | None,
    report: bool,
    emulate: bool,
    target: str | None,
    needs: Sequence[str],
    unknown: str | None,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Check whether a model meets needs.

    With --dialect, read a request in JSON from FILE or standard input.

    \b
    modelpact negotiate --target openai/gpt-5 --need "tools,context>=200k"
    echo '{"requirements": […], "target": "openai/gpt-5"}' |
      modelpact negotiate --dialect stud
    """
    configuration, catalog = load_catalog(config_path)
    policy = configuration.policy
    if unknown is not None:
        policy = msgspec.structs.replace(policy, unknown=unknown)
    if dialect is None:
        if target is None or not needs or file is not None or report:
            raise click.UsageError("Give --target and --need, or --dialect and JSON.")
        if emulate:
            policy = msgspec.structs.replace(policy, emulate=True)
        fits = _negotiate_target(target, needs, policy, catalog, as_json)
        raise SystemExit(0 if fits else 1)
    if target is not None or needs:
        raise click.UsageError("--target and --need cannot be used with --dialect.")
    request = read_json(file)
    if dialect == "stud":
        if report or emulate:
            raise click.UsageError("--report and --emulate need --dialect abp.")
        answer = stud.negotiate_json(request, policy=policy, catalog=catalog)
        print_json(answer)
        fits = bool(answer["ok"])
    else:
        fits = _negotiate_abp(request, report=report, emulate=emulate)
    raise SystemExit(0 if fits else 1)


def _negotiate_target(target: str, needs: Sequence[str], policy: Policy, catalog: Catalog, as_json: bool) -> bool:
    model = resolve_target(catalog, target)
    verdict = negotiate(read_needs(needs), model, policy, strategies=emulator_strategies(), catalog=catalog)
    diagnostic = diagnose(verdict, target=model, policy=policy, catalog=catalog)
    if as_json:
        print_json(verdict_data(verdict, diagnostic))
    else:
        _print_verdict(verdict, diagnostic)
    return verdict.ok


def _negotiate_abp(request: object, *, report: bool, emulate: bool) -> bool:
    fields = ("manifest", "requirements")
    if not isinstance(request, dict) or not set(fields) >= set(request):
        raise InputError(f"expected an object with {' and '.join(fields)}")
    for field in fields:
        if field not in request:
            raise InputError(f"{field} is missing")
    strategies = default_strategies() if emulate else NO_STRATEGIES
    result = abp.negotiate(request["manifest"], request["requirements"], strategies=strategies)
    if report:
        print_json(msgspec.to_builtins(abp.generate_report(result)))
    else:
        print_json(result.to_json())
    if not result.is_compatible():
        missing = ", ".join(result.unsupported)
        click.echo(f"{abp.CAPABILITY_UNSUPPORTED}: {missing}", err=True)
    return result.is_compatible()


@click.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False), metavar="[FILE]")
@format_option("text", "json", "markdown", "sarif", "junit")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="The same as FILE.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of modelpact.toml and exit.")
@json_option
def check_command(file: Path | None, output_format: str, config_path: Path | None, schema: bool, as_json: bool) -> None:
    """Check that every workload's model and fallback meet its needs.

    Exits with 1 if a workload cannot run, or if its fallback does not fit.
    """
    if schema:
        from modelpact.configuration.schema import configuration_schema

        print_json(configuration_schema())
        return
    configuration = load_configuration(file or config_path)
    if configuration.path is None:
        raise InputError("no modelpact.toml in this folder or above: name one with `check FILE`")
    catalog = catalog_with_evidence(configuration)
    checks = [check_workload(workload, configuration, catalog) for workload in configuration.workloads.values()]
    _print_checks("json" if as_json else output_format, checks, configuration.path)
    raise SystemExit(1 if any(check.problem for check in checks) else 0)


def _print_checks(output_format: str, checks: list[WorkloadCheck], path: Path) -> None:
    failed = sum(1 for check in checks if check.problem)
    if output_format == "json":
        print_json({"ok": not failed, "workloads": [_check_json(check) for check in checks]})
    elif output_format == "sarif":
        print_json(workloads_sarif(checks, path))
    elif output_format == "junit":
        click.echo(workloads_junit(checks))
    elif output_format == "markdown":
        click.echo(f"# modelpact check: {failed} of {len(checks)} workloads have a problem\n")
        for check in checks:
            click.echo(f"## {check.workload.name}\n")
            click.echo(markdown(check.verdict, check.diagnostic))
            if check.fallback is not None:
                click.echo(f"Fallback: {markdown(check.fallback).removeprefix('### ')}")
    else:
        _print_checks_text(checks, failed, path)


def _check_json(check: WorkloadCheck) -> dict[str, Any]:
    return {
        "name": check.workload.name,
        "ok": not check.problem,
        "runs": check.runs,
        "problem": check.problem or None,
        "verdict": verdict_data(check.verdict, check.diagnostic),
        "fallback": None if check.fallback is None else verdict_data(check.fallback),
    }


def _print_checks_text(checks: list[WorkloadCheck], failed: int, path: Path) -> None:
    if not checks:
        click.echo(f"{path} has no [workloads.NAME]: there is nothing to check.")
        return
    for check in checks:
        _print_verdict(check.verdict, check.diagnostic, title=check.workload.name)
        if check.fallback is not None:
            if check.fallback.ok:
                click.echo(f"  Fallback {check.fallback.target} meets every hard need.")
            else:
                _print_verdict(check.fallback, None, title="  fallback")
        if check.problem and check.runs:
            click.echo(f"  {paint('!', 'yellow')} {check.problem}")
        click.echo()
    summary = paint(f"{failed} of {len(checks)} have a problem", "red") if failed else "all fit"
    click.echo(f"{plural(len(checks), 'workload')}: {summary}")


@click.command("gate")
@click.argument("file", required=False)
@config_option
@_always_json_option
def gate_command(file: str | None, config_path: Path | None, as_json: bool) -> None:  # noqa: ARG001
    """Decide whether an OpenWOP node may run on its model.

    Reads JSON from FILE or standard input:

    \b
    {"module": {
       "requiredModelCapabilities": ["structured-output"],
       "fallbackModel": {"provider": "openai", "model": "gpt-5"}},
     "activeProvider": "ollama", "activeModel": "llama3.2",
     "substitutionSupported": true}

    Exits with 0 if the node is dispatched, on its model or on the fallback, and with 1 if it is
    refused.
    """
    _, catalog = load_catalog(config_path)
    decision = decide_json(
        read_json(file), lambda: catalog_check(catalog), lambda name: catalog.find_provider(name) is not None
    )
    print_json(decision.to_json())
    raise SystemExit(1 if decision.route == "refuse" else 0)


@click.command("emulate")
@click.argument("file", required=False)
@click.option("--plan", "plan_only", is_flag=True, help="Only report what would be changed.")
@_always_json_option
def emulate_command(file: str | None, plan_only: bool, as_json: bool) -> None:  # noqa: ARG001
    """Apply emulation strategies to a conversation.

    Reads JSON from FILE or standard input:

    \b
    {"capabilities": ["extended_thinking"],
     "conversation": {"messages": [
       {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}}
    """
    request = read_json(file)
    if not isinstance(request, dict):
        raise InputError(f"expected an object with {', '.join(_EMULATE_FIELDS)}")
    for field in request:
        if field not in _EMULATE_FIELDS:
            raise InputError(f"unknown field {field!r:.60}; there are {', '.join(_EMULATE_FIELDS)}")
    capabilities = request.get("capabilities")
    if not isinstance(capabilities, list):
        raise InputError("capabilities: expected a list of names")
    conversation = read_conversation(request.get("conversation"))
    config = read_config(request["config"]) if "config" in request else EmulationConfig()
    engine = EmulationEngine(config)
    report = engine.plan(capabilities) if plan_only else engine.apply(capabilities, conversation)
    print_json({"conversation": write_conversation(conversation), "report": msgspec.to_builtins(report)})


def _print_verdict(verdict: Verdict, diagnostic: Diagnostic | None, title: str = "") -> None:
    """Print the findings of a verdict, its notes, and a suggestion if there is one."""
    answer, colour = _ANSWERS[verdict.answer]
    head = f"{title}: {verdict.target}" if title else verdict.target
    click.echo(f"{paint(head, 'bold')} {paint(answer, colour, 'bold')}")
    rows = [
        (
            "  " + paint(MARKS[finding.outcome], _OUTCOME_COLOURS[finding.outcome]),
            str(finding.need),
            claim_text(finding.claim),
            paint(evidence_text(finding.claim), "dim"),
            _finding_note(finding),
        )
        for finding in verdict.findings
    ]
    if rows:
        click.echo(table(rows, ("", "need", "claim", "how we know", "")))
    for note in verdict.notes:
        click.echo(f"  {paint('!', 'yellow')} {note}")
    if diagnostic is None:
        return
    for param in diagnostic.params_affected:
        click.echo(f"  {paint('!', 'yellow')} {'.'.join(param.param_path)}: {param.reason}")
    if diagnostic.suggestion:
        suggestion = paint(diagnostic.suggestion, "cyan")
        click.echo(f"  Suggestion: {suggestion} meets every hard need.")
    elif not verdict.ok:
        click.echo("  No model in the catalog is known to meet all of these needs.")


def _finding_note(finding: Finding) -> str:
    if finding.outcome == "met":
        return "" if finding.label.startswith("restricted") else finding.label
    if finding.outcome == "emulated":
        return f"emulated by us: {finding.label}"
    note = finding.sentence()
    if finding.outcome == "missing" and finding.label:
        note += f"; emulation could help: {finding.label}"
    return note
