"""`modelpact serve`: runs the gateway and the OpenWOP host until a signal stops it."""

import asyncio
import contextlib
import errno
import gc
import os
import shlex
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple

import click

from modelpact.cli.options import LedgerSource, default_option, ledger_options, print_json
from modelpact.cli.render.terminal import warn
from modelpact.cli.runtime import override_text, overrides_json
from modelpact.configuration import Configuration
from modelpact.gateway.key_store import create_key, list_keys
from modelpact.gateway.keys import KeySettings, generate_secret
from modelpact.gateway.server import GatewayServer, serve_gateway
from modelpact.ledger.ledger import Ledger
from modelpact.providers.models.credentials import read_secret
from modelpact.providers.models.endpoints import ProviderAddress
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire.url import Url, is_loopback

_TOKEN_VARIABLE: Final = "MODELPACT_TOKEN"
_PORT: Final = 8377
_GC_THRESHOLDS: Final = (50_000, 20, 20)
"""Requests allocate much and leave few cycles: collect more rarely than Python does."""


class ServeOptions(NamedTuple):
    """The options of the command line that hold for the whole run."""

    address: str
    port: int
    grace: float
    notice: float
    fixed_token: str
    """The token that `--key` generated for this run, or empty."""
    conformance: bool
    as_json: bool
    source: LedgerSource
    configured_store: str | None
    """The ledger of the configuration at the start; None if the command line names one."""


@click.command("serve")
@default_option("--host", "address", default="127.0.0.1", help="The address to listen on.")
@default_option("--port", type=click.IntRange(0, 65535), default=_PORT, help="The port; 0 picks a free one.")
@default_option(
    "--grace",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    help="Seconds that running requests have to finish after SIGTERM.",
)
@default_option(
    "--notice",
    type=click.FloatRange(0, 3_600),
    default=1.0,
    help="Seconds for which /readyz returns 503 before new connections are refused.",
)
@click.option("--key", is_flag=True, help="Generate a token for this run, if none is configured.")
@click.option("--conformance", is_flag=True, help="Add the test routes of the OpenWOP suites.")
@click.option("--json", "as_json", is_flag=True, help="Print the address and the key as JSON.")
@ledger_options
def serve_command(
    address: str,
    port: int,
    grace: float,
    notice: float,
    key: bool,
    conformance: bool,
    as_json: bool,
    source: LedgerSource,
) -> None:
    """Run the gateway (OpenAI and Anthropic APIs) and the OpenWOP host.

    Clients authenticate with a key from `modelpact keys create`. If the ledger has no keys, the
    gateway creates one and prints it. The operator's token is in MODELPACT_TOKEN, or where
    [host] token says.

    SIGHUP reads modelpact.toml again. SIGTERM lets running requests finish.
    """
    configuration = source.configuration()
    token = _read_token(configuration)
    generated = generate_secret() if key and not token else ""
    options = ServeOptions(
        address=address,
        port=port,
        grace=grace,
        notice=notice,
        fixed_token=generated,
        conformance=conformance,
        as_json=as_json,
        source=source,
        configured_store=None if source.store else configuration.store_url(),
    )
    with source.open_ledger() as ledger:
        try:
            _run(_serve(ledger, configuration, token or generated, options))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise InputError(
                f"{address}:{port} is already in use: stop the other server, or choose another --port"
            ) from None


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def _read_token(configuration: Configuration) -> str:
    token_ref = configuration.host.token
    if token_ref is not None:
        return read_secret(token_ref, "[host] token").reveal()
    return os.environ.get(_TOKEN_VARIABLE, "").strip()


