"""A small certificate authority, for people who have none.

root.pem  root.key.pem     its own certificate and key
revoked.pem                its revocation list: the one place that says what is revoked
certificates/N-SERIAL.pem  every certificate it ever issued
identities/NAME.pem        key and certificate in one file, so that they change in one step
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    read_private,
    utc_now,
    write_file,
)
from modelpact.identity.peers import serial_text
from modelpact.identity.records import NAME, IdentityRecord, Kind, Reason, read_record
from modelpact.vocabulary.errors import InputError, UnknownName, brief

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DAYS: Final = 365
_LONGEST: Final = 3650
_SERIAL: Final = re.compile(r"[0-9a-f]{32,40}")


class Issued(msgspec.Struct, frozen=True):
    """A new certificate, and the file with it and its key."""

    record: IdentityRecord
    path: Path


class Authority:
    """Issues, rotates and revokes certificates of providers and runtimes."""

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
        days: int = _LONGEST,
        clock: Clock = utc_now,
        write: Write = write_file,
    ) -> "Authority":
        """Make an authority in a new or empty folder."""
        from modelpact.identity import certificates as make

        if not is_vacant(folder):
            raise InputError(f"{folder} is not empty: open it, or name another folder")
        if not 1 <= len(name) <= 64 or not name.isprintable():
            raise InputError(f"{brief(name)} cannot name an authority: 1 to 64 characters")
        key, now = make.new_key(), clock()
        root = make.make_root(key, name, now, days)
        crl = make.make_crl(root, key, (), number=1, now=now)

        def fill(scratch: Path) -> None:
            for one in ("certificates", "identities"):
                (scratch / one).mkdir(mode=0o700)
            write(scratch / "root.key.pem", make.key_to_pem(key), PRIVATE)
            write(scratch / "root.pem", _pem(root), PUBLIC)
            write(scratch / "revoked.pem", _pem(crl), PUBLIC)

        new_folder(folder, fill)
        return cls(folder, clock=clock, write=write)

    @classmethod
    def open(
        cls, folder: Path, *, clock: Clock = utc_now, write: Write = write_file
    ) -> "Authority":
        """Open an authority; refuses one that others can reach."""
        if not exists(folder / "root.pem"):
            raise IdentityError(
                f"there is no authority in {folder}: make one with `modelpact identity init`"
            )
        check_private_folder(folder)
        authority = cls(folder, clock=clock, write=write)
        with authority._changing():
            return authority

    @property
    def certificate(self) -> Path:
        """The file with the authority's certificate, which peers trust."""
        return self.folder / "root.pem"

    @property
    def crl(self) -> Path:
        """The file with the revocation list, which peers check."""
        return self.folder / "revoked.pem"

    def identity_file(self, name: str) -> Path:
        """Return the file with the key and the current certificate of a name."""
        return self.folder / "identities" / f"{name}.pem"

    def issue(
        self, name: str, kind: Kind = "provider", hosts: Sequence[str] = (), days: int = DAYS
    ) -> Issued:
        """Make a key and a certificate for a new name."""
        from modelpact.identity import certificates as make

        if not NAME.fullmatch(name) or _SERIAL.fullmatch(name):
            raise InputError(
                f"{brief(name)} cannot be a name: expected at most 63 of a-z 0-9 . _ -, "
                f"first and last a letter or digit, and not the form of a serial number"
            )
        if kind not in ("provider", "runtime"):
            raise UnknownName("kind", kind, ("provider", "runtime"))
        make.check_hosts(hosts)
        with self._changing():
            if any(one.name == name for one in self.list()):
                raise InputError(f"{name} has a certificate already: rotate it")
            return self._deliver(name, kind, hosts, days, make.new_key())

    def rotate(self, name: str, *, keep_key: bool = False, days: int = DAYS) -> Issued:
        """Make a new certificate for a name, with a new key unless `keep_key`.

        The old certificate holds until it ends or its serial is revoked, so that peers have time
        to change over.
        """
        from modelpact.identity import certificates as make

        with self._changing():
            records = self.list()
            last = next((one for one in reversed(records) if one.name == name), None)
            if last is None:
                raise UnknownName("name", name, (one.name for one in records))
            key = self._kept_key(last, records) if keep_key else make.new_key()
            return self._deliver(name, last.kind, last.hosts, days, key)

    def revoke(self, which: str, reason: Reason = "unspecified") -> tuple[IdentityRecord, ...]:
        """Revoke every certificate of a name, or one by its serial; return the newly revoked.

        A compromised key takes every certificate that was made for it along.
        """
        from modelpact.identity import certificates as make

        if reason not in make.REASONS:
            raise UnknownName("reason", reason, make.REASONS)
        with self._changing():
            records = self.list()
            serial = which.lower().replace(":", "").rjust(40, "0")
            meant = [one for one in records if which == one.name or serial == one.serial]
            if not meant:
                raise UnknownName("name or serial", which, (one.name for one in records))
            compromised = reason == "key-compromise"
            if compromised:
                keys = {one.fingerprint for one in meant}
                meant = [one for one in records if one.fingerprint in keys]
            new = [
                one
                for one in meant
                if one.revoked is None or (compromised and one.revoked != reason)
            ]
            if new:
                self._extend_crl(new, reason)
        serials = {one.serial for one in new}
        return tuple(one for one in self.list() if one.serial in serials)

    def list(self) -> tuple[IdentityRecord, ...]:
        """Return every certificate ever issued, oldest first."""
        from modelpact.identity import certificates as make

        revoked = make.crl_entries(make.crl_from_pem(read_file(self.crl), self.crl))
        found: dict[str, IdentityRecord] = {}
        newest: dict[str, str] = {}
        for path in sorted((self.folder / "certificates").glob("*.pem")):
            one = read_record(make.certificate_from_pem(read_file(path), path), revoked, path)
            found[one.serial] = one
            newest[one.name] = one.serial
        return tuple(
            msgspec.structs.replace(one, current=newest[one.name] == serial)
            for serial, one in found.items()
        )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the folder, and settle what was cut short: delivered counts, the rest never was."""
        from modelpact.identity import certificates as make

        with locked(self.folder):
            for left in self.folder.rglob(".*.tmp"):
                left.unlink(missing_ok=True)
            for pending in (self.folder / "certificates").glob("*.pending"):
                one = read_record(
                    make.certificate_from_pem(read_file(pending), pending), {}, pending
                )
                path = self.identity_file(one.name)
                held = exists(path) and make.certificate_from_pem(read_file(path), path)
                if held and serial_text(held.serial_number) == one.serial:
                    pending.rename(pending.with_suffix(".pem"))
                else:
                    pending.unlink()
            yield

    def _deliver(
        self,
        name: str,
        kind: Kind,
        hosts: Iterable[str],
        days: int,
        key: "ec.EllipticCurvePrivateKey",
    ) -> Issued:
        from modelpact.identity import certificates as make

        if not 1 <= days <= _LONGEST:
            raise InputError(f"{days} days: a certificate holds for 1 to {_LONGEST}")
        root, root_key = self._root()
        leaf = make.make_leaf(
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
        self._write(pending, _pem(leaf), PUBLIC)
        self._write(path, make.key_to_pem(key) + _pem(leaf), PRIVATE)  # now it is issued
        pending.rename(pending.with_suffix(".pem"))
        return Issued(read_record(leaf, {}, path), path)

    def _kept_key(
        self, last: IdentityRecord, records: Iterable[IdentityRecord]
    ) -> "ec.EllipticCurvePrivateKey":
        from modelpact.identity import certificates as make

        same = [one for one in records if one.fingerprint == last.fingerprint]
        if any(one.revoked == "key-compromise" for one in same):
            raise InputError(f"the key of {last.name} is compromised: rotate without keeping it")
        path = self.identity_file(last.name)
        if not exists(path):
            raise IdentityError(f"{path} is gone, and with it the key: put it back, or make a new")
        return make.key_from_pem(read_private(path), path)

    def _extend_crl(self, records: Iterable[IdentityRecord], reason: Reason) -> None:
        from modelpact.identity import certificates as make

        old = make.crl_from_pem(read_file(self.crl), self.crl)
        now, (root, root_key) = self._clock(), self._root()
        entries = make.crl_entries(old)
        for one in records:
            since, _ = entries.get(int(one.serial, 16), (now, reason))
            entries[int(one.serial, 16)] = (since, reason)
        listed = [(serial, time, why) for serial, (time, why) in entries.items()]
        crl = make.make_crl(root, root_key, listed, number=make.crl_number(old) + 1, now=now)
        self._write(self.crl, _pem(crl), PUBLIC)

    def _root(self) -> "tuple[x509.Certificate, ec.EllipticCurvePrivateKey]":
        from modelpact.identity import certificates as make

        key_file = self.folder / "root.key.pem"
        key = make.key_from_pem(read_private(key_file), key_file)
        root = make.certificate_from_pem(read_file(self.certificate), self.certificate)
        if root.public_key() != key.public_key():
            raise IdentityError(f"{key_file} is not the key of root.pem: restore it from a backup")
        return root, key


def _pem(made: "x509.Certificate | x509.CertificateRevocationList") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return made.public_bytes(Encoding.PEM)
