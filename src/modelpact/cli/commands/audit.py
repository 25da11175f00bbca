"""`modelpact audit`: the ledger's events, and the proof that nobody changed them."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec

from modelpact.cli.commands.audit_files import (
    archive_command,
    export_command,
    import_command,
    keys_option,
    watched_lines,
)
from modelpact.cli.options import config_option, json_option, print_json
from modelpact.cli.paths import check_argument, open_reader, store_option, trusted_keys
from modelpact.cli.render.audit import (
    event_json,
    event_row,
    event_rows,
    one_line,
    print_envelopes,
    print_event,
    print_why,
    report_json,
    report_line,
)
from modelpact.cli.render.progress import Progress
from modelpact.ledger.event import Event
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.verify.audit import verify_envelope
from modelpact.ledger.verify.report import ExpectedHead, TableReport, VerifyReport
from modelpact.ledger.verify.tables import verify_tables
from modelpact.ledger.verify.verifier import verify_export
from modelpact.vocabulary.errors import InputError, nearest

_POLL_S: Final = 0.25
_OVERLAP: Final = 5 * 10**9
"""How far back a follower looks: another writer's commit may come after later ones."""


@click.group("audit", short_help="The ledger's events.")
def command() -> None:
    """Show, follow, verify and move the events of the ledger."""


@command.command("show")
@click.argument("name", metavar="[EVENT|ENVELOPE]", required=False)
@click.option("--why", is_flag=True, help="Walk back through what caused the event.")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin after this event's number.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@json_option
@store_option
@config_option
def show_command(
    name: str | None,
    why: bool,
    after: int,
    limit: int,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Show an event, the events of an envelope, or which envelopes there are."""
    with open_reader(store, config_path) as reader:
        if name is None:
            found = reader.envelopes()
            print_json(msgspec.to_builtins(found)) if as_json else print_envelopes(found)
            return
        event = reader.event(check_argument(name))
        if event is not None:
            events = reader.cause_chain(name) if why else [event]
            if as_json:
                shown = [event_json(one) for one in events]
                print_json(shown if why else shown[0])
            else:
                print_why(events) if why else print_event(event)
            return
        envelope = reader.envelope(name)
        if envelope is None:
            raise InputError(_unknown(reader, name))
        if why:
            raise click.UsageError("--why is for an event: ENVELOPE:NUMBER.")
        events = reader.events(name, after=after, limit=limit)
        if as_json:
            print_json([event_json(one) for one in events])
            return
        click.echo(event_rows(events))
        if events and events[-1].sequence < envelope.events:
            left = envelope.events - events[-1].sequence
            click.echo(f"\n{left:,} more follow: --after {events[-1].sequence}, or --limit.")


def _unknown(reader: LedgerReader, name: str) -> str:
    close = nearest(name.rpartition(":")[0] or name, (one.id for one in reader.envelopes()))
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"there is no event or envelope {name!r:.80} in {reader.store.url}{meant}"


@command.command("tail")
@click.argument("envelope", required=False)
@click.option("-n", "--lines", "count", type=click.IntRange(0), default=20, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes.")
@click.option("--type", "prefix", default="", help="Only types that begin so.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each event.")
@store_option
@config_option
def tail_command(
    envelope: str | None,
    count: int,
    follow: bool,
    prefix: str,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Show the latest events of the ledger, or of one envelope."""

    def wanted(event: Event) -> bool:
        return event.type.startswith(prefix) and envelope in (None, event.envelope)

    with open_reader(store, config_path) as reader:
        for event in _tail(reader, envelope, count, follow):
            if wanted(event):
                line = (
                    json.dumps(event_json(event), ensure_ascii=False)
                    if as_json
                    else "  ".join(event_row(event))
                )
                click.echo(line)


def _tail(reader: LedgerReader, envelope: str | None, count: int, follow: bool) -> Iterator[Event]:
    if envelope is not None:
        found = reader.envelope(check_argument(envelope))
        if found is None:
            raise InputError(_unknown(reader, envelope))
        first = reader.events(envelope, after=found.events - count, limit=max(count, 1))
    else:
        first = reader.latest_events(max(count, 1))
    yield from first if count else ()
    seen = {event.id: event.time for event in first}
    latest = max(seen.values(), default=0)
    while follow:
        new = [
            event
            for event in reader.latest_events(1_000, after=(latest - _OVERLAP, "", 0))
            if event.id not in seen
        ]
        yield from (event for event in new if event.time >= min(seen.values(), default=0))
        seen.update((event.id, event.time) for event in new)
        latest = max(seen.values(), default=0)
        seen = {name: when for name, when in seen.items() if when >= latest - 2 * _OVERLAP}
        sys.stdout.flush()
        if not new:
            time.sleep(_POLL_S)


@command.command("verify")
@click.argument("names", metavar="[FILE|ENVELOPE]...", nargs=-1)
@click.option("--head", metavar="NUMBER:HASH", help="An event that must be in it, known elsewhere.")
@keys_option
@json_option
@store_option
@config_option
def verify_command(
    names: tuple[str, ...],
    head: str | None,
    key_files: tuple[Path, ...],
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Prove that exports, envelopes or the whole ledger are as they were written.

    In a ledger also what other commands show is held against the events: costs, invocations,
    providers. Exit 1 names the first broken link: edited, dropped, reordered, duplicated,
    truncated, a forged checkpoint or an unknown key.
    """
    keys, expected = trusted_keys(key_files), _head(head)
    files = [name for name in names if name == "-" or Path(name).is_file()]
    inside = [check_argument(name) for name in names if name not in files]
    if expected and len(names) != 1:
        raise click.UsageError("--head is for one FILE or ENVELOPE.")
    told: list[tuple[str, VerifyReport | TableReport]] = []
    for name in files:
        lines = watched_lines(Path(name))
        told.append((name, _excused(verify_export(lines, keys, expected=expected), key_files)))
    if inside or not names:
        with open_reader(store, config_path) as reader:
            found = {
                name: verify_envelope(
                    reader, name, keys, expected=expected, progress=partial(_watched, reader, name)
                )
                for name in (inside if names else reader.envelope_names())
            }
            tables = verify_tables(reader, found, complete=not names)
        told += [(str(name), _excused(report, key_files)) for name, report in found.items()]
        told += [(f"table {report.table}", report) for report in tables]
    if as_json:
        print_json([report_json(report, name) for name, report in told])
    else:
        click.echo("\n".join(report_line(report, name) for name, report in told) or "No events.")
    raise SystemExit(0 if all(report.ok for _, report in told) else 1)


def _watched(reader: LedgerReader, name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    rows = reader.read("SELECT COUNT(*) FROM events WHERE envelope = ?", (name,))
    return Progress(one_line(name), int(rows[0][0])).over(lines, lambda _: 1)


def _excused(report: VerifyReport, key_files: tuple[Path, ...]) -> VerifyReport:
    """Let what nobody signed pass, unless somebody asked whose it is."""
    if report.unsigned and not key_files:
        return msgspec.structs.replace(report, broken=None)
    return report


def _head(text: str | None) -> ExpectedHead | None:
    if text is None:
        return None
    number, _, digest = text.partition(":")
    if not (number.isascii() and number.isdecimal()) or len(number) > 18 or len(digest) != 64:
        raise InputError(f"--head {text!r:.80}: expected NUMBER:HASH, with 64 hex digits")
    return ExpectedHead(int(number), digest.lower())


for _moving in (export_command, import_command, archive_command):
    command.add_command(_moving)