async def _serve(ledger: Ledger, configuration: Configuration, token: str, options: ServeOptions) -> None:
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with serve_gateway(
        ledger,
        configuration,
        token=token,
        address=options.address,
        port=options.port,
        conformance=options.conformance,
        grace=options.grace,
    ) as server:
        ledger.start_commit_worker(server.gateway.recorder.has_sole_call)
        with contextlib.suppress(NotImplementedError):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, signals.put_nowait, number)
        for warning in server.host.warnings:
            warn(f"warning: {warning}")
        overrides = server.gateway.state.models.env_overrides()
        _check_no_loop(overrides, server.url)
        new_key = options.fixed_token
        if not token:
            # The key is shown only once, so it is created when the server is sure to run.
            new_key = await asyncio.to_thread(_create_first_key, ledger)
            server.gateway.load_keys()
        if options.as_json:
            extra = {"addresses": overrides_json(overrides)} if overrides else {}
            print_json({"url": server.url, "token": new_key or None, **extra})
        else:
            _print_start(server.url, new_key, _shell_key(configuration, new_key))
            for name, address in overrides.items():
                click.echo(f"Requests for {name} go to the server {override_text(address)}.")
        sys.stdout.flush()
        # All that is loaded by now lives to the end: the collector need not scan it again.
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        while (received := await signals.get()) == signal.SIGHUP:
            await _reload(server, options)
        # Ctrl-C has no load balancer to wait for. A second signal ends the server at once.
        notice = options.notice if received == signal.SIGTERM else 0.0
        draining = asyncio.create_task(server.drain(options.grace, notice))
        second_signal = asyncio.create_task(_next_stop_signal(signals))
        await asyncio.wait((draining, second_signal), return_when=asyncio.FIRST_COMPLETED)
        second_signal.cancel()
        if not draining.done():
            draining.cancel()
            await server.drain(0)


def _create_first_key(ledger: Ledger) -> str:
    """Create a key if the ledger has none that is valid; return it, or an empty string."""
    if any(key.revoked is None for key in list_keys(ledger)):
        return ""
    return create_key(ledger, "first", KeySettings())[1]


def _check_no_loop(overrides: Mapping[str, ProviderAddress], url: str) -> None:
    """Raise if the environment points a provider at this gateway.

    That happens if the variable that leads applications to the gateway is set for it as well.
    """
    own = Url.parse(url).origin
    for name, address in overrides.items():
        try:
            origin = Url.parse(address.url).origin
        except InputError:
            continue  # an invalid address is reported when a request needs it
        same_host = origin.host == own.host or (is_loopback(origin.host) and is_loopback(own.host))
        if same_host and origin.port == own.port:
            raise InputError(
                f"{address.variable} points {name} at this gateway itself ({address.url}): unset "
                f"it for the gateway, or set base_url under [providers.{name}]; only your "
                "applications need it"
            )


async def _next_stop_signal(signals: asyncio.Queue[int]) -> None:
    while await signals.get() == signal.SIGHUP:
        continue


async def _reload(server: GatewayServer, options: ServeOptions) -> None:
    """Apply a changed modelpact.toml; if it is invalid, keep the old one and say so."""
    try:
        configuration = await asyncio.to_thread(options.source.configuration)
        await server.reload(configuration, options.fixed_token or _read_token(configuration))
    except ModelpactError as error:
        warn(f"the configuration is unchanged: {error}")
        return
    warn("the configuration was reloaded")
    warnings = server.restart_required(configuration)
    if options.configured_store not in (None, configuration.store_url()):
        warnings = ("[store] url has changed: it takes effect after a restart", *warnings)
    for warning in warnings:
        warn(f"warning: {warning}")


def _shell_key(configuration: Configuration, new_key: str) -> str:
    """Return a key for the example as a shell writes it: the new one, or where to find one."""
    token_ref = configuration.host.token
    if new_key:
        return new_key
    if token_ref is not None:
        return f"${token_ref.env}" if token_ref.env else f"$(cat {shlex.quote(token_ref.file)})"
    return f"${_TOKEN_VARIABLE}" if os.environ.get(_TOKEN_VARIABLE, "").strip() else "$KEY"


def _print_start(url: str, new_key: str, shell_key: str) -> None:
    click.echo(f"modelpact listens on {url}\n")
    if new_key:
        click.echo(f"A new key, shown only once: {new_key}\n")
    elif shell_key == "$KEY":
        click.echo("The ledger has keys; `modelpact keys create NAME` creates another.\n")
    click.echo("Try the bundled mock model:")
    click.echo(f'  curl {url}/v1/chat/completions -H "Authorization: Bearer {shell_key}" \\')
    click.echo("""    -d '{"model": "mock/demo", "messages": [{"role": "user", "content": "Hi"}]}'\n""")
    click.echo(f"Applications: set the base URL to {url}/v1 (OpenAI) or {url} (Anthropic).")
    click.echo("Stop with Ctrl-C.")
