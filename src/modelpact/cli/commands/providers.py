"""`modelpact providers`: the registered providers and what they offer."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.cli.options import (
    CommandGroup,
    LedgerSource,
    identity_folder,
    json_option,
    ledger_options,
    print_json,
    print_result,
    read_input,
)
from modelpact.cli.render.terminal import escape, escape_line, paint, plural, table, warn
from modelpact.cli.runtime import make_runtime, run_connected
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import ContractError, DeregistrationPolicy, Registration
from modelpact.providers.runtime.registration import read_registration
from modelpact.providers.runtime.registry import count_open, find_provider, list_providers, list_violations
from modelpact.providers.runtime.signals import measure_latency
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName
from modelpact.vocabulary.money import format_decimal
from modelpact.vocabulary.strict_json import parse_json

_STATE_COLOURS: Final = {"active": "green", "expelled": "red"}
_MAX_BYTES: Final = 4 * 1024 * 1024
_UNIT_TEXT: Final = {
    "discrete": "a piece",
    "time": "a nanosecond",
    "tokens.input": "an input token",
    "tokens.output": "an output token",
    "tokens.reasoning": "a reasoning token",
    "tokens.cache-read": "a token read from a cache",
    "tokens.cache-write": "a token written to a cache",
}


@click.group("providers", cls=CommandGroup)
def providers_command() -> None:
    """List, show, register and deregister the providers of a ledger."""


@providers_command.command("list")
@ledger_options
@json_option
def list_command(source: LedgerSource, as_json: bool) -> None:
    """List the providers that are or were registered."""
    with source.open_reader() as reader:
        providers = list_providers(reader)
    revoked = _revoked_keys()
    if as_json:
        print_json([_registration_json(registration, state, revoked) for registration, state in providers])
        return
    if not providers:
        click.echo("No providers are registered.")
        return
    rows = [
        (
            registration.id,
            registration.category,
            paint(state, _STATE_COLOURS.get(state, "dim")),
            str(len(registration.offers)),
            _location(registration),
            _trust(registration, revoked),
        )
        for registration, state in providers
    ]
    click.echo(table(rows, ("provider", "category", "state", "offers", "where", "identity"), right=[3]))


@providers_command.command("show")
@click.argument("provider")
@ledger_options
@json_option
def show_command(provider: str, source: LedgerSource, as_json: bool) -> None:
    """Show a provider: its offers, identity, violations and open work."""
    with source.open_reader() as reader:
        registration, state = _find(reader, provider)
        violations = [
            {"event": event.id, **{key: event.payload[key] for key in ("violation", "detail")}}
            for event in list_violations(reader, provider)
        ]
        open_count = count_open(reader.read, provider)
        latency = measure_latency(reader, provider, registration.max_latency_ms)
    revoked = _revoked_keys()
    if as_json:
        extra: dict[str, Any] = {"open": open_count, "flags": violations}
        if registration.max_latency_ms is not None:
            extra["latency"] = msgspec.to_builtins(latency)
        print_json({**_registration_json(registration, state, revoked), **extra})
        return
    click.echo(table(_facts(registration, state, open_count, revoked)))
    for offer in registration.offers:
        click.echo(f"\n{paint(escape_line(offer.kind), 'bold')}  {', '.join(offer.semantics)}")
        if offer.description:
            click.echo(f"  {escape(offer.description)}")
        for rate in offer.rates:
            amount = format_decimal(rate.pico, 12)
            click.echo(f"  {amount} {registration.currency} for {_UNIT_TEXT[rate.unit]}")
    if registration.max_latency_ms is not None:
        click.echo(
            f"\n{latency.count} signals, {latency.late} later than the declared "
            f"{latency.declared_ms} ms; the latest took {latency.longest_ms} ms"
        )
    if violations:
        click.echo()
        rows = [
            (violation["event"], violation["violation"], escape_line(violation["detail"])) for violation in violations
        ]
        click.echo(table(rows, ("event", "violation", "")))


@providers_command.command("register")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@ledger_options
@json_option
def register_command(file: Path, source: LedgerSource, as_json: bool) -> None:
    """Register a provider from FILE, which is JSON or TOML.

    Exits with 1 if the contract does not allow it.
    """
    registration = read_registration(_read_file(file), f"{file}: registration")
    with source.open_ledger() as ledger:
        try:
            runtime = make_runtime(ledger, source.configuration())
            event = runtime.registry.register(registration)
        except ContractError as error:
            raise _refused(error) from None
    data = {"provider": registration.id, "event": event.id}
    print_result(data, f"{registration.id} is registered ({event.id}).", as_json=as_json)


@providers_command.command("deregister")
@click.argument("provider")
@click.option(
    "--policy",
    type=click.Choice(["drain", "cancel"]),
    help="Let open invocations finish, or cancel them. By default as the compliance profile says.",
)
@click.option("--reason", default="", help="The reason, for the record.")
@click.option("--release", is_flag=True, help="Let another identity take the name.")
@ledger_options
@json_option
def deregister_command(
    provider: str, policy: DeregistrationPolicy | None, reason: str, release: bool, source: LedgerSource, as_json: bool
) -> None:
    """Stop sending work to a provider.

    Its name stays reserved for its identity, so that only the same provider can register it
    again. Exits with 1 if the provider is not active.
    """
    with source.open_ledger() as ledger:
        try:
            event = asyncio.run(
                run_connected(
                    ledger,
                    source.configuration(),
                    lambda runtime: runtime.deregister(provider, reason, policy, release=release),
                )
            )
        except ContractError as error:
            raise _refused(error) from None
    data = {"provider": provider, "event": event.id, "open": event.payload["open"]}
    text = f"{provider} is {event.payload['state']} ({event.id}).{_open_text(event.payload)}"
    print_result(data, text, as_json=as_json)


def _open_text(payload: dict[str, Any]) -> str:
    """Return what happens to the invocations that were open."""
    if not payload["open"]:
        return ""
    count = plural(payload["open"], "open invocation")
    if payload["policy"] == "cancel":
        return f" Cancelled: {count}."
    return f" It may still answer: {count}."


def _refused(error: ContractError) -> SystemExit:
    warn(str(error))
    return SystemExit(1)


def _read_file(file: Path) -> Any:
    _, data = read_input(str(file), _MAX_BYTES, "any registration")
    if file.suffix != ".toml":
        return parse_json(data, str(file))
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}") from None


def _find(reader: LedgerReader, provider: str) -> tuple[Registration, str]:
    """Return the registration of a provider and its state."""
    match = find_provider(reader, provider)
    if match is None:
        names = [registration.id for registration, _ in list_providers(reader)]
        raise UnknownName("provider", provider, names, "`modelpact providers list` lists all")
    return match


def _location(registration: Registration) -> str:
    if registration.base_url:
        return escape_line(registration.base_url)
    return "the inbox" if registration.in_inbox else "in process"


def _trust(registration: Registration, revoked: frozenset[str]) -> str:
    if registration.identity in revoked:
        return paint("revoked", "red")
    return "pinned" if registration.identity else "none"


def _revoked_keys() -> frozenset[str]:
    """Return the keys of which the user's authority has revoked every certificate."""
    folder = identity_folder() / "authority"
    if not folder.is_dir():
        return frozenset()
    from modelpact.identity import Authority

    try:
        records = Authority.open(folder).list()
    except ModelpactError as error:
        warn(f"revocations are unknown: {error}")
        return frozenset()
    valid = {record.fingerprint for record in records if record.revoked is None}
    return frozenset(record.fingerprint for record in records) - valid


def _facts(registration: Registration, state: str, open_count: int, revoked: frozenset[str]) -> list[tuple[str, str]]:
    name = f" ({escape_line(registration.name)})" if registration.name else ""
    suffix = paint(" (revoked)", "red") if registration.identity in revoked else ""
    return [
        ("provider", registration.id + name),
        ("category", registration.category),
        ("state", paint(state, _STATE_COLOURS.get(state, "dim"))),
        ("where", _location(registration)),
        ("identity", (registration.identity or "none") + suffix),
        ("signing key", registration.signing_key or "none"),
        ("units", ", ".join(registration.units)),
        ("open", str(open_count)),
    ]


def _registration_json(registration: Registration, state: str, revoked: frozenset[str]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(registration)
    return {**data, "state": state, "revoked": registration.identity in revoked}
