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


class Broken(msgspec.Struct, frozen=True):
    """The first broken link: what happened to it, in which line, at which event."""

    kind: Kind
    line: int
    event: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.kind}: {self.message}"


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
    broken: Broken | None = None

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return self.broken is None
