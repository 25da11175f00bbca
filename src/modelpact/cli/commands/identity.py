"""`modelpact identity`: signing keys, and certificates of providers and runtimes."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from modelpact.catalog.snapshot import user_folder
from modelpact.cli.options import CommandGroup, json_option, print_json
from modelpact.cli.render.tables import table
from modelpact.cli.render.terminal import paint
from modelpact.identity import Authority, IdentityRecord, IssuedCertificate, Keyring
from modelpact.identity.authority import DEFAULT_DAYS
from modelpact.identity.files import is_vacant, utc_now
from modelpact.vocabulary.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_REVOCATION_REASONS: Final = (
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
    "privilege-withdrawn",
)
_STATE_COLOURS: Final = {"valid": "green", "revoked": "red", "expired": "yellow"}


def _dir_option(function: F) -> F:
    return click.option(
        "--dir",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder with keys and certificates. By default in your data folder.",
    )(function)


def _days_option(function: F) -> F:
    return click.option(
        "--days",
        type=click.IntRange(1, 3650),
        default=DEFAULT_DAYS,
        show_default=True,
        help="How many days the certificate is valid.",
    )(function)


def _keyring(folder: Path | None) -> Path:
    return (folder or user_folder() / "identity") / "keyring"


def _authority(folder: Path | None) -> Path:
    return (folder or user_folder() / "identity") / "authority"


@click.group("identity", cls=CommandGroup)
def command() -> None:
    """Make, rotate and revoke signing keys and certificates."""


@command.command("init")
@_dir_option
@click.option("--name", default="modelpact authority", help="The name of the authority.")
@json_option
def init_command(folder: Path | None, name: str, as_json: bool) -> None:
    """Make a signing key and a certificate authority.

    What already exists is left as it is.
    """
    signing, issuing = _keyring(folder), _authority(folder)
    missing = [path for path in (signing, issuing) if is_vacant(path)]
    if not missing:
        raise InputError(f"{signing.parent} already has keys: rotate them, or name another --dir")
    keyring = Keyring.init(signing) if signing in missing else Keyring.open(signing)
    authority = (
        Authority.init(issuing, name=name) if issuing in missing else Authority.open(issuing)
    )
    created = {
        "folder": str(signing.parent),
        "signing_key": keyring.key_id,
        "authority": str(authority.certificate),
        "revoked": str(authority.crl),
    }
    if as_json:
        print_json(created)
        return
    _print_pairs(created)


@command.command("issue")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["provider", "runtime"]),
    default="provider",
    show_default=True,
    help="Whom the certificate is for.",
)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Its host name or address.")
@_days_option
@_dir_option
@json_option
def issue_command(
    name: str, kind: Any, hosts: tuple[str, ...], days: int, folder: Path | None, as_json: bool
) -> None:
    """Make a key and a certificate for a provider or a runtime."""
    _print_issued(Authority.open(_authority(folder)).issue(name, kind, hosts, days), as_json)


@command.command("rotate")
@click.argument("name", required=False)
@click.option("--signing-key", is_flag=True, help="Rotate the signing key instead.")
@click.option("--keep-key", is_flag=True, help="Renew the certificate of the same key.")
@_days_option
@_dir_option
@json_option
def rotate_command(
    name: str | None,
    signing_key: bool,
    keep_key: bool,
    days: int,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Make a new key and certificate for a name, or a new signing key.

    The old certificate stays valid until it expires. Revoke its serial once all peers use the new
    one.
    """
    if signing_key == (name is not None):
        raise click.UsageError("Give either NAME or --signing-key.")
    if name is not None:
        authority = Authority.open(_authority(folder))
        _print_issued(authority.rotate(name, keep_key=keep_key, days=days), as_json)
        return
    if keep_key:
        raise click.UsageError("--keep-key is for certificates: a signing key is always replaced.")
    keyring = Keyring.open(_keyring(folder))
    old_key = keyring.key_id
    keyring.rotate()
    rotated = {"signing_key": keyring.key_id, "handed_over_by": old_key}
    if as_json:
        print_json(rotated)
        return
    _print_pairs(rotated)


@command.command("revoke")
@click.argument("which", metavar="NAME|SERIAL")
@click.option(
    "--reason",
    type=click.Choice(_REVOCATION_REASONS),
    default="unspecified",
    show_default=True,
    metavar="REASON",
    help=f"The reason, for the revocation list: {', '.join(_REVOCATION_REASONS)}.",
)
@_dir_option
@json_option
def revoke_command(which: str, reason: Any, folder: Path | None, as_json: bool) -> None:
    """Revoke the certificates of a name, or one by its serial.

    Exits with 1 if all of them were already revoked.
    """
    revoked = Authority.open(_authority(folder)).revoke(which, reason)
    if as_json:
        print_json([_record_json(record, utc_now()) for record in revoked])
    elif revoked:
        _print_records(revoked)
    else:
        click.echo(f"{which} was already revoked.")
    raise SystemExit(0 if revoked else 1)


@command.command("list")
@_dir_option
@json_option
def list_command(folder: Path | None, as_json: bool) -> None:
    """List signing keys and certificates.

    Exits with 1 if a current certificate has expired.
    """
    keys = Keyring.open(_keyring(folder)).public_keys
    records = Authority.open(_authority(folder)).list()
    now = utc_now()
    if as_json:
        signing = [
            {"key_id": key.key_id, "created": key.created, "current": key is keys.current}
            for key in keys.keys
        ]
        certificates = [_record_json(record, now) for record in records]
        print_json({"signing_keys": signing, "certificates": certificates})
    else:
        rows = [
            (key.key_id, key.created[:10], "current" if key is keys.current else "retired")
            for key in keys.keys
        ]
        click.echo(table(rows, ("signing key", "since", "state")))
        if records:
            click.echo()
            _print_records(records)
    expired = any(record.current and record.state(now) == "expired" for record in records)
    raise SystemExit(1 if expired else 0)


@command.command("export")
@_dir_option
def export_command(folder: Path | None) -> None:
    """Print the public signing keys as JSON.

    Others need them to verify what you signed.
    """
    click.echo(Keyring.open(_keyring(folder)).export(), nl=False)


def _print_issued(issued: IssuedCertificate, as_json: bool) -> None:
    if as_json:
        print_json({**_record_json(issued.record, utc_now()), "file": str(issued.path)})
        return
    record = issued.record
    _print_pairs(
        {
            "identity": record.identity,
            "hosts": ", ".join(record.hosts) or "none",
            "file": str(issued.path),
            "serial": record.serial,
            "fingerprint": record.fingerprint,
            "until": f"{record.not_after:%Y-%m-%d}",
        }
    )


def _print_pairs(pairs: dict[str, str]) -> None:
    click.echo(table([(key.replace("_", " "), value) for key, value in pairs.items()]))


def _print_records(records: tuple[IdentityRecord, ...]) -> None:
    now = utc_now()
    rows = []
    for record in records:
        state = record.state(now)
        status = paint(state, _STATE_COLOURS[state])
        if record.revoked:
            status += f": {record.revoked}"
        current = "current" if record.current else ""
        until = f"{record.not_after:%Y-%m-%d}"
        serial, fingerprint = record.serial, record.fingerprint
        rows.append((record.name, record.kind, status, current, until, serial, fingerprint))
    header = ("name", "kind", "state", "", "until", "serial", "fingerprint of the key")
    click.echo(table(rows, header))


def _record_json(record: IdentityRecord, now: datetime) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(record)
    return {**data, "identity": record.identity, "state": record.state(now)}
