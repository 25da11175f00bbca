"""The keyring: private files, rotation, and what is left when it is cut short."""

import hashlib
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from modelpact.identity import IdentityError, InsecurePermissions, Keyring, PublicKeys, verify
from modelpact.identity.files import write_file
from modelpact.vocabulary.errors import InputError
from tests.identity.conftest import DyingWriter, Killed, contents, run_and_die

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")


def pem_of(keyring: Keyring) -> Path:
    return keyring.folder / f"{keyring.key_id}.pem"


def test_the_key_id_is_of_the_public_key(keyring: Keyring) -> None:
    raw = keyring.public_keys.current.raw
    assert keyring.key_id == hashlib.sha256(raw).hexdigest()[:16]
    assert len(raw) == 32


@posix
def test_keys_are_private(keyring: Keyring) -> None:
    assert stat.S_IMODE(keyring.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(pem_of(keyring).stat().st_mode) == 0o600
    assert pem_of(keyring).read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o666, 0o777])
def test_a_key_with_insecure_permissions_is_rejected(keyring: Keyring, mode: int) -> None:
    pem_of(keyring).chmod(mode)
    with pytest.raises(InsecurePermissions, match="chmod 600"):
        Keyring.open(keyring.folder)


@posix
def test_a_folder_with_insecure_permissions_is_rejected(keyring: Keyring) -> None:
    keyring.folder.chmod(0o750)
    with pytest.raises(InsecurePermissions, match="chmod 700"):
        Keyring.open(keyring.folder)


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives away")
def test_another_users_key_is_refused(keyring: Keyring) -> None:
    os.chown(pem_of(keyring), 12345, -1)
    with pytest.raises(InsecurePermissions, match="belongs to another user"):
        Keyring.open(keyring.folder)


def test_opened_again_it_signs_with_the_same_key(keyring: Keyring) -> None:
    again = Keyring.open(keyring.folder)
    assert again.key_id == keyring.key_id
    assert verify(keyring.public_keys, b"x", again.sign(b"x"))


def test_rotation_keeps_old_signatures_and_trust(keyring: Keyring) -> None:
    start = PublicKeys.parse(keyring.export())
    signed = [(b"0", keyring.sign(b"0"))]
    for turn in (b"1", b"2", b"3"):
        keyring.rotate()
        signed.append((turn, keyring.sign(turn)))
    now = PublicKeys.parse(Keyring.open(keyring.folder).export())
    assert len({signature.key_id for _, signature in signed}) == 4
    assert all(verify(now, data, signature) for data, signature in signed)
    assert start.extended_by(now) == now
    assert not verify(start, *signed[1])


def test_rotation_removes_the_old_private_key(keyring: Keyring) -> None:
    keyring.rotate()
    assert [path.name for path in keyring.folder.glob("*.pem")] == [f"{keyring.key_id}.pem"]


@pytest.mark.parametrize("lives", [0, 1])
def test_a_killed_rotation_leaves_the_old_state(keyring: Keyring, lives: int) -> None:
    before = keyring.key_id
    with pytest.raises(Killed):
        Keyring.open(keyring.folder, write=DyingWriter(lives)).rotate()
    again = Keyring.open(keyring.folder)
    assert again.key_id == before
    assert again.public_keys == keyring.public_keys
    again.rotate()
    assert [path.stem for path in again.folder.glob("*.pem")] == [again.key_id]
    assert len(again.public_keys.keys) == 2


@pytest.mark.parametrize("lives", [0, 1])
def test_a_killed_init_leaves_nothing(tmp_path: Path, lives: int) -> None:
    with pytest.raises(Killed):
        Keyring.init(tmp_path / "new", write=DyingWriter(lives))
    assert list(tmp_path.iterdir()) == []
    Keyring.init(tmp_path / "new")


def test_a_process_that_is_killed_leaves_the_old_state(keyring: Keyring, tmp_path: Path) -> None:
    run_and_die(f"Keyring.open(Path({str(keyring.folder)!r}), write=write).rotate()", lives=1)
    again = Keyring.open(keyring.folder)
    assert again.public_keys == keyring.public_keys
    (keyring.folder / ".half.pem.x.tmp").write_bytes(b"half a key")
    again.rotate()
    assert set(contents(keyring.folder)) == {"keys.json", f"{again.key_id}.pem"}
    run_and_die(f"Keyring.init(Path({str(tmp_path / 'new')!r}), write=write)", lives=1)
    assert not (tmp_path / "new").exists()
    Keyring.init(tmp_path / "new")


def test_a_write_that_fails_half_way_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_file(path, b"old", 0o600)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IdentityError, match="No space left on device; nothing was changed"):
        write_file(path, b"new", 0o600)
    assert contents(tmp_path) == {"file": b"old"}


def test_rotations_beside_each_other_make_one_chain(keyring: Keyring) -> None:
    rings = [Keyring.open(keyring.folder) for _ in range(4)]
    threads = [threading.Thread(target=ring.rotate) for ring in rings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Keyring.open(keyring.folder).public_keys.keys) == 5


def test_init_never_overwrites(keyring: Keyring) -> None:
    before = contents(keyring.folder)
    with pytest.raises(InputError, match="is not empty"):
        Keyring.init(keyring.folder)
    assert contents(keyring.folder) == before


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    for at in (path, path / "below"):
        with pytest.raises(IdentityError, match="Not a directory"):
            Keyring.init(at)
        with pytest.raises(IdentityError, match="modelpact identity init"):
            Keyring.open(at)


def test_no_keyring_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="modelpact identity init"):
        Keyring.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_broken_key_is_refused_without_showing_it(keyring: Keyring, content: bytes) -> None:
    pem_of(keyring).write_bytes(content)
    with pytest.raises(IdentityError, match="is not an unencrypted private key") as caught:
        Keyring.open(keyring.folder)
    assert "AAAA" not in str(caught.value)


def test_another_key_in_its_place_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring.init(tmp_path / "other")
    pem_of(keyring).write_bytes(pem_of(other).read_bytes())
    with pytest.raises(IdentityError, match="is not the key that"):
        Keyring.open(keyring.folder)


def test_a_keyring_does_not_show_its_key(keyring: Keyring) -> None:
    assert repr(keyring) == f"<Keyring {keyring.key_id} in {keyring.folder}>"
