"""Mutual TLS: contexts in which both sides show a certificate and check the other's.

Beyond what OpenSSL checks, every handshake asks the `Guard`: pins, the name in the certificate,
revocation. A peer that it refuses never gets a connection, in plain sockets and in asyncio.
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
    """Who we are: a certificate (with its chain) and its key, in one PEM file or in two."""

    certificate: Path
    key: Path | None = None


class Trust(msgspec.Struct, frozen=True):
    """Whom we accept.

    `authorities` is a PEM file of certificates that may sign the peer's, or the peer's own.
    `pins` are the fingerprints that the peer may have; without any, the authorities decide.
    `peer` is the name that its certificate must carry: `modelpact:provider:NAME`, or
    `modelpact:runtime` for any runtime. `crl` is a PEM file of revocation lists that is read again
    whenever it changes. `revoked_keys` are fingerprints that are accepted no more.
    """

    authorities: Path
    pins: frozenset[str] = frozenset()
    peer: str | None = None
    crl: Path | None = None
    revoked_keys: frozenset[str] = frozenset()


class Guard:
    """What is asked of a peer's certificate in every handshake, beyond OpenSSL's checks."""

    __slots__ = ("_authorities", "_clock", "_revoked", "_seen", "_trust")

    def __init__(self, trust: Trust, clock: Clock = utc_now) -> None:
        check_pins(trust.pins)
        check_pins(trust.revoked_keys)
        self._trust = trust
        self._clock = clock
        self._authorities = read_file(trust.authorities)
        self._seen: tuple[int, int, int] | None = None
        self._revoked = Revocations(keys=trust.revoked_keys)
        self._refresh()

    def __call__(self, der: bytes | None) -> None:
        """Accept a certificate, or raise `UntrustedPeer`."""
        try:
            self._refresh()
        except IdentityError as error:  # not to know who is revoked is not to know whom to trust
            raise UntrustedPeer("unknown", str(error)) from None
        pins = self._trust.pins or None
        check_peer(der, pins, self._revoked, identity=self._trust.peer, now=self._clock())

    def _refresh(self) -> None:
        crl = self._trust.crl
        if crl is None:
            return
        try:
            found = crl.stat()
        except OSError as error:
            raise IdentityError(f"{crl} cannot be read: {error.strerror or error}") from None
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen:
            return
        listed = read_revocations(read_file(crl), self._authorities, crl, now=self._clock())
        self._revoked = Revocations(listed.certificates, self._trust.revoked_keys)
        self._seen = seen


def server_context(identity: Identity, trust: Trust, *, clock: Clock = utc_now) -> "ssl.SSLContext":
    """Make the context of a server that demands a certificate of every client."""
    import ssl

    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trust, clock)
    # Each connection is a full handshake: no ticket outlives a revocation.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def client_context(
    identity: Identity, trust: Trust, *, check: Check = "hostname", clock: Clock = utc_now
) -> "ssl.SSLContext":
    """Make the context of a client that shows its certificate.

    By default the server's certificate must be for the host that is called. `check="fingerprint"`
    asks for one of `trust.pins` instead: for servers that move, or are called by address.
    """
    import ssl

    if check not in ("hostname", "fingerprint"):
        raise UnknownName("check", check, ("hostname", "fingerprint"))
    if check == "fingerprint" and not trust.pins:
        raise InputError("to check by fingerprint, Trust needs the pins of the server's key")
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, trust, clock)
    context.check_hostname = check == "hostname"
    return context


def _context(
    protocol: "ssl._SSLMethod", identity: Identity, trust: Trust, clock: Clock
) -> "ssl.SSLContext":
    import ssl

    from modelpact.identity.handshake import GuardedContext

    def no_passphrase() -> str:  # without this, OpenSSL would ask on the terminal and wait
        raise IdentityError(f"{key} is encrypted: give a key without a passphrase, mode 600")

    context = GuardedContext(protocol)
    context.guard = Guard(trust, clock)
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
            f"{identity.certificate} and its key cannot be used: {_said(error)}"
        ) from None
    try:
        context.load_verify_locations(trust.authorities)
        if trust.crl is not None and len(context.get_ca_certs()) == 1:
            # With one authority OpenSSL can check its list too, and tell the peer why it refuses;
            # with several it would demand a list of each.
            context.load_verify_locations(trust.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (ssl.SSLError, OSError) as error:
        raise IdentityError(f"{trust.authorities} cannot be used: {_said(error)}") from None
    return context


def _said(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)
