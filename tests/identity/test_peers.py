"""Accepting a peer, or the reason not to."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.identity import Authority, IdentityError, IssuedCertificate, UntrustedPeer, fingerprint, read_certificate
from modelpact.identity.peers import Revocations, check_peer, read_revocations
from modelpact.vocabulary.errors import InputError
from tests.identity.conftest import days_ago, der


@pytest.fixture
def acme(authority: Authority) -> IssuedCertificate:
    return authority.issue("acme", hosts=["acme.example"], days=30)


def reason(*args: Any, **options: Any) -> str:
    with pytest.raises(UntrustedPeer) as caught:
        check_peer(*args, **options)
    assert f"({caught.value.reason})" in str(caught.value)
    return caught.value.reason


def revoked(authority: Authority) -> Revocations:
    return read_revocations(authority.crl.read_bytes(), authority.certificate.read_bytes(), authority.crl)


def test_a_pinned_peer_is_accepted(authority: Authority, acme: IssuedCertificate) -> None:
    pin = acme.record.fingerprint
    check_peer(der(acme.path), pin, revoked(authority))
    check_peer(der(acme.path), {pin, "sha256:" + "0" * 64})
    check_peer(der(acme.path), None, identity="modelpact:provider:acme")
    check_peer(der(acme.path), None, identity="modelpact:provider")


def test_the_fingerprint_is_that_of_openssl(acme: IssuedCertificate) -> None:
    """`openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum`."""
    import hashlib

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_der_x509_certificate(der(acme.path)).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert fingerprint(der(acme.path)) == f"sha256:{hashlib.sha256(spki).hexdigest()}"


def test_a_renewal_keeps_the_pin(authority: Authority, acme: IssuedCertificate) -> None:
    check_peer(der(authority.rotate("acme", keep_key=True).path), acme.record.fingerprint)


def test_another_key_is_a_wrong_identity(authority: Authority, acme: IssuedCertificate) -> None:
    pin = acme.record.fingerprint
    assert reason(der(authority.rotate("acme").path), pin) == "wrong-identity"


@pytest.mark.parametrize(
    "identity", ["modelpact:runtime:acme", "modelpact:runtime", "modelpact:provider:acm", "modelpact", ""]
)
def test_another_name_is_a_wrong_identity(acme: IssuedCertificate, identity: str) -> None:
    assert reason(der(acme.path), None, identity=identity) == "wrong-identity"


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_certificate_is_unknown(nothing: bytes | None) -> None:
    assert reason(nothing, None) == "unknown"


@given(st.binary(min_size=1, max_size=200))
def test_garbage_is_unknown(rubbish: bytes) -> None:
    assert reason(rubbish, None) == "unknown"
    with pytest.raises(InputError):
        fingerprint(rubbish)


def test_nothing_pinned_is_unknown(acme: IssuedCertificate) -> None:
    assert reason(der(acme.path), []) == "unknown"


@pytest.mark.parametrize("pin", ["", "0" * 64, "sha256:" + "A" * 64, "sha1:" + "0" * 40])
def test_a_pin_that_could_never_match_is_refused(acme: IssuedCertificate, pin: str) -> None:
    with pytest.raises(InputError, match="is not a fingerprint"):
        check_peer(der(acme.path), pin)


def test_revoked_by_certificate_or_key(authority: Authority, acme: IssuedCertificate) -> None:
    renewed = der(authority.rotate("acme", keep_key=True).path)
    old = next((authority.folder / "certificates").glob(f"*{acme.record.serial}.pem"))
    authority.revoke(acme.record.serial)
    assert reason(der(old), acme.record.fingerprint, revoked(authority)) == "revoked"
    check_peer(renewed, acme.record.fingerprint, revoked(authority))
    keys = Revocations(keys=frozenset([acme.record.fingerprint]))
    assert reason(renewed, acme.record.fingerprint, keys) == "revoked"


def test_a_serial_is_revoked_for_its_issuer_only(authority: Authority, acme: IssuedCertificate) -> None:
    read = read_certificate(der(acme.path))
    check_peer(der(acme.path), None, Revocations(frozenset([("0" * 64, read.serial)])))
    mine = Revocations(frozenset([(read.issuer, read.serial)]))
    assert reason(der(acme.path), None, mine) == "revoked"


@pytest.mark.parametrize("now", [days_ago(1), days_ago(-31)])
def test_outside_its_validity_it_is_expired(acme: IssuedCertificate, now: Any) -> None:
    assert reason(der(acme.path), acme.record.fingerprint, now=now) == "expired"


def test_a_list_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    """Both authorities have the same name; only the signature differs."""
    other = Authority.init(tmp_path / "other")
    with pytest.raises(IdentityError, match="not signed by a trusted authority"):
        read_revocations(other.crl.read_bytes(), authority.certificate.read_bytes(), "the list")


def test_every_list_in_a_file_counts(tmp_path: Path) -> None:
    both = [Authority.init(tmp_path / name, name=name) for name in ("a", "b")]
    made = [one.issue("acme") for one in both]
    for one in both:
        one.revoke("acme")
    result = read_revocations(
        b"".join(one.crl.read_bytes() for one in both),
        b"".join(one.certificate.read_bytes() for one in both),
        "the lists",
    )
    assert [reason(der(one.path), None, result) for one in made] == ["revoked", "revoked"]


def test_an_expired_list_is_rejected(tmp_path: Path) -> None:
    authority = Authority.init(tmp_path / "a", days=10)
    crl, root = authority.crl.read_bytes(), authority.certificate.read_bytes()
    with pytest.raises(IdentityError, match="expired on"):
        read_revocations(crl, root, "the list", now=days_ago(-11))


@pytest.mark.parametrize("crl", [b"", b"x", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"])
def test_a_file_without_a_list_is_rejected(authority: Authority, crl: bytes) -> None:
    with pytest.raises(IdentityError, match="contains no revocation list"):
        read_revocations(crl, authority.certificate.read_bytes(), "the list")
