"""The parts of `modelpact audit` that work on files: export, import, archive."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from modelpact.cli.options import config_option, json_option, print_json
from modelpact.cli.paths import (
    check_argument,
    open_ledger,
    open_reader,
    store_option,
    trusted_keys,
    user_keyring,
)
from modelpact.cli.render.audit import one_line, report_json, report_line
from modelpact.cli.render.progress import Progress
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.verify.export import export_lines, read_export, write_export

F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True)


def keys_option(function: F) -> F:
    """Add `--keys FILE`."""
    return click.option(
        "--keys",
        "key_files",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        multiple=True,
        help="Public keys to trust, from `modelpact identity export`; by default your own.",
    )(function)


def watched_lines(path: Path) -> Iterator[bytes]:
    """Return the lines of a file, or of standard input, and show how far they are read."""
    if str(path) == "-":
        return iter(sys.stdin.buffer)
    size = path.stat().st_size
    packed = path.suffix == ".gz"  # a compressed file is several times as long inside
    bar = Progress(path.name, size * 6 if packed else size)
    return bar.over(read_export(path), len)


@click.command("export")
@click.argument("envelope")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="A file; .gz packs."
)
@click.option("--sign", is_flag=True, help="Sign a checkpoint first, with your own key.")
@store_option
@config_option
def export_command(
    envelope: str, out: Path | None, sign: bool, store: str | None, config_path: Path | None
) -> None:
    """Write an envelope as JSON lines that anyone can verify."""
    check_argument(envelope)
    if sign:
        with open_ledger(store, config_path) as ledger:
            ledger.checkpoint(envelope, user_keyring())
    with open_reader(store, config_path) as reader:
        found = reader.envelope(envelope)
        bar = Progress(envelope, found.events if found else 0)
        lines = bar.over(export_lines(reader, envelope), lambda _: 1)
        if out is None:
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        else:
            write_export(out, lines)
            said = f"{out}: {found.events if found else 0:,} events of {envelope}"
            click.echo(one_line(said), err=True)


@click.command("import")
@click.argument("file", type=_FILE)
@click.option("--unsigned", is_flag=True, help="With --keys: also events that nobody has signed.")
@keys_option
@json_option
@store_option
@config_option
def import_command(
    file: Path,
    unsigned: bool,
    key_files: tuple[Path, ...],
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Take an export into the ledger, if it verifies; a second time changes nothing."""
    from modelpact.ledger.verify.importer import NotVerified, import_export

    keys = trusted_keys(key_files)
    with tempfile.TemporaryDirectory() as folder:
        if str(file) == "-":
            file = Path(folder) / "standard-input"
            file.write_bytes(sys.stdin.buffer.read())
        try:
            with open_ledger(store, config_path) as ledger:
                done = import_export(
                    ledger,
                    lambda: watched_lines(file),
                    keys,
                    allow_unsigned=unsigned or not key_files,
                )
        except NotVerified as error:
            if as_json:
                print_json(report_json(error.report, str(file)))
            else:
                click.echo(report_line(error.report, str(file)))
            raise SystemExit(1) from None
    if as_json:
        counts = {"events": done.added, "known": done.existing, "left": done.skipped}
        print_json({"envelope": done.envelope, **counts})
    else:
        left = f"; {done.skipped:,} that nobody has signed were left, --unsigned takes them"
        said = f"{done.envelope}: {done.added:,} events taken, {done.existing:,} were here"
        click.echo(one_line(said + (left if done.skipped else "")))


@click.command("archive")
@click.argument("envelope")
@click.option("--to", "file", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--drop", is_flag=True, help="Take its events out of the ledger afterwards.")
@click.option("--reason", default="", help="Why, for the record.")
@json_option
@store_option
@config_option
def archive_command(
    envelope: str,
    file: Path,
    drop: bool,
    reason: str,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Close an envelope for good and write it to a packed file that keeps verifying."""
    from modelpact.ledger.verify.archive import archive

    check_argument(envelope)
    signer = user_keyring()
    if drop and signer is None:
        raise LedgerError(
            "--drop needs a signed archive: make a key with `modelpact identity init`"
        )
    with open_ledger(store, config_path) as ledger:
        report = archive(ledger, envelope, file, signer=signer, drop=drop, reason=reason)
    if as_json:
        print_json(report_json(report, str(file)))
    else:
        click.echo(report_line(report, str(file)))
