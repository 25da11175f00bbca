"""Sockets that ask the guard as the last step of their handshake; imports `ssl`.

A refused peer raises `UntrustedPeer` that is also an `ssl.SSLError`, as asyncio and HTTP libraries
expect of a handshake that fails.
"""

import ssl
from collections.abc import Callable

from modelpact.identity.errors import UntrustedPeer


class Refused(UntrustedPeer, ssl.SSLCertVerificationError):  # type: ignore[misc]  # reason: str
    """A handshake that our own checks ended."""


class GuardedSocket(ssl.SSLSocket):
    """A TLS socket; one that is refused is closed."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands, then ask the guard."""
        super().do_handshake(block)
        try:
            _ask(self.context, self.getpeercert(True))
        except Refused:
            self.close()
            raise


class GuardedObject(ssl.SSLObject):
    """TLS over buffers, as asyncio uses it."""

    def do_handshake(self) -> None:
        """Shake hands, then ask the guard."""
        super().do_handshake()
        _ask(self.context, self.getpeercert(True))


class GuardedContext(ssl.SSLContext):
    """A context whose sockets ask its guard."""

    sslsocket_class: type[ssl.SSLSocket] = GuardedSocket
    sslobject_class: type[ssl.SSLObject] = GuardedObject
    guard: Callable[[bytes | None], None]


def _ask(context: ssl.SSLContext, der: bytes | None) -> None:
    assert isinstance(context, GuardedContext)
    try:
        context.guard(der)
    except UntrustedPeer as error:
        raise Refused(error.reason, error.message) from None
