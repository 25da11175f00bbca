"""Archives: an envelope leaves a store as a verified export, or an export enters another store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.checkpoint import Checkpoint, read_checkpoint
from modelpact.ledger.costs import check_record
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Draft, Event, check_name, check_time, embedded_cost, event_hash
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import Row
from modelpact.ledger.verify.export import (
    CHECKPOINT_START,
    EVENT_START,
    ExportHeader,
    export_lines,
    read_export,
    write_export,
)
from modelpact.ledger.verify.verifier import BrokenLink, ExpectedHead, VerifyReport, verify_export
from modelpact.ledger.write.transaction import ARCHIVED, Transaction
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import UNREADABLE

if TYPE_CHECKING:
    from modelpact.identity import Keyring, PublicKeys

_DROP_EVENTS: Final = 5_000
_IMPORT_EVENTS: Final = 1_000
_SET_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_decode_event: Final = msgspec.json.Decoder(Event, strict=False).decode
"""Also reads the time, which is text. `_canonical_payload` refuses what else this accepts."""
_decode_header: Final = msgspec.json.Decoder(ExportHeader).decode

OpenLines = Callable[[], Iterable[bytes]]
_VerifiedEvent = tuple[Event, bytes]
"""An event and its canonical payload."""


class NotVerified(LedgerError):
    """The export does not verify, or contradicts the store. Nothing of it was imported."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__(f"the export is refused: {report.broken}")
        self.report = report


class ImportResult(msgspec.Struct, frozen=True):
    """What an import did."""

    envelope: str
    added: int
    """How many events were new here."""
    existing: int
    """How many events were here already."""
    skipped: int
    """How many events were not imported, because no checkpoint signs them."""
    report: VerifyReport


def archive(
    ledger: Ledger, envelope: str, file: Path, *, signer: "Keyring | None" = None, drop: bool = False, reason: str = ""
) -> VerifyReport:
    """Close an envelope and write its archive. With `drop`, its events then leave the store.

    If this is interrupted, call it again with the same arguments to finish. The last event stays in
    the store, so that nothing can be appended after the archive.
    """
    info = ledger.envelope(envelope)
    if info is None:
        raise LedgerError(f"there is no envelope {envelope!r:.80} in {ledger.store.url}")
    if drop and signer is None:
        raise LedgerError("events are dropped only if their archive is signed: name a signer")
    (first,) = ledger.events(envelope, limit=1)
    if first.sequence == 1:
        _check_not_taken(ledger, envelope, file)
    if info.archived is None:
        payload = {"events": info.events, "file": file.name, "reason": reason}
        ledger.write(lambda tx: _close(tx, Draft(envelope, ARCHIVED, payload)))
    if signer is not None:
        ledger.checkpoint(envelope, signer)
    expected = None
    if first.sequence == 1:
        write_export(file, export_lines(ledger, envelope), compress=True)
    else:  # interrupted while events were dropped: the file must be the archive of this envelope
        head = ledger.events(envelope, after=info.events - 1)[-1]
        expected = ExpectedHead(head.sequence, head.hash)
    keys = None if signer is None else signer.public_keys
    report = verify_export(read_export(file), keys, expected=expected)
    if not report.ok:
        raise NotVerified(report)
    if drop:
        _drop(ledger, envelope, report.events)
    return report


