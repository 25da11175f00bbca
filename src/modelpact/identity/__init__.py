"""Identity: signing keys, a small certificate authority, mutual TLS, signed responses.

Imports only `vocabulary`. `cryptography` and `ssl` are imported when a key is first used.
"""

from modelpact.identity.authority import Authority, Issued
from modelpact.identity.body_signatures import HEADER, BodySignature, sign_body, verify_body
from modelpact.identity.errors import (
    BadSignature,
    IdentityError,
    LoosePermissions,
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
from modelpact.identity.records import IdentityRecord, Kind, Reason
from modelpact.identity.tls import Guard, Identity, Trust, client_context, server_context

__all__ = [
    "HEADER",
    "Authority",
    "BadSignature",
    "BodySignature",
    "Guard",
    "Identity",
    "IdentityError",
    "IdentityRecord",
    "Issued",
    "Keyring",
    "Kind",
    "LoosePermissions",
    "PeerCertificate",
    "PublicKey",
    "PublicKeys",
    "Reason",
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
