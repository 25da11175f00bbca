"""The wire: a strict HTTP/1.1 server and client, and Server-Sent Events.

Knows nothing of models or providers. May import `vocabulary` only.
"""

from modelpact.wire.client import Client
from modelpact.wire.client_response import ClientResponse
from modelpact.wire.errors import (
    ClientLeft,
    ConnectionLost,
    HttpError,
    PoolFull,
    WireError,
    WireTimeout,
)
from modelpact.wire.exchange import DrainableBody, Handler, HttpRequest, HttpResponse
from modelpact.wire.headers import Headers, RawHeaders
from modelpact.wire.limits import PoolLimits, ServerLimits, Timeouts
from modelpact.wire.server import Server, serve
from modelpact.wire.sse import EventParser, ServerSentEvent, write_comment, write_event

__all__ = [
    "Client",
    "ClientLeft",
    "ClientResponse",
    "ConnectionLost",
    "DrainableBody",
    "EventParser",
    "Handler",
    "Headers",
    "HttpError",
    "HttpRequest",
    "HttpResponse",
    "PoolFull",
    "PoolLimits",
    "RawHeaders",
    "Server",
    "ServerLimits",
    "ServerSentEvent",
    "Timeouts",
    "WireError",
    "WireTimeout",
    "serve",
    "write_comment",
    "write_event",
]