def import_export(
    ledger: Ledger,
    open_lines: OpenLines,
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    allow_unsigned: bool = False,
) -> ImportResult:
    """Verify an export, then add the events that the store lacks. The lines are read repeatedly.

    With keys, events are imported up to the last one that a checkpoint signs; `allow_unsigned`
    imports the rest, too. An envelope that this store writes itself is completed, never extended.
    """
    header = _read_header(open_lines)
    existing = ledger.envelope(header.envelope) if header else None
    expected = None
    if header is not None and existing is not None:
        last = min(existing.events, header.events)
        rows = ledger.read("SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (header.envelope, last))
        if not rows:
            raise LedgerError(f"{header.envelope} is archived here and longer than the export")
        expected = ExpectedHead(last, rows[0][0])
    report = verify_export(open_lines(), public_keys, expected=expected)
    if header is None or not (report.ok or (report.unsigned and allow_unsigned)):
        raise NotVerified(report)
    end = report.events if allow_unsigned or public_keys is None else report.signed
    if existing is not None and existing.events < end:
        imported = last_imported(ledger.read, header.envelope)
        _check_not_own(header.envelope, existing.events, imported)
    for _ in _read_verified(open_lines(), report, end):
        pass  # check all of it before anything is written
    added = 0
    for events, checkpoints in _chunks(_read_verified(open_lines(), report, end)):
        work = partial(_add, header=header, events=events, checkpoints=checkpoints)
        added += ledger.write(work)
    return ImportResult(report.envelope, added, end - added, report.events - end, report)


def last_imported(read: Callable[[str, tuple[str]], list[Row]], envelope: str) -> int:
    """Return the sequence number of the last event that imports brought to an envelope, or 0."""
    rows = read("SELECT value FROM meta WHERE key = ?", (f"imported:{envelope}",))
    text = str(rows[0][0]) if rows else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _check_not_taken(ledger: Ledger, envelope: str, file: Path) -> None:
    """Refuse to overwrite a file, unless it is an earlier archive of the same envelope."""
    if not file.exists():
        return
    present = verify_export(read_export(file))
    same = ledger.read("SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (envelope, present.events))
    if not present.ok or present.envelope != envelope or same != [(present.head,)]:
        raise LedgerError(f"{file} exists and is not the archive of {envelope}: name another file; nothing was changed")


def _close(tx: Transaction, draft: Draft) -> None:
    """Close an envelope in which nothing is open."""
    rows = tx.execute("SELECT id FROM invocations WHERE envelope = ? AND state = 'open'", (draft.envelope,))
    if rows:
        raise LedgerError(
            f"{draft.envelope} has {len(rows):,} open invocations, for example {rows[0][0]}: let "
            "them end, or cancel them with `modelpact invocations cancel`; nothing was changed"
        )
    last = tx.execute(
        "SELECT type, (SELECT kind FROM envelopes WHERE id = events.envelope) FROM events "
        "WHERE envelope = ? ORDER BY sequence DESC LIMIT 1",
        (draft.envelope,),
    )
    if last and last[0][1] == "gateway" and last[0][0] != "gateway.stopped":
        raise LedgerError(
            f"{draft.envelope} belongs to a gateway that has not finished it: stop the gateway, or "
            "start it again if it crashed; nothing was changed"
        )
    tx.append(draft)


def _drop(ledger: Ledger, envelope: str, last: int) -> None:
    """Delete all events but the last."""
    for end in range(_DROP_EVENTS, last + _DROP_EVENTS, _DROP_EVENTS):

        def work(tx: Transaction, end: int = min(end, last - 1)) -> None:
            tx.execute("DELETE FROM events WHERE envelope = ? AND sequence <= ?", (envelope, end))

        ledger.write(work)


def _check_not_own(envelope: str, last: int, imported: int) -> None:
    """Refuse to extend an envelope that this store writes: its next checkpoint would sign that."""
    if last != imported:
        raise LedgerError(
            f"{envelope} is written by this store, up to event {last:,}: an import cannot extend "
            "it; nothing was imported"
        )


def _read_header(open_lines: OpenLines) -> ExportHeader | None:
    try:
        return next((_decode_header(line) for line in open_lines()), None)
    except UNREADABLE:
        return None


def _read_verified(lines: Iterable[bytes], report: VerifyReport, end: int) -> Iterator[_VerifiedEvent | Checkpoint]:
    """Yield events and checkpoints up to the event `end`, or raise `NotVerified`."""
    name = ""
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith(EVENT_START):
                event = _decode_event(line)
                if event.sequence > end:
                    return
                name = event.id
                yield event, _canonical_payload(event)
            elif line.startswith(CHECKPOINT_START):
                yield read_checkpoint(line)
        except (*UNREADABLE, InputError) as error:
            broken = BrokenLink("edited", number, name, f"it cannot be imported: {error}")
            raise NotVerified(msgspec.structs.replace(report, broken=broken)) from None


def _canonical_payload(event: Event) -> bytes:
    """Return the payload in canonical form. The event must have been hashed in that form."""
    check_name(event.type, "type")
    check_time(event.time)
    if event.cause is not None:
        check_name(event.cause, "cause")
    payload = canonical(event.payload)
    envelope, sequence, kind, time, cause, _, previous, digest = msgspec.structs.astuple(event)
    if event_hash(envelope, sequence, kind, time, cause, payload, previous) != digest:
        raise InputError("the event is not in canonical form")
    record = embedded_cost(event)
    if record is not None:
        check_record(record, event.envelope)
    return payload


def _chunks(verified: Iterable[_VerifiedEvent | Checkpoint]) -> Iterator[tuple[list[_VerifiedEvent], list[Checkpoint]]]:
    events: list[_VerifiedEvent] = []
    checkpoints: list[Checkpoint] = []
    for entry in verified:
        if isinstance(entry, Checkpoint):
            checkpoints.append(entry)
            continue
        if len(events) >= _IMPORT_EVENTS:
            yield events, checkpoints
            events, checkpoints = [], []
        events.append(entry)
    if events:
        yield events, checkpoints


def _add(tx: Transaction, header: ExportHeader, events: list[_VerifiedEvent], checkpoints: list[Checkpoint]) -> int:
    """Add the events that are missing. Those that exist must be the same. Return how many."""
    envelope = header.envelope
    first, last = events[0][0], events[-1][0].sequence
    hashes: dict[int, str] = dict(
        tx.execute(
            "SELECT sequence, hash FROM events WHERE envelope = ? AND sequence BETWEEN ? AND ?",
            (envelope, first.sequence - 1, last),
        )
    )
    costed = {
        row[0]
        for row in tx.execute(
            "SELECT sequence FROM costs WHERE envelope = ? AND sequence BETWEEN ? AND ?",
            (envelope, first.sequence, last),
        )
    }
    if hashes.get(first.sequence - 1, first.previous) != first.previous:
        raise LedgerError(f"{envelope} was written to during the import: import it again")
    head = tx.head(envelope).sequence
    if last > head:
        if head:
            _check_not_own(envelope, head, last_imported(tx.execute, envelope))
        tx.execute(_SET_META, (f"imported:{envelope}", str(last)))
    tx.open_envelope(envelope, header.kind, header.subject)
    added = 0
    for event, payload in events:
        if event.sequence in hashes:
            if hashes[event.sequence] != event.hash:
                raise LedgerError(f"the store has a different event {event.id}")
            continue
        tx.restore(event, payload)
        added += 1
        record = embedded_cost(event)
        if record is not None and event.sequence not in costed:
            tx.record_cost(event, record)
    key_ids = {checkpoint.key_id for checkpoint in checkpoints}
    for checkpoint in checkpoints:
        tx.add_checkpoint(checkpoint)
    for keys in header.keys:
        if key_ids & {key["key_id"] for key in keys["keys"]}:
            text = msgspec.json.format(msgspec.json.encode(keys)).decode()
            tx.add_signer(keys["keys"][0]["key_id"], f"{text}\n")
    return added
