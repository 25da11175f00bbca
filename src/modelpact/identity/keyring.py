"""The keyring: a private folder with the current signing key and all public keys.

`keys.json` is public and names the current key, which is in `KEY_ID.pem`. If a rotation is
interrupted, `keys.json` is either the old or the new one, and the key that it names exists.
"""

from pathlib import Path
from typing import Final

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
from modelpact.identity.keys import PublicKey, PublicKeys, Purpose, Signature, SigningKey
from modelpact.vocabulary.errors import InputError

_PUBLIC_KEYS: Final = "keys.json"


class Keyring:
    """Signs with its current key, and rotates it."""

    __slots__ = ("_clock", "_key", "_write", "folder", "public_keys")

    def __init__(
        self,
        folder: Path,
        public_keys: PublicKeys,
        key: SigningKey,
        *,
        clock: Clock = utc_now,
        write: Write = write_file,
    ) -> None:
        self.folder = folder
        self.public_keys = public_keys
        self._key = key
        self._clock = clock
        self._write = write

    def __repr__(self) -> str:
        return f"<Keyring {self.key_id} in {self.folder}>"

    @classmethod
    def init(cls, folder: Path, *, clock: Clock = utc_now, write: Write = write_file) -> "Keyring":
        """Create a keyring with its first key in a new or empty folder."""
        if not is_vacant(folder):
            raise InputError(f"{folder} is not empty: open it, or choose another folder")
        key = SigningKey.generate()
        keys = PublicKeys((PublicKey(key.raw_public, _timestamp(clock)),))

        def fill(scratch: Path) -> None:
            write(scratch / f"{key.key_id}.pem", key.to_pem(), PRIVATE)
            write(scratch / _PUBLIC_KEYS, keys.to_json(), PUBLIC)

        new_folder(folder, fill)
        return cls(folder, keys, key, clock=clock, write=write)

    @classmethod
    def open(cls, folder: Path, *, clock: Clock = utc_now, write: Write = write_file) -> "Keyring":
        """Open a keyring; it must be private and consistent."""
        if not exists(folder / _PUBLIC_KEYS):
            raise IdentityError(f"there is no keyring in {folder}: create one with `modelpact identity init`")
        keys, key = _load(folder)
        return cls(folder, keys, key, clock=clock, write=write)

    @property
    def key_id(self) -> str:
        """The id of the current key."""
        return self._key.key_id

    def sign(self, data: bytes, *, purpose: Purpose = "data") -> Signature:
        """Sign bytes with the current key."""
        return self._key.sign(data, purpose=purpose)

    def rotate(self) -> PublicKey:
        """Switch to a new key; delete the old private key and keep its public key."""
        with locked(self.folder):
            keys, old = _load(self.folder)  # another process may have rotated since
            new = SigningKey.generate()
            entry = PublicKey(new.raw_public, _timestamp(self._clock))
            handover = old.sign(entry.handover_statement(old.key_id), purpose="handover").value
            entry = PublicKey(entry.raw, entry.created, handover)
            keys = PublicKeys((*keys.keys, entry))
            self._write(self.folder / f"{new.key_id}.pem", new.to_pem(), PRIVATE)
            self._write(self.folder / _PUBLIC_KEYS, keys.to_json(), PUBLIC)
            self.public_keys, self._key = keys, new
            for leftover in (*self.folder.glob("*.pem"), *self.folder.glob(".*.tmp")):
                if leftover.stem != new.key_id:
                    leftover.unlink(missing_ok=True)
        return entry

    def export(self) -> bytes:
        """Return the public keys as JSON, for verification elsewhere."""
        return self.public_keys.to_json()


def _load(folder: Path) -> tuple[PublicKeys, SigningKey]:
    check_private_folder(folder)
    keys = PublicKeys.parse(read_file(folder / _PUBLIC_KEYS), folder / _PUBLIC_KEYS)
    pem = folder / f"{keys.current.key_id}.pem"
    key = SigningKey.from_pem(read_private(pem), pem)
    if key.raw_public != keys.current.raw:
        raise IdentityError(f"{pem} is not the key that {_PUBLIC_KEYS} names: restore it from a backup")
    return keys, key


def _timestamp(clock: Clock) -> str:
    return clock().strftime("%Y-%m-%dT%H:%M:%SZ")
