"""Files that hold keys: private, replaced in one step, locked while they change."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from modelpact.identity.errors import IdentityError, LoosePermissions

Write = Callable[[Path, bytes, int], None]
Clock = Callable[[], datetime]

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
_LARGEST: Final = 16 * 1024 * 1024


def utc_now() -> datetime:
    """Return the time, to the second, as certificates have it."""
    return datetime.now(UTC).replace(microsecond=0)


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Replace a file in one step and see it onto the disk: readers find the old or the new."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode != PRIVATE:
            Path(name).chmod(mode)
        Path(name).replace(path)
        _sync_folder(path.parent)
    except BaseException as error:
        if name:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise IdentityError(
                f"{path} cannot be written: {reason}; nothing was changed"
            ) from None
        raise


def exists(path: Path) -> bool:
    """Tell whether a file is there; not to be allowed to look is an error."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror or error}") from None
    return True


def is_vacant(folder: Path) -> bool:
    """Tell whether a folder is empty or not there yet."""
    try:
        return not any(folder.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise IdentityError(f"{folder} cannot be used: {error.strerror or error}") from None


def new_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a private folder with everything in it, or nothing at all."""
    scratch: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        fill(scratch)
        if folder.exists():
            folder.rmdir()  # an empty one is taken over; one with content stays as it is
        scratch.rename(folder)
        _sync_folder(folder.parent)
    except BaseException as error:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise IdentityError(f"{folder} cannot be made: {reason}; name another folder") from None
        raise


def read_file(path: Path) -> bytes:
    """Read a public file."""
    return _read(path, private=False)


def read_private(path: Path) -> bytes:
    """Read a private file, unless others can reach it."""
    return _read(path, private=True)


def _read(path: Path, *, private: bool) -> bytes:
    try:
        with path.open("rb") as stream:
            found = os.fstat(stream.fileno())  # of the open file: none can be put in its place
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror or error}") from None
    if private:
        try:
            _refuse_loose(path, found, "600")
        except LoosePermissions:
            if b"PRIVATE KEY-----" in data:
                raise
            raise IdentityError(
                f"{path} holds no private key in PEM: expected the file that `modelpact identity "
                "issue` names, with key and certificate"
            ) from None
    if len(data) > _LARGEST:
        raise IdentityError(f"{path} is larger than any key or certificate: is it the right file?")
    return data


def check_private_folder(folder: Path) -> None:
    """Refuse a folder of keys that others can reach."""
    try:
        found = folder.stat()
    except OSError as error:
        raise IdentityError(f"{folder} cannot be read: {error.strerror or error}") from None
    _refuse_loose(folder, found, "700")


def _refuse_loose(path: Path, found: os.stat_result, wanted: str) -> None:
    if sys.platform == "win32":
        return  # access there is by lists that the profile folder hands down, not by mode
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid():
        loose = mode & 0o077
    elif found.st_uid == 0:
        loose = mode & 0o037  # a secret that the system mounts for a group, as containers get it
    else:
        raise LoosePermissions(
            f"{path} belongs to another user (id {found.st_uid}), who can change it: "
            f"copy it to a folder of your own"
        )
    if loose:
        raise LoosePermissions(
            f"{path} has mode {mode:03o}, so that others can reach a private key; "
            f"run `chmod {wanted} {path}`, and rotate the key if others could have read it"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change a folder."""
    try:
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, PRIVATE)
    except OSError as error:
        raise IdentityError(f"{folder} cannot be locked: {error.strerror or error}") from None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # this also lets go of the lock


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
