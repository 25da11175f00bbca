"""Prepared events: the caller has encoded and checked them, so the writer has little left to do."""

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.errors import LedgerError

Position = tuple[int, int]
"""The sequence number of an event in its envelope, and its time in nanoseconds."""


class PreconditionFailed(LedgerError):
    """The precondition of a prepared event does not hold, so the event was not appended."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        super().__init__(f"precondition failed: {' '.join(key)}; the event was not appended")


class Precondition(msgspec.Struct, frozen=True, array_like=True):
    """A query that must return one known value when the event is appended.

    The writer caches the value under `key` for as long as no other process writes to the store.
    """

    key: tuple[str, ...]
    sql: str
    params: tuple[str, ...]
    expected: str
    """The statement must return exactly one row, with this as its only column."""


class PreparedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that is ready to append.

    The caller vouches that the type is valid and that the payload is a JSON object in canonical
    form.
    """

    envelope: str
    type: str
    payload: bytes
    cause: str | None = None
    cost: CostRecord | None = None
    """The cost record that the payload embeds. It has been checked and is not a correction."""
    precondition: Precondition | None = None
    opens: tuple[str, str] | None = None
    """The kind and subject of the envelope, if this event may be its first."""


class EventRef(msgspec.Struct, frozen=True, gc=False):
    """The id and time of an event that was appended."""

    id: str
    time: int

    @classmethod
    def at(cls, envelope: str, position: Position) -> "EventRef":
        """Return the reference to the event at a position in an envelope."""
        return cls(f"{envelope}:{position[0]}", position[1])
