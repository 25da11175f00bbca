"""SQLite: one file, in WAL mode, with every commit on disk before it is acknowledged."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from modelpact.ledger.errors import LedgerError, LedgerUnavailable, NameTaken, StatementRejected, WriteConflict
from modelpact.ledger.stores.base import CACHED_STATEMENTS, Params, Row, expand_values

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_WAIT_SECONDS: Final = 10
_RETRY_WAL_SECONDS: Final = 0.005
_RETRY_BEGIN_SECONDS: Final = 0.0005
_LOG_PAGES: Final = 2_000
"""How long the log grows before SQLite moves it into the file.

A longer log was not faster under load: moving it delays the writer for longer, and a log that still
grows is slower to write than one whose pages are reused."""
_CACHE_KIB: Final = 32 * 1024
_CANNOT_CREATE_LOG: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_ERRORS: Final = (sqlite3.Error, OverflowError)
_STATEMENT_ERRORS: Final = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG}
)
"""The errors of a wrong statement. All others are about the file or the disk."""


class SqliteStore:
    """A store in an SQLite file."""

    reopenable = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"sqlite:{path}"

    def connect(self, *, writer: bool, wait: bool = True) -> "SqliteConnection":
        """Open a connection. Only a writer creates the file."""
        try:
            raw = self._connect_writer(_LOG_PAGES if wait else 0) if writer else self._connect_reader()
            return SqliteConnection(raw, _WAIT_SECONDS if wait else 0)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self.url} cannot be opened: {_reason(error)}") from None

    def lease(self, name: str) -> "SqliteLease":
        """Take a name, or raise `NameTaken` if another process holds it."""
        return SqliteLease(self.path, name)

    def _connect_writer(self, log_pages: int) -> sqlite3.Connection:
        Path(self.path).parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        _create_private(self.path)
        raw = _connect(self.path, timeout=0)
        try:
            _enable_wal(raw)
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute(f"PRAGMA wal_autocheckpoint={log_pages}")
            raw.execute(f"PRAGMA cache_size={-_CACHE_KIB}")
        except BaseException:
            raw.close()
            raise
        return raw

    def _connect_reader(self) -> sqlite3.Connection:
        if not Path(self.path).exists():
            raise LedgerError(f"there is no ledger in {self.path}: name another with --store")
        raw = _connect(f"file:{quote(self.path)}?mode=ro", uri=True)
        try:
            raw.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raw.close()
            if error.sqlite_errorcode & 0xFF not in _CANNOT_CREATE_LOG or self._has_log():
                raise
            # The folder is read-only, so no other process can be writing either.
            return _connect(f"file:{quote(self.path)}?mode=ro&immutable=1", uri=True)
        return raw

    def _has_log(self) -> bool:
        log = Path(f"{self.path}-wal")
        return log.exists() and log.stat().st_size > 0


class SqliteLease:
    """A locked SQLite file beside the ledger. The system drops the lock when the process ends.

    A release removes the file. Lease files are locked and removed only under the lock of a second
    file, which stays. Otherwise a process could lock a file that another is about to remove, and a
    third one could create and lock a new file of the same name.
    """

    def __init__(self, store_path: str, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        self._path = f"{store_path}-{digest}.lease"
        self._guard_path = f"{store_path}.leases"
        Path(store_path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(_lock(self._guard_path, _WAIT_SECONDS)):
                self._raw = self._take(name)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self._path} cannot be locked: {_reason(error)}") from None
        self._released = False

    def _take(self, name: str) -> sqlite3.Connection:
        try:
            return _lock(self._path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise NameTaken(f"{name} is held by another live process on this store") from None
            raise

    def is_held(self) -> bool:
        """Return True: a lock on a file cannot be lost."""
        return True

    def release(self) -> None:
        """Release the name. A second call does nothing."""
        if self._released:
            return
        self._released = True
        try:
            with closing(_lock(self._guard_path, _WAIT_SECONDS)):
                self._raw.close()
                Path(self._path).unlink(missing_ok=True)
        except (sqlite3.Error, OSError):
            self._raw.close()  # the file stays, unlocked


class SqliteConnection:
    """A connection to SQLite."""

    detects_other_writers = True

    def __init__(self, raw: sqlite3.Connection, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._raw = raw
        self._wait_seconds = wait_seconds
        self._data_version = -1

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return self._raw.execute(sql, params).fetchall()
        except _ERRORS as error:
            raise _translated_error(error) from None

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        try:
            return self._raw.execute(sql, params).rowcount
        except _ERRORS as error:
            raise _translated_error(error) from None

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` for several rows, in as few steps as possible."""
        try:
            return sum([self._raw.execute(*step).rowcount for step in expand_values(sql, rows)])
        except _ERRORS as error:
            raise _translated_error(error) from None

    def begin(self, *, exclusive: bool = False) -> bool:  # noqa: ARG002
        """Begin a transaction that may write. SQLite allows only one at a time."""
        try:
            self._begin()
            (version,) = self._raw.execute("PRAGMA data_version").fetchone()
        except _ERRORS as error:
            raise _translated_error(error) from None
        before, self._data_version = self._data_version, int(version)
        return before != self._data_version

    def _begin(self) -> None:
        """Begin as soon as no other connection writes. SQLite itself would retry less and less."""
        deadline = 0.0
        while True:
            try:
                self._raw.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                deadline = deadline or now + self._wait_seconds
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now >= deadline:
                    raise
            time.sleep(_RETRY_BEGIN_SECONDS)

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction."""
        if self._raw.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


def _connect(name: str, *, uri: bool = False, timeout: float = _WAIT_SECONDS) -> sqlite3.Connection:
    return sqlite3.connect(
        name,
        isolation_level=None,
        check_same_thread=False,
        timeout=timeout,
        uri=uri,
        cached_statements=CACHED_STATEMENTS,
    )


def _enable_wal(raw: sqlite3.Connection) -> None:
    """Turn on write-ahead logging. SQLite itself does not wait if another process does the same."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_WAL_SECONDS)


def _create_private(path: str) -> None:
    """Create a file for its owner alone, because it may contain conversations.

    The log of the ledger gets the same mode. A file that exists is not even opened: closing it
    would drop the locks of this process.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE))


def _lock(path: str, wait_seconds: float = 0) -> sqlite3.Connection:
    _create_private(path)
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=wait_seconds)
    try:
        raw.execute("PRAGMA journal_mode=MEMORY")
        raw.execute("BEGIN EXCLUSIVE")
    except BaseException:
        raw.close()
        raise
    return raw


def _translated_error(error: Exception) -> LedgerError:
    """Return the ledger's error for one of SQLite."""
    if isinstance(error, sqlite3.IntegrityError):
        return WriteConflict(str(error))
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    if isinstance(error, OverflowError) or code & 0xFF in _STATEMENT_ERRORS:
        return StatementRejected(f"SQLite: {error}")
    return LedgerUnavailable(f"SQLite: {_reason(error)}")


def _reason(error: BaseException) -> str:
    text = str(getattr(error, "strerror", None) or error)
    name = getattr(error, "sqlite_errorname", "")
    return f"{text} ({name})" if name else text
