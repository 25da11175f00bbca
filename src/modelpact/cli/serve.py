"""`modelpact serve`: the OpenWOP host, until it is told to stop."""

import asyncio
import os
import secrets
import signal
from pathlib import Path
from typing import Final

import click

from modelpact.cli.common import config_option, print_json
from modelpact.cli.stores import open_ledger, store_option
from modelpact.configuration import Configuration, load_configuration
from modelpact.ledger.ledger import Ledger
from modelpact.openwop.serving import serve_host
from modelpact.providers.adapters.keys import read_secret

_TOKEN: Final = "MODELPACT_TOKEN"
_PORT: Final = 8377


@click.command("serve", short_help="Serve the OpenWOP host.")
@click.option("--host", "address", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option("--conformance", is_flag=True, help="Add the seams that conformance suites ask for.")
@click.option("--json", "as_json", is_flag=True, help="Print where it listens as one line of JSON.")
@store_option
@config_option
def command(
    address: str,
    port: int,
    conformance: bool,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Serve workflows as an OpenWOP v1 host.

    Clients show a bearer token: the one that [host] token in modelpact.toml names, else the one in
    MODELPACT_TOKEN, else one that is made up and printed. SIGTERM lets what is under way finish.
    """
    configuration = load_configuration(config_path)
    token, made_up = _token(configuration)
    with open_ledger(store, config_path) as ledger:
        asyncio.run(
            _serve(ledger, configuration, token, made_up, address, port, conformance, as_json)
        )


def _token(configuration: Configuration) -> tuple[str, bool]:
    named = configuration.host.token
    if named is not None:
        return read_secret(named, "[host] token").reveal(), False
    given = os.environ.get(_TOKEN, "").strip()
    return (given, False) if given else (secrets.token_urlsafe(24), True)


async def _serve(
    ledger: Ledger,
    configuration: Configuration,
    token: str,
    made_up: bool,
    address: str,
    port: int,
    conformance: bool,
    as_json: bool,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    async with serve_host(
        ledger, configuration, token, address=address, port=port, conformance=conformance
    ) as serving:
        if as_json:
            print_json({"url": serving.url, "token": token if made_up else None})
        else:
            _tell(serving.url, token if made_up else "$TOKEN")
        await stop.wait()


def _tell(url: str, token: str) -> None:
    click.echo(f"modelpact listens on {url}\n")
    click.echo("What it is and can do:")
    click.echo(f"  curl {url}/.well-known/openwop\n")
    click.echo("A run that is refused, and why:")
    click.echo(f"  curl -X POST {url}/v1/runs -H 'Authorization: Bearer {token}' \\")
    click.echo("""    -d '{"workflowId": "conformance-model-capability-insufficient"}'""")
