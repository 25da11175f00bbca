"""The lines of an export, one by one: what verification reads of each."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from modelpact.ledger.export import EVENT_START, HASH_LENGTH, HASH_START

Line: TypeAlias = bytes | str
_HASH_AT: Final = slice(-HASH_LENGTH, -HASH_LENGTH + len(HASH_START))


class LinkedEvent(msgspec.Struct):
    """What links an event to its neighbours; the rest is not read."""

    envelope: str
    sequence: int
    type: str
    previous: str
    hash: str


decode_event: Final = msgspec.json.Decoder(LinkedEvent).decode
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a line that is no JSON of its kind, or is nested beyond all measure, ends in."""


class Lines:
    """Lines without their ends, counted; `whole` says whether the last one had an end.

    Where the first line has none, they were taken off: then `bare`.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.number = 0
        self.whole = True
        self.bare = False
        self._rest = self._read(lines)

    def __iter__(self) -> Iterator[bytes]:
        return self._rest

    def __next__(self) -> bytes:
        return next(self._rest)

    def _read(self, lines: Iterable[Line]) -> Iterator[bytes]:
        for raw in lines:
            line = raw if type(raw) is bytes else _encoded(raw)
            self.number += 1
            if line[-1:] == b"\n":
                yield line[:-1]
            else:
                self.whole = False
                self.bare = self.bare or self.number == 1
                yield line


def _encoded(line: Line) -> bytes:
    return line.encode("utf-8", "surrogatepass") if isinstance(line, str) else bytes(line)


def hash_holds(line: bytes, digest: str) -> bool:
    """Tell whether a line ends with the hash of what stands before it."""
    return (
        line[_HASH_AT] == HASH_START
        and hashlib.sha256(line[:-HASH_LENGTH] + b"}").hexdigest() == digest
    )


def sequence_of(line: bytes) -> int:
    """Return the number of the event in a line, or 0."""
    if not line.startswith(EVENT_START):
        return 0
    try:
        return decode_event(line).sequence
    except UNREADABLE:
        return 0
