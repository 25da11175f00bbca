"""Real handshakes over loopback: who gets a connection, and who does not."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from modelpact.identity import (
    Authority,
    Identity,
    IdentityError,
    InsecurePermissions,
    Trust,
    UntrustedPeer,
    read_certificate,
)
from modelpact.identity.peers import PeerVerifier
from modelpact.identity.tls import server_context
from modelpact.vocabulary.errors import InputError, UnknownName
from tests.identity.conftest import days_ago, der
from tests.identity.handshakes import Pair, meet, openssl_said, refused


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "authority")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_peers_of_one_authority_connect(pair: Pair, version: ssl.TLSVersion) -> None:
    client = pair.client(pair.trust(peer="modelpact:provider:acme"))
    client.maximum_version = version
    assert meet(pair.server(pair.trust(peer="modelpact:runtime")), client).connected


def test_pinned_peers_connect(pair: Pair) -> None:
    server = pair.server(pair.trust(pins=frozenset([pair.runtime.fingerprint])))
    client = pair.client(pair.trust(pins=frozenset([pair.provider.fingerprint])))
    assert meet(server, client).connected


def test_older_tls_is_refused(pair: Pair) -> None:
    for context in (pair.server(), pair.client()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.verify_mode == ssl.CERT_REQUIRED


def test_no_certificate_is_refused(pair: Pair) -> None:
    bare = ssl.create_default_context(cafile=str(pair.authority.certificate))
    outcome = meet(pair.server(), bare)
    assert isinstance(outcome.server, ssl.SSLError)
    assert outcome.server.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    assert outcome.client != b"pong"


def test_another_authority_is_refused_by_either_side(pair: Pair, tmp_path: Path) -> None:
    other = Pair(tmp_path / "other")
    both = Trust(tmp_path / "both.pem")
    both.authorities.write_bytes(pair.authority.certificate.read_bytes() + other.authority.certificate.read_bytes())
    outcome = meet(pair.server(), other.client(both))
    assert openssl_said(outcome.server)
    assert not outcome.connected
    outcome = meet(other.server(both), pair.client())
    assert openssl_said(outcome.client)
    assert not outcome.connected


def test_a_revoked_client_is_refused(pair: Pair) -> None:
    pair.authority.revoke("run", "key-compromise")
    outcome = meet(pair.server(), pair.client())
    assert openssl_said(outcome.server) == "certificate revoked"


def test_a_revoked_server_is_refused(pair: Pair) -> None:
    pair.authority.revoke("acme")
    assert openssl_said(meet(pair.server(), pair.client()).client) == "certificate revoked"


def test_a_revocation_holds_from_the_next_handshake(pair: Pair) -> None:
    server, client = pair.server(), pair.client()
    assert meet(server, client).connected
    pair.authority.revoke("run")
    assert refused(meet(server, client).server) == "revoked"


def test_a_missing_list_rejects_everyone(pair: Pair) -> None:
    server, client = pair.server(), pair.client(Trust(pair.authority.certificate))
    pair.authority.crl.unlink()
    assert refused(meet(server, client).server) == "unknown"


def test_the_list_loads_into_any_context(pair: Pair) -> None:
    pair.authority.revoke("acme")
    plain = ssl.create_default_context(cafile=str(pair.authority.certificate))
    plain.load_cert_chain(pair.authority.identity_file("run"))
    plain.load_verify_locations(pair.authority.crl)
    plain.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    assert openssl_said(meet(pair.server(), plain).client) == "certificate revoked"


def test_an_expired_certificate_is_refused_by_either_side(tmp_path: Path, pair: Pair) -> None:
    old = Pair(tmp_path / "old", clock=lambda: days_ago(31))
    fresh = Authority.open(old.authority.folder)
    fresh.rotate("acme")
    outcome = meet(old.server(), old.client())
    assert openssl_said(outcome.server) == "certificate has expired"
    fresh.rotate("run")
    Authority.open(fresh.folder, clock=lambda: days_ago(31)).rotate("acme", days=30)
    outcome = meet(old.server(), old.client())
    assert openssl_said(outcome.client) == "certificate has expired"


def test_our_own_clock_counts_too(pair: Pair) -> None:
    late = pair.client(clock=lambda: days_ago(-31))
    assert refused(meet(pair.server(), late).client) == "expired"


def test_a_wrong_pin_is_refused_by_either_side(pair: Pair) -> None:
    other = pair.trust(pins=frozenset(["sha256:" + "0" * 64]))
    outcome = meet(pair.server(), pair.client(other))
    assert refused(outcome.client) == "wrong-identity"
    assert outcome.server != b"ping"
    outcome = meet(pair.server(other), pair.client())
    assert refused(outcome.server) == "wrong-identity"
    assert outcome.client != b"pong"


def test_a_wrong_kind_is_refused(pair: Pair) -> None:
    """Certificates work on both sides, so the kind in the name must be checked."""
    server = pair.server(pair.trust(peer="modelpact:provider"))
    assert refused(meet(server, pair.client()).server) == "wrong-identity"


def test_a_renewed_certificate_keeps_its_pin_and_a_new_key_does_not(pair: Pair) -> None:
    client = pair.client(pair.trust(pins=frozenset([pair.provider.fingerprint])))
    pair.authority.rotate("acme", keep_key=True)
    pair.authority.revoke(pair.provider.serial, "superseded")
    assert meet(pair.server(), client).connected
    pair.authority.rotate("acme")
    assert refused(meet(pair.server(), client).client) == "wrong-identity"


def test_the_host_is_checked_unless_the_pin_is(pair: Pair) -> None:
    pinned = pair.trust(pins=frozenset([pair.provider.fingerprint]))
    outcome = meet(pair.server(), pair.client(pinned), "elsewhere.example")
    assert "elsewhere.example" in openssl_said(outcome.client)
    by_pin = pair.client(pinned, check="fingerprint")
    assert meet(pair.server(), by_pin, "elsewhere.example").connected


def test_checking_by_fingerprint_needs_a_pin(pair: Pair) -> None:
    with pytest.raises(InputError, match="needs the pins"):
        pair.client(check="fingerprint")
    with pytest.raises(UnknownName, match="unknown check"):
        pair.client(check="nothing")
    with pytest.raises(InputError, match="is not a fingerprint"):
        pair.server(pair.trust(pins=frozenset(["x"])))


def test_a_certificate_from_elsewhere_works(pair: Pair, tmp_path: Path) -> None:
    """Key and certificate are in two files, and the leaf itself is the authority."""
    other = Pair(tmp_path / "other")
    text = other.authority.identity_file("acme").read_text()
    at = text.index("-----BEGIN CERT")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    key.write_text(text[:at])
    key.chmod(0o600)
    certificate.write_text(text[at:])
    certificate.chmod(0o644)
    server = server_context(Identity(certificate, key), pair.trust())
    pins = frozenset([other.provider.fingerprint])
    client = pair.client(Trust(certificate, pins=pins), check="fingerprint")
    assert meet(server, client, "any.example").connected


def test_revoked_keys_are_refused_whoever_signed(pair: Pair) -> None:
    trust = Trust(pair.authority.certificate, revoked_keys=frozenset([pair.runtime.fingerprint]))
    assert refused(meet(pair.server(trust), pair.client()).server) == "revoked"


def test_with_several_authorities_our_own_check_of_the_list_holds(pair: Pair, tmp_path: Path) -> None:
    other = Pair(tmp_path / "other")
    both = tmp_path / "both.pem"
    roots = [pair.authority.certificate, other.authority.certificate]
    both.write_bytes(b"".join(root.read_bytes() for root in roots))
    server = pair.server(Trust(both, crl=pair.authority.crl))
    reach = Trust(pair.authority.certificate)
    assert meet(server, other.client(reach)).connected
    pair.authority.revoke("run")
    assert refused(meet(server, pair.client(reach)).server) == "revoked"


def test_asyncio_connections_are_verified_too(pair: Pair) -> None:
    async def attempt(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes | Exception:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("ssl_object").getpeercert(True)
            writer.write(read_certificate(peer).identities[0].encode())
            writer.close()

        listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=client, server_hostname="localhost"
                )
                try:
                    return await asyncio.wait_for(reader.read(), 5)
                finally:
                    writer.close()
            except OSError as error:
                return error

    wrong = pair.trust(pins=frozenset(["sha256:" + "0" * 64]))
    assert asyncio.run(attempt(pair.server(), pair.client())) == b"modelpact:runtime:run"
    assert refused(asyncio.run(attempt(pair.server(), pair.client(wrong)))) == "wrong-identity"
    assert asyncio.run(attempt(pair.server(wrong), pair.client())) != b"modelpact:runtime:run"


def test_a_loose_or_encrypted_or_missing_key_is_refused(pair: Pair, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    from modelpact.identity.certificates import new_key

    path = pair.authority.identity_file("acme")
    locked = tmp_path / "locked.pem"
    secret = BestAvailableEncryption(b"passphrase")
    locked.write_bytes(new_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    locked.chmod(0o600)
    with pytest.raises(IdentityError, match="is encrypted"):
        server_context(Identity(path, locked), pair.trust())
    with pytest.raises(IdentityError, match="cannot be read"):
        server_context(Identity(tmp_path / "none.pem"), pair.trust())
    with pytest.raises(IdentityError, match="KEY_VALUES_MISMATCH"):
        server_context(Identity(path, pair.authority.identity_file("run")), pair.trust())
    path.chmod(0o644)
    with pytest.raises(InsecurePermissions, match="chmod 600"):
        pair.server()


def test_a_list_of_another_authority_is_refused_at_once(pair: Pair, tmp_path: Path) -> None:
    other = Pair(tmp_path / "other")
    with pytest.raises(IdentityError, match="not signed by a trusted authority"):
        PeerVerifier(Trust(pair.authority.certificate, crl=other.authority.crl))


def test_a_later_list_of_another_authority_rejects_everyone(pair: Pair, tmp_path: Path) -> None:
    verifier = PeerVerifier(pair.trust())
    verifier(der(pair.authority.identity_file("run")))
    shutil.copy(Pair(tmp_path / "other").authority.crl, pair.authority.crl)
    with pytest.raises(UntrustedPeer, match="not signed by a trusted authority"):
        verifier(der(pair.authority.identity_file("run")))
