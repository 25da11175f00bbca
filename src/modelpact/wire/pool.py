"""A pool of connections to one origin, limited in connections and in waiting callers."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from modelpact.identity.errors import PeerReason, UntrustedPeer
from modelpact.wire.client_connection import ClientConnection
from modelpact.wire.deadlines import DeadlineTimer
from modelpact.wire.errors import PoolFull, WireError, WireTimeout
from modelpact.wire.limits import PoolLimits
from modelpact.wire.url import Origin

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


def _advice(error: Exception, origin: Origin) -> str:
    """Return what to do about a certificate that was not accepted."""
    if isinstance(error, UntrustedPeer):
        return _ADVICE[error.reason]
    code = getattr(error, "verify_code", None)
    if code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
        return (
            f"it is for another host: reissue it with `--host {origin.host}`, or connect to the "
            "host that it is for"
        )
    return _ADVICE[_REASONS.get(code, "unknown")]


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
                raise WireTimeout(
                    "pool", f"{self._origin}: no connection became free in {timeout:g} s"
                ) from error
            raise

    async def _connect(self, timeout: float) -> ClientConnection:
        """Open a connection; it is already counted in `_open`."""
        origin = self._origin
        secure = origin.scheme == "https"
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                _, connection = await self._loop.create_connection(
                    self._new_connection,
                    origin.host,
                    origin.port,
                    ssl=self._tls if secure else None,
                    server_hostname=origin.host if secure else None,
                )
        except BaseException as error:
            self._release_slot()
            if isinstance(error, OSError | UnicodeError):
                raise self._connect_error(error, timeout) from error
            raise
        self._connections.add(connection)
        return connection

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(str(self._origin), self._limits, self._timer, self._released)

    def _connect_error(self, error: OSError | UnicodeError, timeout: float) -> WireError:
        origin = self._origin
        if isinstance(error, TimeoutError):
            return WireTimeout("connect", f"{origin}: could not connect within {timeout:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = str(getattr(error, "verify_message", error)).rstrip(".")
            advice = _advice(error, origin)
            return WireError(
                "tls", f"{origin}: its certificate was not accepted: {reason}; {advice}"
            )
        if isinstance(error, ssl.SSLError):
            return WireError("tls", f"{origin}: TLS failed: {error.reason or error}")
        return WireError("connect", f"{origin}: cannot connect: {error}")

    def _released(self, connection: ClientConnection, reusable: bool) -> None:
        """Take a connection back, or forget a closed one; called by the connection."""
        if reusable and not self._waiters:
            if self._keep_idle:
                self._idle.append(connection)
            else:
                connection.abort()
        elif reusable:
            self._hand_over(connection)
        elif connection in self._connections:
            self._connections.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._release_slot()

    def _hand_over(self, connection: ClientConnection | None) -> None:
        """Give a connection, or the right to open one, to the caller that waited longest."""
        if connection is not None and connection.closed:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)
        else:
            self._release_slot()

    def _release_slot(self) -> None:
        """Let a waiting caller open a connection in place of one that closed."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._open -= 1
        if not self._open:
            self._on_empty(self._origin)

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
