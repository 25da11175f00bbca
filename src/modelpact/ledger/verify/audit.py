"""Audit of an envelope in a store: its chain, or what archiving left of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from modelpact.ledger.checkpoint import Checkpoint, TrustedKeys
from modelpact.ledger.errors import LedgerError, LedgerUnavailable
from modelpact.ledger.reader import Envelope, LedgerReader
from modelpact.ledger.verify.export import decode_event, event_line, export_lines, find_signer_keys, is_hash_valid
from modelpact.ledger.verify.verifier import (
    BreakKind,
    BrokenLink,
    BrokenLinkError,
    ExpectedHead,
    VerifyReport,
    verify_export,
)
from modelpact.ledger.write.transaction import ARCHIVED
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.strict_json import UNREADABLE

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys

LineProgress = Callable[[Iterable[bytes]], Iterable[bytes]]
"""Passes lines on, and may show how many there were."""


def verify_envelope(
    reader: LedgerReader,
    name: Any,
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    expected: ExpectedHead | None = None,
    progress: LineProgress = iter,
) -> VerifyReport:
    """Verify an envelope in a store. Its rows may have been edited in any way."""
    try:
        envelope = reader.envelope(name)
        if envelope is None:
            return _report_missing(reader, name, TrustedKeys(public_keys))
        (first,) = reader.event_rows(name, limit=1)
        if first[1] != 1 and envelope.archived is not None:
            return _ArchivedRest(reader, envelope, public_keys).verify(expected)
        report = verify_export(progress(export_lines(reader, name)), public_keys, expected=expected)
        return _check_state(reader, envelope, report)
    except LedgerUnavailable:
        raise
    except LedgerError as error:
        return VerifyReport(brief(name), broken=BrokenLink("edited", 0, "", str(error)))


def _check_state(reader: LedgerReader, before: Envelope, report: VerifyReport) -> VerifyReport:
    """Compare the state in the table of envelopes with the last event.

    The envelope may have been archived meanwhile, so its state is read before and after.
    """
    after = reader.envelope(before.id)
    still_open = report.archived and after is not None and after.archived is None
    if report.ok and (still_open or (before.archived is not None and not report.archived)):
        state = "archived" if before.archived is not None else "open"
        message = f"the envelope is marked as {state}, and its last event says otherwise"
        return msgspec.structs.replace(report, broken=BrokenLink("edited", 0, "", message))
    return report


def _report_missing(reader: LedgerReader, name: str, trusted: TrustedKeys) -> VerifyReport:
    """Report on an envelope without events, which may never have had any."""
    rows = reader.read("SELECT archived FROM envelopes WHERE id = ?", (name,))
    checkpoints = reader.checkpoints(name)
    if not rows and not checkpoints:
        raise InputError(f"there is no envelope {name!r:.80} in {reader.store.url}")
    broken = None
    if checkpoints:
        message = f"a checkpoint signs event {checkpoints[-1].sequence}, and there are no events"
        broken = BrokenLink("truncated", 0, f"{name}:1", message)
    elif rows[0][0] is not None:
        message = "the envelope is marked as archived, and even its last event is missing"
        broken = BrokenLink("truncated", 0, f"{name}:1", message)
    elif trusted.supplied:
        broken = BrokenLink("unsigned", 0, "", "the envelope was opened and has no events")
    return VerifyReport(name, trusted=trusted.supplied, broken=broken)


class _ArchivedRest:
    """The events of an archived envelope that are still in the store: its end."""

    def __init__(
        self, reader: LedgerReader, envelope: Envelope, public_keys: "PublicKeys | Sequence[PublicKeys] | None"
    ) -> None:
        self.reader = reader
        self.envelope = envelope
        self.trusted = TrustedKeys(public_keys)
        self.first = 0
        self.last = 0
        self.head = ""

    def verify(self, expected: ExpectedHead | None) -> VerifyReport:
        """Verify that the events are chained, that they end the envelope, and that it is signed."""
        broken: BrokenLink | None = None
        checkpoints = self.reader.checkpoints(self.envelope.id)
        keys: tuple[str, ...] = ()
        try:
            self.read_events(expected)
            keys = self.read_checkpoints(checkpoints)
        except BrokenLinkError as error:
            broken = error.link
        return VerifyReport(
            self.envelope.id,
            kind=self.envelope.kind,
            subject=self.envelope.subject,
            events=0 if broken else self.last,
            head=self.head,
            checkpoints=len(checkpoints),
            signed=0 if broken else self.last,
            keys=keys,
            trusted=self.trusted.supplied,
            archived=True,
            broken=broken,
            first=self.first,
        )

    def read_events(self, expected: ExpectedHead | None) -> None:
        """Read the events in order. The last one must close the envelope."""
        kind = ""
        for row in self.reader.iter_event_rows(self.envelope.id):
            sequence = self.last + 1
            try:
                line = event_line(row).rstrip(b"\n")
                event = decode_event(line)
            except UNREADABLE:
                raise self.broken("edited", sequence, "the event cannot be read") from None
            sequence = event.sequence
            if not is_hash_valid(line, event.hash):
                raise self.broken("edited", sequence, "the event does not match its hash")
            if self.last and sequence != self.last + 1:
                message = f"event {sequence:,} follows event {self.last:,}"
                raise self.broken("dropped", self.last + 1, message)
            if self.last and event.previous != self.head:
                message = "the next event was chained to another event"
                raise self.broken("edited", self.last, message)
            if expected is not None and (sequence == expected.sequence and event.hash != expected.hash):
                raise self.broken("edited", sequence, "the event does not have the expected hash")
            self.first = self.first or sequence
            self.last, self.head, kind = sequence, event.hash, event.type
        if kind != ARCHIVED:
            message = "earlier events are missing, and the last event does not close the envelope"
            raise self.broken("dropped", self.last, message)

    def read_checkpoints(self, checkpoints: list[Checkpoint]) -> tuple[str, ...]:
        """Return the ids of the keys that signed the last event. At least one must have."""
        key_ids: list[str] = []
        offered = find_signer_keys(self.reader, {checkpoint.key_id for checkpoint in checkpoints})
        self.trusted.add(offered)
        for checkpoint in checkpoints:
            if type(checkpoint.sequence) is not int or checkpoint.sequence > self.last:
                message = f"a checkpoint signs event {checkpoint.sequence!r:.40}"
                raise self.broken("truncated", self.last + 1, message)
            keys = self.trusted.find(checkpoint.key_id)
            if checkpoint.sequence < self.last or keys is None:
                continue
            if checkpoint.hash != self.head or not checkpoint.is_signed_by(keys):
                message = "the checkpoint does not sign the last event"
                raise self.broken("forged checkpoint", self.last, message)
            key_ids.append(checkpoint.key_id)
        if not key_ids:
            message = "earlier events are missing, and no trusted key signed the archived envelope"
            raise self.broken("dropped", self.last, message)
        return tuple(key_ids)

    def broken(self, kind: BreakKind, sequence: int, message: str) -> BrokenLinkError:
        """Return the error for a broken link at an event."""
        return BrokenLinkError(kind, 0, f"{self.envelope.id}:{sequence}", message)
