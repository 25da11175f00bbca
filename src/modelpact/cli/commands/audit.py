"""`modelpact audit`: the events of the ledger, and the proof that nobody changed them."""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec

from modelpact.cli.options import (
    CommandGroup,
    LedgerSource,
    check_printable,
    default_option,
    json_option,
    ledger_options,
    print_json,
    print_result,
    trusted_keys,
    user_keyring,
)
from modelpact.cli.render.audit import (
    cause_lines,
    envelopes_table,
    event_json,
    event_row,
    event_text,
    report_json,
    report_text,
)
from modelpact.cli.render.terminal import Progress, escape_line, table
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Event
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.audit import verify_envelope
from modelpact.ledger.verify.export import export_lines, read_export, write_export
from modelpact.ledger.verify.tables import verify_tables
from modelpact.ledger.verify.verifier import ExpectedHead, TableReport, VerifyReport, verify_export
from modelpact.vocabulary.errors import InputError, nearest

_POLL_S: Final = 0.25
_GZIP_RATIO: Final = 6
"""How many times longer an export is than its compressed file, roughly."""
_EXPORT_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True)
_NEW_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_keys_option: Final = click.option(
    "--keys",
    "key_files",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    help="Public keys to trust, from `modelpact identity export`. By default your own.",
)


@click.group("audit", cls=CommandGroup)
def audit_command() -> None:
    """Show, follow, verify and move the events of the ledger."""


@audit_command.command("show")
@click.argument("name", metavar="[EVENT|ENVELOPE]", required=False)
@click.option("--why", is_flag=True, help="Show the chain of events that led to the event.")
@click.option("--after", type=click.IntRange(0), default=0, help="Start after this event number.")
@default_option("--limit", type=click.IntRange(1), default=100, help="The most events to show.")
@json_option
@ledger_options
def show_command(name: str | None, why: bool, after: int, limit: int, as_json: bool, source: LedgerSource) -> None:
    """Show an event or the events of an envelope.

    Without a name, list the envelopes.
    """
    with source.open_reader() as reader:
        if name is None:
            envelopes = reader.envelopes()
            data = msgspec.to_builtins(envelopes)
            print_result(data, envelopes_table(envelopes), as_json=as_json)
            return
        event = reader.event(check_printable(name))
        if event is not None:
            _show_event(reader, event, why=why, as_json=as_json)
            return
        envelope = reader.envelope(name)
        if envelope is None:
            raise InputError(_unknown_name(reader, name))
        if why:
            raise click.UsageError("--why needs an event: ENVELOPE:NUMBER.")
        events = reader.events(name, after=after, limit=limit)
    text = table([event_row(event) for event in events])
    if events and events[-1].sequence < envelope.events:
        remaining = envelope.events - events[-1].sequence
        text += f"\n\n{remaining:,} more follow: --after {events[-1].sequence}, or --limit."
    print_result([event_json(event) for event in events], text, as_json=as_json)


def _show_event(reader: LedgerReader, event: Event, *, why: bool, as_json: bool) -> None:
    if not why:
        print_result(event_json(event), event_text(event), as_json=as_json)
        return
    chain = reader.cause_chain(event.id)
    text = "\n".join(cause_lines(chain))
    print_result([event_json(cause) for cause in chain], text, as_json=as_json)


def _unknown_name(reader: LedgerReader, name: str) -> str:
    envelopes = (envelope.id for envelope in reader.envelopes())
    close = nearest(name.rpartition(":")[0] or name, envelopes)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"there is no event or envelope {name!r:.80} in {reader.store.url}{hint}"


