"""A small certificate authority, for operators who have none. Its folder contains:

root.pem, root.key.pem     the certificate and the key of the authority
revoked.pem                the revocation list, the only record of what is revoked
certificates/N-SERIAL.pem  every certificate that was issued
identities/NAME.pem        a key and its certificate in one file, so that both change at once
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from modelpact.identity.errors import IdentityError
from modelpact.identity.files import (
    PRIVATE,
    PUBLIC,
    Clock,
    Write,
    check_private_folder,
    exists,
    is_vacant,
    locked,
    new_folder,
    read_file,
    utc_now,
    write_file,
)
from modelpact.identity.peers import read_certificate, serial_text
from modelpact.vocabulary.errors import InputError, UnknownName, brief

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

IdentityKind = Literal["provider", "runtime"]
RevocationReason = Literal[
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
    "privilege-withdrawn",
]

DEFAULT_DAYS: Final = 365
_MAX_DAYS: Final = 3650
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_SERIAL: Final = re.compile(r"[0-9a-f]{32,40}")


class IdentityRecord(msgspec.Struct, frozen=True):
    """A certificate that was issued; the newest of each name is `current`."""

    name: str
    kind: IdentityKind
    hosts: tuple[str, ...]
    serial: str
    fingerprint: str
    not_before: datetime
    not_after: datetime
    current: bool
    revoked: RevocationReason | None = None
    revoked_at: datetime | None = None

    @property
    def identity(self) -> str:
        """The URI in the certificate."""
        return f"modelpact:{self.kind}:{self.name}"

    def state(self, now: datetime) -> Literal["valid", "revoked", "expired"]:
        """Return the state of the certificate at a time."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.not_before <= now <= self.not_after else "expired"


class IssuedCertificate(msgspec.Struct, frozen=True):
    """A new certificate, and the file with the certificate and its key."""

    record: IdentityRecord
    path: Path


