"""`modelpact keys`: who may use the gateway."""

import datetime
from pathlib import Path

import click
import msgspec

from modelpact.cli.options import config_option, json_option, print_json
from modelpact.cli.paths import open_ledger, open_reader, store_option
from modelpact.cli.render.tables import table
from modelpact.gateway.key_store import create_key, list_keys, revoke_key
from modelpact.gateway.keys import PERIODS, ClientKey, KeySettings, Period
from modelpact.gateway.plan.policy import LOOSENABLE
from modelpact.ledger.money import format_money
from modelpact.vocabulary.errors import InputError

_NANO = 1_000_000_000
_HEADER = ("id", "name", "for", "budget", "rate", "may loosen", "made", "")


@click.group("keys", short_help="Client keys of the gateway: create, list, revoke.")
def command() -> None:
    """Make, list and revoke the keys that the gateway's clients show. Only hashes are stored."""


@command.command("create")
@click.argument("name")
@click.option("--model", "models", multiple=True, help="What it is for: openai/*, workload/x; …")
@click.option("--budget", metavar="USD", help="Dollars that may be spent in a period.")
@click.option("--period", type=click.Choice(PERIODS), default="month", show_default=True)
@click.option("--rate", type=click.IntRange(1), help="Requests a minute.")
@click.option(
    "--loosen",
    multiple=True,
    type=click.Choice(LOOSENABLE),
    help="A part of policy that its requests may loosen by header.",
)
@json_option
@store_option
@config_option
def create(
    name: str,
    models: tuple[str, ...],
    budget: str | None,
    period: Period,
    rate: int | None,
    loosen: tuple[str, ...],
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Make a key. It is printed this once."""
    settings = KeySettings(models, _nano(budget), period, rate, loosen)
    with open_ledger(store, config_path) as ledger:
        key, secret = create_key(ledger, name, settings)
    if as_json:
        print_json({**_data(key), "key": secret})
    else:
        click.echo(secret)
        click.echo(f"{key.id} for {key.name}; this is the only time that it is shown.", err=True)


@command.command("list")
@json_option
@store_option
@config_option
def listed(as_json: bool, store: str | None, config_path: Path | None) -> None:
    """List the keys; their secrets are not known."""
    with open_reader(store, config_path) as reader:
        found = list_keys(reader)
    if as_json:
        print_json({"keys": [_data(one) for one in found]})
        return
    if not found:
        click.echo("No keys. `modelpact keys create NAME` makes one.")
        return
    click.echo(table(map(_row, found), _HEADER))


@command.command("revoke")
@click.argument("key")
@store_option
@config_option
def revoke(key: str, store: str | None, config_path: Path | None) -> None:
    """Revoke a key, by its id or its name. Gateways hear of it within seconds."""
    with open_ledger(store, config_path) as ledger:
        gone = revoke_key(ledger, key)
    click.echo(f"{gone.id} ({gone.name}) is revoked.")


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


def _nano(dollars: str | None) -> int | None:
    if dollars is None:
        return None
    try:
        whole, _, rest = dollars.removeprefix("$").partition(".")
        if len(rest) > 9 or not (whole or rest):
            raise ValueError
        return int(whole or "0") * _NANO + int((rest or "0").ljust(9, "0"))
    except ValueError:
        raise InputError(f"--budget: expected dollars such as 12.50, not {dollars!r:.40}") from None


def _data(key: ClientKey) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(key)
    return data
