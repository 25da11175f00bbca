"""What the authority keeps of each certificate that it issued."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from modelpact.identity.errors import IdentityError
from modelpact.identity.peers import read_certificate

if TYPE_CHECKING:
    from cryptography import x509

Kind = Literal["provider", "runtime"]
Reason = Literal[
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
    "privilege-withdrawn",
]

NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")


class IdentityRecord(msgspec.Struct, frozen=True):
    """One certificate that was issued; `current` is the newest of its name."""

    name: str
    kind: Kind
    hosts: tuple[str, ...]
    serial: str
    fingerprint: str
    not_before: datetime
    not_after: datetime
    current: bool
    revoked: Reason | None = None
    revoked_at: datetime | None = None

    @property
    def identity(self) -> str:
        """The URI in the certificate."""
        return f"modelpact:{self.kind}:{self.name}"

    def state(self, now: datetime) -> Literal["valid", "revoked", "expired"]:
        """Tell whether the certificate holds."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.not_before <= now <= self.not_after else "expired"


def read_record(
    certificate: "x509.Certificate", revoked: Mapping[int, tuple[datetime, str]], where: Path
) -> IdentityRecord:
    """Read a certificate of ours; `revoked` has time and reason by serial."""
    from cryptography.hazmat.primitives.serialization import Encoding

    read = read_certificate(certificate.public_bytes(Encoding.DER))
    scheme, _, rest = (read.identities or ("",))[0].partition(":")
    kind, _, name = rest.partition(":")
    if scheme != "modelpact" or kind not in ("provider", "runtime") or not NAME.fullmatch(name):
        raise IdentityError(f"{where} is not a certificate of this authority: move it elsewhere")
    since, reason = revoked.get(int(read.serial, 16), (None, None))
    return IdentityRecord(
        name,
        cast(Kind, kind),
        read.hosts,
        read.serial,
        read.fingerprint,
        read.not_before,
        read.not_after,
        True,
        cast("Reason | None", reason),
        since,
    )
