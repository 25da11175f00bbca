"""`modelpact keys`: the keys of the gateway's clients."""

import datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from modelpact.cli.options import CommandGroup, Dollars, config_option, json_option, print_json
from modelpact.cli.render.tables import table
from modelpact.cli.stores import open_ledger, open_reader, store_option
from modelpact.gateway.key_store import create_key, list_keys, revoke_key
from modelpact.gateway.keys import PERIODS, ClientKey, KeySettings, Period
from modelpact.gateway.plan.policy import LOOSENABLE
from modelpact.vocabulary.money import format_money

_NANO: Final = 1_000_000_000
_HEADER: Final = ("id", "name", "models", "budget", "rate", "may loosen", "created", "")


@click.group("keys", cls=CommandGroup)
def command() -> None:
    """Create, list and revoke the keys of the gateway's clients.

    The ledger stores only their hashes.
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A model it may use, such as openai/* or workload/x; repeatable. By default all.",
)
@click.option("--budget", type=Dollars(), help="The most dollars it may spend in a period.")
@click.option(
    "--period",
    type=click.Choice(PERIODS),
    default="month",
    show_default=True,
    help="The period of the budget.",
)
@click.option("--rate", type=click.IntRange(1), help="The most requests per minute.")
@click.option(
    "--loosen",
    multiple=True,
    type=click.Choice(LOOSENABLE),
    help="A part of the policy that its requests may loosen with a header; repeatable.",
)
@json_option
@store_option
@config_option
def create_command(
    name: str,
    models: tuple[str, ...],
    budget: int | None,
    period: Period,
    rate: int | None,
    loosen: tuple[str, ...],
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Create a key and print it.

    It is printed only this once.
    """
    settings = KeySettings(models, budget, period, rate, loosen)
    with open_ledger(store, config_path) as ledger:
        key, secret = create_key(ledger, name, settings)
    if as_json:
        print_json({**msgspec.to_builtins(key), "key": secret})
    else:
        click.echo(secret)
        click.echo(f"{key.id} for {key.name}. The key is not shown again.", err=True)


@command.command("list")
@json_option
@store_option
@config_option
def list_command(as_json: bool, store: str | None, config_path: Path | None) -> None:
    """List the keys, without their secrets."""
    with open_reader(store, config_path) as reader:
        keys = list_keys(reader)
    if as_json:
        print_json({"keys": msgspec.to_builtins(keys)})
    elif keys:
        click.echo(table(map(_row, keys), _HEADER))
    else:
        click.echo("There are no keys. `modelpact keys create NAME` creates one.")


@command.command("revoke")
@click.argument("key")
@store_option
@config_option
def revoke_command(key: str, store: str | None, config_path: Path | None) -> None:
    """Revoke a key by its id or name.

    Gateways reject it within seconds.
    """
    with open_ledger(store, config_path) as ledger:
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
        datetime.datetime.fromtimestamp(key.created / _NANO, datetime.UTC).date().isoformat(),
        "revoked" if key.revoked else "",
    )
