"""Identity: signing keys, a small certificate authority, mutual TLS and signed responses.

`cryptography` and `ssl` are imported when a key is first used.
"""

from modelpact.identity.authority import (
    Authority,
    IdentityKind,
    IdentityRecord,
    IssuedCertificate,
    RevocationReason,
)
from modelpact.identity.body_signatures import (
    SIGNATURE_HEADER,
    BodySignature,
    sign_body,
    verify_body,
)
from modelpact.identity.errors import (
    BadSignature,
    IdentityError,
    InsecurePermissions,
    UntrustedKeys,
    UntrustedPeer,
)
from modelpact.identity.keyring import Keyring
from modelpact.identity.keys import PublicKey, PublicKeys, Signature, Signer, verify
from modelpact.identity.peers import (
    PeerCertificate,
    Revocations,
    check_peer,
    fingerprint,
    read_certificate,
    read_revocations,
)
from modelpact.identity.tls import Identity, PeerVerifier, Trust, client_context, server_context

__all__ = [
    "SIGNATURE_HEADER",
    "Authority",
    "BadSignature",
    "BodySignature",
    "Identity",
    "IdentityError",
    "IdentityKind",
    "IdentityRecord",
    "InsecurePermissions",
    "IssuedCertificate",
    "Keyring",
    "PeerCertificate",
    "PeerVerifier",
    "PublicKey",
    "PublicKeys",
    "RevocationReason",
    "Revocations",
    "Signature",
    "Signer",
    "Trust",
    "UntrustedKeys",
    "UntrustedPeer",
    "check_peer",
    "client_context",
    "fingerprint",
    "read_certificate",
    "read_revocations",
    "server_context",
    "sign_body",
    "verify",
    "verify_body",
]
