"""What a scribe and the process that writes for it say to each other."""

import struct
from typing import Any, Final, Literal

import msgspec

from modelpact.ledger.placing import Line
from modelpact.ledger.transaction import Given

_LENGTH: Final = struct.Struct("<I")
_encode: Final = msgspec.msgpack.Encoder().encode


class Write(msgspec.Struct, array_like=True, tag="write"):
    """Lines to put in, for which all that is given must be so."""

    lines: list[Line]
    givens: list[Given]


class Kept(msgspec.Struct, array_like=True, tag="kept"):
    """So many of the writes that were sent are durable."""

    count: int


class Lost(msgspec.Struct, array_like=True, tag="lost"):
    """The oldest write that waits was not kept, nor what was sent after it."""

    why: Literal["not so", "conflict", "unavailable", "uncertain"]
    told: str
    fact: tuple[str, ...] = ()


class Stand(msgspec.Struct, array_like=True, tag="stand"):
    """Where envelopes stand, and which of some events are there; asked and answered alike."""

    heads: list[tuple[str, int, str, int]]
    """Names with the numbers, hashes and times of their last events, which the answer fills in."""
    events: list[tuple[str, int, str]]
    """Envelopes, numbers and hashes; the answer leaves out those that are not there."""


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
