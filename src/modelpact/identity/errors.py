"""Errors of keys, certificates and peers."""

from typing import Literal

from modelpact.vocabulary.errors import ModelpactError

PeerReason = Literal["unknown", "wrong-identity", "revoked", "expired"]
BodyReason = Literal["malformed", "unknown-key", "out-of-order", "stale", "mismatch"]


class IdentityError(ModelpactError):
    """A key, a certificate or the folder that holds them cannot be used."""


class InsecurePermissions(IdentityError):
    """A private file or folder is accessible to other users of this machine."""


class UntrustedKeys(IdentityError):
    """No trusted key has handed over to the offered public keys."""


class UntrustedPeer(IdentityError):
    """The certificate of a peer is not accepted; `reason` says why."""

    def __init__(self, reason: PeerReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class BadSignature(IdentityError):
    """The signature of a response is not valid; `reason` says why."""

    def __init__(self, reason: BodyReason, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason
