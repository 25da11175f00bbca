"""`modelpact serve`: the gateway and the OpenWOP host, until told to stop."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from modelpact.cli.common import config_option, print_json
from modelpact.cli.stores import open_ledger, store_option
from modelpact.configuration import Configuration, load_configuration
from modelpact.gateway.keys import KeySettings, create_key, list_keys
from modelpact.gateway.serving import Serving, serve_gateway
from modelpact.ledger.ledger import Ledger
from modelpact.providers.adapters.keys import read_secret
from modelpact.vocabulary.errors import ModelpactError

_TOKEN: Final = "MODELPACT_TOKEN"
_PORT: Final = 8377


@click.command("serve", short_help="Serve the gateway and the OpenWOP host.")
@click.option("--host", "address", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option("--conformance", is_flag=True, help="Add the seams that OpenWOP suites ask for.")
@click.option("--json", "as_json", is_flag=True, help="Print where it listens as JSON.")
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
    """Serve the OpenAI and Anthropic APIs, and workflows as an OpenWOP host.

    Clients show a key that `modelpact keys create` made; on a store without keys one is made and
    printed. The operator's own token is in MODELPACT_TOKEN, or where [host] token says. SIGHUP
    reads modelpact.toml again; SIGTERM lets what is under way finish.
    """
    configuration = load_configuration(config_path)
    token = _token(configuration)
    with open_ledger(store, config_path) as ledger:
        made = ""
        if not token and not any(one.revoked is None for one in list_keys(ledger)):
            _, made = create_key(ledger, "first", KeySettings())
        listening = Listening(address, port, conformance, as_json, config_path)
        _run(_serve(ledger, configuration, token, made, listening))


class Listening(NamedTuple):
    """Where and how to listen, as the command line says."""

    address: str
    port: int
    conformance: bool
    as_json: bool
    config_path: Path | None


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def _token(configuration: Configuration) -> str:
    named = configuration.host.token
    if named is not None:
        return read_secret(named, "[host] token").reveal()
    return os.environ.get(_TOKEN, "").strip()


async def _serve(
    ledger: Ledger,
    configuration: Configuration,
    token: str,
    made: str,
    how: "Listening",
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with serve_gateway(
        ledger,
        configuration,
        token=token,
        address=how.address,
        port=how.port,
        conformance=how.conformance,
    ) as serving:
        with contextlib.suppress(NotImplementedError):
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(one, stop.set)
            loop.add_signal_handler(signal.SIGHUP, _reload, serving, how.config_path)
        for warning in serving.host.warnings:
            click.echo(f"modelpact: warning: {warning}", err=True)
        if how.as_json:
            print_json({"url": serving.url, "token": made or None})
        else:
            _tell(serving.url, made, _shown(configuration, made))
        sys.stdout.flush()
        await stop.wait()


def _reload(serving: Serving, config_path: Path | None) -> None:
    """Take a changed modelpact.toml; one that is wrong is told of, and the old one stays."""
    try:
        serving.gateway.reload(load_configuration(config_path))
    except ModelpactError as error:
        click.echo(f"modelpact: the configuration stays as it was: {error}", err=True)
    else:
        click.echo("modelpact: the configuration was read again", err=True)


def _shown(configuration: Configuration, made: str) -> str:
    """Return what a client shows, as a shell has it: the key that was made, or where one lies."""
    named = configuration.host.token
    if made:
        return made
    if named is not None:
        return f"${named.env}" if named.env else f"$(cat {shlex.quote(named.file)})"
    return f"${_TOKEN}" if os.environ.get(_TOKEN, "").strip() else "$KEY"


def _tell(url: str, made: str, key: str) -> None:
    click.echo(f"modelpact listens on {url}\n")
    if made:
        click.echo(f"A key, told this once: {made}\n")
    click.echo("Ask the bundled mock model:")
    click.echo(f'  curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" \\')
    click.echo(
        """    -d '{"model": "mock/demo", "messages": [{"role": "user", "content": "Hi"}]}'\n"""
    )
    click.echo(f"Applications: set the base URL to {url}/v1 (OpenAI) or {url} (Anthropic).")
    click.echo("Stop with Ctrl-C.")
