"""TLS sockets that verify the certificate of the peer at the end of every handshake.

This module is separate from `tls` because its classes need `ssl`, which is imported only when used.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Final

from modelpact.identity.errors import UntrustedPeer

_LOG: Final = logging.getLogger("modelpact.identity")


class HandshakeRefused(UntrustedPeer, ssl.SSLCertVerificationError):  # type: ignore[misc]  # reason: str
    """Our own checks ended a handshake."""


class VerifyingSocket(ssl.SSLSocket):
    """A TLS socket that is closed if the peer is not accepted."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands, then verify the peer."""
        super().do_handshake(block)
        try:
            _verify(self.context, self.getpeercert(True))
        except HandshakeRefused:
            self.close()
            raise


class VerifyingObject(ssl.SSLObject):
    """TLS over buffers, as asyncio uses it."""

    def do_handshake(self) -> None:
        """Shake hands, then verify the peer; a server logs why it rejected a client."""
        try:
            super().do_handshake()
            _verify(self.context, self.getpeercert(True))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError):
            raise
        except ssl.SSLError as error:
            if self.server_side:
                reason = getattr(error, "verify_message", "") or error.reason or error
                _LOG.warning("rejected a client: %s", reason)
            raise


class VerifyingContext(ssl.SSLContext):
    """A context whose sockets call its verifier."""

    sslsocket_class: type[ssl.SSLSocket] = VerifyingSocket
    sslobject_class: type[ssl.SSLObject] = VerifyingObject
    verifier: Callable[[bytes | None], None]


def _verify(context: ssl.SSLContext, der: bytes | None) -> None:
    assert isinstance(context, VerifyingContext)
    try:
        context.verifier(der)
    except UntrustedPeer as error:
        raise HandshakeRefused(error.reason, error.message) from None
