"""The connections to one origin: a bounded number of them, and a bounded queue of callers."""

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
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
_REASONS: Final[dict[int | None, PeerReason]] = {9: "expired", 10: "expired", 23: "revoked"}
"""OpenSSL's numbers of what is wrong with a certificate, in our words."""
_ADVICE: Final[dict[PeerReason, str]] = {
    "unknown": "trust its issuer in the SSL context, if that is who it should be",
    "wrong-identity": "compare the key with its owner's, and pin that one",
    "revoked": "its owner shows a new one, made with `modelpact identity rotate`",
    "expired": "its owner renews it, or one of the two clocks is wrong",
}


def _advice(error: Exception, origin: Origin) -> str:
    """Say what to do about a certificate that was not accepted."""
    if isinstance(error, UntrustedPeer):
        return _ADVICE[error.reason]
    code = getattr(error, "verify_code", None)
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"it is for another host: reissue it with `--host {origin.host}`, or call the server "
            "by the name that it is for"
        )
    return _ADVICE[_REASONS.get(code, "unknown")]


class Pool:
    """Hands out connections: one that is free, a new one, or the first to become free."""

    def __init__(
        self,
        origin: Origin,
        limits: PoolLimits,
        tls: ssl.SSLContext | None,
        watch: DeadlineTimer,
        emptied: Callable[[Origin], None],
    ) -> None:
        self._origin = origin
        self._limits = limits
        self._tls = tls
        self._watch = watch
        self._emptied = emptied
        self._loop = asyncio.get_running_loop()
        self._idle: list[ClientConnection] = []
        self._waiters: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._open = 0
        self._lines: set[ClientConnection] = set()
        self._keeping = True

    def free_line(self) -> ClientConnection | None:
        """Return the connection that was used last, if one is free."""
        return self._idle.pop() if self._idle else None

    async def line(self, timeout: float, *, fresh: bool = False) -> ClientConnection:
        """Return a connection; a fresh one has never been used."""
        if fresh and self._idle and self._open >= self._limits.connections:
            self._idle[0].drop()
        if self._open < self._limits.connections:
            self._open += 1
            return await self._connect(timeout)
        if len(self._waiters) >= self._limits.waiting:
            raise PoolFull(str(self._origin), len(self._waiters), _RETRY_AFTER)
        line = await self._turn(timeout)
        return line if line is not None else await self._connect(timeout)

    async def _turn(self, timeout: float) -> ClientConnection | None:
        """Wait for a connection, or for the right to open one."""
        waiter: asyncio.Future[ClientConnection | None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                return await waiter
        except BaseException as error:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif waiter.done() and not waiter.cancelled():
                self._pass_on(waiter.result())
            if isinstance(error, TimeoutError):
                raise WireTimeout(
                    "pool", f"{self._origin}: no connection became free in {timeout:g} s"
                ) from error
            raise

    async def _connect(self, timeout: float) -> ClientConnection:
        """Open a connection; its place in the pool has been taken already."""
        origin = self._origin
        secure = origin.scheme == "https"
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                _, line = await self._loop.create_connection(
                    self._make,
                    origin.host,
                    origin.port,
                    ssl=self._tls if secure else None,
                    server_hostname=origin.host if secure else None,
                )
        except BaseException as error:
            self._gone()
            if isinstance(error, OSError | UnicodeError):
                raise self._explained(error, timeout) from error
            raise
        self._lines.add(line)
        return line

    def _make(self) -> ClientConnection:
        return ClientConnection(str(self._origin), self._limits, self._watch, self._freed)

    def _explained(self, error: OSError | UnicodeError, timeout: float) -> WireError:
        origin = self._origin
        if isinstance(error, TimeoutError):
            return WireTimeout("connect", f"{origin}: no connection within {timeout:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            said = str(getattr(error, "verify_message", error)).rstrip(".")
            advice = _advice(error, origin)
            return WireError("tls", f"{origin}: its certificate was not accepted: {said}; {advice}")
        if isinstance(error, ssl.SSLError):
            return WireError("tls", f"{origin}: TLS failed: {error.reason or error}")
        return WireError("connect", f"{origin}: cannot connect: {error}")

    def _freed(self, line: ClientConnection, fit: bool) -> None:
        """Take a connection back, or learn that it is gone; called by the connection."""
        if fit and not self._waiters:
            if self._keeping:
                self._idle.append(line)
            else:
                line.drop()
        elif fit:
            self._pass_on(line)
        elif line in self._lines:
            self._lines.remove(line)
            if line in self._idle:
                self._idle.remove(line)
            self._gone()

    def _pass_on(self, line: ClientConnection | None) -> None:
        """Give a connection, or the right to open one, to the caller who waits longest."""
        if line is not None and line.dead:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(line)
                return
        if line is not None:
            self._idle.append(line)
        else:
            self._gone()

    def _gone(self) -> None:
        """Give the place of a connection that is gone to a caller who waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._open -= 1
        if not self._open:
            self._emptied(self._origin)

    @property
    def open(self) -> int:
        """How many connections are open or being opened."""
        return self._open

    def retire(self) -> None:
        """Drop the connections that are free now, and each of the others when it becomes free."""
        self._keeping = False
        for line in list(self._idle):
            line.drop()

    def close(self) -> None:
        """Drop every connection and send every waiting caller away."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(WireError("pool", "the client was closed"))
        self._waiters.clear()
        for line in list(self._lines):
            line.drop()