@audit_command.command("tail")
@click.argument("envelope", required=False)
@default_option(
    "-n", "--lines", "count", type=click.IntRange(0), default=20, help="How many of the latest events to show."
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new events and show them.")
@click.option("--type", "prefix", default="", help="Only event types that start with this.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per event.")
@ledger_options
def tail_command(
    envelope: str | None, count: int, follow: bool, prefix: str, as_json: bool, source: LedgerSource
) -> None:
    """Show the latest events of the ledger or of one envelope."""
    with source.open_reader() as reader:
        for event in _tail(reader, envelope, count, follow):
            if not event.type.startswith(prefix) or envelope not in (None, event.envelope):
                continue
            if as_json:
                click.echo(json.dumps(event_json(event), ensure_ascii=False))
            else:
                click.echo("  ".join(event_row(event)))


def _tail(reader: LedgerReader, envelope: str | None, count: int, follow: bool) -> Iterator[Event]:
    """Yield the latest events, and with `follow` each new one."""
    if envelope is not None:
        summary = reader.envelope(check_printable(envelope))
        if summary is None:
            raise InputError(_unknown_name(reader, envelope))
        first = reader.events(envelope, after=summary.events - count, limit=max(count, 1))
    else:
        first = reader.latest_events(max(count, 1))
    yield from first if count else ()
    if not follow:
        return
    for events in reader.new_events(first):
        yield from events
        sys.stdout.flush()
        if not events:
            time.sleep(_POLL_S)


@audit_command.command("verify")
@click.argument("names", metavar="[FILE|ENVELOPE]...", nargs=-1)
@click.option("--head", metavar="NUMBER:HASH", help="An event that it must contain, known from elsewhere.")
@_keys_option
@json_option
@ledger_options
def verify_command(
    names: tuple[str, ...], head: str | None, key_files: tuple[Path, ...], as_json: bool, source: LedgerSource
) -> None:
    """Prove that exports, envelopes or the whole ledger are unchanged.

    In a ledger, the tables of costs, invocations and providers are also compared with the events.

    Exits with 1 and names the first broken link: edited, dropped, reordered, duplicated,
    truncated, a forged checkpoint, or an unknown key.
    """
    keys, expected = trusted_keys(key_files), _read_head(head)
    files = [name for name in names if name == "-" or Path(name).is_file()]
    envelopes = [check_printable(name) for name in names if name not in files]
    if expected and len(names) != 1:
        raise click.UsageError("--head needs exactly one FILE or ENVELOPE.")
    reports: list[tuple[str, VerifyReport | TableReport]] = []
    for name in files:
        report = verify_export(_file_lines(Path(name)), keys, expected=expected)
        reports.append((name, _allow_unsigned(report, key_files)))
    if envelopes or not names:
        with source.open_reader() as reader:
            verified = {
                name: verify_envelope(reader, name, keys, expected=expected, progress=partial(_track, reader, name))
                for name in (envelopes if names else reader.envelope_names())
            }
            tables = verify_tables(reader, verified, complete=not names)
        reports += [(name, _allow_unsigned(report, key_files)) for name, report in verified.items()]
        reports += [(f"table {report.table}", report) for report in tables]
    data = [report_json(report, name) for name, report in reports]
    lines = [report_text(report, name) for name, report in reports]
    print_result(data, "\n".join(lines) or "No events.", as_json=as_json)
    raise SystemExit(0 if all(report.ok for _, report in reports) else 1)


def _track(reader: LedgerReader, name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of an envelope under a progress bar."""
    envelope = reader.envelope(name)
    total = 0 if envelope is None else envelope.events
    return Progress(escape_line(name), total).track(lines, lambda _: 1)


def _allow_unsigned(report: VerifyReport, key_files: tuple[Path, ...]) -> VerifyReport:
    """Accept an export that nobody signed, unless the user named the keys to expect."""
    if report.unsigned and not key_files:
        return msgspec.structs.replace(report, broken=None)
    return report


def _read_head(text: str | None) -> ExpectedHead | None:
    if text is None:
        return None
    number, _, digest = text.partition(":")
    if not (number.isascii() and number.isdecimal()) or len(number) > 18 or len(digest) != 64:
        raise InputError(f"--head {text!r:.80}: expected NUMBER:HASH, with 64 hex digits")
    return ExpectedHead(int(number), digest.lower())


def _file_lines(path: Path) -> Iterator[bytes]:
    """Return the lines of an export file, under a progress bar, or of standard input."""
    if str(path) == "-":
        return iter(sys.stdin.buffer)
    size = path.stat().st_size * (_GZIP_RATIO if path.suffix == ".gz" else 1)
    return Progress(path.name, size).track(read_export(path), len)


@audit_command.command("export")
@click.argument("envelope")
@click.option("-o", "--out", type=_NEW_FILE, help="The file to write; a name in .gz is compressed.")
@click.option("--sign", is_flag=True, help="First sign a checkpoint with your own key.")
@ledger_options
def export_command(envelope: str, out: Path | None, sign: bool, source: LedgerSource) -> None:
    """Write an envelope as JSON lines that anyone can verify."""
    check_printable(envelope)
    if sign:
        with source.open_ledger() as ledger:
            ledger.checkpoint(envelope, user_keyring())
    with source.open_reader() as reader:
        summary = reader.envelope(envelope)
        count = summary.events if summary else 0
        lines = Progress(envelope, count).track(export_lines(reader, envelope), lambda _: 1)
        if out is None:
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        else:
            write_export(out, lines)
            click.echo(escape_line(f"{out}: {count:,} events of {envelope}"), err=True)


@audit_command.command("import")
@click.argument("file", type=_EXPORT_FILE)
@click.option("--unsigned", is_flag=True, help="With --keys: also import unsigned events.")
@_keys_option
@json_option
@ledger_options
def import_command(
    file: Path, unsigned: bool, key_files: tuple[Path, ...], as_json: bool, source: LedgerSource
) -> None:
    """Import an export into the ledger, if it verifies.

    Importing it again changes nothing.
    """
    from modelpact.ledger.verify.archive import NotVerified, import_export

    keys = trusted_keys(key_files)
    with tempfile.TemporaryDirectory() as folder:
        if str(file) == "-":  # the importer reads the file twice
            file = Path(folder) / "standard-input"
            file.write_bytes(sys.stdin.buffer.read())
        try:
            with source.open_ledger() as ledger:
                imported = import_export(
                    ledger, lambda: _file_lines(file), keys, allow_unsigned=unsigned or not key_files
                )
        except NotVerified as error:
            _print_report(error.report, file, as_json)
            raise SystemExit(1) from None
    if as_json:
        counts = {"events": imported.added, "known": imported.existing, "left": imported.skipped}
        print_json({"envelope": imported.envelope, **counts})
        return
    summary = f"{imported.envelope}: {imported.added:,} events imported, "
    summary += f"{imported.existing:,} were already here"
    if imported.skipped:
        summary += f"; {imported.skipped:,} unsigned ones were skipped: --unsigned imports them"
    click.echo(escape_line(summary))


@audit_command.command("archive")
@click.argument("envelope")
@click.option("--to", "file", type=_NEW_FILE, required=True, help="The compressed file to write.")
@click.option("--drop", is_flag=True, help="Then delete the events from the ledger.")
@click.option("--reason", default="", help="The reason, for the record.")
@json_option
@ledger_options
def archive_command(envelope: str, file: Path, drop: bool, reason: str, as_json: bool, source: LedgerSource) -> None:
    """Close an envelope for good and write it to a file.

    The file can still be verified later.
    """
    from modelpact.ledger.verify.archive import archive

    check_printable(envelope)
    signer = user_keyring()
    if drop and signer is None:
        raise LedgerError("--drop needs a signed archive: make a key with `modelpact identity init`")
    with source.open_ledger() as ledger:
        report = archive(ledger, envelope, file, signer=signer, drop=drop, reason=reason)
    _print_report(report, file, as_json)


def _print_report(report: VerifyReport, file: Path, as_json: bool) -> None:
    data = report_json(report, str(file))
    print_result(data, report_text(report, str(file)), as_json=as_json)
