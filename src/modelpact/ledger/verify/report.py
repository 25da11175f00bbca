"""What verification reports."""

from typing import Literal

import msgspec

Kind = Literal[
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
    """An event that is known from elsewhere: a checkpoint that was kept, or a store's own."""

    sequence: int
    hash: str


class BrokenLink(msgspec.Struct, frozen=True):
    """The first broken link: what happened to it, in which line (of a file), at which event."""

    kind: Kind
    line: int
    event: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.kind}: {self.message}"


class VerifyReport(msgspec.Struct, frozen=True):
    """What verification found."""

    envelope: str
    kind: str
    subject: str
    events: int
    """How many events hold, from the first on."""
    head: str
    checkpoints: int
    signed: int
    """The last event that a checkpoint which holds vouches for, or 0."""
    keys: tuple[str, ...]
    """The keys that signed."""
    trusted: bool
    """Whether the keys came from the verifier, not from the export alone."""
    archived: bool
    broken: BrokenLink | None = None
    first: int = 1
    """The first event that is here: those before it are in the archive only."""

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return self.broken is None

    @property
    def unsigned(self) -> bool:
        """Whether everything holds together, and nobody has signed it."""
        return self.broken is not None and self.broken.kind == "unsigned"


class TableReport(msgspec.Struct, frozen=True):
    """What was found of a table that users read, held against the events."""

    table: str
    rows: int = 0
    """How many rows say what the events say."""
    unproven: int = 0
    """How many tell of events that are in an archive only."""
    broken: BrokenLink | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing in it contradicts the events."""
        return self.broken is None

    def __add__(self, more: "TableReport") -> "TableReport":
        return TableReport(
            self.table,
            self.rows + more.rows,
            self.unproven + more.unproven,
            self.broken or more.broken,
        )
