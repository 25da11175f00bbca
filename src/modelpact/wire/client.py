"""The client: sends requests over pooled connections, with a timeout for every phase."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.memo import BoundedMemo
from modelpact.wire.client_connection import ClientConnection
from modelpact.wire.client_response import ClientResponse
from modelpact.wire.deadlines import DeadlineTimer
from modelpact.wire.errors import ConnectionLost, WireError
from modelpact.wire.headers import HeaderPairs, encode_headers
from modelpact.wire.limits import PoolLimits, Timeouts
from modelpact.wire.pool import Pool
from modelpact.wire.proxy import environment_proxies, hide_credentials, proxy_for
from modelpact.wire.url import Origin, Url

if TYPE_CHECKING:
    from modelpact.wire.proxied_origin import ProxiedOrigin

DEFAULT_TIMEOUTS: Final = Timeouts()
DEFAULT_LIMITS: Final = PoolLimits()
_METHOD: Final = re.compile(r"[A-Z][A-Z-]*")
_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
_MEMO_SIZE: Final = 1_024
_CHECK_SECONDS: Final = 0.1


class Client:
    """An HTTP client for one event loop. It never follows redirects."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        limits: PoolLimits = DEFAULT_LIMITS,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        """`tls` has the trusted authorities and the client's certificate; None: the system's.

        `proxies` maps a scheme to the URL of a proxy, and `no` to the hosts without one, as in
        `NO_PROXY`. None takes the proxies of the environment.
        """
        self._proxies = environment_proxies() if proxies is None else proxies
        self._proxied: dict[Origin, ProxiedOrigin | None] = {}
        self._tls = tls
        self._limits = limits
        self._pools: dict[Origin, Pool] = {}
        self._urls: BoundedMemo[str, Url] = BoundedMemo(_MEMO_SIZE)
        self._timer: DeadlineTimer | None = None
        self._closed = False
        self._retired = False

    async def request(
        self,
        method: str,
        url: str,
        headers: HeaderPairs = (),
        body: bytes | AsyncIterable[bytes] = b"",
        *,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> ClientResponse:
        """Send a request and return the response as soon as its head has arrived.

        The request is sent again, on a new connection, only if a reused connection was lost
        before the first byte of the response, and only if the body is bytes.
        """
        target = self._urls.get(url) or self._parse_url(url)
        if self._proxies and (proxied := self._proxied_origin(target.origin)) is not None:
            _check_method(method)
            return await proxied.request(method, url, headers, body, timeouts)
        head = _request_head(method, target, headers, body)
        pool = self._pools.get(target.origin) or self._pool(target.origin)
        total_deadline = inf
        if timeouts.total != inf:
            total_deadline = asyncio.get_running_loop().time() + timeouts.total
        head_only = method == "HEAD"
        connection = pool.idle_connection()
        if connection is None:
            connection = await pool.acquire(min(timeouts.connect, timeouts.total))
        try:
            return await connection.exchange(
                head, body, timeouts, total_deadline, head_only=head_only
            )
        except ConnectionLost:
            if not _can_retry(connection, body):
                raise
        pool = self._pool(target.origin)
        remaining = total_deadline - asyncio.get_running_loop().time()
        connection = await pool.acquire(min(timeouts.connect, remaining), fresh=True)
        return await connection.exchange(head, body, timeouts, total_deadline, head_only=head_only)

    @property
    def connections(self) -> int:
        """The number of open connections, in use or idle."""
        proxied = sum(origin.open for origin in self._proxied.values() if origin is not None)
        return proxied + sum(pool.open for pool in self._pools.values())

    def retire(self) -> None:
        """Close each connection when it becomes idle; running requests finish normally."""
        self._retired = True
        for pool in list(self._pools.values()):
            pool.retire()

    async def aclose(self) -> None:
        """Drop every connection; running requests fail."""
        self._closed = True
        for pool in list(self._pools.values()):
            pool.close()
        for proxied in self._proxied.values():
            if proxied is not None:
                await proxied.aclose()
        # The transports report that they are closed in the next iteration of the event loop.
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _parse_url(self, url: str) -> Url:
        target = Url.parse(url)
        self._urls[url] = target
        return target

    def _pool(self, origin: Origin) -> Pool:
        if self._closed:
            raise WireError("pool", "the client is closed")
        pool = self._pools.get(origin)
        if pool is None:
            if self._timer is None:
                self._timer = DeadlineTimer(asyncio.get_running_loop(), _CHECK_SECONDS)
            if origin.scheme == "https" and self._tls is None:
                self._tls = ssl.create_default_context()
            pool = self._pools[origin] = Pool(
                origin, self._limits, self._tls, self._timer, self._forget
            )
            if self._retired:
                pool.retire()
        return pool

    def _proxied_origin(self, origin: Origin) -> "ProxiedOrigin | None":
        """Return the origin behind its proxy, or None if it has no proxy."""
        if self._closed:
            raise WireError("pool", "the client is closed")
        if origin not in self._proxied:
            proxy = proxy_for(origin, self._proxies)
            self._proxied[origin] = self._through_proxy(origin, proxy) if proxy else None
        return self._proxied[origin]

    def _through_proxy(self, origin: Origin, proxy: str) -> "ProxiedOrigin":
        try:
            from modelpact.wire.proxied_origin import ProxiedOrigin
        except ImportError as error:
            raise InputError(
                f"{origin} is reached through the proxy {hide_credentials(proxy)}, which needs "
                "aiohttp: install modelpact[proxy], or name the host in NO_PROXY"
            ) from error
        return ProxiedOrigin(origin, proxy, self._limits, self._tls)

    def _forget(self, origin: Origin) -> None:
        self._pools.pop(origin, None)


def _can_retry(connection: ClientConnection, body: bytes | AsyncIterable[bytes]) -> bool:
    return connection.used and not connection.response_started and isinstance(body, bytes)


def _check_method(method: str) -> None:
    if method not in _METHODS and (not _METHOD.fullmatch(method) or method == "CONNECT"):
        raise InputError(f"method {brief(method)}: expected one such as GET or POST")


def _request_head(
    method: str, url: Url, headers: HeaderPairs, body: bytes | AsyncIterable[bytes]
) -> bytes:
    _check_method(method)
    if not isinstance(body, bytes):
        length = b"transfer-encoding: chunked\r\n"
    elif body or method in _WITH_BODY:
        length = b"content-length: %d\r\n" % len(body)
    else:
        length = b""
    return b"%b %b%b%b\r\n" % (
        method.encode(),
        url.request_line_end,
        encode_headers(headers),
        length,
    )