class Authority:
    """Issues, rotates and revokes the certificates of providers and runtimes."""

    __slots__ = ("_clock", "_write", "folder")

    def __init__(self, folder: Path, *, clock: Clock = utc_now, write: Write = write_file) -> None:
        self.folder = folder
        self._clock = clock
        self._write = write

    @classmethod
    def init(
        cls,
        folder: Path,
        *,
        name: str = "modelpact authority",
        days: int = _MAX_DAYS,
        clock: Clock = utc_now,
        write: Write = write_file,
    ) -> "Authority":
        """Create an authority in a new or empty folder."""
        from modelpact.identity import certificates

        if not is_vacant(folder):
            raise InputError(f"{folder} is not empty: open it, or choose another folder")
        if not 1 <= len(name) <= 64 or not name.isprintable():
            raise InputError(f"{brief(name)} cannot be the name of an authority: expected 1 to 64 characters")
        key, now = certificates.new_key(), clock()
        root = certificates.make_root(key, name, now, days)
        crl = certificates.make_crl(root, key, (), number=1, now=now)

        def fill(scratch: Path) -> None:
            for name in ("certificates", "identities"):
                (scratch / name).mkdir(mode=0o700)
            write(scratch / "root.key.pem", certificates.key_to_pem(key), PRIVATE)
            write(scratch / "root.pem", certificates.to_pem(root), PUBLIC)
            write(scratch / "revoked.pem", certificates.to_pem(crl), PUBLIC)

        new_folder(folder, fill)
        return cls(folder, clock=clock, write=write)

    @classmethod
    def open(cls, folder: Path, *, clock: Clock = utc_now, write: Write = write_file) -> "Authority":
        """Open an authority; its folder must not be accessible to other users."""
        if not exists(folder / "root.pem"):
            raise IdentityError(f"there is no authority in {folder}: make one with `modelpact identity init`")
        check_private_folder(folder)
        authority = cls(folder, clock=clock, write=write)
        with authority._changing():
            return authority

    @property
    def certificate(self) -> Path:
        """The file with the certificate of the authority, which peers trust."""
        return self.folder / "root.pem"

    @property
    def crl(self) -> Path:
        """The file with the revocation list, which peers check."""
        return self.folder / "revoked.pem"

    def identity_file(self, name: str) -> Path:
        """Return the file with the key and the current certificate of a name."""
        return self.folder / "identities" / f"{name}.pem"

    def issue(
        self, name: str, kind: IdentityKind = "provider", hosts: Sequence[str] = (), days: int = DEFAULT_DAYS
    ) -> IssuedCertificate:
        """Create a key and a certificate for a new name."""
        from modelpact.identity import certificates

        if not _NAME.fullmatch(name) or _SERIAL.fullmatch(name):
            raise InputError(
                f"{brief(name)} cannot be a name: expected at most 63 of a-z 0-9 . _ -, "
                f"first and last a letter or digit, and not the form of a serial number"
            )
        if kind not in ("provider", "runtime"):
            raise UnknownName("kind", kind, ("provider", "runtime"))
        certificates.check_hosts(hosts)
        with self._changing():
            if any(record.name == name for record in self.list()):
                raise InputError(f"{name} already has a certificate: rotate it")
            return self._issue(name, kind, hosts, days, certificates.new_key())

    def rotate(self, name: str, *, keep_key: bool = False, days: int = DEFAULT_DAYS) -> IssuedCertificate:
        """Create a new certificate for a name, with a new key unless `keep_key` is set.

        The old certificate stays valid until it expires or its serial is revoked, so that peers
        have time to switch.
        """
        from modelpact.identity import certificates

        with self._changing():
            records = self.list()
            last = next((record for record in reversed(records) if record.name == name), None)
            if last is None:
                raise UnknownName("name", name, (record.name for record in records))
            key = self._current_key(last, records) if keep_key else certificates.new_key()
            return self._issue(name, last.kind, last.hosts, days, key)

    def revoke(self, which: str, reason: RevocationReason = "unspecified") -> tuple[IdentityRecord, ...]:
        """Revoke every certificate of a name, or one by its serial; return the newly revoked.

        With the reason `key-compromise`, every certificate of the same key is revoked.
        """
        from modelpact.identity import certificates

        if reason not in certificates.REASONS:
            raise UnknownName("reason", reason, certificates.REASONS)
        with self._changing():
            records = self.list()
            serial = which.lower().replace(":", "").rjust(40, "0")
            chosen = [record for record in records if which == record.name or serial == record.serial]
            if not chosen:
                raise UnknownName("name or serial", which, (record.name for record in records))
            compromised = reason == "key-compromise"
            if compromised:
                keys = {record.fingerprint for record in chosen}
                chosen = [record for record in records if record.fingerprint in keys]
            new = [record for record in chosen if record.revoked is None or (compromised and record.revoked != reason)]
            if new:
                self._extend_crl(new, reason)
        serials = {record.serial for record in new}
        return tuple(record for record in self.list() if record.serial in serials)

    def list(self) -> tuple[IdentityRecord, ...]:
        """Return every certificate ever issued, oldest first."""
        from modelpact.identity import certificates

        revoked = certificates.crl_entries(certificates.parse_crl(read_file(self.crl), self.crl))
        records: dict[str, IdentityRecord] = {}
        newest: dict[str, str] = {}
        for path in sorted((self.folder / "certificates").glob("*.pem")):
            certificate = certificates.load_certificate(path)
            record = _read_record(certificate, revoked, path)
            records[record.serial] = record
            newest[record.name] = record.serial
        return tuple(
            msgspec.structs.replace(record, current=newest[record.name] == serial) for serial, record in records.items()
        )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the folder and finish or undo an interrupted change.

        A pending certificate counts as issued if its identity file was written.
        """
        from modelpact.identity import certificates

        with locked(self.folder):
            for leftover in self.folder.rglob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            for pending in (self.folder / "certificates").glob("*.pending"):
                certificate = certificates.load_certificate(pending)
                record = _read_record(certificate, {}, pending)
                path = self.identity_file(record.name)
                current = exists(path) and certificates.load_certificate(path)
                if current and serial_text(current.serial_number) == record.serial:
                    pending.rename(pending.with_suffix(".pem"))
                else:
                    pending.unlink()
            yield

    def _issue(
        self, name: str, kind: IdentityKind, hosts: Iterable[str], days: int, key: "ec.EllipticCurvePrivateKey"
    ) -> IssuedCertificate:
        from modelpact.identity import certificates

        if not 1 <= days <= _MAX_DAYS:
            raise InputError(f"{days} days: a certificate is valid for 1 to {_MAX_DAYS} days")
        root, root_key = self._root()
        leaf = certificates.make_leaf(
            root,
            root_key,
            key.public_key(),
            name=name,
            uri=f"modelpact:{kind}:{name}",
            hosts=hosts,
            now=self._clock(),
            days=days,
        )
        folder, path = self.folder / "certificates", self.identity_file(name)
        number = 1 + sum(1 for _ in folder.glob("*.pem"))
        pending = folder / f"{number:06d}-{serial_text(leaf.serial_number)}.pending"
        self._write(pending, certificates.to_pem(leaf), PUBLIC)
        # Once the identity file is written, the certificate counts as issued.
        self._write(path, certificates.key_to_pem(key) + certificates.to_pem(leaf), PRIVATE)
        pending.rename(pending.with_suffix(".pem"))
        return IssuedCertificate(_read_record(leaf, {}, path), path)

    def _current_key(self, last: IdentityRecord, records: Iterable[IdentityRecord]) -> "ec.EllipticCurvePrivateKey":
        from modelpact.identity import certificates

        same_key = [record for record in records if record.fingerprint == last.fingerprint]
        if any(record.revoked == "key-compromise" for record in same_key):
            raise InputError(f"the key of {last.name} is compromised: rotate without keeping it")
        path = self.identity_file(last.name)
        if not exists(path):
            raise IdentityError(f"{path} with the key is missing: restore it, or rotate without keeping the key")
        return certificates.load_key(path)

    def _extend_crl(self, records: Iterable[IdentityRecord], reason: RevocationReason) -> None:
        from modelpact.identity import certificates

        old = certificates.parse_crl(read_file(self.crl), self.crl)
        now, (root, root_key) = self._clock(), self._root()
        entries = certificates.crl_entries(old)
        for record in records:
            since, _ = entries.get(int(record.serial, 16), (now, reason))
            entries[int(record.serial, 16)] = (since, reason)
        listed = [(serial, *entry) for serial, entry in entries.items()]
        crl = certificates.make_crl(root, root_key, listed, number=certificates.crl_number(old) + 1, now=now)
        self._write(self.crl, certificates.to_pem(crl), PUBLIC)

    def _root(self) -> "tuple[x509.Certificate, ec.EllipticCurvePrivateKey]":
        from modelpact.identity import certificates

        key_file = self.folder / "root.key.pem"
        key = certificates.load_key(key_file)
        root = certificates.load_certificate(self.certificate)
        if root.public_key() != key.public_key():
            raise IdentityError(f"{key_file} is not the key of root.pem: restore it from a backup")
        return root, key


def _read_record(
    certificate: "x509.Certificate", revoked: Mapping[int, tuple[datetime, str]], where: Path
) -> IdentityRecord:
    """Read a certificate of this authority; `revoked` has time and reason by serial."""
    from cryptography.hazmat.primitives.serialization import Encoding

    peer = read_certificate(certificate.public_bytes(Encoding.DER))
    scheme, _, rest = (peer.identities or ("",))[0].partition(":")
    kind, _, name = rest.partition(":")
    if scheme != "modelpact" or kind not in ("provider", "runtime") or not _NAME.fullmatch(name):
        raise IdentityError(f"{where} is not a certificate of this authority: move it elsewhere")
    since, reason = revoked.get(int(peer.serial, 16), (None, None))
    return IdentityRecord(
        name,
        cast(IdentityKind, kind),
        peer.hosts,
        peer.serial,
        peer.fingerprint,
        peer.not_before,
        peer.not_after,
        True,
        cast("RevocationReason | None", reason),
        since,
    )
