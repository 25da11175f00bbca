"""`modelpact providers`: who is registered, with what."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.catalog.paths import user_folder
from modelpact.cli.options import config_option, json_option, print_json
from modelpact.cli.paths import open_ledger, open_reader, store_option
from modelpact.cli.render.audit import one_line, visible
from modelpact.cli.render.tables import paint, table
from modelpact.cli.runtimes import make_runtime, with_reach
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import ContractError, DeregistrationPolicy, Registration
from modelpact.providers.runtime.registration import in_inbox, read_registration
from modelpact.providers.runtime.registry import find_provider, list_providers
from modelpact.providers.runtime.signals import measure_latency
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName
from modelpact.vocabulary.strict_json import parse_json

_COLOURS: Final = {"active": "green", "deregistered": "dim", "expelled": "red", "released": "dim"}
_LARGEST: Final = 4 * 1024 * 1024
_ONE: Final = {
    "discrete": "a piece",
    "time": "a nanosecond",
    "tokens.input": "an input token",
    "tokens.output": "an output token",
    "tokens.reasoning": "a reasoning token",
    "tokens.cache-read": "a token read from a cache",
    "tokens.cache-write": "a token written to a cache",
}


@click.group("providers", short_help="Registered providers.")
def command() -> None:
    """List, show, register and deregister the providers of a ledger."""


@command.command("list")
@store_option
@config_option
@json_option
def list_command(store: str | None, config_path: Path | None, as_json: bool) -> None:
    """List every provider that is or was registered."""
    with open_reader(store, config_path) as reader:
        listed = list_providers(reader)
    revoked = _revoked()
    if as_json:
        print_json([_as_json(registration, state, revoked) for registration, state in listed])
        return
    if not listed:
        click.echo("No providers are registered.")
        return
    rows = [
        (
            registration.id,
            registration.category,
            paint(state, _COLOURS.get(state, "dim")),
            str(len(registration.offers)),
            _where(registration),
            _trust(registration, revoked),
        )
        for registration, state in listed
    ]
    click.echo(
        table(rows, ("provider", "category", "state", "offers", "where", "identity"), right=[3])
    )


@command.command("show")
@click.argument("provider")
@store_option
@config_option
@json_option
def show_command(provider: str, store: str | None, config_path: Path | None, as_json: bool) -> None:
    """Show a provider: its offers, its trust, its violations, its open work."""
    with open_reader(store, config_path) as reader:
        registration, state = _found(reader, provider)
        flagged = _flags(reader, provider)
        waiting = reader.read(
            "SELECT COUNT(*) FROM invocations WHERE provider = ? AND state = 'open'", (provider,)
        )[0][0]
        latency = measure_latency(reader, provider, registration.max_latency_ms)
    revoked = _revoked()
    if as_json:
        more: dict[str, Any] = {"open": waiting, "flags": flagged}
        if registration.max_latency_ms is not None:
            more["latency"] = msgspec.to_builtins(latency)
        print_json({**_as_json(registration, state, revoked), **more})
        return
    click.echo(table(_facts(registration, state, waiting, revoked)))
    for offer in registration.offers:
        click.echo(f"\n{paint(one_line(offer.kind), 'bold')}  {', '.join(offer.semantics)}")
        if offer.description:
            click.echo(f"  {visible(offer.description)}")
        for rate in offer.rates:
            money = f"{rate.pico / 1_000_000_000_000:.12f}".rstrip("0").rstrip(".")
            click.echo(f"  {money} {registration.currency} for {_ONE[rate.unit]}")
    if registration.max_latency_ms is not None:
        click.echo(
            f"\n{latency.count} signals, {latency.late} later than the declared "
            f"{latency.declared_ms} ms; the latest took {latency.longest_ms} ms"
        )
    if flagged:
        click.echo()
        rows = [(one["event"], one["violation"], one_line(one["detail"])) for one in flagged]
        click.echo(table(rows, ("event", "violation", "")))


@command.command("register")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@store_option
@config_option
@json_option
def register_command(
    file: Path, store: str | None, config_path: Path | None, as_json: bool
) -> None:
    """Register a provider from FILE (JSON or TOML); exit 1 if the contract does not allow it."""
    registration = read_registration(_read(file), f"{file}: registration")
    with open_ledger(store, config_path) as ledger:
        try:
            event = make_runtime(ledger, config_path).registry.register(registration)
        except ContractError as error:
            raise _refused(error) from None
    if as_json:
        print_json({"provider": registration.id, "event": event.id})
    else:
        click.echo(f"{registration.id} is registered ({event.id}).")


@command.command("deregister")
@click.argument("provider")
@click.option(
    "--policy",
    type=click.Choice(["drain", "cancel"]),
    help="What becomes of open invocations; by default what the profile says.",
)
@click.option("--reason", default="", help="Why, for the record.")
@click.option("--release", is_flag=True, help="Let another identity have the name from now on.")
@store_option
@config_option
@json_option
def deregister_command(
    provider: str,
    policy: DeregistrationPolicy | None,
    reason: str,
    release: bool,
    store: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Stop routing to a provider; exit 1 if it is not active.

    Its name is kept for its identity, so that it can come back and nobody else can.
    """
    with open_ledger(store, config_path) as ledger:
        try:
            event = asyncio.run(
                with_reach(
                    ledger,
                    config_path,
                    lambda runtime: runtime.deregister(provider, reason, policy, release=release),
                )
            )
        except ContractError as error:
            raise _refused(error) from None
    if as_json:
        print_json({"provider": provider, "event": event.id, "open": event.payload["open"]})
    else:
        click.echo(f"{provider} is {event.payload['state']} ({event.id}).{_left(event.payload)}")


