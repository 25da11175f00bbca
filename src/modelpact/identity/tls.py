"""Mutual TLS: contexts in which both sides present a certificate and verify the other's.

Beyond the checks of OpenSSL, a `PeerVerifier` checks the peer at the end of every handshake, in
plain sockets and in asyncio. This module needs `ssl`, so import it only where you open connections.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Final, Literal

from modelpact.identity.errors import IdentityError, UntrustedPeer
from modelpact.identity.files import Clock, read_private, utc_now
from modelpact.identity.peers import Identity, PeerVerifier, Trust
from modelpact.vocabulary.errors import InputError, UnknownName

Check = Literal["hostname", "fingerprint"]
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


def server_context(identity: Identity, trust: Trust, *, clock: Clock = utc_now) -> ssl.SSLContext:
    """Return the context of a server that demands a certificate from every client."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trust, clock)
    # Each connection needs a full handshake, so that no ticket outlives a revocation.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def client_context(
    identity: Identity, trust: Trust, *, check: Check = "hostname", clock: Clock = utc_now
) -> ssl.SSLContext:
    """Return the context of a client that presents its certificate.

    By default the certificate of the server must be for its host name. `check="fingerprint"`
    demands one of `trust.pins` instead, for servers that move or have only an address.
    """
    if check not in ("hostname", "fingerprint"):
        raise UnknownName("check", check, ("hostname", "fingerprint"))
    if check == "fingerprint" and not trust.pins:
        raise InputError('check="fingerprint" needs the pins of the server in Trust')
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, trust, clock)
    context.check_hostname = check == "hostname"
    return context


def _context(protocol: ssl._SSLMethod, identity: Identity, trust: Trust, clock: Clock) -> ssl.SSLContext:
    def no_passphrase() -> str:  # otherwise OpenSSL asks on the terminal and waits
        raise IdentityError(f"{key} is encrypted: use a key without a passphrase, with mode 600")

    context = VerifyingContext(protocol)
    context.verifier = PeerVerifier(trust, clock)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    key = identity.key or identity.certificate
    read_private(key)
    try:
        context.load_cert_chain(identity.certificate, identity.key, no_passphrase)
    except (ssl.SSLError, OSError) as error:
        raise IdentityError(f"{identity.certificate} and its key cannot be used: {_reason(error)}") from None
    try:
        context.load_verify_locations(trust.authorities)
        if trust.crl is not None and len(context.get_ca_certs()) == 1:
            # With one authority OpenSSL can check its list too, and tell the peer the reason;
            # with several it would demand a list from each.
            context.load_verify_locations(trust.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (ssl.SSLError, OSError) as error:
        raise IdentityError(f"{trust.authorities} cannot be used: {_reason(error)}") from None
    return context


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)


def _verify(context: ssl.SSLContext, der: bytes | None) -> None:
    assert isinstance(context, VerifyingContext)
    try:
        context.verifier(der)
    except UntrustedPeer as error:
        raise HandshakeRefused(error.reason, error.message) from None
