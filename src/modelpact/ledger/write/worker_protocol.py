"""What a scribe and the process that commits for it say to each other."""

import struct
from typing import Any, Final

import msgspec

from modelpact.ledger.prepared import PreconditionFailed, PreparedEvent
from modelpact.ledger.stores.base import (
    LedgerError,
    LedgerUnavailable,
    LedgerUncertain,
    SerializationConflict,
)
from modelpact.ledger.write.batch import EnvelopeClosed

_LENGTH: Final = struct.Struct("<I")
_KINDS: Final[dict[str, type[LedgerError]]] = {
    kind.__name__: kind
    for kind in (
        SerializationConflict,
        EnvelopeClosed,
        LedgerError,
        LedgerUnavailable,
        LedgerUncertain,
    )
}
_encode: Final = msgspec.msgpack.Encoder().encode


class CommitFailure(msgspec.Struct, array_like=True):
    """Why there is no event of an entry."""

    kind: str
    told: str
    fact: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> "CommitFailure":
        """Return an error as it is sent."""
        return cls(
            type(error).__name__,
            str(error),
            error.key if isinstance(error, PreconditionFailed) else (),
        )

    def error(self) -> LedgerError:
        """Return the error."""
        return (
            PreconditionFailed(self.fact)
            if self.fact
            else _KINDS.get(self.kind, LedgerError)(self.told)
        )


class CommitRequest(msgspec.Struct, array_like=True):
    """Entries, and which of them somebody may want to hear of."""

    entries: list[PreparedEvent]
    heard: list[int] = []


class CommitReply(msgspec.Struct, array_like=True):
    """What became of entries, in the order in which they were sent."""

    places: list[tuple[int, int]]
    """The number and the time of each event."""
    failures: dict[int, CommitFailure] = {}
    """Those that have none, by their places in the order."""
    heard: dict[int, tuple[str, str]] = {}
    """The hashes before and of those that somebody may want to hear of."""


def framed(said: Any) -> bytes:
    """Return a message as it is sent."""
    data = _encode(said)
    return _LENGTH.pack(len(data)) + data


def unframed(data: bytearray) -> list[bytes]:
    """Take the messages that have come whole out of what has come."""
    found, at = [], 0
    while len(data) - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH.size + length
        if end > len(data):
            break
        found.append(bytes(data[at + _LENGTH.size : end]))
        at = end
    del data[:at]
    return found
