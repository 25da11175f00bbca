"""The client: requests over pooled connections, with a deadline for every phase."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from modelpact.vocabulary.errors import InputError, brief
from modelpact.wire.client_connection import ClientConnection
from modelpact.wire.client_response import ClientResponse
from modelpact.wire.deadlines import DeadlineTimer
from modelpact.wire.errors import ConnectionLost, WireError
from modelpact.wire.headers import HeaderPairs, written
from modelpact.wire.limits import PoolLimits, Timeouts
from modelpact.wire.pool import Pool
from modelpact.wire.proxy import from_environment, proxy_for, shown
from modelpact.wire.url import Origin, Url

if TYPE_CHECKING:
    from modelpact.wire.proxied_origin import ProxiedOrigin

DEFAULT_TIMEOUTS: Final = Timeouts()
DEFAULT_LIMITS: Final = PoolLimits()
_METHOD: Final = re.compile(r"[A-Z][A-Z-]*")
_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
_MOST_REMEMBERED: Final = 1_024
_LOOK_SECONDS: Final = 0.1


class Client:
    """Sends requests. One client is for one event loop; it never follows redirects."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        limits: PoolLimits = DEFAULT_LIMITS,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        """`tls` says whom to trust and holds the client's certificate; else the system's trust.

        `proxies` are URLs by scheme, and under `no` the hosts that go without, as in `NO_PROXY`;
        None takes those of the environment.
        """
        self._proxies = from_environment() if proxies is None else proxies
        self._proxied: dict[Origin, ProxiedOrigin | None] = {}
        self._tls = tls
        self._limits = limits
        self._pools: dict[Origin, Pool] = {}
        self._places: dict[str, Url] = {}
        self._watch: DeadlineTimer | None = None
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
        """Send a request and return the answer as soon as its head is there.

        It is sent a second time, on a new connection, only if a connection that was used before
        turns out dead before a byte of the answer has come, and only if the body is bytes.
        """
        place = self._places.get(url) or self._place(url)
        if self._proxies and (proxied := self._behind_proxy(place.origin)) is not None:
            _check_method(method)
            return await proxied.request(method, url, headers, body, timeouts)
        head = _request_head(method, place, headers, body)
        pool = self._pools.get(place.origin) or self._pool(place.origin)
        total_by = inf
        if timeouts.total != inf:
            total_by = asyncio.get_running_loop().time() + timeouts.total
        head_only = method == "HEAD"
        line = pool.free_line()
        if line is None:
            line = await pool.line(min(timeouts.connect, timeouts.total))
        try:
            return await line.exchange(head, body, timeouts, total_by, head_only=head_only)
        except ConnectionLost:
            if not _may_send_again(line, body):
                raise
        pool = self._pool(place.origin)
        left = total_by - asyncio.get_running_loop().time()
        line = await pool.line(min(timeouts.connect, left), fresh=True)
        return await line.exchange(head, body, timeouts, total_by, head_only=head_only)

    @property
    def connections(self) -> int:
        """How many connections are open, in use or not."""
        proxied = sum(origin.open for origin in self._proxied.values() if origin is not None)
        return proxied + sum(pool.open for pool in self._pools.values())

    def retire(self) -> None:
        """Keep no connection longer than its exchange; requests under way end as they would."""
        self._retired = True
        for pool in list(self._pools.values()):
            pool.retire()

    async def aclose(self) -> None:
        """Drop every connection; requests under way fail."""
        self._closed = True
        for pool in list(self._pools.values()):
            pool.close()
        for proxied in self._proxied.values():
            if proxied is not None:
                await proxied.aclose()
        # The transports report their ends in the next turn of the event loop.
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

    def _place(self, url: str) -> Url:
        place = Url.parse(url)
        if len(self._places) >= _MOST_REMEMBERED:
            self._places.clear()
        self._places[url] = place
        return place

    def _pool(self, origin: Origin) -> Pool:
        if self._closed:
            raise WireError("pool", "the client is closed")
        pool = self._pools.get(origin)
        if pool is None:
            if self._watch is None:
                self._watch = DeadlineTimer(asyncio.get_running_loop(), _LOOK_SECONDS)
            if origin.scheme == "https" and self._tls is None:
                self._tls = ssl.create_default_context()
            pool = self._pools[origin] = Pool(
                origin, self._limits, self._tls, self._watch, self._forget
            )
            if self._retired:
                pool.retire()
        return pool

    def _behind_proxy(self, origin: Origin) -> "ProxiedOrigin | None":
        """Return the way to an origin that is behind a proxy."""
        if self._closed:
            raise WireError("pool", "the client is closed")
        if origin not in self._proxied:
            proxy = proxy_for(origin, self._proxies)
            self._proxied[origin] = self._through(origin, proxy) if proxy else None
        return self._proxied[origin]

    def _through(self, origin: Origin, proxy: str) -> "ProxiedOrigin":
        try:
            from modelpact.wire.proxied_origin import ProxiedOrigin
        except ImportError as error:
            raise InputError(
                f"{origin} is reached through {shown(proxy)}, and that needs aiohttp: install "
                "modelpact[proxy], or name the host in NO_PROXY"
            ) from error
        return ProxiedOrigin(origin, proxy, self._limits, self._tls)

    def _forget(self, origin: Origin) -> None:
        self._pools.pop(origin, None)


def _may_send_again(line: ClientConnection, body: bytes | AsyncIterable[bytes]) -> bool:
    return line.used and not line.answering and isinstance(body, bytes)


def _check_method(method: str) -> None:
    if method not in _METHODS and (not _METHOD.fullmatch(method) or method == "CONNECT"):
        raise InputError(f"method {brief(method)}: expected one such as GET or POST")


def _request_head(
    method: str, place: Url, headers: HeaderPairs, body: bytes | AsyncIterable[bytes]
) -> bytes:
    _check_method(method)
    if not isinstance(body, bytes):
        length = b"transfer-encoding: chunked\r\n"
    elif body or method in _WITH_BODY:
        length = b"content-length: %d\r\n" % len(body)
    else:
        length = b""
    return b"%b %b%b%b\r\n" % (method.encode(), place.head, written(headers), length)
