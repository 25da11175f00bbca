"""Verification of an export: offline, in one pass, up to the first broken link."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

import msgspec

from modelpact.ledger.checkpoint import TrustedKeys, read_checkpoint
from modelpact.ledger.event import GENESIS
from modelpact.ledger.verify.export import (
    CHECKPOINT_START,
    EVENT_START,
    FORMAT,
    HEADER_START,
    ExportHeader,
    LinkedEvent,
    decode_event,
    is_hash_valid,
)
from modelpact.ledger.write.transaction import ARCHIVED
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import UNREADABLE

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys

Line: TypeAlias = bytes | str
BreakKind = Literal[
    "edited", "dropped", "reordered", "duplicated", "truncated", "forged checkpoint", "unknown key", "unsigned"
]
_decode_header: Final = msgspec.json.Decoder(ExportHeader).decode


class ExpectedHead(msgspec.Struct, frozen=True):
    """An event that is known from elsewhere: from a checkpoint kept aside, or from a store."""

    sequence: int
    hash: str


class BrokenLink(msgspec.Struct, frozen=True):
    """The first broken link: what happened to it, in which line of a file, at which event."""

    kind: BreakKind
    line: int
    event: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.kind}: {self.message}"


class BrokenLinkError(Exception):
    """Ends a verification at the first broken link."""

    def __init__(self, kind: BreakKind, line: int, event: str, message: str) -> None:
        super().__init__(message)
        self.link = BrokenLink(kind, line, event, message)


class VerifyReport(msgspec.Struct, frozen=True):
    """The result of verifying an envelope, in an export or in a store."""

    envelope: str
    kind: str = ""
    subject: str = ""
    events: int = 0
    """How many events are intact, counted from the first."""
    head: str = GENESIS
    checkpoints: int = 0
    signed: int = 0
    """The sequence number of the last event that a valid checkpoint signs, or 0."""
    keys: tuple[str, ...] = ()
    """The ids of the keys that signed."""
    trusted: bool = False
    """Whether the verifier supplied the keys. If not, they came with the export."""
    archived: bool = False
    broken: BrokenLink | None = None
    first: int = 1
    """The first event that is present. The events before it are only in an archive."""

    @property
    def ok(self) -> bool:
        """Whether no link is broken."""
        return self.broken is None

    @property
    def unsigned(self) -> bool:
        """Whether the chain is intact but nothing in it is signed."""
        return self.broken is not None and self.broken.kind == "unsigned"


class TableReport(msgspec.Struct, frozen=True):
    """The result of comparing a table that users read with the events."""

    table: str
    rows: int = 0
    """How many rows agree with the events."""
    unproven: int = 0
    """How many rows rest on events that are only in an archive."""
    broken: BrokenLink | None = None

    @property
    def ok(self) -> bool:
        """Whether no row contradicts the events."""
        return self.broken is None

    def __add__(self, other: "TableReport") -> "TableReport":
        return TableReport(
            self.table, self.rows + other.rows, self.unproven + other.unproven, self.broken or other.broken
        )


def verify_export(
    lines: Iterable[Line],
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    expected: ExpectedHead | None = None,
) -> VerifyReport:
    """Verify the lines of an export against public keys that you trust.

    Without keys, those of the export are used. That proves that the export is consistent, not who
    signed it.
    """
    return _Verifier(lines, public_keys, expected).run()


class _Verifier:
    """The state of a verification: the header, the last event that is intact, the checkpoints."""

    def __init__(
        self,
        lines: Iterable[Line],
        public_keys: "PublicKeys | Sequence[PublicKeys] | None",
        expected: ExpectedHead | None,
    ) -> None:
        self.lines = _CountedLines(lines)
        self.trusted = TrustedKeys(public_keys)
        self.expected = expected
        self.header = ExportHeader(0, "", 0, FORMAT, GENESIS, [], "", 0, "")
        self.header_line = b""
        self.count = 0
        self.head = GENESIS
        self.archived = False
        self.checkpoints = 0
        self.signed = 0
        self.keys: dict[str, None] = {}
        self.seen: set[bytes] = set()

    def run(self) -> VerifyReport:
        """Verify everything, or up to the first broken link."""
        broken: BrokenLink | None = None
        try:
            self.read_header()
            for line in self.lines:
                if line[: len(EVENT_START)] == EVENT_START:
                    self.read_event(line)
                elif line.startswith(CHECKPOINT_START):
                    self.read_checkpoint(line)
                else:
                    self.blame_other(line)
            self.check_end()
        except BrokenLinkError as error:
            broken = error.link
        return VerifyReport(
            envelope=self.header.envelope,
            kind=self.header.kind,
            subject=self.header.subject,
            events=self.count,
            head=self.head,
            checkpoints=self.checkpoints,
            signed=self.signed,
            keys=tuple(self.keys),
            trusted=self.trusted.supplied,
            archived=self.archived,
            broken=broken,
        )

    def read_header(self) -> None:
        """Read the first line."""
        line = next(self.lines, None)
        if line is None:
            raise self.broken("truncated", "", "the export is empty")
        if line.startswith((EVENT_START, CHECKPOINT_START)):
            later = any(other.startswith(HEADER_START) for other in self.lines)
            kind: BreakKind = "reordered" if later else "dropped"
            raise self.broken(kind, "", "the first line is not the header", 1)
        try:
            header = _decode_header(line)
        except UNREADABLE as error:
            raise self.unreadable(line, "", f"the header cannot be read: {error}") from None
        if header.format != FORMAT or not is_hash_valid(line, header.hash):
            raise self.broken("edited", "", "the header does not match its hash")
        self.header, self.header_line = header, line
        problem = self.trusted.add(header.keys)
        if problem:
            raise self.broken("unknown key", "", problem)

    def read_event(self, line: bytes) -> None:
        """Read an event. The checks for one that is intact come first, because they are fast."""
        try:
            event = decode_event(line)
        except UNREADABLE as error:
            name = self.event_id(self.count + 1)
            raise self.unreadable(line, name, f"the event cannot be read: {error}") from None
        if (
            event.sequence != self.count + 1
            or event.previous != self.head
            or event.envelope != self.header.envelope
            or not is_hash_valid(line, event.hash)
        ):
            self.blame_event(line, event)
        self.count += 1
        self.head = event.hash
        self.archived = event.type == ARCHIVED
        expected = self.expected
        if expected is not None and self.count == expected.sequence and self.head != expected.hash:
            raise self.broken("edited", self.event_id(self.count), "the event does not have the expected hash")

    def read_checkpoint(self, line: bytes) -> None:
        """Read a checkpoint. It signs the event before it."""
        name = self.event_id(self.count)
        try:
            checkpoint = read_checkpoint(line)
        except (*UNREADABLE, InputError) as error:
            message = f"the checkpoint cannot be read: {error}"
            raise self.unreadable(line, name, message, "forged checkpoint") from None
        digest = hashlib.sha256(line).digest()
        if digest in self.seen:
            raise self.broken("duplicated", name, "the checkpoint is repeated")
        self.seen.add(digest)
        keys = self.trusted.find(checkpoint.key_id)
        if keys is None:
            raise self.broken("unknown key", name, f"the checkpoint is signed with key {checkpoint.key_id!r:.40}")
        is_canonical = checkpoint.line() == line + b"\n"
        is_ours = checkpoint.envelope == self.header.envelope
        if not is_canonical or not is_ours or not checkpoint.is_signed_by(keys):
            raise self.broken("forged checkpoint", name, "the signature is not valid")
        if checkpoint.sequence != self.count:
            self.blame_checkpoint(line, checkpoint.sequence)
        if checkpoint.hash != self.head:
            raise self.broken("edited", name, "the event does not have the hash that was signed")
        self.checkpoints += 1
        self.signed = self.count
        self.keys[checkpoint.key_id] = None

    def check_end(self) -> None:
        """Check that nothing is missing at the end."""
        header, name = self.header, self.event_id(self.count + 1)
        if self.count < header.events:
            message = f"the export ends after {self.count:,} of {header.events:,} events"
            raise self.broken("truncated", name, message)
        if self.expected is not None and self.count < self.expected.sequence:
            message = f"the export ends before event {self.expected.sequence:,}, which is expected"
            raise self.broken("truncated", name, message)
        if self.count > header.events or self.head != header.head:
            raise self.broken("edited", "", "the last event is not the one that the header names")
        if self.checkpoints != header.checkpoints:
            kind: BreakKind = "truncated" if self.signed < header.signed else "dropped"
            if self.checkpoints > header.checkpoints:
                kind = "edited"
            message = f"there are {self.checkpoints} checkpoints, and the header says {header.checkpoints}"
            raise self.broken(kind, self.event_id(header.signed), message)
        if self.trusted.supplied and not self.checkpoints:
            raise self.broken("unsigned", "", "no checkpoint shows who wrote the export")

    def blame_event(self, line: bytes, event: LinkedEvent) -> NoReturn:
        """Raise what is wrong with an event that does not continue the chain."""
        wanted = self.count + 1
        name = self.event_id(wanted)
        if not is_hash_valid(line, event.hash):
            raise self.unreadable(line, name, f"event {wanted:,} does not match its hash")
        if event.envelope != self.header.envelope:
            raise self.broken("edited", name, f"it belongs to envelope {event.envelope!r:.80}")
        if event.sequence < wanted:
            raise self.broken("duplicated", self.event_id(event.sequence), "the event is repeated")
        if event.sequence == wanted:
            before = self.event_id(self.count) if self.count else name
            raise self.broken("edited", before, f"event {wanted:,} was chained to another event")
        repeated, missing, number = False, False, self.lines.number
        for other in self.lines:
            repeated = repeated or other == line
            missing = missing or wanted <= _sequence_of(other) < event.sequence
        if repeated:
            message = "the event is there twice, and here too early"
            raise self.broken("duplicated", self.event_id(event.sequence), message, number)
        if missing:
            message = f"event {event.sequence:,} comes before it"
            raise self.broken("reordered", name, message, number)
        message = f"event {event.sequence:,} follows event {self.count:,}"
        raise self.broken("dropped", name, message, number)

    def blame_checkpoint(self, line: bytes, sequence: int) -> NoReturn:
        """Raise what is wrong with a valid checkpoint in a wrong place."""
        number, name = self.lines.number, self.event_id(sequence)
        if sequence < self.count:
            if any(0 < _sequence_of(other) <= self.count for other in self.lines):
                last = self.event_id(self.count)
                raise self.broken("duplicated", last, "the event is there twice", number)
            raise self.broken("reordered", name, "its checkpoint comes too late", number)
        repeated, more_events, has_event = False, False, False
        for other in self.lines:
            repeated = repeated or other == line
            more_events = more_events or other.startswith(EVENT_START)
            has_event = has_event or _sequence_of(other) == sequence
        if repeated:
            raise self.broken("duplicated", name, "its checkpoint is there twice", number)
        if has_event:
            raise self.broken("reordered", name, "its checkpoint comes too early", number)
        kind: BreakKind = "dropped" if more_events else "truncated"
        message = f"the next checkpoint signs event {sequence:,}"
        raise self.broken(kind, self.event_id(self.count + 1), message, number)

    def blame_other(self, line: bytes) -> NoReturn:
        """Raise what is wrong with a line that is neither an event nor a checkpoint."""
        if line == self.header_line:
            raise self.broken("duplicated", "", "the header is repeated")
        name = self.event_id(self.count + 1)
        raise self.unreadable(line, name, "the line is neither an event nor a checkpoint")

    def unreadable(self, line: bytes, event: str, message: str, kind: BreakKind = "edited") -> BrokenLinkError:
        """Tell a last line that was cut off from a line that was changed."""
        number = self.lines.number
        is_last = not self.lines.terminated and next(self.lines, None) is None
        if is_last and (number == 1 or not (self.lines.stripped and line.endswith(b"}"))):
            return self.broken("truncated", event, "the export ends within this line", number)
        return self.broken(kind, event, message, number)

    def broken(self, kind: BreakKind, event: str, message: str, line: int | None = None) -> BrokenLinkError:
        """Return the error for a broken link, in the current line unless another is given."""
        return BrokenLinkError(kind, self.lines.number if line is None else line, event, message)

    def event_id(self, sequence: int) -> str:
        """Return the id of an event of this envelope."""
        return f"{self.header.envelope}:{sequence}"


class _CountedLines:
    """Counts lines and takes off their ends."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.number = 0
        self.terminated = True
        """Whether all lines so far had an end."""
        self.stripped = False
        """Whether the first line had none: the caller took them all off."""
        self._lines = self._read(lines)

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def __next__(self) -> bytes:
        return next(self._lines)

    def _read(self, lines: Iterable[Line]) -> Iterator[bytes]:
        for raw in lines:
            line = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw)
            self.number += 1
            if line[-1:] == b"\n":
                yield line[:-1]
            else:
                self.terminated = False
                self.stripped = self.stripped or self.number == 1
                yield line


def _sequence_of(line: bytes) -> int:
    """Return the sequence number of the event in a line, or 0."""
    if not line.startswith(EVENT_START):
        return 0
    try:
        return decode_event(line).sequence
    except UNREADABLE:
        return 0
