"""Files with keys: private, replaced atomically, locked while they change."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from modelpact.identity.errors import IdentityError, InsecurePermissions

Write = Callable[[Path, bytes, int], None]
Clock = Callable[[], datetime]

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
_MAX_BYTES: Final = 16 * 1024 * 1024


def utc_now() -> datetime:
    """Return the time to the second, as in certificates."""
    return datetime.now(UTC).replace(microsecond=0)


@contextmanager
def replacing(path: Path, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """Yield a stream for the new content of a file, which replaces the old one atomically.

    Readers see the old or the new content. The new content is on disk when this returns.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode != PRIVATE:
            Path(name).chmod(mode)
        Path(name).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Replace the content of a file atomically."""
    try:
        with replacing(path, mode) as stream:
            stream.write(data)
    except OSError as error:
        reason = error.strerror or error
        raise IdentityError(f"{path} cannot be written: {reason}; nothing was changed") from None


def exists(path: Path) -> bool:
    """Tell whether a file exists; raise `IdentityError` if that cannot be checked."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror or error}") from None
    return True


def is_vacant(folder: Path) -> bool:
    """Tell whether a folder is empty or does not exist."""
    try:
        return not any(folder.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise IdentityError(f"{folder} cannot be used: {error.strerror or error}") from None


def new_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Create a private folder with all its contents, or nothing."""
    scratch: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        fill(scratch)
        if folder.exists():
            folder.rmdir()  # fails if it is not empty
        scratch.rename(folder)
        _sync_folder(folder.parent)
    except BaseException as error:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise IdentityError(f"{folder} cannot be created: {reason}; choose another folder") from None
        raise


def read_file(path: Path) -> bytes:
    """Read a public file."""
    return _read(path, private=False)


def read_private(path: Path) -> bytes:
    """Read a private file; raise `InsecurePermissions` if other users can access it."""
    return _read(path, private=True)


def check_private_folder(folder: Path) -> None:
    """Raise `InsecurePermissions` if other users can access a folder of keys."""
    try:
        status = folder.stat()
    except OSError as error:
        raise IdentityError(f"{folder} cannot be read: {error.strerror or error}") from None
    _check_permissions(folder, status, "700")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against changes by other processes."""
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
        os.close(handle)  # this also releases the lock


def _read(path: Path, *, private: bool) -> bytes:
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())  # of the open file, which cannot be replaced
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror or error}") from None
    if private:
        try:
            _check_permissions(path, status, "600")
        except InsecurePermissions:
            if b"PRIVATE KEY-----" in data:
                raise
            raise IdentityError(
                f"{path} contains no private key in PEM: expected the file that `modelpact "
                "identity issue` prints, with key and certificate"
            ) from None
    if len(data) > _MAX_BYTES:
        raise IdentityError(f"{path} is too large for a key or certificate: check that it is the right file")
    return data


def _check_permissions(path: Path, status: os.stat_result, expected: str) -> None:
    if sys.platform == "win32":
        return  # Windows controls access by lists that the profile folder inherits, not by mode
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == os.geteuid():
        excess = mode & 0o077
    elif status.st_uid == 0:
        excess = mode & 0o037  # containers mount secrets of root that a group may read
    else:
        raise InsecurePermissions(
            f"{path} belongs to another user (id {status.st_uid}), who can change it: copy it to a folder of your own"
        )
    if excess:
        raise InsecurePermissions(
            f"{path} has mode {mode:03o}, so that other users can access a private key: "
            f"run `chmod {expected} {path}`, and rotate the key if others could have read it"
        )


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
