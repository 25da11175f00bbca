"""SQLite: one file, in WAL mode, with every commit on disk before it is acknowledged."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from modelpact.ledger.stores.base import (
    STATEMENTS,
    LedgerError,
    LedgerUnavailable,
    NameTaken,
    Params,
    Row,
    StatementRejected,
    WriteConflict,
    expand_values,
)

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_WAIT_S: Final = 10
_PAUSE_S: Final = 0.005
_GLANCE_S: Final = 0.0005
_LOG_PAGES: Final = 2_000
"""How far the log grows before it is worked into the file, with often-written pages merged.

A longer one was no faster under load, held up whoever wrote then for longer, and is slower to write
to, as long as it grows, than one that is written over."""
_CACHE_KIB: Final = 32 * 1024
_NO_LOG: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_THEIR_FAULT: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_TOOBIG,
    }
)
"""What a wrong statement ends in; everything else is the file's or the disk's."""


class SqliteStore:
    """A file."""

    reopenable = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"sqlite:{path}"

    def connect(self, *, writer: bool, wait: bool = True) -> "SqliteConnection":
        """Open a connection; only a writer makes the file."""
        try:
            raw = self._writer(_LOG_PAGES if wait else 0) if writer else self._reader()
            return SqliteConnection(raw, _WAIT_S if wait else 0)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self.url} cannot be opened: {_reason(error)}") from None

    def lease(self, name: str) -> "SqliteLease":
        """Take a name; raises `NameTaken` where another process has it."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return SqliteLease(f"{self.path}-{digest}.lease", name)

    def _writer(self, log_pages: int) -> sqlite3.Connection:
        Path(self.path).parent.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._make()
        raw = _connect(self.path, timeout=0)
        try:
            _turn_log_on(raw)
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute(f"PRAGMA wal_autocheckpoint={log_pages}")
            raw.execute(f"PRAGMA cache_size={-_CACHE_KIB}")
        except BaseException:
            raw.close()
            raise
        return raw

    def _make(self) -> None:
        """Make the file for its owner exclusive: it holds what was said. Its log takes its mode.

        One that is there is not even opened: closing it would drop the locks of this process.
        """
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))

    def _reader(self) -> sqlite3.Connection:
        if not Path(self.path).exists():
            raise LedgerError(f"there is no ledger in {self.path}: name another with --store")
        raw = _connect(f"file:{quote(self.path)}?mode=ro", uri=True)
        try:
            raw.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raw.close()
            if error.sqlite_errorcode & 0xFF not in _NO_LOG or self._unfinished():
                raise
            # A folder that cannot be written to, in which nobody can be writing either.
            return _connect(f"file:{quote(self.path)}?mode=ro&immutable=1", uri=True)
        return raw

    def _unfinished(self) -> bool:
        log = Path(f"{self.path}-wal")
        return log.exists() and log.stat().st_size > 0


def _turn_log_on(raw: sqlite3.Connection) -> None:
    """Have changes go to a log; SQLite does not wait for another who does that to a new file."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def _connect(name: str, *, uri: bool = False, timeout: float = _WAIT_S) -> sqlite3.Connection:
    return sqlite3.connect(
        name,
        isolation_level=None,
        check_same_thread=False,
        timeout=timeout,
        uri=uri,
        cached_statements=STATEMENTS,
    )


class SqliteLease:
    """A file of its own beside the ledger, locked as SQLite locks: the system ends that lock."""

    def __init__(self, path: str, name: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._raw = _locked(path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise NameTaken(f"{name} is alive on this store") from None
            raise LedgerUnavailable(f"{path} cannot be locked: {_reason(error)}") from None

    def is_held(self) -> bool:
        """Tell whether it is still held: nobody can take it away."""
        return True

    def release(self) -> None:
        """Let another have the name."""
        self._raw.close()


def _locked(path: str) -> sqlite3.Connection:
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        raw.execute("PRAGMA journal_mode=MEMORY")
        raw.execute("BEGIN EXCLUSIVE")
    except BaseException:
        raw.close()
        raise
    return raw


class SqliteConnection:
    """A connection to SQLite."""

    detects_other_writers = True

    def __init__(self, raw: sqlite3.Connection, patience: float = _WAIT_S) -> None:
        self._raw = raw
        self._patience = patience
        self._seen = -1

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        try:
            return self._raw.execute(sql, params).fetchall()
        except _ERRORS as error:
            raise _ours(error) from None

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        try:
            return self._raw.execute(sql, params).rowcount
        except _ERRORS as error:
            raise _ours(error) from None

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` of several rows, in as few steps as can be."""
        try:
            return sum([self._raw.execute(*one).rowcount for one in expand_values(sql, rows)])
        except _ERRORS as error:
            raise _ours(error) from None

    def begin(self, *, exclusive: bool = False) -> bool:  # noqa: ARG002
        """Begin a transaction that may write; there is only ever one."""
        try:
            self._begin()
            (seen,) = self._raw.execute("PRAGMA data_version").fetchone()
        except _ERRORS as error:
            raise _ours(error) from None
        before, self._seen = self._seen, int(seen)
        return before != self._seen

    def _begin(self) -> None:
        """Begin as soon as nobody else writes. SQLite itself would look ever more seldom."""
        until = 0.0
        while True:
            try:
                self._raw.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                until = until or now + self._patience
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now >= until:
                    raise
            time.sleep(_GLANCE_S)

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Give the transaction up."""
        if self._raw.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


_ERRORS: Final = (sqlite3.Error, OverflowError)


def _ours(error: Exception) -> LedgerError:
    """Turn SQLite's error into ours."""
    if isinstance(error, sqlite3.IntegrityError):
        return WriteConflict(str(error))
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    if isinstance(error, OverflowError) or code & 0xFF in _THEIR_FAULT:
        return StatementRejected(f"SQLite: {error}")
    return LedgerUnavailable(f"SQLite: {_reason(error)}")


def _reason(error: BaseException) -> str:
    text = str(getattr(error, "strerror", None) or error)
    name = getattr(error, "sqlite_errorname", "")
    return f"{text} ({name})" if name else text
