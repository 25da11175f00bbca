"""The commit worker: a process that commits the events which a server sends it over a socket.

All events that have arrived share one commit. The process ends when the server closes the socket or
dies. `worker_client` is the server's side.
"""

import contextlib
import os
import socket
import struct
import sys
import time
from typing import Any, Final
from uuid import uuid4

import msgspec

from modelpact.ledger.errors import (
    EnvelopeClosed,
    LedgerError,
    LedgerUnavailable,
    LedgerUncertain,
    SerializationConflict,
)
from modelpact.ledger.event import Bus, Event, Position, PreconditionFailed, PreparedEvent
from modelpact.ledger.stores.base import open_store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Committer
from modelpact.ledger.write.pending import EventBatch

_RECEIVE_BYTES: Final = 256 * 1024
_LENGTH: Final = struct.Struct("<I")
_ERRORS: Final[dict[str, type[LedgerError]]] = {
    error.__name__: error
    for error in (EnvelopeClosed, LedgerError, LedgerUnavailable, LedgerUncertain, SerializationConflict)
}


class CommitRequest(msgspec.Struct, array_like=True):
    """Events to append, and the indexes of those that have listeners in the server."""

    events: list[PreparedEvent]
    listened: list[int] = []


class CommitFailure(msgspec.Struct, array_like=True):
    """Why an event was not appended."""

    kind: str
    message: str
    precondition: tuple[str, ...] = ()
    """The key of the precondition that failed."""

    @classmethod
    def of(cls, error: BaseException) -> "CommitFailure":
        """Return an error in the form in which it is sent."""
        key = error.key if isinstance(error, PreconditionFailed) else ()
        return cls(type(error).__name__, str(error), key)

    def error(self) -> LedgerError:
        """Return the error."""
        if self.precondition:
            return PreconditionFailed(self.precondition)
        return _ERRORS.get(self.kind, LedgerError)(self.message)


class CommitReply(msgspec.Struct, array_like=True):
    """The outcome of each event, in the order in which they were sent."""

    positions: list[Position]
    failures: dict[int, CommitFailure] = {}
    """The events that were not appended, by index. Their positions mean nothing."""
    hashes: dict[int, tuple[str, str]] = {}
    """The previous hash and the hash of the events that have listeners, by index."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_request: Final = msgspec.msgpack.Decoder(CommitRequest).decode


def encode_frame(message: CommitRequest | CommitReply) -> bytes:
    """Return a message as it is sent: its length, then its content."""
    data = _encode(message)
    return _LENGTH.pack(len(data)) + data


def take_frames(buffer: bytearray) -> list[bytes]:
    """Remove the complete messages from a buffer and return them."""
    messages, start = [], 0
    while len(buffer) - start >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(buffer, start)
        end = start + _LENGTH.size + length
        if end > len(buffer):
            break
        messages.append(bytes(buffer[start + _LENGTH.size : end]))
        start = end
    del buffer[:start]
    return messages


def serve(connection: socket.socket, url: str, parent: int) -> None:
    """Commit what arrives on a socket to the store at a URL, until the socket is closed.

    Nothing is committed once the `parent` process is gone: its successor may already have settled
    what it left open.
    """
    bus = Bus()
    committer = Committer(
        open_store(url), WriterCache(uuid4().hex[:16]), time.time_ns, bus, 0, may_commit=lambda: os.getppid() == parent
    )
    received, chunk = bytearray(), memoryview(bytearray(_RECEIVE_BYTES))
    try:
        while size := connection.recv_into(chunk):
            received += chunk[:size]
            combined = CommitRequest([])
            for message in take_frames(received):
                request = _decode_request(message)
                offset = len(combined.events)
                combined.listened += [offset + index for index in request.listened]
                combined.events += request.events
            if combined.events:
                connection.sendall(encode_frame(_commit(committer, bus, combined)))
    finally:
        committer.close()


def _commit(committer: Committer, bus: Bus, request: CommitRequest) -> CommitReply:
    batch = EventBatch(request.events)
    published: dict[str, Event] = {}
    unsubscribe: Any = None
    if request.listened:
        unsubscribe = bus.subscribe(lambda event: published.update({event.id: event}))
    committer.commit((batch,))
    if unsubscribe is not None:
        unsubscribe()
    reply = CommitReply([])
    for index, result in enumerate(batch.results):
        if isinstance(result, BaseException):
            reply.failures[index] = CommitFailure.of(result)
            reply.positions.append((0, 0))
        else:
            reply.positions.append(result)
    for index in request.listened:
        if index not in reply.failures:
            event = published[f"{request.events[index].envelope}:{reply.positions[index][0]}"]
            reply.hashes[index] = (event.previous, event.hash)
    return reply


def main() -> None:
    """Serve the socket that is the standard input."""
    url, parent = sys.argv[1:]
    with contextlib.suppress(ConnectionError), socket.socket(fileno=0) as connection:
        serve(connection, url, int(parent))
