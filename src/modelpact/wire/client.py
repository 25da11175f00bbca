"""The client: sends requests over pools of connections, with a timeout for every phase."""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncIterable, Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Final, Self

from modelpact.identity.errors import PeerReason, UntrustedPeer
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.memo import BoundedMemo
from modelpact.wire.client_connection import ClientConnection
from modelpact.wire.client_response import ClientResponse
from modelpact.wire.errors import ConnectionLost, PoolFull, WireError, WireTimeout
from modelpact.wire.headers import HeaderPairs, encode_headers
from modelpact.wire.limits import DeadlineTimer, PoolLimits, Timeouts
from modelpact.wire.url import Origin, Url, environment_proxies, hide_credentials, proxy_for

if TYPE_CHECKING:
    from modelpact.wire.proxied_origin import ProxiedOrigin

DEFAULT_TIMEOUTS: Final = Timeouts()
DEFAULT_LIMITS: Final = PoolLimits()
_METHOD: Final = re.compile(r"[A-Z][A-Z-]*")
_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
_MEMO_SIZE: Final = 1_024
_CHECK_SECONDS: Final = 0.1
_RETRY_AFTER: Final = 1.0
_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_REASONS: Final[dict[int | None, PeerReason]] = {9: "expired", 10: "expired", 23: "revoked"}
"""Reasons by OpenSSL's verify code."""
_ADVICE: Final[dict[PeerReason, str]] = {
    "unknown": "trust its issuer in the SSL context if this is the right server",
    "wrong-identity": "compare the key with its owner, and pin the right one",
    "revoked": "its owner must use a new one, made with `modelpact identity rotate`",
    "expired": "its owner must renew it; or check the clocks of both machines",
}


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
        target = self._urls.get(url)
        if target is None:
            target = self._urls[url] = Url.parse(url)
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
            return await connection.exchange(head, body, timeouts, total_deadline, head_only=head_only)
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

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _pool(self, origin: Origin) -> "Pool":
        if self._closed:
            raise WireError("pool", "the client is closed")
        pool = self._pools.get(origin)
        if pool is None:
            if self._timer is None:
                self._timer = DeadlineTimer(asyncio.get_running_loop(), _CHECK_SECONDS)
            if origin.scheme == "https" and self._tls is None:
                self._tls = ssl.create_default_context()
            pool = self._pools[origin] = Pool(origin, self._limits, self._tls, self._timer, self._forget)
            if self._retired:
                pool.retire()
        return pool

    def _proxied_origin(self, origin: Origin) -> "ProxiedOrigin | None":
        """Return the origin behind its proxy, or None if it has no proxy."""
        if self._closed:
            raise WireError("pool", "the client is closed")
        if origin in self._proxied:
            return self._proxied[origin]
        proxied = None
        if (proxy := proxy_for(origin, self._proxies)) is not None:
            try:
                from modelpact.wire.proxied_origin import ProxiedOrigin
            except ImportError as error:
                raise InputError(
                    f"{origin} is reached through the proxy {hide_credentials(proxy)}, which needs "
                    "aiohttp: install modelpact[proxy], or name the host in NO_PROXY"
                ) from error
            proxied = ProxiedOrigin(origin, proxy, self._limits, self._tls)
        self._proxied[origin] = proxied
        return proxied

    def _forget(self, origin: Origin) -> None:
        self._pools.pop(origin, None)