def _left(told: dict[str, Any]) -> str:
    """Say what becomes of the invocations that were open."""
    if not told["open"]:
        return ""
    many = f"{told['open']:,} open invocation{'s' if told['open'] > 1 else ''}"
    if told["policy"] == "cancel":
        return f" Cancelled: {many}."
    return f" It may still answer: {many}."


def _refused(error: ContractError) -> SystemExit:
    click.echo(f"modelpact: {error}", err=True)
    return SystemExit(1)


def _read(file: Path) -> Any:
    try:
        with file.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise InputError(f"{file} is larger than any registration")
    if file.suffix != ".toml":
        return parse_json(data, str(file))
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}") from None


def _found(reader: LedgerReader, provider: str) -> tuple[Registration, str]:
    found = find_provider(reader, provider)
    if found is None:
        names = [registration.id for registration, _ in list_providers(reader)]
        raise UnknownName("provider", provider, names, "`modelpact providers list` lists all")
    return found


def _flags(reader: LedgerReader, provider: str) -> list[dict[str, str]]:
    found, after = [], 0
    while events := reader.events("registry", after=after):
        after = events[-1].sequence
        found += [
            {"event": one.id, **{key: one.payload[key] for key in ("violation", "detail")}}
            for one in events
            if one.type == "provider.flagged" and one.payload.get("provider") == provider
        ]
    return found


def _where(registration: Registration) -> str:
    if registration.base_url:
        return one_line(registration.base_url)
    return "the inbox" if in_inbox(registration) else "in process"


def _trust(registration: Registration, revoked: frozenset[str]) -> str:
    if registration.identity in revoked:
        return paint("revoked", "red")
    return "pinned" if registration.identity else "none"


def _revoked() -> frozenset[str]:
    """Return the keys whose every certificate the user's own authority has revoked."""
    folder = user_folder() / "identity" / "authority"
    if not folder.is_dir():
        return frozenset()
    from modelpact.identity import Authority

    try:
        records = Authority.open(folder).list()
    except ModelpactError as error:
        click.echo(f"modelpact: what is revoked is not known: {error}", err=True)
        return frozenset()
    good = {one.fingerprint for one in records if one.revoked is None}
    return frozenset(one.fingerprint for one in records) - good


def _facts(
    registration: Registration, state: str, waiting: int, revoked: frozenset[str]
) -> list[tuple[str, str]]:
    name = f" ({one_line(registration.name)})" if registration.name else ""
    gone = paint(" (revoked)", "red") if registration.identity in revoked else ""
    return [
        ("provider", registration.id + name),
        ("category", registration.category),
        ("state", paint(state, _COLOURS.get(state, "dim"))),
        ("where", _where(registration)),
        ("identity", (registration.identity or "none") + gone),
        ("signing key", registration.signing_key or "none"),
        ("units", ", ".join(registration.units)),
        ("open", str(waiting)),
    ]


def _as_json(registration: Registration, state: str, revoked: frozenset[str]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(registration)
    return {**data, "state": state, "revoked": registration.identity in revoked}
