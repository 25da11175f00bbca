"""`modelpact identity`: signing keys, and certificates of providers and runtimes."""

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.cli.options import CommandGroup, default_option, identity_folder, json_option, print_json, print_result
from modelpact.cli.render.terminal import paint, table
from modelpact.identity import Authority, IdentityRecord, IssuedCertificate, Keyring
from modelpact.identity.authority import DEFAULT_DAYS
from modelpact.identity.files import is_vacant, utc_now
from modelpact.vocabulary.errors import InputError

_REVOCATION_REASONS: Final = (
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
    "privilege-withdrawn",
)
_STATE_COLOURS: Final = {"valid": "green", "revoked": "red", "expired": "yellow"}


_dir_option: Final = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=identity_folder,
    help="The folder with keys and certificates. By default in your data folder.",
)
_days_option: Final = default_option(
    "--days", type=click.IntRange(1, 3650), default=DEFAULT_DAYS, help="How many days the certificate is valid."
)


@click.group("identity", cls=CommandGroup)
def identity_command() -> None:
    """Make, rotate and revoke signing keys and certificates."""


@identity_command.command("init")
@_dir_option
@click.option("--name", default="modelpact authority", help="The name of the authority.")
@json_option
def init_command(folder: Path, name: str, as_json: bool) -> None:
    """Make a signing key and a certificate authority.

    What already exists is left as it is.
    """
    signing, issuing = folder / "keyring", folder / "authority"
    missing = [path for path in (signing, issuing) if is_vacant(path)]
    if not missing:
        raise InputError(f"{folder} already has keys: rotate them, or name another --dir")
    keyring = Keyring.init(signing) if signing in missing else Keyring.open(signing)
    authority = Authority.init(issuing, name=name) if issuing in missing else Authority.open(issuing)
    created = {
        "folder": str(folder),
        "signing_key": keyring.key_id,
        "authority": str(authority.certificate),
        "revoked": str(authority.crl),
    }
    _print_pairs(created, as_json)


@identity_command.command("issue")
@click.argument("name")
@default_option(
    "--kind", type=click.Choice(["provider", "runtime"]), default="provider", help="Whom the certificate is for."
)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Its host name or address.")
@_days_option
@_dir_option
@json_option
def issue_command(name: str, kind: Any, hosts: tuple[str, ...], days: int, folder: Path, as_json: bool) -> None:
    """Make a key and a certificate for a provider or a runtime."""
    _print_issued(Authority.open(folder / "authority").issue(name, kind, hosts, days), as_json)


@identity_command.command("rotate")
@click.argument("name", required=False)
@click.option("--signing-key", is_flag=True, help="Rotate the signing key instead.")
@click.option("--keep-key", is_flag=True, help="Renew the certificate of the same key.")
@_days_option
@_dir_option
@json_option
def rotate_command(name: str | None, signing_key: bool, keep_key: bool, days: int, folder: Path, as_json: bool) -> None:
    """Make a new key and certificate for a name, or a new signing key.

    The old certificate stays valid until it expires. Revoke its serial once all peers use the new
    one.
    """
    if signing_key == (name is not None):
        raise click.UsageError("Give either NAME or --signing-key.")
    if name is not None:
        authority = Authority.open(folder / "authority")
        _print_issued(authority.rotate(name, keep_key=keep_key, days=days), as_json)
        return
    if keep_key:
        raise click.UsageError("--keep-key is for certificates: a signing key is always replaced.")
    keyring = Keyring.open(folder / "keyring")
    old_key = keyring.key_id
    keyring.rotate()
    rotated = {"signing_key": keyring.key_id, "handed_over_by": old_key}
    _print_pairs(rotated, as_json)


@identity_command.command("revoke")
@click.argument("which", metavar="NAME|SERIAL")
@default_option(
    "--reason",
    type=click.Choice(_REVOCATION_REASONS),
    default="unspecified",
    metavar="REASON",
    help=f"The reason, for the revocation list: {', '.join(_REVOCATION_REASONS)}.",
)
@_dir_option
@json_option
def revoke_command(which: str, reason: Any, folder: Path, as_json: bool) -> None:
    """Revoke the certificates of a name, or one by its serial.

    Exits with 1 if all of them were already revoked.
    """
    revoked = Authority.open(folder / "authority").revoke(which, reason)
    if as_json:
        print_json([_record_json(record, utc_now()) for record in revoked])
    elif revoked:
        _print_records(revoked)
    else:
        click.echo(f"{which} was already revoked.")
    raise SystemExit(0 if revoked else 1)


@identity_command.command("list")
@_dir_option
@json_option
def list_command(folder: Path, as_json: bool) -> None:
    """List signing keys and certificates.

    Exits with 1 if a current certificate has expired.
    """
    keys = Keyring.open(folder / "keyring").public_keys
    records = Authority.open(folder / "authority").list()
    now = utc_now()
    if as_json:
        signing = [{"key_id": key.key_id, "created": key.created, "current": key is keys.current} for key in keys.keys]
        certificates = [_record_json(record, now) for record in records]
        print_json({"signing_keys": signing, "certificates": certificates})
    else:
        rows = [(key.key_id, key.created[:10], "current" if key is keys.current else "retired") for key in keys.keys]
        click.echo(table(rows, ("signing key", "since", "state")))
        if records:
            click.echo()
            _print_records(records)
    expired = any(record.current and record.state(now) == "expired" for record in records)
    raise SystemExit(1 if expired else 0)


@identity_command.command("export")
@_dir_option
def export_command(folder: Path) -> None:
    """Print the public signing keys as JSON.

    Others need them to verify what you signed.
    """
    click.echo(Keyring.open(folder / "keyring").export(), nl=False)


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
        },
        as_json=False,
    )


def _print_pairs(pairs: dict[str, str], as_json: bool) -> None:
    text = table([(key.replace("_", " "), value) for key, value in pairs.items()])
    print_result(pairs, text, as_json=as_json)


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
