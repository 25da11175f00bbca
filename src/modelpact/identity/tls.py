"""Mutual TLS: contexts in which both sides present a certificate and verify the other's.

Beyond the checks of OpenSSL, a `PeerVerifier` checks pins, the name in the certificate and
revocation in every handshake, in plain sockets and in asyncio.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from modelpact.identity.errors import IdentityError, UntrustedPeer
from modelpact.identity.files import Clock, read_file, read_private, utc_now
from modelpact.identity.peers import Revocations, check_peer, check_pins, read_revocations
from modelpact.vocabulary.errors import InputError, UnknownName

if TYPE_CHECKING:
    import ssl

Check = Literal["hostname", "fingerprint"]


class Identity(msgspec.Struct, frozen=True):
    """Our own certificate (with its chain) and its key, in one PEM file or in two."""

    certificate: Path
    key: Path | None = None


class Trust(msgspec.Struct, frozen=True):
    """Which peers are accepted.

    `authorities` is a PEM file with the certificates that may sign the peer's, or with the peer's
    own. `pins` are the accepted fingerprints; without any, the authorities decide. `peer` is the
    name that the certificate must have: `modelpact:provider:NAME`, or `modelpact:runtime` for any
    runtime. `crl` is a PEM file of revocation lists that is read again whenever it changes.
    `revoked_keys` are fingerprints that are rejected.
    """

    authorities: Path
    pins: frozenset[str] = frozenset()
    peer: str | None = None
    crl: Path | None = None
    revoked_keys: frozenset[str] = frozenset()


class PeerVerifier:
    """Checks the certificate of a peer in every handshake, beyond the checks of OpenSSL."""

    __slots__ = ("_authorities", "_clock", "_crl_version", "_revoked", "_trust")

    def __init__(self, trust: Trust, clock: Clock = utc_now) -> None:
        check_pins(trust.pins)
        check_pins(trust.revoked_keys)
        self._trust = trust
        self._clock = clock
        self._authorities = read_file(trust.authorities)
        self._crl_version: tuple[int, int, int] | None = None
        self._revoked = Revocations(keys=trust.revoked_keys)
        self._refresh()

    def __call__(self, der: bytes | None) -> None:
        """Accept a certificate, or raise `UntrustedPeer`."""
        try:
            self._refresh()
        except (
            IdentityError
        ) as error:  # without the list of revoked certificates no peer can be trusted
            raise UntrustedPeer("unknown", str(error)) from None
        pins = self._trust.pins or None
        check_peer(der, pins, self._revoked, identity=self._trust.peer, now=self._clock())

    def _refresh(self) -> None:
        crl = self._trust.crl
        if crl is None:
            return
        try:
            status = crl.stat()
        except OSError as error:
            raise IdentityError(f"{crl} cannot be read: {error.strerror or error}") from None
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        if version == self._crl_version:
            return
        listed = read_revocations(read_file(crl), self._authorities, crl, now=self._clock())
        self._revoked = Revocations(listed.certificates, self._trust.revoked_keys)
        self._crl_version = version


def server_context(identity: Identity, trust: Trust, *, clock: Clock = utc_now) -> "ssl.SSLContext":
    """Return the context of a server that demands a certificate from every client."""
    import ssl

    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trust, clock)
    # Each connection needs a full handshake, so that no ticket outlives a revocation.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def client_context(
    identity: Identity, trust: Trust, *, check: Check = "hostname", clock: Clock = utc_now
) -> "ssl.SSLContext":
    """Return the context of a client that presents its certificate.

    By default the certificate of the server must be for its host name. `check="fingerprint"`
    demands one of `trust.pins` instead, for servers that move or have only an address.
    """
    import ssl

    if check not in ("hostname", "fingerprint"):
        raise UnknownName("check", check, ("hostname", "fingerprint"))
    if check == "fingerprint" and not trust.pins:
        raise InputError('check="fingerprint" needs the pins of the server in Trust')
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, trust, clock)
    context.check_hostname = check == "hostname"
    return context


def _context(
    protocol: "ssl._SSLMethod", identity: Identity, trust: Trust, clock: Clock
) -> "ssl.SSLContext":
    import ssl

    from modelpact.identity.handshake import VerifyingContext

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
        raise IdentityError(
            f"{identity.certificate} and its key cannot be used: {_reason(error)}"
        ) from None
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
