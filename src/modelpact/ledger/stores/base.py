"""The interface of stores, and the migration of their tables."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from modelpact.ledger.errors import LedgerError, NewerSchema
from modelpact.vocabulary.errors import InputError

Row = tuple[Any, ...]
Params = Sequence[Any]
_SCHEMA_VERSION: Final = "schema_version"
CACHED_STATEMENTS: Final = 512
"""How many statements a connection keeps prepared."""
_MAX_EXACT_ROWS: Final = 40
_MAX_ROWS: Final = 128


class StoreConnection(Protocol):
    """One connection to a store. Placeholders are `?` for both databases."""

    detects_other_writers: bool
    """Whether `begin` detects that another connection has written. If not, cache no values."""

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return the number of rows it changed."""

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` for several rows, in as few steps as possible.

        Returns the number of rows it changed.
        """

    def begin(self, *, exclusive: bool = False) -> bool:
        """Begin a transaction that may write; `exclusive` keeps other writers out until it ends.

        Returns whether another connection has written since the last `begin`, if that is detected.
        """

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Undo the transaction."""

    def close(self) -> None:
        """Close the connection."""


class Lease(Protocol):
    """A name that one process at a time holds on a store. It is free when the process dies."""

    def is_held(self) -> bool:
        """Tell whether the lease is still held. One that was lost is taken again if it is free."""

    def release(self) -> None:
        """Release the name."""


class Store(Protocol):
    """A database that contains a ledger."""

    url: str
    reopenable: bool
    """Whether another process can open the store with nothing but `url`."""

    def connect(self, *, writer: bool, wait: bool = True) -> StoreConnection:
        """Open a connection, or raise `LedgerUnavailable`.

        Without `wait`, beginning a transaction raises while another connection writes.
        """

    def lease(self, name: str) -> Lease:
        """Take a name, or raise `NameTaken` if another process holds it."""


def open_store(url: str) -> Store:
    """Return the store at a URL: `sqlite:FILE` or `postgresql://…`."""
    if url.startswith("sqlite:"):
        from modelpact.ledger.stores.sqlite import SqliteStore

        path = url.removeprefix("sqlite:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path or path == ":memory:":
            raise InputError("store.url: sqlite: needs a file, such as sqlite:modelpact.db")
        return SqliteStore(path)
    if url.startswith(("postgresql://", "postgres://")):
        from modelpact.ledger.stores.postgres import PostgresStore

        return PostgresStore(url)
    scheme = url.partition(":")[0]  # the rest may hold a password
    raise InputError(f"store.url: {scheme!r:.40}… is neither sqlite:FILE nor postgresql://…")


def expand_values(sql: str, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements that take many rows at once, in few sizes so that they stay prepared.

    One statement for all rows is one step. A thread that writes row by row gives up the interpreter
    after each.
    """
    start = 0
    while start < len(rows):
        left = len(rows) - start
        size = left if left <= _MAX_EXACT_ROWS else min(_MAX_ROWS, 1 << (left.bit_length() - 1))
        yield _with_rows(sql, size), list(chain.from_iterable(rows[start : start + size]))
        start += size


@lru_cache(maxsize=CACHED_STATEMENTS)
def _with_rows(sql: str, size: int) -> str:
    before, marks, after = split_values(sql)
    return f"{before}VALUES {', '.join([f'({marks})'] * size)}{after}"


def split_values(sql: str) -> tuple[str, str, str]:
    """Split a statement into the parts before `VALUES`, in its parentheses, and after them."""
    before, _, rest = sql.partition("VALUES (")
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    return before, rest[: end - 1], rest[end:]


@cache
def read_migrations() -> tuple[tuple[str, ...], ...]:
    """Return the statements of each migration, oldest first."""
    text = Path(__file__).with_name("schema.sql").read_text()
    parts = re.split(r"^-- migration \d+\n", text, flags=re.MULTILINE)[1:]
    return tuple(tuple(part.rstrip(";\n").split(";\n")) for part in parts)


def migrate(connection: StoreConnection) -> None:
    """Bring the tables of a store up to date. Raise if a newer version wrote them."""
    connection.begin(exclusive=True)
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        version, migrations = _version(connection), read_migrations()
        for statement in chain.from_iterable(migrations[version:]):
            connection.execute(statement)
        if version < len(migrations):
            connection.execute("DELETE FROM meta WHERE key = ?", (_SCHEMA_VERSION,))
            row = (_SCHEMA_VERSION, str(len(migrations)))
            connection.execute("INSERT INTO meta VALUES (?, ?)", row)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def check_schema(connection: StoreConnection) -> None:
    """Raise if the tables of a store are not those of this version."""
    version, needed = _version(connection), len(read_migrations())
    if version < needed:
        raise LedgerError(
            f"the store has schema {version}, and this modelpact needs {needed}: open it once for writing to update it"
        )


def _version(connection: StoreConnection) -> int:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_SCHEMA_VERSION,))
    text = str(rows[0][0]) if rows else "0"
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise LedgerError(f"the schema of the store is {text!r:.40}, which is no number: it was edited")
    version, known = int(text), len(read_migrations())
    if version > known:
        raise NewerSchema(f"the store has schema {version}, and this modelpact knows {known}: upgrade modelpact")
    return version
