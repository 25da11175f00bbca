"""Identity: signing keys, a small certificate authority, mutual TLS and signed responses.

`cryptography` is imported when a key is first used, and `ssl` by `modelpact.identity.tls`.
"""

from modelpact.identity.authority import Authority, IdentityRecord, IssuedCertificate
from modelpact.identity.errors import BadSignature, IdentityError, InsecurePermissions, UntrustedKeys, UntrustedPeer
from modelpact.identity.keyring import Keyring
from modelpact.identity.keys import (
    SIGNATURE_HEADER,
    PublicKey,
    PublicKeys,
    Signature,
    Signer,
    sign_body,
    verify,
    verify_body,
)
from modelpact.identity.peers import Identity, PeerCertificate, Trust, fingerprint, read_certificate

__all__ = [
    "SIGNATURE_HEADER",
    "Authority",
    "BadSignature",
    "Identity",
    "IdentityError",
    "IdentityRecord",
    "InsecurePermissions",
    "IssuedCertificate",
    "Keyring",
    "PeerCertificate",
    "PublicKey",
    "PublicKeys",
    "Signature",
    "Signer",
    "Trust",
    "UntrustedKeys",
    "UntrustedPeer",
    "fingerprint",
    "read_certificate",
    "sign_body",
    "verify",
    "verify_body",
]
