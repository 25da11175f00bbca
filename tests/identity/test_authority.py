"""The authority: what it issues, revokes and lists, and what is left when it is cut short."""

import stat
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from modelpact.identity import Authority, IdentityError, InsecurePermissions, IssuedCertificate, fingerprint
from modelpact.identity.files import read_private, utc_now, write_file
from modelpact.vocabulary.errors import InputError, UnknownName
from tests.identity.conftest import DyingWriter, Killed, contents, days_ago, der, run_and_die


def certificate(issued: IssuedCertificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.path.read_bytes())


def test_a_certificate_names_its_holder_and_hosts(authority: Authority) -> None:
    issued = authority.issue("acme", hosts=["acme.example", "127.0.0.1", "::1"], days=30)
    made = certificate(issued)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["modelpact:provider:acme"]
    assert names.get_values_for_type(x509.DNSName) == ["acme.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    lasts = made.not_valid_after_utc - utc_now()
    assert timedelta(days=29, hours=23) < lasts <= timedelta(days=30)
    assert issued.record.identity == "modelpact:provider:acme"
    assert issued.record.fingerprint == fingerprint(der(issued.path))


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_keys_are_private(authority: Authority) -> None:
    issued = authority.issue("acme")
    for path in (issued.path, authority.folder / "root.key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (authority.folder / "root.key.pem").chmod(0o644)
    with pytest.raises(InsecurePermissions, match="chmod 600"):
        authority.issue("other")
    authority.folder.chmod(0o755)
    with pytest.raises(InsecurePermissions, match="chmod 700"):
        Authority.open(authority.folder)


def test_a_leaf_does_not_outlive_its_root(tmp_path: Path) -> None:
    authority = Authority.init(tmp_path / "a", days=10)
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    assert authority.issue("acme", days=365).record.not_after == root.not_valid_after_utc
    late = Authority.open(authority.folder, clock=lambda: days_ago(-11))
    with pytest.raises(IdentityError, match="create a new authority"):
        late.issue("other")


def test_rotation_makes_a_new_key(authority: Authority) -> None:
    first = authority.issue("acme", "runtime", ["a.example"])
    second = authority.rotate("acme")
    assert second.record.fingerprint != first.record.fingerprint
    assert (second.record.kind, second.record.hosts) == ("runtime", ("a.example",))
    assert [one.current for one in authority.list()] == [False, True]


def test_renewal_keeps_the_key(authority: Authority) -> None:
    first = authority.issue("acme")
    second = authority.rotate("acme", keep_key=True)
    assert second.record.fingerprint == first.record.fingerprint
    assert second.record.serial != first.record.serial


def test_a_missing_key_cannot_be_kept(authority: Authority) -> None:
    authority.issue("acme").path.unlink()
    with pytest.raises(IdentityError, match="is missing"):
        authority.rotate("acme", keep_key=True)
    assert [one.name for one in authority.list()] == ["acme"]
    authority.rotate("acme")


def test_revoking_a_name_revokes_all_its_certificates(authority: Authority) -> None:
    authority.issue("acme")
    authority.rotate("acme")
    authority.issue("other")
    done = authority.revoke("acme", "cessation-of-operation")
    assert [one.revoked for one in done] == ["cessation-of-operation"] * 2
    states = {one.name: one.state(utc_now()) for one in authority.list()}
    assert states == {"acme": "revoked", "other": "valid"}
    assert authority.revoke("acme") == ()


@pytest.mark.parametrize(
    "spell", [str, str.upper, lambda s: ":".join(s[i : i + 2] for i in range(0, 40, 2)), lambda s: s.lstrip("0")]
)
def test_revoking_a_serial_revokes_one(authority: Authority, spell: Any) -> None:
    first = authority.issue("acme")
    second = authority.rotate("acme")
    authority.revoke(spell(first.record.serial), "superseded")
    states = [one.state(utc_now()) for one in authority.list()]
    assert states == ["revoked", "valid"]
    assert second.record.serial == authority.list()[1].serial


def test_a_compromised_key_revokes_all_its_certificates(authority: Authority) -> None:
    first = authority.issue("acme")
    authority.rotate("acme", keep_key=True)
    authority.rotate("acme")
    authority.revoke(first.record.serial, "superseded")
    authority.revoke(first.record.serial, "key-compromise")
    assert [one.revoked for one in authority.list()] == ["key-compromise", "key-compromise", None]


def test_a_compromised_key_is_not_kept(authority: Authority) -> None:
    authority.issue("acme")
    authority.revoke("acme", "key-compromise")
    with pytest.raises(InputError, match="compromised"):
        authority.rotate("acme", keep_key=True)
    assert authority.rotate("acme").record.state(utc_now()) == "valid"


def test_the_revocation_list_is_numbered_and_signed(authority: Authority) -> None:
    issued = authority.issue("acme")
    authority.revoke("acme", "key-compromise")
    crl = x509.load_pem_x509_crl(authority.crl.read_bytes())
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    assert crl.is_signature_valid(root.public_key())  # type: ignore[arg-type]
    assert crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 2
    assert [one.serial_number for one in crl] == [int(issued.record.serial, 16)]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A", "a b", "-a", "a-", "é", "x" * 64, "a" * 40, "a\n"])
def test_invalid_names_are_rejected(authority: Authority, name: str) -> None:
    with pytest.raises(InputError, match="cannot be a name"):
        authority.issue(name)


@pytest.mark.parametrize("host", ["", "http://a", "a:80", "a b", "-a.example", "a..b", "é.example", "a/b", "*", "a.*"])
def test_invalid_hosts_are_rejected(authority: Authority, host: str) -> None:
    with pytest.raises(InputError, match="is not a host name"):
        authority.issue("acme", hosts=[host])
    assert authority.list() == ()


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_days_have_bounds(authority: Authority, days: int) -> None:
    with pytest.raises(InputError, match="1 to 3650"):
        authority.issue("acme", days=days)


def test_errors_name_unknown_values(authority: Authority) -> None:
    authority.issue("acme")
    with pytest.raises(InputError, match="rotate it"):
        authority.issue("acme")
    with pytest.raises(UnknownName, match="did you mean acme"):
        authority.rotate("acmee")
    with pytest.raises(UnknownName, match="did you mean acme"):
        authority.revoke("acmee")
    with pytest.raises(UnknownName, match="unknown reason"):
        authority.revoke("acme", "boredom")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown kind"):
        authority.issue("new", "printer")  # type: ignore[arg-type]


def test_init_never_overwrites(authority: Authority) -> None:
    before = contents(authority.folder)
    with pytest.raises(InputError, match="is not empty"):
        Authority.init(authority.folder)
    assert contents(authority.folder) == before


def test_no_authority_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="modelpact identity init"):
        Authority.open(tmp_path)


@pytest.mark.parametrize("lives", [0, 1, 2])
def test_a_killed_init_leaves_nothing(tmp_path: Path, lives: int) -> None:
    with pytest.raises(Killed):
        Authority.init(tmp_path / "new", write=DyingWriter(lives))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lives", [0, 1])
@pytest.mark.parametrize("keep_key", [False, True])
def test_a_killed_rotation_leaves_the_old_state(authority: Authority, lives: int, keep_key: bool) -> None:
    authority.issue("acme")
    before, records = contents(authority.folder), authority.list()
    dying = Authority.open(authority.folder, write=DyingWriter(lives))
    with pytest.raises(Killed):
        dying.rotate("acme", keep_key=keep_key)
    assert authority.list() == records
    Authority.open(authority.folder)
    assert contents(authority.folder) == before


@pytest.mark.parametrize("lives", [0, 1])
def test_a_killed_issue_leaves_the_old_state(authority: Authority, lives: int) -> None:
    before = contents(authority.folder)
    with pytest.raises(Killed):
        Authority.open(authority.folder, write=DyingWriter(lives)).issue("acme")
    Authority.open(authority.folder)
    assert contents(authority.folder) == before
    authority.issue("acme")


@pytest.mark.parametrize("lives", [0, 1])
def test_a_process_that_is_killed_leaves_the_old_state(authority: Authority, lives: int) -> None:
    authority.issue("acme")
    before = contents(authority.folder)
    run_and_die(f"Authority.open(Path({str(authority.folder)!r}), write=write).rotate('acme')", lives)
    (authority.folder / "identities" / ".acme.pem.x.tmp").write_bytes(b"half a key")
    Authority.open(authority.folder)
    assert contents(authority.folder) == before


def test_an_issue_killed_after_the_identity_file_counts(authority: Authority) -> None:
    def deliver_and_die(path: Path, data: bytes, mode: int) -> None:
        write_file(path, data, mode)
        if path.parent.name == "identities":
            raise Killed

    with pytest.raises(Killed):
        Authority.open(authority.folder, write=deliver_and_die).issue("acme")
    (only,) = Authority.open(authority.folder).list()
    assert only.fingerprint == fingerprint(der(authority.identity_file("acme")))


def test_a_killed_revocation_leaves_the_old_list(authority: Authority) -> None:
    authority.issue("acme")
    before = contents(authority.folder)
    with pytest.raises(Killed):
        Authority.open(authority.folder, write=DyingWriter(0)).revoke("acme")
    assert contents(authority.folder) == before


def test_a_file_without_a_key_is_not_an_error_of_permissions(authority: Authority) -> None:
    """A certificate in place of a key is not reported as a problem of permissions."""
    with pytest.raises(IdentityError, match="contains no private key in PEM"):
        read_private(authority.certificate)
