"""`modelpact serve`: the gateway and the OpenWOP host, until told to stop."""

import asyncio
import contextlib
import errno
import gc
import os
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from modelpact.cli.options import config_option, print_json
from modelpact.cli.paths import (
    address_data,
    address_words,
    check_not_ourselves,
    open_ledger,
    store_option,
)
from modelpact.configuration import Configuration, load_configuration
from modelpact.gateway.key_store import create_key, list_keys
from modelpact.gateway.keys import KeySettings, generate_secret
from modelpact.gateway.server import GatewayServer, serve_gateway
from modelpact.ledger.ledger import Ledger
from modelpact.providers.models.credentials import read_secret
from modelpact.vocabulary.errors import InputError, ModelpactError

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
@click.option(
    "--grace",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    help="Seconds that what is under way may take to finish after SIGTERM.",
)
@click.option(
    "--notice",
    type=click.FloatRange(0, 3_600),
    default=1.0,
    show_default=True,
    help="Seconds for which /readyz says 503 before new connections are refused.",
)
@click.option("--key", is_flag=True, help="Make up a key for this run, if it has no token.")
@click.option("--conformance", is_flag=True, help="Add the seams that OpenWOP suites ask for.")
@click.option("--json", "as_json", is_flag=True, help="Print where it listens as JSON.")
@store_option
@config_option
def command(
    address: str,
    port: int,
    grace: float,
    notice: float,
    key: bool,
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
        key = key and not token
        if key:
            token = made = generate_secret()
        opened = None if store else configuration.store_url()
        listening = Listening(
            address, port, grace, notice, key, conformance, as_json, config_path, opened
        )
        try:
            _run(_serve(ledger, configuration, token, made, listening))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            told = f"{address}:{port} is taken: stop what listens there, or choose another --port"
            raise InputError(told) from None


_COLLECTED_AFTER: Final = (50_000, 20, 20)


class Listening(NamedTuple):
    """Where and how to listen, as the command line says."""

    address: str
    port: int
    grace: float
    notice: float
    key: bool
    """Whether the token is made up for this run."""
    conformance: bool
    as_json: bool
    config_path: Path | None
    opened: str | None
    """The configuration's ledger as it was at the start; None where the command line names one."""


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


def _first_key(ledger: Ledger) -> str:
    """Make a key where there is none; it is told once, so only by who listens already."""
    if any(one.revoked is None for one in list_keys(ledger)):
        return ""
    return create_key(ledger, "first", KeySettings())[1]


async def _serve(
    ledger: Ledger,
    configuration: Configuration,
    token: str,
    made: str,
    how: "Listening",
) -> None:
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with serve_gateway(
        ledger,
        configuration,
        token=token,
        address=how.address,
        port=how.port,
        conformance=how.conformance,
        grace=how.grace,
    ) as serving:
        ledger.start_commit_worker(serving.gateway.recorder.has_sole_call)
        with contextlib.suppress(NotImplementedError):
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(one, signals.put_nowait, one)
        for warning in serving.host.warnings:
            click.echo(f"modelpact: warning: {warning}", err=True)
        led = serving.gateway.state.models.env_overrides()
        check_not_ourselves(led, serving.url)
        if not token:
            made = await asyncio.to_thread(_first_key, ledger)
            serving.gateway.load_keys()
        if how.as_json:
            more = {"addresses": address_data(led)} if led else {}
            print_json({"url": serving.url, "token": made or None, **more})
        else:
            _tell(serving.url, made, _shown(configuration, made))
            for name, address in led.items():
                click.echo(f"Requests for {name} go to the server {address_words(address)}.")
        sys.stdout.flush()
        # What is loaded now lives to the end: to look through it again and again finds nothing.
        gc.freeze()
        gc.set_threshold(*_COLLECTED_AFTER)
        while (told := await signals.get()) == signal.SIGHUP:
            await _reload(serving, how, token if how.key else None)
        # Nobody who presses Ctrl-C waits for a load balancer; a second signal ends it at once.
        notice = how.notice if told == signal.SIGTERM else 0.0
        draining = asyncio.create_task(serving.drain(how.grace, notice))
        hurry = asyncio.create_task(_hurried(signals))
        await asyncio.wait((draining, hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not draining.done():
            draining.cancel()
            await serving.drain(0)


async def _hurried(signals: asyncio.Queue[int]) -> None:
    """Wait for a second signal to stop."""
    while await signals.get() == signal.SIGHUP:
        continue


async def _reload(serving: GatewayServer, how: Listening, token: str | None) -> None:
    """Take a changed modelpact.toml; one that is wrong is told of, and the old one stays."""
    try:
        configuration = await asyncio.to_thread(load_configuration, how.config_path)
        await serving.reload(configuration, _token(configuration) if token is None else token)
    except ModelpactError as error:
        click.echo(f"modelpact: the configuration stays as it was: {error}", err=True)
        return
    click.echo("modelpact: the configuration was read again", err=True)
    warnings = serving.restart_required(configuration)
    if how.opened not in (None, configuration.store_url()):
        warnings = ("[store] url has changed: the ledger stays until a restart", *warnings)
    for one in warnings:
        click.echo(f"modelpact: warning: {one}", err=True)


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
    elif key == "$KEY":
        click.echo("This store has keys; `modelpact keys create NAME` makes another.\n")
    click.echo("Ask the bundled mock model:")
    click.echo(f'  curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" \\')
    click.echo(
        """    -d '{"model": "mock/demo", "messages": [{"role": "user", "content": "Hi"}]}'\n"""
    )
    click.echo(f"Applications: set the base URL to {url}/v1 (OpenAI) or {url} (Anthropic).")
    click.echo("Stop with Ctrl-C.")
