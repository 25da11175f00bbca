"""Requests through a proxy. They are sent by aiohttp, which is an optional dependency."""

import asyncio
import ssl
from collections.abc import AsyncIterable
from math import inf
from typing import Final, Self, cast

import aiohttp
from aiohttp.connector import Connection

from modelpact.wire.client_response import ClientResponse
from modelpact.wire.errors import ConnectionLost, Phase, PoolFull, WireError, WireTimeout
from modelpact.wire.headers import HeaderPairs, Headers, RawHeaders
from modelpact.wire.limits import PoolLimits, Timeouts
from modelpact.wire.url import Origin, hide_credentials

_RETRY_AFTER: Final = 1.0
_NO_DEFAULT_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _AiohttpResponse(aiohttp.ClientResponse):
    """A response that keeps the certificate of its server, which outlives the connection."""

    certificate: bytes | None = None

    async def start(self, connection: Connection) -> Self:
        """Read the response and keep the certificate."""
        transport = connection.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        self.certificate = None if tls is None else tls.getpeercert(binary_form=True)
        return cast(Self, await super().start(connection))


class ProxiedOrigin:
    """One origin behind a proxy, with a limited number of exchanges and waiting callers."""

    def __init__(self, origin: Origin, proxy: str, limits: PoolLimits, tls: ssl.SSLContext | None) -> None:
        self._proxy = proxy
        self._limits = limits
        self._tls = tls
        self._name = f"{origin} through {hide_credentials(proxy)}"
        self._open_responses: set[_ProxiedSource] = set()
        self._sending = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limits.connections, keepalive_timeout=limits.idle_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NO_DEFAULT_HEADERS,
            trust_env=False,
            response_class=_AiohttpResponse,
        )

    async def request(
        self, method: str, url: str, headers: HeaderPairs, body: bytes | AsyncIterable[bytes], timeouts: Timeouts
    ) -> ClientResponse:
        """Send a request and return the response as soon as its head has arrived."""
        busy = self._sending + len(self._open_responses)
        if busy >= self._limits.connections + self._limits.waiting:
            raise PoolFull(self._name, busy - self._limits.connections, _RETRY_AFTER)
        total_deadline = asyncio.get_running_loop().time() + timeouts.total
        head_timeout = min(timeouts.connect + timeouts.write + timeouts.first_byte, timeouts.total)
        self._sending += 1
        try:
            async with asyncio.timeout(None if head_timeout == inf else head_timeout):
                response = await self._session.request(
                    method,
                    url,
                    headers=RawHeaders.encode(headers).pairs(),
                    data=body or None,
                    proxy=self._proxy,
                    ssl=self._tls if self._tls is not None else True,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, connect=timeouts.connect),
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._wire_error(error, "first byte") from error
        finally:
            self._sending -= 1
        return self._client_response(cast(_AiohttpResponse, response), timeouts, total_deadline)

    def _client_response(self, received: _AiohttpResponse, timeouts: Timeouts, total_deadline: float) -> ClientResponse:
        headers = Headers([(name.lower(), value) for name, value in received.raw_headers])
        if len(headers) > self._limits.headers or headers.size > self._limits.head:
            received.close()
            raise WireError("head", f"{self._name}: too many headers, or headers too long")
        source = _ProxiedSource(self._name, received)
        response = ClientResponse(received.status, headers, source, self._limits.body)
        self._open_responses.add(source)
        source.task = asyncio.create_task(self._copy_body(response, source, timeouts.between_bytes, total_deadline))
        source.task.add_done_callback(lambda _: self._finished(response, source))
        return response

    async def _copy_body(
        self, response: ClientResponse, source: "_ProxiedSource", between_bytes: float, total_deadline: float
    ) -> None:
        """Feed the body to the response, no faster than it is read."""
        content = source.received.content
        try:
            while True:
                await source.reading.wait()
                now = asyncio.get_running_loop().time()
                deadline = min(now + between_bytes, total_deadline)
                async with asyncio.timeout_at(None if deadline == inf else deadline):
                    part = await content.readany()
                if not part:
                    break
                response.feed_data(part)
            response.feed_eof()
            source.received.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            response.set_exception(self._wire_error(error, "body"))

    def _finished(self, response: ClientResponse, source: "_ProxiedSource") -> None:
        """Clean up, also after a task that never ran. A complete response stays complete."""
        response.set_exception(ConnectionLost("body", f"{self._name}: the connection was dropped"))
        source.received.close()
        self._open_responses.discard(source)

    def _wire_error(self, error: Exception, phase: Phase) -> WireError:
        name = self._name
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return WireTimeout("connect", f"{name}: could not connect in time")
        if isinstance(error, TimeoutError):
            return WireTimeout(phase, f"{name}: the server sent nothing in time")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return WireError("connect", f"{name}: the proxy answered {error.status}")
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return WireError("tls", f"{name}: TLS failed: {error}")
        if isinstance(error, aiohttp.ClientConnectorError):
            return WireError("connect", f"{name}: cannot connect: {error.os_error}")
        if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
            return ConnectionLost(phase, f"{name}: the connection was closed")
        if isinstance(error, OSError):
            return ConnectionLost(phase, f"{name}: the connection was closed")
        return WireError(phase, f"{name}: {type(error).__name__}")

    @property
    def open(self) -> int:
        """The number of running exchanges."""
        return self._sending + len(self._open_responses)

    async def aclose(self) -> None:
        """Drop every connection; running requests fail."""
        for source in list(self._open_responses):
            source.abort()
        await self._session.close()


class _ProxiedSource:
    """The connection of a response, as `ClientResponse` sees it."""

    def __init__(self, name: str, received: _AiohttpResponse) -> None:
        self.name = name
        self.received = received
        self.peer_certificate = received.certificate
        self.reading = asyncio.Event()
        self.reading.set()
        self.task: asyncio.Task[None] | None = None

    def pause_reading(self) -> None:
        """Stop reading the body."""
        self.reading.clear()

    def resume_reading(self) -> None:
        """Read the body again."""
        self.reading.set()

    def request_body(self) -> None:
        """Do nothing: a server sends its body unasked."""

    def abort(self) -> None:
        """Drop the connection at once."""
        self.received.close()
        if self.task is not None:
            self.task.cancel()
