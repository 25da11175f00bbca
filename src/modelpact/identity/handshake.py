"""TLS sockets that check the peer's certificate at the end of every handshake.

This module is apart from `tls` because its classes need `ssl`, which is imported only when used.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Final

from modelpact.identity.errors import UntrustedPeer

_LOG: Final = logging.getLogger("modelpact.identity")


class HandshakeRefused(UntrustedPeer, ssl.SSLCertVerificationError):  # type: ignore[misc]  # reason: str
    """A handshake that our own checks ended."""


class GuardedSocket(ssl.SSLSocket):
    """A TLS socket; one that is refused is closed."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands, then ask the guard."""
        super().do_handshake(block)
        try:
            _ask(self.context, self.getpeercert(True))
        except HandshakeRefused:
            self.close()
            raise


class GuardedObject(ssl.SSLObject):
    """TLS over buffers, as asyncio uses it."""

    def do_handshake(self) -> None:
        """Shake hands, then ask the guard; a server says of whom it refuses why."""
        try:
            super().do_handshake()
            _ask(self.context, self.getpeercert(True))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError):
            raise
        except ssl.SSLError as error:
            if self.server_side:
                said = getattr(error, "verify_message", "") or error.reason or error
                _LOG.warning("a client got no connection: %s", said)
            raise


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
        raise HandshakeRefused(error.reason, error.message) from None
