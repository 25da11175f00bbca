"""Requests through a proxy, by aiohttp: one origin, a bounded number of exchanges at a time."""

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
from modelpact.wire.proxy import shown
from modelpact.wire.url import Origin

_RETRY_AFTER: Final = 1.0
_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _Response(aiohttp.ClientResponse):
    """A response that keeps the certificate its server has shown: its connection may be gone."""

    certificate: bytes | None = None

    async def start(self, connection: Connection) -> Self:
        """Take the connection."""
        transport = connection.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        self.certificate = None if tls is None else tls.getpeercert(binary_form=True)
        return cast(Self, await super().start(connection))


class ProxiedOrigin:
    """One origin behind a proxy: a bounded number of exchanges, and a bounded queue of callers."""

    def __init__(
        self, origin: Origin, proxy: str, limits: PoolLimits, tls: ssl.SSLContext | None
    ) -> None:
        self._proxy = proxy
        self._limits = limits
        self._tls = tls
        self._name = f"{origin} through {shown(proxy)}"
        self._under_way: set[_ProxiedSource] = set()
        self._asking = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limits.connections, keepalive_timeout=limits.idle_seconds
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
            trust_env=False,
            response_class=_Response,
        )

    async def request(
        self,
        method: str,
        url: str,
        headers: HeaderPairs,
        body: bytes | AsyncIterable[bytes],
        timeouts: Timeouts,
    ) -> ClientResponse:
        """Send a request and return the answer as soon as its head is there."""
        busy = self._asking + len(self._under_way)
        if busy >= self._limits.connections + self._limits.waiting:
            raise PoolFull(self._name, busy - self._limits.connections, _RETRY_AFTER)
        total_by = asyncio.get_running_loop().time() + timeouts.total
        within = min(timeouts.connect + timeouts.write + timeouts.first_byte, timeouts.total)
        self._asking += 1
        try:
            async with asyncio.timeout(None if within == inf else within):
                response = await self._session.request(
                    method,
                    url,
                    headers=RawHeaders.of(headers).pairs(),
                    data=body or None,
                    proxy=self._proxy,
                    ssl=self._tls if self._tls is not None else True,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, connect=timeouts.connect),
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._explained(error, "first byte") from error
        finally:
            self._asking -= 1
        return self._answer(cast(_Response, response), timeouts, total_by)

    def _answer(self, response: _Response, timeouts: Timeouts, total_by: float) -> ClientResponse:
        headers = Headers([(name.lower(), value) for name, value in response.raw_headers])
        if len(headers) > self._limits.headers or headers.size > self._limits.head:
            response.close()
            raise WireError("head", f"{self._name}: too many or too long headers")
        line = _ProxiedSource(self._name, response)
        answer = ClientResponse(response.status, headers, line, self._limits.body)
        self._under_way.add(line)
        line.pump = asyncio.create_task(self._pump(answer, line, timeouts.between_bytes, total_by))
        line.pump.add_done_callback(lambda _: self._ended(answer, line))
        return answer

    async def _pump(
        self, answer: ClientResponse, line: "_ProxiedSource", between: float, total_by: float
    ) -> None:
        """Bring the body to its answer, no faster than it is read."""
        content = line.response.content
        try:
            while True:
                await line.flowing.wait()
                by = min(asyncio.get_running_loop().time() + between, total_by)
                async with asyncio.timeout_at(None if by == inf else by):
                    part = await content.readany()
                if not part:
                    break
                answer.put(part)
            answer.end()
            line.response.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            answer.fail(self._explained(error, "body"))

    def _ended(self, answer: ClientResponse, line: "_ProxiedSource") -> None:
        """Clean up, even after a task that never ran; an answer that is complete stays so."""
        answer.fail(ConnectionLost("body", f"{self._name}: the connection was dropped"))
        line.response.close()
        self._under_way.discard(line)

    def _explained(self, error: Exception, phase: Phase) -> WireError:
        name = self._name
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return WireTimeout("connect", f"{name}: no connection in time")
        if isinstance(error, TimeoutError):
            return WireTimeout(phase, f"{name}: nothing came in time")
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
        """How many exchanges are under way."""
        return self._asking + len(self._under_way)

    async def aclose(self) -> None:
        """Drop every connection; requests under way fail."""
        for line in list(self._under_way):
            line.drop()
        await self._session.close()


class _ProxiedSource:
    """What an answer needs of its connection."""

    def __init__(self, name: str, response: _Response) -> None:
        self.name = name
        self.response = response
        self.peer_certificate = response.certificate
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.pump: asyncio.Task[None] | None = None

    def hold(self) -> None:
        """Read no more for now."""
        self.flowing.clear()

    def go_on(self) -> None:
        """Read again."""
        self.flowing.set()

    def wanted(self) -> None:
        """Nothing is to be done: a server sends unasked."""

    def drop(self) -> None:
        """End the connection at once."""
        self.response.close()
        if self.pump is not None:
            self.pump.cancel()
