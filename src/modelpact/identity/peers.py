"""Peers: which ones are accepted, the contents of their certificates, and revocation lists."""

import hashlib
import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from modelpact.identity.errors import IdentityError, UntrustedPeer
from modelpact.identity.files import Clock, read_file, utc_now
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    from cryptography import x509

_PIN: Final = re.compile(r"sha256:[0-9a-f]{64}")
_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


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


class PeerCertificate(msgspec.Struct, frozen=True):
    """The contents of a certificate: fingerprint of the key, names, issuer and validity."""

    fingerprint: str
    identities: tuple[str, ...]
    hosts: tuple[str, ...]
    issuer: str
    serial: str
    not_before: datetime
    not_after: datetime


class Revocations(msgspec.Struct, frozen=True):
    """Revoked certificates (by issuer and serial) and revoked keys (by fingerprint)."""

    certificates: frozenset[tuple[str, str]] = frozenset()
    keys: frozenset[str] = frozenset()

    def covers(self, peer: PeerCertificate) -> bool:
        """Tell whether a certificate or its key is revoked."""
        return peer.fingerprint in self.keys or (peer.issuer, peer.serial) in self.certificates


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
        except IdentityError as error:  # without the revocation list no peer can be trusted
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


def serial_text(serial: int) -> str:
    """Format a serial number."""
    return f"{serial:040x}"


def fingerprint(der: bytes) -> str:
    """Return `sha256:HEX` of the public key of a certificate; a renewal with the key keeps it."""
    return read_certificate(der).fingerprint


def read_certificate(der: bytes) -> PeerCertificate:
    """Read a certificate in DER, without verifying it."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from modelpact.identity.certificates import alternative_names

    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        identities, hosts = alternative_names(certificate)
        return PeerCertificate(
            f"sha256:{hashlib.sha256(key).hexdigest()}",
            tuple(identities),
            tuple(hosts),
            _issuer_hash(certificate.issuer),
            serial_text(certificate.serial_number),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise InputError("expected a certificate in DER") from None


def read_revocations(crl: bytes, authorities: bytes, where: object, *, now: datetime | None = None) -> Revocations:
    """Read every revocation list in a PEM file; each must be signed by one of the authorities."""
    from cryptography import x509

    from modelpact.identity.certificates import crl_entries, parse_crl

    time = utc_now() if now is None else now
    try:
        roots = x509.load_pem_x509_certificates(authorities)
    except ValueError:
        raise IdentityError(f"the authorities for {where} contain no certificate in PEM") from None
    revoked: set[tuple[str, str]] = set()
    blocks = _CRL.findall(crl)
    if not blocks:
        raise IdentityError(f"{where} contains no revocation list in PEM")
    for block in blocks:
        listed = parse_crl(block, where)
        if not any(root.subject == listed.issuer and _is_signed_by(listed, root) for root in roots):
            raise IdentityError(f"{where} is not signed by a trusted authority: get it again")
        expiry = listed.next_update_utc
        if expiry is not None and expiry < time:
            raise IdentityError(f"{where} expired on {expiry:%Y-%m-%d}: get a new one")
        issuer = _issuer_hash(listed.issuer)
        revoked.update((issuer, serial_text(serial)) for serial in crl_entries(listed))
    return Revocations(frozenset(revoked))


def check_peer(
    der: bytes | None,
    pinned: str | Collection[str] | None,
    revoked: Revocations | None = None,
    *,
    identity: str | None = None,
    now: datetime | None = None,
) -> None:
    """Accept the certificate of a peer, or raise `UntrustedPeer` with the reason.

    `pinned` has the accepted fingerprints (two while a key rotates); with None every certificate
    of the authority is accepted, whose signature TLS has verified. `identity` is the URI that the
    certificate must have: `modelpact:runtime:NAME`, or `modelpact:runtime` for any runtime.
    """
    if not der:
        raise UntrustedPeer("unknown", "the peer presented no certificate")
    try:
        peer = read_certificate(der)
    except InputError:
        raise UntrustedPeer("unknown", "the certificate of the peer cannot be read") from None
    if pinned is not None:
        pins = check_pins([pinned] if isinstance(pinned, str) else pinned)
        if not pins:
            raise UntrustedPeer("unknown", f"no key is pinned; the peer has {peer.fingerprint}")
        if peer.fingerprint not in pins:
            raise UntrustedPeer(
                "wrong-identity", f"the key of the peer is {peer.fingerprint}, expected {' or '.join(sorted(pins))}"
            )
    if identity is not None and not any(_matches(uri, identity) for uri in peer.identities):
        uris = ", ".join(map(brief, peer.identities)) or "no identity"
        raise UntrustedPeer("wrong-identity", f"the certificate of the peer is for {uris}, expected {identity}")
    if revoked is not None and revoked.covers(peer):
        raise UntrustedPeer("revoked", f"certificate {peer.serial} or its key is revoked")
    time = utc_now() if now is None else now
    if not peer.not_before <= time <= peer.not_after:
        raise UntrustedPeer(
            "expired",
            f"certificate {peer.serial} is valid from {peer.not_before:%Y-%m-%d %H:%M} "
            f"to {peer.not_after:%Y-%m-%d %H:%M} UTC: renew it",
        )


def check_pins(pins: Collection[str]) -> frozenset[str]:
    """Return pins as a set; raise `InputError` for one that is not a fingerprint."""
    for pin in pins:
        if not _PIN.fullmatch(pin):
            raise InputError(f"{brief(pin)} is not a fingerprint: expected sha256: and 64 hex digits")
    return frozenset(pins)


def _matches(uri: str, expected: str) -> bool:
    return uri == expected or (expected.count(":") == 1 and uri.startswith(f"{expected}:"))


def _issuer_hash(name: "x509.Name") -> str:
    return hashlib.sha256(name.public_bytes()).hexdigest()


def _is_signed_by(crl: "x509.CertificateRevocationList", root: "x509.Certificate") -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return crl.is_signature_valid(root.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
