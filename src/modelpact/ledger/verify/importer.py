"""Imports: what another store exported, verified first, put in once however often it comes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.checkpoint import Checkpoint, read_checkpoint
from modelpact.ledger.costs import check_record, embedded_cost
from modelpact.ledger.event import Event, EventJson, check_name, event_hash
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerError, Row
from modelpact.ledger.verify.export import CHECKPOINT_START, EVENT_START, UNREADABLE, ExportHeader
from modelpact.ledger.verify.report import BrokenLink, ExpectedHead, VerifyReport
from modelpact.ledger.verify.verifier import verify_export
from modelpact.ledger.write.transaction import Transaction
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys

_TOGETHER: Final = 1_000
_EVENT: Final = msgspec.json.Decoder(EventJson)
_HEADER: Final = msgspec.json.Decoder(ExportHeader)
_IMPORTED: Final = (
    "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)

OpenLines = Callable[[], Iterable[bytes]]


class NotVerified(LedgerError):
    """An export that does not verify, or contradicts the store: nothing of it is taken."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__(f"the export is refused: {report.broken}")
        self.report = report


class ImportResult(msgspec.Struct, frozen=True):
    """What an import did."""

    envelope: str
    added: int
    """How many events were new here."""
    existing: int
    """How many were here already."""
    skipped: int
    """How many were not taken, because no checkpoint signs them."""
    report: VerifyReport


def import_export(
    ledger: Ledger,
    open_lines: OpenLines,
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    allow_unsigned: bool = False,
) -> ImportResult:
    """Verify an export, then put in what the store lacks. The lines are read more than once.

    With keys, events are taken as far as a checkpoint signs them; `allow_unsigned`: also those
    that nobody has signed. What this store writes itself is filled up, never extended.
    """
    header = _read_header(open_lines)
    found = ledger.envelope(header.envelope) if header else None
    expected = None
    if header is not None and found is not None:
        last = min(found.events, header.events)
        rows = ledger.read(
            "SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (header.envelope, last)
        )
        if not rows:
            raise LedgerError(f"{header.envelope} is archived here, and longer than the export")
        expected = ExpectedHead(last, rows[0][0])
    report = verify_export(open_lines(), public_keys, expected=expected)
    if header is None or not (report.ok or (report.unsigned and allow_unsigned)):
        raise NotVerified(report)
    end = report.events if allow_unsigned or public_keys is None else report.signed
    if found is not None and found.events < end:
        _check_foreign(header.envelope, found.events, last_imported(ledger.read, header.envelope))
    for _ in _checked(open_lines(), report, end):
        pass  # all of it, before anything is written
    new = 0
    for events, checkpoints in _chunks(_checked(open_lines(), report, end)):
        new += ledger.write(lambda tx, e=events, c=checkpoints: _put(tx, header, e, c))  # type: ignore[misc]
    return ImportResult(report.envelope, new, end - new, report.events - end, report)


def last_imported(read: Callable[[str, tuple[str]], list[Row]], envelope: str) -> int:
    """Return the number of the event up to which an envelope came here by imports, or 0."""
    rows = read("SELECT value FROM meta WHERE key = ?", (f"imported:{envelope}",))
    text = str(rows[0][0]) if rows else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _check_foreign(envelope: str, last: int, imported: int) -> None:
    """Refuse to extend what this store writes: whoever signs it here would sign that, too."""
    if last != imported:
        raise LedgerError(
            f"{envelope} is written by this store, up to event {last:,}: an import does not "
            "extend it; nothing was taken"
        )


def _read_header(open_lines: OpenLines) -> ExportHeader | None:
    try:
        return next((_HEADER.decode(line) for line in open_lines()), None)
    except UNREADABLE:
        return None


def _checked(
    lines: Iterable[bytes], report: VerifyReport, end: int
) -> Iterator[tuple[Event, bytes] | Checkpoint]:
    """Yield the events with their payloads, and the checkpoints, up to an event; or refuse them."""
    place = ""
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith(EVENT_START):
                event = _EVENT.decode(line).event()
                if event.sequence > end:
                    return
                place = event.id
                yield event, _payload(event)
            elif line.startswith(CHECKPOINT_START):
                yield read_checkpoint(line)
        except (*UNREADABLE, InputError) as error:
            broken = BrokenLink("edited", number, place, f"it cannot be taken: {error}")
            raise NotVerified(msgspec.structs.replace(report, broken=broken)) from None


def _chunks(
    checked: Iterable[tuple[Event, bytes] | Checkpoint],
) -> Iterator[tuple[list[tuple[Event, bytes]], list[Checkpoint]]]:
    events: list[tuple[Event, bytes]] = []
    checkpoints: list[Checkpoint] = []
    for one in checked:
        if isinstance(one, Checkpoint):
            checkpoints.append(one)
            continue
        if len(events) >= _TOGETHER:
            yield events, checkpoints
            events, checkpoints = [], []
        events.append(one)
    if events:
        yield events, checkpoints


def _put(
    tx: Transaction,
    header: ExportHeader,
    events: list[tuple[Event, bytes]],
    checkpoints: list[Checkpoint],
) -> int:
    """Put in what is missing; what is there must be the same."""
    envelope = header.envelope
    first, last = events[0][0], events[-1][0].sequence
    there: dict[int, str] = dict(
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
    if there.get(first.sequence - 1, first.previous) != first.previous:
        raise LedgerError(f"{envelope} was written to meanwhile: import it again")
    head = tx.head(envelope).sequence
    if last > head:
        if head:
            _check_foreign(envelope, head, last_imported(tx.execute, envelope))
        tx.execute(_IMPORTED, (f"imported:{envelope}", str(last)))
    tx.open_envelope(envelope, header.kind, header.subject)
    new = 0
    for event, payload in events:
        if event.sequence in there:
            if there[event.sequence] != event.hash:
                raise LedgerError(f"the store has another event {event.id}")
            continue
        tx.restore(event, payload)
        new += 1
        record = embedded_cost(event)
        if record is not None and event.sequence not in costed:
            tx.record_cost(event, record)
    signers = {one.key_id for one in checkpoints}
    for checkpoint in checkpoints:
        tx.add_checkpoint(checkpoint, None)
    for one in header.keys:
        if signers & {key["key_id"] for key in one["keys"]}:
            text = msgspec.json.format(msgspec.json.encode(one)).decode()
            tx.add_signer(one["keys"][0]["key_id"], f"{text}\n")
    return new


def _payload(event: Event) -> bytes:
    """Return the canonical payload; the hash must be that of the whole in canonical form."""
    check_name(event.type, "type")
    if event.cause is not None:
        check_name(event.cause, "cause")
    payload = canonical(event.payload)
    digest = event_hash(
        event.envelope,
        event.sequence,
        event.type,
        event.time,
        event.cause,
        payload,
        event.previous,
    )
    if digest != event.hash:
        raise InputError("it is not in canonical form")
    record = embedded_cost(event)
    if record is not None:
        check_record(record, event.envelope)
    return payload