class Pool:
    """Provides connections: an idle one, a new one, or the first that becomes free."""

    def __init__(
        self,
        origin: Origin,
        limits: PoolLimits,
        tls: ssl.SSLContext | None,
        timer: DeadlineTimer,
        on_empty: Callable[[Origin], None],
    ) -> None:
        self._origin = origin
        self._limits = limits
        self._tls = tls
        self._timer = timer
        self._on_empty = on_empty
        self._loop = asyncio.get_running_loop()
        self._idle: list[ClientConnection] = []
        self._waiters: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._open = 0
        self._connections: set[ClientConnection] = set()
        self._keep_idle = True

    def idle_connection(self) -> ClientConnection | None:
        """Return the most recently used idle connection, or None."""
        return self._idle.pop() if self._idle else None

    async def acquire(self, timeout: float, *, fresh: bool = False) -> ClientConnection:
        """Return a connection; with `fresh` it has never been used."""
        if fresh and self._idle and self._open >= self._limits.connections:
            self._idle[0].abort()
        if self._open < self._limits.connections:
            self._open += 1
            return await self._connect(timeout)
        if len(self._waiters) >= self._limits.waiting:
            raise PoolFull(str(self._origin), len(self._waiters), _RETRY_AFTER)
        connection = await self._wait(timeout)
        return connection if connection is not None else await self._connect(timeout)

    async def _wait(self, timeout: float) -> ClientConnection | None:
        """Wait for a connection; None means that the caller may open one."""
        waiter: asyncio.Future[ClientConnection | None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                return await waiter
        except BaseException as error:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif waiter.done() and not waiter.cancelled():
                self._hand_over(waiter.result())
            if isinstance(error, TimeoutError):
                raise WireTimeout("pool", f"{self._origin}: no connection became free in {timeout:g} s") from error
            raise

    async def _connect(self, timeout: float) -> ClientConnection:
        """Open a connection; it is already counted in `_open`."""
        origin = self._origin
        secure = origin.scheme == "https"
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                _, connection = await self._loop.create_connection(
                    lambda: ClientConnection(str(origin), self._limits, self._timer, self._released),
                    origin.host,
                    origin.port,
                    ssl=self._tls if secure else None,
                    server_hostname=origin.host if secure else None,
                )
        except BaseException as error:
            self._hand_over(None)
            if isinstance(error, OSError | UnicodeError):
                raise self._connect_error(error, timeout) from error
            raise
        self._connections.add(connection)
        return connection

    def _connect_error(self, error: OSError | UnicodeError, timeout: float) -> WireError:
        origin = self._origin
        if isinstance(error, TimeoutError):
            return WireTimeout("connect", f"{origin}: could not connect within {timeout:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = str(getattr(error, "verify_message", error)).rstrip(".")
            advice = _certificate_advice(error, origin)
            return WireError("tls", f"{origin}: its certificate was not accepted: {reason}; {advice}")
        if isinstance(error, ssl.SSLError):
            return WireError("tls", f"{origin}: TLS failed: {error.reason or error}")
        return WireError("connect", f"{origin}: cannot connect: {error}")

    def _released(self, connection: ClientConnection, reusable: bool) -> None:
        """Take a connection back, or forget a closed one; called by the connection."""
        if reusable:
            self._hand_over(connection)
        elif connection in self._connections:
            self._connections.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._hand_over(None)

    def _hand_over(self, connection: ClientConnection | None) -> None:
        """Give a connection, or the right to open one, to the caller that waited longest."""
        if connection is not None and connection.closed:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            self._open -= 1
            if not self._open:
                self._on_empty(self._origin)
        elif self._keep_idle:
            self._idle.append(connection)
        else:
            connection.abort()

    @property
    def open(self) -> int:
        """The number of connections that are open or being opened."""
        return self._open

    def retire(self) -> None:
        """Drop idle connections now, and each of the others when it becomes idle."""
        self._keep_idle = False
        for connection in list(self._idle):
            connection.abort()

    def close(self) -> None:
        """Drop every connection; waiting callers get an error."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(WireError("pool", "the client was closed"))
        self._waiters.clear()
        for connection in list(self._connections):
            connection.abort()


def _can_retry(connection: ClientConnection, body: bytes | AsyncIterable[bytes]) -> bool:
    return connection.used and not connection.response_started and isinstance(body, bytes)


def _check_method(method: str) -> None:
    if method not in _METHODS and (not _METHOD.fullmatch(method) or method == "CONNECT"):
        raise InputError(f"method {brief(method)}: expected one such as GET or POST")


def _request_head(method: str, url: Url, headers: HeaderPairs, body: bytes | AsyncIterable[bytes]) -> bytes:
    _check_method(method)
    if not isinstance(body, bytes):
        length = b"transfer-encoding: chunked\r\n"
    elif body or method in _WITH_BODY:
        length = b"content-length: %d\r\n" % len(body)
    else:
        length = b""
    return b"%b %b%b%b\r\n" % (method.encode(), url.request_line_end, encode_headers(headers), length)


def _certificate_advice(error: Exception, origin: Origin) -> str:
    """Return what to do about a certificate that was not accepted."""
    if isinstance(error, UntrustedPeer):
        return _ADVICE[error.reason]
    code = getattr(error, "verify_code", None)
    if code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
        return f"it is for another host: reissue it with `--host {origin.host}`, or connect to the host that it is for"
    return _ADVICE[_REASONS.get(code, "unknown")]
