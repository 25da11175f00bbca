"""Who a peer is: the fingerprint of its key, what its certificate says, whether to accept it."""

import hashlib
import re
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from modelpact.identity.errors import IdentityError, UntrustedPeer
from modelpact.identity.files import utc_now
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    from cryptography import x509

_PIN: Final = re.compile(r"sha256:[0-9a-f]{64}")
_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


class PeerCertificate(msgspec.Struct, frozen=True):
    """What a certificate says: its key's fingerprint, its names, its issuer, its time."""

    fingerprint: str
    identities: tuple[str, ...]
    hosts: tuple[str, ...]
    issuer: str
    serial: str
    not_before: datetime
    not_after: datetime


class Revocations(msgspec.Struct, frozen=True):
    """Certificates (by issuer and serial) and keys (by fingerprint) that are accepted no more."""

    certificates: frozenset[tuple[str, str]] = frozenset()
    keys: frozenset[str] = frozenset()

    def covers(self, peer: PeerCertificate) -> bool:
        """Tell whether a certificate or its key is revoked."""
        return peer.fingerprint in self.keys or (peer.issuer, peer.serial) in self.certificates


def serial_text(serial: int) -> str:
    """Write a serial number as everything here shows it."""
    return f"{serial:040x}"


def fingerprint(der: bytes) -> str:
    """Return `sha256:HEX` of a certificate's public key: a renewal with the same key keeps it."""
    return read_certificate(der).fingerprint


def read_certificate(der: bytes) -> PeerCertificate:
    """Read a certificate in DER; nothing in it is verified."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from modelpact.identity.certificates import alternative_names

    try:
        read = x509.load_der_x509_certificate(der)
        key = read.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        identities, hosts = alternative_names(read)
        return PeerCertificate(
            f"sha256:{hashlib.sha256(key).hexdigest()}",
            tuple(identities),
            tuple(hosts),
            _issuer(read.issuer),
            serial_text(read.serial_number),
            read.not_valid_before_utc,
            read.not_valid_after_utc,
        )
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise InputError("this is not a certificate in DER that can be read") from None


def read_revocations(
    crl: bytes, authorities: bytes, where: object, *, now: datetime | None = None
) -> Revocations:
    """Read every revocation list in a PEM file; each must be signed by one of the authorities."""
    from cryptography import x509

    from modelpact.identity.certificates import crl_entries, crl_from_pem

    time = utc_now() if now is None else now
    try:
        roots = x509.load_pem_x509_certificates(authorities)
    except ValueError:
        raise IdentityError(f"the authorities beside {where} hold no certificate in PEM") from None
    found: set[tuple[str, str]] = set()
    blocks = _CRL.findall(crl)
    if not blocks:
        raise IdentityError(f"{where} holds no revocation list in PEM")
    for block in blocks:
        read = crl_from_pem(block, where)
        if not any(root.subject == read.issuer and _signed(read, root) for root in roots):
            raise IdentityError(f"{where} is not signed by a trusted authority: get it again")
        if read.next_update_utc is not None and read.next_update_utc < time:
            raise IdentityError(f"{where} ran out on {read.next_update_utc:%Y-%m-%d}: get it again")
        issuer = _issuer(read.issuer)
        found.update((issuer, serial_text(serial)) for serial in crl_entries(read))
    return Revocations(frozenset(found))


def check_peer(
    der: bytes | None,
    pinned: str | Collection[str] | None,
    revoked: Revocations | None = None,
    *,
    identity: str | None = None,
    now: datetime | None = None,
) -> None:
    """Accept a peer's certificate, or raise `UntrustedPeer` with the reason.

    `pinned` holds the fingerprints that may be there (two while a key rotates); None leaves it to
    the authority, whose signature TLS has verified. `identity` is the URI that the certificate
    must carry: `modelpact:runtime:NAME`, or `modelpact:runtime` for any runtime.
    """
    if not der:
        raise UntrustedPeer("unknown", "the peer showed no certificate")
    try:
        peer = read_certificate(der)
    except InputError:
        raise UntrustedPeer("unknown", "the peer's certificate cannot be read") from None
    if pinned is not None:
        pins = check_pins([pinned] if isinstance(pinned, str) else pinned)
        if not pins:
            raise UntrustedPeer("unknown", f"no key is pinned; the peer has {peer.fingerprint}")
        if peer.fingerprint not in pins:
            raise UntrustedPeer(
                "wrong-identity",
                f"the peer's key is {peer.fingerprint}, pinned is {' or '.join(sorted(pins))}",
            )
    if identity is not None and not any(_is(one, identity) for one in peer.identities):
        said = ", ".join(map(brief, peer.identities)) or "nothing"
        raise UntrustedPeer(
            "wrong-identity", f"the peer's certificate says {said}, expected {identity}"
        )
    if revoked is not None and revoked.covers(peer):
        raise UntrustedPeer("revoked", f"certificate {peer.serial} or its key is revoked")
    time = utc_now() if now is None else now
    if not peer.not_before <= time <= peer.not_after:
        raise UntrustedPeer(
            "expired",
            f"certificate {peer.serial} holds from {peer.not_before:%Y-%m-%d %H:%M} "
            f"to {peer.not_after:%Y-%m-%d %H:%M} UTC: renew it",
        )


def check_pins(pins: Collection[str]) -> frozenset[str]:
    """Refuse what is not a fingerprint: it could never match."""
    for pin in pins:
        if not _PIN.fullmatch(pin):
            raise InputError(f"{brief(pin)} is not a fingerprint: expected sha256: and 64 hex")
    return frozenset(pins)


def _is(said: str, expected: str) -> bool:
    return said == expected or (expected.count(":") == 1 and said.startswith(f"{expected}:"))


def _issuer(name: "x509.Name") -> str:
    return hashlib.sha256(name.public_bytes()).hexdigest()


def _signed(crl: "x509.CertificateRevocationList", root: "x509.Certificate") -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return crl.is_signature_valid(root.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
