"""What goes wrong with keys, certificates and peers."""

from typing import Literal

from modelpact.vocabulary.errors import ModelpactError

PeerReason = Literal["unknown", "wrong-identity", "revoked", "expired"]
BodyReason = Literal["malformed", "unknown-key", "out-of-order", "stale", "mismatch"]


class IdentityError(ModelpactError):
    """A key, a certificate or the folder that holds them cannot be used."""


class LoosePermissions(IdentityError):
    """A private file or folder that others on this machine can reach."""


class UntrustedKeys(IdentityError):
    """Public keys to which no trusted key has handed over."""


class UntrustedPeer(IdentityError):
    """A peer whose certificate is not accepted, and why."""

    def __init__(self, reason: PeerReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class BadSignature(IdentityError):
    """A response whose signature does not hold, and why."""

    def __init__(self, reason: BodyReason, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason
