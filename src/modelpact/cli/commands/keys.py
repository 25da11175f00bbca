"""`modelpact keys`: the keys of the gateway's clients."""

from typing import Final

import click
import msgspec

from modelpact.cli.options import (
    CommandGroup,
    Dollars,
    LedgerSource,
    default_option,
    json_option,
    ledger_options,
    print_json,
    print_result,
)
from modelpact.cli.render.terminal import format_time, table
from modelpact.gateway.key_store import create_key, list_keys, revoke_key
from modelpact.gateway.keys import PERIODS, ClientKey, KeySettings, Period
from modelpact.gateway.plan.plan import LOOSENABLE
from modelpact.vocabulary.money import format_money

_HEADER: Final = ("id", "name", "models", "budget", "rate", "may loosen", "created", "")


@click.group("keys", cls=CommandGroup)
def keys_command() -> None:
    """Create, list and revoke the keys of the gateway's clients.

    The ledger stores only their hashes.
    """


@keys_command.command("create")
@click.argument("name")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A model it may use, such as openai/* or workload/x; repeatable. By default all.",
)
@click.option("--budget", type=Dollars(), help="The most dollars it may spend in a period.")
@default_option("--period", type=click.Choice(PERIODS), default="month", help="The period of the budget.")
@click.option("--rate", type=click.IntRange(1), help="The most requests per minute.")
@click.option(
    "--loosen",
    multiple=True,
    type=click.Choice(LOOSENABLE),
    help="A part of the policy that its requests may loosen with a header; repeatable.",
)
@json_option
@ledger_options
def create_command(
    name: str,
    models: tuple[str, ...],
    budget: int | None,
    period: Period,
    rate: int | None,
    loosen: tuple[str, ...],
    as_json: bool,
    source: LedgerSource,
) -> None:
    """Create a key and print it.

    It is printed only this once.
    """
    settings = KeySettings(models, budget, period, rate, loosen)
    with source.open_ledger() as ledger:
        key, secret = create_key(ledger, name, settings)
    if as_json:
        print_json({**msgspec.to_builtins(key), "key": secret})
    else:
        click.echo(secret)
        click.echo(f"{key.id} for {key.name}. The key is not shown again.", err=True)


@keys_command.command("list")
@json_option
@ledger_options
def list_command(as_json: bool, source: LedgerSource) -> None:
    """List the keys, without their secrets."""
    with source.open_reader() as reader:
        keys = list_keys(reader)
    text = "There are no keys. `modelpact keys create NAME` creates one."
    if keys:
        text = table(map(_row, keys), _HEADER)
    print_result({"keys": msgspec.to_builtins(keys)}, text, as_json=as_json)


@keys_command.command("revoke")
@click.argument("key")
@ledger_options
def revoke_command(key: str, source: LedgerSource) -> None:
    """Revoke a key by its id or name.

    Gateways reject it within seconds.
    """
    with source.open_ledger() as ledger:
        revoked = revoke_key(ledger, key)
    click.echo(f"{revoked.id} ({revoked.name}) is revoked.")


def _row(key: ClientKey) -> tuple[str, ...]:
    settings = key.settings
    budget = settings.budget
    return (
        key.id,
        key.name,
        ", ".join(settings.models) or "all",
        "" if budget is None else f"{format_money(budget, 'USD')}/{settings.period}",
        "" if settings.rate is None else f"{settings.rate}/min",
        ", ".join(settings.loosen),
        format_time(key.created)[:10],
        "revoked" if key.revoked else "",
    )
