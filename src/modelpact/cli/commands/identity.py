"""`modelpact identity`: keys and certificates."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from modelpact.catalog.paths import user_folder
from modelpact.cli.options import json_option, print_json
from modelpact.cli.render.tables import paint, table
from modelpact.identity import Authority, IdentityRecord, Issued, Keyring
from modelpact.identity.authority import DAYS
from modelpact.identity.files import is_vacant, utc_now
from modelpact.vocabulary.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_REASONS: Final = (
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
    "privilege-withdrawn",
)
_COLOURS: Final = {"valid": "green", "revoked": "red", "expired": "yellow"}


def _dir_option(function: F) -> F:
    return click.option(
        "--dir",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder with keys and certificates; by default in the user's data folder.",
    )(function)


def _days_option(function: F) -> F:
    return click.option(
        "--days",
        type=click.IntRange(1, 3650),
        default=DAYS,
        show_default=True,
        help="How long the certificate holds.",
    )(function)


def _keyring(folder: Path | None) -> Path:
    return (folder or user_folder() / "identity") / "keyring"


def _authority(folder: Path | None) -> Path:
    return (folder or user_folder() / "identity") / "authority"


@click.group("identity", short_help="Keys and certificates.")
def command() -> None:
    """Make, rotate and revoke the keys and certificates of providers and runtimes."""


@command.command("init")
@_dir_option
@click.option("--name", default="modelpact authority", help="What the authority calls itself.")
@json_option
def init_command(folder: Path | None, name: str, as_json: bool) -> None:
    """Make a signing key and a certificate authority, whichever is not there yet."""
    signing, issuing = _keyring(folder), _authority(folder)
    missing = [one for one in (signing, issuing) if is_vacant(one)]
    if not missing:
        raise InputError(f"{signing.parent} has keys already: rotate them, or name another --dir")
    keyring = Keyring.init(signing) if signing in missing else Keyring.open(signing)
    authority = (
        Authority.init(issuing, name=name) if issuing in missing else Authority.open(issuing)
    )
    made = {
        "folder": str(signing.parent),
        "signing_key": keyring.key_id,
        "authority": str(authority.certificate),
        "revoked": str(authority.crl),
    }
    if as_json:
        print_json(made)
        return
    _print_pairs(made)


@command.command("issue")
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(["provider", "runtime"]), default="provider", show_default=True
)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="A host name or address.")
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

    The old certificate holds until it ends: revoke its serial when the peers have changed over.
    """
    if signing_key == (name is not None):
        raise click.UsageError("Give either a NAME or --signing-key.")
    if name is not None:
        authority = Authority.open(_authority(folder))
        _print_issued(authority.rotate(name, keep_key=keep_key, days=days), as_json)
        return
    if keep_key:
        raise click.UsageError("--keep-key is for certificates: a signing key is always new.")
    keyring = Keyring.open(_keyring(folder))
    before = keyring.key_id
    keyring.rotate()
    made = {"signing_key": keyring.key_id, "handed_over_by": before}
    if as_json:
        print_json(made)
        return
    _print_pairs(made)


@command.command("revoke")
@click.argument("which", metavar="NAME|SERIAL")
@click.option("--reason", type=click.Choice(_REASONS), default="unspecified", show_default=True)
@_dir_option
@json_option
def revoke_command(which: str, reason: Any, folder: Path | None, as_json: bool) -> None:
    """Revoke every certificate of a name, or one by its serial; exit 1 if all were already."""
    done = Authority.open(_authority(folder)).revoke(which, reason)
    if as_json:
        print_json([_as_json(one, utc_now()) for one in done])
    elif done:
        _print_records(done)
    else:
        click.echo(f"{which} was revoked already.")
    raise SystemExit(0 if done else 1)


@command.command("list")
@_dir_option
@json_option
def list_command(folder: Path | None, as_json: bool) -> None:
    """List signing keys and certificates; exit 1 if a current certificate has expired."""
    keys = Keyring.open(_keyring(folder)).public_keys
    records = Authority.open(_authority(folder)).list()
    now = utc_now()
    if as_json:
        signing = [
            {"key_id": key.key_id, "created": key.created, "current": key is keys.current}
            for key in keys.keys
        ]
        certificates = [_as_json(one, now) for one in records]
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
    expired = any(one.current and one.state(now) == "expired" for one in records)
    raise SystemExit(1 if expired else 0)


@command.command("export")
@_dir_option
def export_command(folder: Path | None) -> None:
    """Print the public signing keys as JSON, for verification elsewhere."""
    click.echo(Keyring.open(_keyring(folder)).export(), nl=False)


def _print_issued(issued: Issued, as_json: bool) -> None:
    if as_json:
        print_json({**_as_json(issued.record, utc_now()), "file": str(issued.path)})
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
    for one in records:
        state = one.state(now)
        shown = paint(state, _COLOURS[state]) + (f": {one.revoked}" if one.revoked else "")
        current = "current" if one.current else ""
        until = f"{one.not_after:%Y-%m-%d}"
        rows.append((one.name, one.kind, shown, current, until, one.serial, one.fingerprint))
    header = ("name", "kind", "state", "", "until", "serial", "fingerprint of the key")
    click.echo(table(rows, header))


def _as_json(record: IdentityRecord, now: datetime) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(record)
    return {**data, "identity": record.identity, "state": record.state(now)}
