"""A strict HTTP/1.1 server and client, and Server-Sent Events.

This package knows nothing of models or providers.
"""

from modelpact.wire.client import Client
from modelpact.wire.client_response import ClientResponse
from modelpact.wire.errors import ClientDisconnected, ConnectionLost, HttpError, PoolFull, WireError, WireTimeout
from modelpact.wire.headers import Headers, RawHeaders
from modelpact.wire.limits import PoolLimits, ServerLimits, Timeouts
from modelpact.wire.messages import DrainableBody, Handler, HttpRequest, HttpResponse
from modelpact.wire.server import Routes, Server, serve
from modelpact.wire.sse import EventParser, ServerSentEvent, write_comment, write_event

__all__ = [
    "Client",
    "ClientDisconnected",
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
    "Routes",
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
