"""Creates and reads certificates and revocation lists.

Import this module where you need it, because it imports `cryptography`. Keys are ECDSA P-256, which
every TLS library accepts; many still reject Ed25519.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelpact.identity.errors import IdentityError
from modelpact.identity.files import read_file, read_private
from modelpact.vocabulary.errors import InputError, brief

REASONS: Final = {
    "unspecified": x509.ReasonFlags.unspecified,
    "key-compromise": x509.ReasonFlags.key_compromise,
    "affiliation-changed": x509.ReasonFlags.affiliation_changed,
    "superseded": x509.ReasonFlags.superseded,
    "cessation-of-operation": x509.ReasonFlags.cessation_of_operation,
    "privilege-withdrawn": x509.ReasonFlags.privilege_withdrawn,
}
SKEW: Final = timedelta(minutes=5)
"""Certificates are valid from this long before their creation, for peers with slow clocks."""
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def to_pem(item: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    """Return a certificate or a revocation list as PEM."""
    return item.public_bytes(Encoding.PEM)


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PKCS8 PEM, for a private file only."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read the private key in a file."""
    try:
        key = load_pem_private_key(read_private(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IdentityError(f"{path} contains no unencrypted private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path} is not an ECDSA key")
    return key


def load_certificate(path: Path) -> x509.Certificate:
    """Read the certificate in a file."""
    try:
        return x509.load_pem_x509_certificate(read_file(path))
    except ValueError:
        raise IdentityError(f"{path} contains no certificate in PEM") from None


def parse_crl(pem: bytes, where: object) -> x509.CertificateRevocationList:
    """Parse a revocation list in PEM; errors name `where`."""
    try:
        return x509.load_pem_x509_crl(pem)
    except ValueError:
        raise IdentityError(f"{where} contains no revocation list in PEM") from None


def make_root(key: ec.EllipticCurvePrivateKey, name: str, now: datetime, days: int) -> x509.Certificate:
    """Return a certificate for the authority, which can sign no other authority."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, SHA256())
    )


def make_leaf(
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    public: ec.EllipticCurvePublicKey,
    *,
    name: str,
    uri: str,
    hosts: Iterable[str],
    now: datetime,
    days: int,
) -> x509.Certificate:
    """Return a certificate for a provider or runtime, for both sides of a connection."""
    end = min(now + timedelta(days=days), root.not_valid_after_utc)
    if end <= now:
        raise IdentityError(
            f"the certificate of the authority expired on {root.not_valid_after_utc:%Y-%m-%d}: create a new authority"
        )
    names = [x509.UniformResourceIdentifier(uri), *map(_host, hosts)]
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(root.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_authority_key(root), critical=False)
        .sign(root_key, SHA256())
    )


def make_crl(
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    revoked: Iterable[tuple[int, datetime, str]],
    *,
    number: int,
    now: datetime,
) -> x509.CertificateRevocationList:
    """Return a revocation list of serials with time and reason.

    It is valid as long as the authority, because an expired list would block every connection.
    """
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.subject)
        .last_update(now - SKEW)
        .next_update(root.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(_authority_key(root), critical=False)
    )
    for serial, time, reason in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(time)
        if reason != "unspecified":  # RFC 5280, 5.3.1: the extension is left out instead
            entry = entry.add_extension(x509.CRLReason(REASONS[reason]), critical=False)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(root_key, SHA256())


def crl_entries(crl: x509.CertificateRevocationList) -> dict[int, tuple[datetime, str]]:
    """Return time and reason by serial."""
    reasons = {flag: reason for reason, flag in REASONS.items()}
    entries = {}
    for entry in crl:
        try:
            flag = entry.extensions.get_extension_for_class(x509.CRLReason).value.reason
        except x509.ExtensionNotFound:
            flag = x509.ReasonFlags.unspecified
        reason = reasons.get(flag, "unspecified")
        entries[entry.serial_number] = (entry.revocation_date_utc, reason)
    return entries


def crl_number(crl: x509.CertificateRevocationList) -> int:
    """Return the number of a list; each new list has the next number."""
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Return the URIs and the hosts that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    hosts = names.get_values_for_type(x509.DNSName)
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.UniformResourceIdentifier), [*hosts, *addresses]


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise `InputError` for a host that is neither a name nor an IP address."""
    for host in hosts:
        _host(host)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if len(host) <= 253 and _HOST.fullmatch(host):
            return x509.DNSName(host.lower())
    raise InputError(
        f"{brief(host)} is not a host name or an IP address: "
        f"write it without scheme and port, and international names in their xn-- form"
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key(root: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
