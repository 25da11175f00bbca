"""Stores: SQLite and PostgreSQL behind one small interface, chosen by URL."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from modelpact.ledger.schema import MIGRATIONS
from modelpact.vocabulary.errors import InputError, ModelpactError

Row = tuple[Any, ...]
Params = Sequence[Any]


class LedgerError(ModelpactError):
    """The ledger refused or could not do something."""


class LedgerUnavailable(LedgerError):
    """The store did not take a write: nothing of it was kept, and it may be tried again."""


class NewerSchema(LedgerError):
    """The store was made by a newer modelpact."""


class Conflict(LedgerError):
    """Another writer was first: a key is taken."""


class Connection(Protocol):
    """One connection to a store. Placeholders are `?` in either."""

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once for each of several rows."""

    def begin(self) -> None:
        """Begin a transaction that may write."""

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Give the transaction up."""

    def close(self) -> None:
        """Close the connection."""


class Store(Protocol):
    """Where a ledger is kept."""

    url: str

    def connect(self, *, writer: bool) -> Connection:
        """Open a connection; raises `LedgerUnavailable` where that fails."""


class SqliteStore:
    """One file, in WAL mode, with every commit on disk before it is acknowledged."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"sqlite:{path}"

    def connect(self, *, writer: bool) -> "SqliteConnection":
        """Open a connection."""
        try:
            if writer and self.path != ":memory:":
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            raw = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10
            )
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA synchronous=FULL")
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self.url} cannot be opened: {error}") from None
        return SqliteConnection(raw)


class SqliteConnection:
    """A connection to SQLite."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        return self._run(sql, params).fetchall()

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        return self._run(sql, params).rowcount

    def many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once for each of several rows."""
        with _told():
            self._raw.executemany(sql, rows)

    def _run(self, sql: str, params: Params) -> sqlite3.Cursor:
        with _told():
            return self._raw.execute(sql, params)

    def begin(self) -> None:
        """Begin a transaction that may write."""
        self._run("BEGIN IMMEDIATE", ())

    def commit(self) -> None:
        """Make the transaction durable."""
        self._run("COMMIT", ())

    def rollback(self) -> None:
        """Give the transaction up."""
        if self._raw.in_transaction:
            self._run("ROLLBACK", ())

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


@contextmanager
def _told() -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise Conflict(str(error)) from None
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"SQLite: {error}") from None


def open_store(url: str) -> Store:
    """Return the store that a URL names: `sqlite:FILE` or `postgresql://…`."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path:
            raise InputError("store.url: sqlite: needs a file, such as sqlite:modelpact.db")
        return SqliteStore(path)
    if url.startswith(("postgresql://", "postgres://")):
        from modelpact.ledger.postgres import PostgresStore

        return PostgresStore(url)
    raise InputError(f"store.url: {url!r:.80} is neither sqlite:FILE nor postgresql://…")


_VERSION: Final = "schema_version"


def migrate(connection: Connection) -> None:
    """Bring a store's tables up to date; refuse one that a newer modelpact has made."""
    connection.begin()
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
        )
        rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_VERSION,))
        version = int(rows[0][0]) if rows else 0
        if version > len(MIGRATIONS):
            raise NewerSchema(
                f"the store has schema {version}, this modelpact knows {len(MIGRATIONS)}: "
                "upgrade modelpact to use it"
            )
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        if version < len(MIGRATIONS):
            connection.execute("DELETE FROM meta WHERE key = ?", (_VERSION,))
            connection.execute("INSERT INTO meta VALUES (?, ?)", (_VERSION, str(len(MIGRATIONS))))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
