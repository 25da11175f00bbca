"""The process that commits what a scribe sends it: all that waits shares one commit.

It ends when whoever started it closes the other end of the socket, or dies.
"""

import contextlib
import os
import socket
import sys
import time
from typing import Final
from uuid import uuid4

import msgspec

from modelpact.ledger.bus import Bus
from modelpact.ledger.event import Event
from modelpact.ledger.stores.base import open_store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Committer
from modelpact.ledger.write.pending import EventBatch
from modelpact.ledger.write.worker_protocol import (
    CommitFailure,
    CommitReply,
    CommitRequest,
    framed,
    unframed,
)

_READ: Final = 256 * 1024
_SENT: Final = msgspec.msgpack.Decoder(CommitRequest)


def serve(link: socket.socket, url: str, starter: int) -> None:
    """Commit what comes by a socket to the store that a URL names, until it ends.

    Nothing is committed once the `starter` is gone: another may settle by then what it left.
    """
    bus = Bus()
    committer = Committer(
        open_store(url),
        WriterCache(uuid4().hex[:16]),
        time.time_ns,
        bus,
        0,
        wanted=lambda: os.getppid() == starter,
    )
    come, read = bytearray(), memoryview(bytearray(_READ))
    try:
        while size := link.recv_into(read):
            come += read[:size]
            sent = CommitRequest([])
            for message in unframed(come):
                more = _SENT.decode(message)
                sent.heard += [len(sent.entries) + place for place in more.heard]
                sent.entries += more.entries
            if sent.entries:
                link.sendall(framed(_committed(committer, bus, sent)))
    finally:
        committer.close()


def _committed(committer: Committer, bus: Bus, sent: CommitRequest) -> CommitReply:
    """Commit entries, and return what became of them."""
    noting = EventBatch(sent.entries)
    events: dict[str, Event] = {}
    stop = bus.subscribe(lambda event: events.update({event.id: event})) if sent.heard else None
    committer.commit((noting,))
    if stop is not None:
        stop()
    answer = CommitReply([])
    for place, told in enumerate(noting.told):
        if isinstance(told, BaseException):
            answer.failures[place] = CommitFailure.of(told)
            answer.places.append((0, 0))
        else:
            answer.places.append(told)
    for place in sent.heard:
        if place not in answer.failures:
            event = events[f"{sent.entries[place].envelope}:{answer.places[place][0]}"]
            answer.heard[place] = (event.previous, event.hash)
    return answer


def main() -> None:
    """Serve the socket that is the standard input."""
    url, starter = sys.argv[1:]
    with contextlib.suppress(ConnectionError), socket.socket(fileno=0) as link:
        serve(link, url, int(starter))
