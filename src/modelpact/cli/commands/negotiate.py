"""`modelpact negotiate`: whether a model meets needs, for people and in the dialects' JSON."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from modelpact.cli.options import (
    complete_needs,
    complete_target,
    config_option,
    configured,
    json_option,
    print_json,
    read_json,
    read_needs,
    resolve_target,
)
from modelpact.cli.render.verdicts import print_verdict
from modelpact.emulation.emulator import emulator_strategies
from modelpact.emulation.strategies import default_strategies
from modelpact.negotiation import NO_STRATEGIES, abp, diagnose, negotiate, stud, verdict_data
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError


@click.command("negotiate", short_help="Answer whether a model meets needs.")
@click.argument("file", required=False)
@click.option("--dialect", type=click.Choice(["stud", "abp"]), help="JSON in, its JSON out.")
@click.option("--report", is_flag=True, help="abp: print the CompatibilityReport.")
@click.option(
    "--emulate",
    is_flag=True,
    help="Let emulations count: the default ones for abp, else the working set.",
)
@click.option("--target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option(
    "--need",
    "needs",
    multiple=True,
    metavar="NEEDS",
    help='"tools,context>=200k"',
    shell_complete=complete_needs,
)
@click.option(
    "--unknown",
    type=click.Choice(["refuse", "probe"]),
    help="What to do about what is not known; by default as modelpact.toml says, else refuse.",
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
    """Negotiate needs against a model, or answer a dialect's JSON from FILE or standard input.

    \b
    modelpact negotiate --target openai/gpt-5 --need "tools,context>=200k"
    echo '{"requirements": […], "target": "openai/gpt-5"}' | modelpact negotiate --dialect stud
    """
    configuration, catalog = configured(config_path)
    policy = configuration.policy
    if unknown is not None:
        policy = msgspec.structs.replace(policy, unknown=unknown)
    if dialect is None:
        if target is None or not needs or file is not None or report:
            raise click.UsageError("give --target and --need, or --dialect with JSON")
        if emulate:
            policy = msgspec.structs.replace(policy, emulate=True)
        found = resolve_target(catalog, target)
        verdict = negotiate(
            read_needs(needs), found, policy, strategies=emulator_strategies(), catalog=catalog
        )
        diagnostic = diagnose(verdict, target=found, policy=policy, catalog=catalog)
        if as_json:
            print_json(verdict_data(verdict, diagnostic))
        else:
            print_verdict(verdict, diagnostic)
        raise SystemExit(0 if verdict.ok else 1)
    if target is not None or needs:
        raise click.UsageError("--target and --need go without --dialect")
    request = read_json(file)
    if dialect == "stud":
        if report or emulate:
            raise click.UsageError("--report and --emulate go with --dialect abp")
        raise SystemExit(_stud(request, policy, catalog))
    raise SystemExit(_abp(request, report, emulate))


def _stud(request: object, policy: Policy, catalog: object) -> int:
    answer = stud.negotiate_json(request, policy=policy, catalog=catalog)  # type: ignore[arg-type]
    print_json(answer)
    return 0 if answer["ok"] else 1


def _abp(request: object, report: bool, emulate: bool) -> int:
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
    if result.is_compatible():
        return 0
    missing = ", ".join(result.unsupported)
    click.echo(f"{abp.CAPABILITY_UNSUPPORTED}: {missing}", err=True)
    return 1
