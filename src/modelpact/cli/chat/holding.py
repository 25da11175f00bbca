"""Who talks in a session: one process at a time, for as long as it lives.

The system lets go of the lock when the process ends, however it ends. So whoever gets it may
record the calls that were under way as interrupted: nobody is waiting for them any longer.
"""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import StoreConnection
from modelpact.vocabulary.errors import InputError


class OpenElsewhere(InputError):
    """Another process talks in the session."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"session {session} is open in another process: leave it there first; "
            f"`modelpact audit show session/{session}` reads it meanwhile"
        )


class SessionHold:
    """A session that this process talks in, until it is released."""

    def __init__(self, ledger: Ledger, session: str) -> None:
        self._file: tuple[Path, int] | None = None
        self._connection: StoreConnection | None = None
        if ledger.store.url.startswith("sqlite:"):
            path = Path(f"{ledger.store.url.removeprefix('sqlite:')}.session-{session}.lock")
            handle = _locked(path)
            if handle is None:
                raise OpenElsewhere(session)
            self._file = (path, handle)
            return
        self._connection = ledger.store.connect(writer=False)
        name = int.from_bytes(hashlib.sha256(session.encode()).digest()[:8], "big", signed=True)
        try:
            held = self._connection.execute("SELECT pg_try_advisory_lock(?)", (name,))[0][0]
        except BaseException:
            self.release()
            raise
        if not held:
            self.release()
            raise OpenElsewhere(session)

    def release(self) -> None:
        """Let others talk; a second time does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._file is not None:
            path, handle = self._file
            if sys.platform != "win32":  # there a file that is open cannot be removed
                path.unlink(missing_ok=True)
            os.close(handle)
            self._file = None


def _locked(path: Path) -> int | None:
    """Lock a file and return its handle, or None where another process has it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                return handle
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)  # whoever had it removed it between our two steps
