"""Verifying an export: offline, in one pass, naming the first broken link and what broke it."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from modelpact.ledger.checkpoint import read_checkpoint
from modelpact.ledger.event import GENESIS
from modelpact.ledger.verify.export import (
    CHECKPOINT_START,
    EVENT_START,
    FORMAT,
    HEADER_START,
    UNREADABLE,
    CountedLines,
    ExportHeader,
    Line,
    LinkedEvent,
    decode_event,
    hash_holds,
    sequence_of,
)
from modelpact.ledger.verify.keys import TrustedKeys
from modelpact.ledger.verify.report import BrokenLink, ExpectedHead, Kind, VerifyReport
from modelpact.ledger.write.transaction import ARCHIVED
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys


class _Broken(Exception):
    def __init__(self, kind: Kind, event: str, message: str, line: int = 0) -> None:
        self.kind, self.event, self.message, self.line = kind, event, message, line


_HEADER: Final = msgspec.json.Decoder(ExportHeader)


def verify_export(
    lines: Iterable[Line],
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    expected: ExpectedHead | None = None,
) -> VerifyReport:
    """Verify the lines of an export against public keys that the verifier trusts.

    Without keys, the export's own are used, which proves that it holds together, not whose it is.
    """
    return _Verifier(lines, public_keys, expected).run()


class _Verifier:
    """Holds what is known so far: the header, the last event that holds, the checkpoints."""

    def __init__(
        self,
        lines: Iterable[Line],
        public_keys: "PublicKeys | Sequence[PublicKeys] | None",
        expected: ExpectedHead | None,
    ) -> None:
        self.lines = CountedLines(lines)
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
            self.finish()
        except _Broken as found:
            broken = BrokenLink(
                found.kind, found.line or self.lines.number, found.event, found.message
            )
        return VerifyReport(
            envelope=self.header.envelope,
            kind=self.header.kind,
            subject=self.header.subject,
            events=self.count,
            head=self.head,
            checkpoints=self.checkpoints,
            signed=self.signed,
            keys=tuple(self.keys),
            trusted=self.trusted.given,
            archived=self.archived,
            broken=broken,
        )

    def read_header(self) -> None:
        """Read the first line."""
        line = next(self.lines, None)
        if line is None:
            raise _Broken("truncated", "", "there is nothing in the export")
        if line.startswith((EVENT_START, CHECKPOINT_START)):
            later = any(one.startswith(HEADER_START) for one in self.lines)
            kind: Kind = "reordered" if later else "dropped"
            raise _Broken(kind, "", "the header is not in its place, the first line", 1)
        try:
            header = _HEADER.decode(line)
        except UNREADABLE as error:
            raise self.unreadable(line, "", f"the header cannot be read: {error}") from None
        if header.format != FORMAT or not hash_holds(line, header.hash):
            raise _Broken("edited", "", "the header does not have the hash that it names")
        self.header, self.header_line = header, line
        problem = self.trusted.learn(header.keys)
        if problem:
            raise _Broken("unknown key", "", problem)

    def read_event(self, line: bytes) -> None:
        """Read an event: what is in order is done with quickly."""
        try:
            event = decode_event(line)
        except UNREADABLE as error:
            place = self.name(self.count + 1)
            raise self.unreadable(line, place, f"the event cannot be read: {error}") from None
        if (
            event.sequence != self.count + 1
            or event.previous != self.head
            or event.envelope != self.header.envelope
            or not hash_holds(line, event.hash)
        ):
            self.blame_event(line, event)
        self.count += 1
        self.head = event.hash
        self.archived = event.type == ARCHIVED
        expected = self.expected
        if expected is not None and self.count == expected.sequence and self.head != expected.hash:
            raise _Broken("edited", self.name(self.count), "it is not the event that is expected")

    def read_checkpoint(self, line: bytes) -> None:
        """Read a checkpoint: it signs the event before it."""
        here = self.name(self.count)
        try:
            one = read_checkpoint(line)
        except (*UNREADABLE, InputError) as error:
            text = f"the checkpoint cannot be read: {error}"
            raise self.unreadable(line, here, text, "forged checkpoint") from None
        digest = hashlib.sha256(line).digest()
        if digest in self.seen:
            raise _Broken("duplicated", here, "a checkpoint stands here again")
        self.seen.add(digest)
        keys = self.trusted.find(one.key_id)
        if keys is None:
            raise _Broken(
                "unknown key", here, f"the checkpoint is signed with key {one.key_id!r:.40}"
            )
        spelt = one.line() == line + b"\n"
        if not spelt or one.envelope != self.header.envelope or not one.holds(keys):
            raise _Broken("forged checkpoint", here, "the checkpoint's signature does not hold")
        if one.sequence != self.count:
            self.blame_checkpoint(line, one.sequence)
        if one.hash != self.head:
            raise _Broken("edited", here, "the event has another hash than was signed")
        self.checkpoints += 1
        self.signed = self.count
        self.keys[one.key_id] = None

    def finish(self) -> None:
        """Look whether anything is missing at the end."""
        header, here = self.header, self.name(self.count + 1)
        if self.count < header.events:
            said = f"the export ends after {self.count:,} of {header.events:,} events"
            raise _Broken("truncated", here, said)
        if self.expected is not None and self.count < self.expected.sequence:
            said = f"the export ends before event {self.expected.sequence:,}, which is expected"
            raise _Broken("truncated", here, said)
        if self.count > header.events or self.head != header.head:
            raise _Broken("edited", "", "the header names another end than the events have")
        if self.checkpoints != header.checkpoints:
            kind: Kind = "truncated" if self.signed < header.signed else "dropped"
            if self.checkpoints > header.checkpoints:
                kind = "edited"
            said = f"there are {self.checkpoints} checkpoints, the header says {header.checkpoints}"
            raise _Broken(kind, self.name(header.signed), said)
        if self.trusted.given and not self.checkpoints:
            raise _Broken("unsigned", "", "no checkpoint says whose the export is")

    def blame_event(self, line: bytes, event: LinkedEvent) -> NoReturn:
        """Say what is wrong with an event that is not the next link."""
        wanted = self.count + 1
        here = self.name(wanted)
        if not hash_holds(line, event.hash):
            said = f"event {wanted:,} does not have the hash that it names"
            raise self.unreadable(line, here, said)
        if event.envelope != self.header.envelope:
            raise _Broken("edited", here, f"it belongs to envelope {event.envelope!r:.80}")
        if event.sequence < wanted:
            raise _Broken("duplicated", self.name(event.sequence), "the event stands here again")
        if event.sequence == wanted:
            before = self.name(self.count) if self.count else here
            raise _Broken(
                "edited", before, f"event {wanted:,} was chained to another than this one"
            )
        again, missing, at = False, False, self.lines.number
        for one in self.lines:
            again = again or one == line
            missing = missing or wanted <= sequence_of(one) < event.sequence
        if again:
            raise _Broken(
                "duplicated",
                self.name(event.sequence),
                "the event stands twice, here too early",
                at,
            )
        if missing:
            raise _Broken("reordered", here, f"event {event.sequence:,} stands before it", at)
        raise _Broken("dropped", here, f"event {event.sequence:,} follows event {self.count:,}", at)

    def blame_checkpoint(self, line: bytes, sequence: int) -> NoReturn:
        """Say what is wrong with a true checkpoint in a wrong place."""
        at = self.lines.number
        if sequence < self.count:
            if any(0 < sequence_of(one) <= self.count for one in self.lines):
                raise _Broken("duplicated", self.name(self.count), "the event stands twice", at)
            raise _Broken("reordered", self.name(sequence), "its checkpoint stands too late", at)
        again, events, found = False, False, False
        for one in self.lines:
            again = again or one == line
            events = events or one.startswith(EVENT_START)
            found = found or sequence_of(one) == sequence
        here = self.name(self.count + 1)
        if again:
            raise _Broken("duplicated", self.name(sequence), "its checkpoint stands twice", at)
        if found:
            raise _Broken("reordered", self.name(sequence), "its checkpoint stands too early", at)
        kind: Kind = "dropped" if events else "truncated"
        raise _Broken(kind, here, f"the next checkpoint signs event {sequence:,}", at)

    def blame_other(self, line: bytes) -> NoReturn:
        """Say what is wrong with a line that is neither an event nor a checkpoint."""
        here = self.name(self.count + 1)
        if line == self.header_line:
            raise _Broken("duplicated", "", "the header stands here again")
        raise self.unreadable(line, here, "the line is neither an event nor a checkpoint")

    def unreadable(self, line: bytes, place: str, said: str, kind: Kind = "edited") -> "_Broken":
        """Tell a last line that was cut off from one that was changed."""
        at = self.lines.number
        cut = not self.lines.whole and next(self.lines, None) is None
        if cut and (at == 1 or not (self.lines.bare and line.endswith(b"}"))):
            return _Broken("truncated", place, "the export ends within this line", at)
        return _Broken(kind, place, said, at)

    def name(self, sequence: int) -> str:
        """Return an event's name."""
        return f"{self.header.envelope}:{sequence}"
