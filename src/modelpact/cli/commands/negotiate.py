"""`modelpact negotiate`: whether a model meets needs, for people and in the JSON of dialects."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.cli.options import (
    complete_target,
    config_option,
    json_option,
    load_catalog,
    need_option,
    print_json,
    read_json,
    read_needs,
    resolve_target,
)
from modelpact.cli.render.verdicts import print_verdict
from modelpact.emulation.emulator import emulator_strategies
from modelpact.emulation.strategies import default_strategies
from modelpact.negotiation import abp, stud
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.formats import verdict_data
from modelpact.negotiation.negotiate import NO_STRATEGIES, negotiate
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError


@click.command("negotiate")
@click.argument("file", required=False)
@click.option(
    "--dialect", type=click.Choice(["stud", "abp"]), help="Read and print JSON of this dialect."
)
@click.option("--report", is_flag=True, help="For abp: print the CompatibilityReport.")
@click.option(
    "--emulate",
    is_flag=True,
    help="Count emulated capabilities: for abp with its default strategies, else with all that "
    "modelpact has.",
)
@click.option(
    "--target",
    metavar="PROVIDER/MODEL",
    help="The model to negotiate with.",
    shell_complete=complete_target,
)
@need_option('What it must meet, such as "tools,context>=200k"; repeatable.')
@click.option(
    "--unknown",
    type=click.Choice(["refuse", "probe"]),
    help="What to do if a capability is unknown. By default as in modelpact.toml, else refuse.",
)
@json_option
@config_option
def command(
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
        fits = _negotiate_stud(request, policy, catalog)
    else:
        fits = _negotiate_abp(request, report=report, emulate=emulate)
    raise SystemExit(0 if fits else 1)


def _negotiate_target(
    target: str, needs: Sequence[str], policy: Policy, catalog: Catalog, as_json: bool
) -> bool:
    model = resolve_target(catalog, target)
    verdict = negotiate(
        read_needs(needs), model, policy, strategies=emulator_strategies(), catalog=catalog
    )
    diagnostic = diagnose(verdict, target=model, policy=policy, catalog=catalog)
    if as_json:
        print_json(verdict_data(verdict, diagnostic))
    else:
        print_verdict(verdict, diagnostic)
    return verdict.ok


def _negotiate_stud(request: object, policy: Policy, catalog: Catalog) -> bool:
    answer = stud.negotiate_json(request, policy=policy, catalog=catalog)
    print_json(answer)
    return bool(answer["ok"])


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
