"""Entries: events that whoever appends them has made ready, so that there is little left to do."""

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.stores.base import LedgerError


class PreconditionFailed(LedgerError):
    """Something that must be so for an entry is not: the entry is not appended."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        super().__init__(f"{' '.join(key)}: it is not as it must be")


class Precondition(msgspec.Struct, frozen=True, array_like=True):
    """What must be so for an entry: a fact that is remembered, or else is looked up."""

    key: tuple[str, ...]
    sql: str
    params: tuple[str, ...]
    expected: str
    """What the statement must return: one row of one column."""


class PreparedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that whoever appends it has made ready, so that the writer has little to do.

    They vouch for the type, and for the payload: an object in canonical JSON.
    """

    envelope: str
    type: str
    payload: bytes
    cause: str | None = None
    cost: CostRecord | None = None
    """The record that the payload embeds, known to be in order; never a correction."""
    precondition: Precondition | None = None
    opens: tuple[str, str] | None = None
    """The kind and the subject of its envelope, which is opened if it is not open yet."""


class EventRef(msgspec.Struct, frozen=True, gc=False):
    """Where an entry has come to stand."""

    id: str
    time: int

    @classmethod
    def at(cls, envelope: str, place: tuple[int, int]) -> "EventRef":
        """Return where the event of this number and time in an envelope stands."""
        return cls(f"{envelope}:{place[0]}", place[1])
