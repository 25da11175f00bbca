"""Imports: what another store exported, verified first, put in once however often it comes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from modelpact.ledger.canonical import NotCanonical, canonical
from modelpact.ledger.checkpoint import Checkpoint, read_checkpoint
from modelpact.ledger.costs import embedded_cost
from modelpact.ledger.event import Event, EventOnWire, event_hash
from modelpact.ledger.export import CHECKPOINT_START, EVENT_START, Header
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.report import ExpectedHead, VerifyReport
from modelpact.ledger.store import LedgerError
from modelpact.ledger.transaction import Transaction
from modelpact.ledger.verify import verify_export

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys

_TOGETHER: Final = 1_000
_EVENT: Final = msgspec.json.Decoder(EventOnWire)
_HEADER: Final = msgspec.json.Decoder(Header)

OpenLines = Callable[[], Iterable[bytes]]


class NotVerified(LedgerError):
    """An export that does not verify, or contradicts the store: nothing of it is taken."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__(f"the export is refused: {report.broken}")
        self.report = report


class Imported(msgspec.Struct, frozen=True):
    """What an import did."""

    envelope: str
    events: int
    """How many events were new here."""
    known: int
    """How many were here already."""
    report: VerifyReport


def import_export(
    ledger: Ledger,
    open_lines: OpenLines,
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    anyone: bool = False,
) -> Imported:
    """Verify an export, then put in what the store lacks. The lines are read more than once.

    `anyone`: one that nobody has signed will do.
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
    unsigned = report.broken is not None and report.broken.kind == "unsigned"
    if header is None or not (report.ok or (unsigned and anyone)):
        raise NotVerified(report)
    new = 0
    for events, checkpoints in _chunks(open_lines()):
        new += ledger.write(lambda tx, e=events, c=checkpoints: _put(tx, header, e, c))  # type: ignore[misc]
    return Imported(report.envelope, new, report.events - new, report)


def _read_header(open_lines: OpenLines) -> Header | None:
    try:
        return next((_HEADER.decode(line) for line in open_lines()), None)
    except msgspec.DecodeError:
        return None


def _chunks(lines: Iterable[bytes]) -> Iterator[tuple[list[Event], list[Checkpoint]]]:
    events: list[Event] = []
    checkpoints: list[Checkpoint] = []
    for line in lines:
        if line.startswith(EVENT_START):
            if len(events) >= _TOGETHER:
                yield events, checkpoints
                events, checkpoints = [], []
            events.append(_EVENT.decode(line).event())
        elif line.startswith(CHECKPOINT_START):
            checkpoints.append(read_checkpoint(line))
    if events:
        yield events, checkpoints


def _put(
    tx: Transaction, header: Header, events: list[Event], checkpoints: list[Checkpoint]
) -> int:
    """Put in what is missing; what is there must be the same."""
    first, last = events[0].sequence, events[-1].sequence
    there: dict[int, str] = dict(
        tx.execute(
            "SELECT sequence, hash FROM events WHERE envelope = ? AND sequence BETWEEN ? AND ?",
            (header.envelope, first - 1, last),
        )
    )
    costed = {
        row[0]
        for row in tx.execute(
            "SELECT sequence FROM costs WHERE envelope = ? AND sequence BETWEEN ? AND ?",
            (header.envelope, first, last),
        )
    }
    if there.get(first - 1, events[0].previous) != events[0].previous:
        raise LedgerError(f"{header.envelope} was written to meanwhile: import it again")
    tx.open_envelope(header.envelope, header.kind, header.subject)
    new = 0
    for event in events:
        if event.sequence in there:
            if there[event.sequence] != event.hash:
                raise LedgerError(f"the store has another event {event.id}")
            continue
        tx.restore(event, _payload(event))
        new += 1
        record = embedded_cost(event)
        if record is not None and event.sequence not in costed:
            tx.record_cost(event, record)
    keys = {
        one["keys"][0]["key_id"]: msgspec.json.format(msgspec.json.encode(one))
        for one in header.keys
    }
    for checkpoint in checkpoints:
        tx.add_checkpoint(checkpoint, None)
    for root, text in keys.items():
        tx.add_signer(root, text.decode() + "\n")
    return new


def _payload(event: Event) -> bytes:
    """Return the canonical payload; the hash must be that of the whole in canonical form."""
    try:
        payload = canonical(event.payload)
    except NotCanonical as error:
        raise LedgerError(f"{event.id} is not canonical: {error}") from None
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
        raise LedgerError(f"{event.id} is not in canonical form")
    return payload
