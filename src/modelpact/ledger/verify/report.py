"""The results of verification."""

from typing import Literal

import msgspec

BreakKind = Literal[
    "edited",
    "dropped",
    "reordered",
    "duplicated",
    "truncated",
    "forged checkpoint",
    "unknown key",
    "unsigned",
]


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
    kind: str
    subject: str
    events: int
    """How many events are intact, counted from the first."""
    head: str
    checkpoints: int
    signed: int
    """The sequence number of the last event that a valid checkpoint signs, or 0."""
    keys: tuple[str, ...]
    """The ids of the keys that signed."""
    trusted: bool
    """Whether the verifier supplied the keys. If not, they came with the export."""
    archived: bool
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
            self.table,
            self.rows + other.rows,
            self.unproven + other.unproven,
            self.broken or other.broken,
        )
