"""The wire: a strict HTTP/1.1 server and client, and Server-Sent Events.

Knows nothing of models or providers. May import `vocabulary` only.
"""

from modelpact.wire.answer import Answer
from modelpact.wire.client import Client
from modelpact.wire.errors import (
    ClientLeft,
    ConnectionLost,
    PoolFull,
    Refused,
    WireError,
    WireTimeout,
)
from modelpact.wire.exchange import Handler, Incoming, Outgoing, Taken
from modelpact.wire.headers import Headers, Lines
from modelpact.wire.limits import Limits, PoolLimits, Timeouts
from modelpact.wire.server import Server, serve
from modelpact.wire.sse import Event, EventParser, write_comment, write_event

__all__ = [
    "Answer",
    "Client",
    "ClientLeft",
    "ConnectionLost",
    "Event",
    "EventParser",
    "Handler",
    "Headers",
    "Incoming",
    "Limits",
    "Lines",
    "Outgoing",
    "PoolFull",
    "PoolLimits",
    "Refused",
    "Server",
    "Taken",
    "Timeouts",
    "WireError",
    "WireTimeout",
    "serve",
    "write_comment",
    "write_event",
]
