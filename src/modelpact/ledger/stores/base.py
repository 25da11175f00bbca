"""Stores: SQLite and PostgreSQL behind one small interface, chosen by URL."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Protocol

from modelpact.ledger.stores.schema import MIGRATIONS
from modelpact.vocabulary.errors import InputError, ModelpactError

Row = tuple[Any, ...]
Params = Sequence[Any]


class LedgerError(ModelpactError):
    """The ledger refused or could not do something."""


class LedgerUnavailable(LedgerError):
    """The store did not take a write: nothing of it was kept, and it may be tried again."""


class LedgerUncertain(LedgerUnavailable):
    """The connection broke at the commit: look whether the write was kept before trying again."""


class NewerSchema(LedgerError):
    """The store was made by a newer modelpact."""


class WriteConflict(LedgerError):
    """Another writer was first: a key is taken."""


class SerializationConflict(WriteConflict):
    """Two writers waited for each other, and this one had to yield: it does its work again."""


class NameTaken(LedgerError):
    """Another process that is alive goes by this name on the store."""


class StatementRejected(LedgerError):
    """A statement that the store cannot make sense of: the fault of whoever wrote it."""


class StoreConnection(Protocol):
    """One connection to a store. Placeholders are `?` in either."""

    detects_other_writers: bool
    """Whether `begin` notices that others wrote; else what they may change is to be looked up."""

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` of several rows, in as few steps as can be.

        Returns how many rows it changed.
        """

    def begin(self, *, exclusive: bool = False) -> bool:
        """Begin a transaction that may write; `exclusive`: nobody else writes events meanwhile.

        Returns whether somebody else has written since the last one began, as far as it sees that.
        """

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Give the transaction up."""

    def close(self) -> None:
        """Close the connection."""


class Lease(Protocol):
    """A name that one process at a time has on a store; when it dies, the name is free."""

    def is_held(self) -> bool:
        """Tell whether it is still held; one that broke is taken again where nobody else has it."""

    def release(self) -> None:
        """Let another have the name."""


class Store(Protocol):
    """Where a ledger is kept."""

    url: str
    reopenable: bool
    """Whether its URL is all that another process needs to open it."""

    def connect(self, *, writer: bool, wait: bool = True) -> StoreConnection:
        """Open a connection; raises `LedgerUnavailable` where that fails.

        One that is not `wait`ing does not wait to begin while another writes, but raises.
        """

    def lease(self, name: str) -> Lease:
        """Take a name; raises `NameTaken` where another process has it."""


def open_store(url: str) -> Store:
    """Return the store that a URL names: `sqlite:FILE` or `postgresql://…`."""
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


STATEMENTS: Final = 512
"""How many statements are kept prepared."""
_ANY_SIZE: Final = 40
_LARGEST_STEP: Final = 128


def expand_values(sql: str, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements that take many rows at once, of so few sizes that they stay prepared.

    One statement is one step: a thread that goes row by row gives way to all others each time.
    """
    start = 0
    while start < len(rows):
        left = len(rows) - start
        size = left if left <= _ANY_SIZE else min(_LARGEST_STEP, 1 << (left.bit_length() - 1))
        yield _widened(sql, size), list(chain.from_iterable(rows[start : start + size]))
        start += size


@lru_cache(maxsize=STATEMENTS)
def _widened(sql: str, size: int) -> str:
    head, marks, rest = split_values(sql)
    return f"{head}VALUES {', '.join([f'({marks})'] * size)}{rest}"


def split_values(sql: str) -> tuple[str, str, str]:
    """Part a statement into what stands before `VALUES`, in its parentheses, and after them."""
    head, _, rest = sql.partition("VALUES (")
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    return head, rest[: end - 1], rest[end:]


_VERSION: Final = "schema_version"


def migrate(connection: StoreConnection) -> None:
    """Bring a store's tables up to date; refuse one that a newer modelpact has made."""
    connection.begin(exclusive=True)
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
        )
        version = _version(connection)
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


def check_schema(connection: StoreConnection) -> None:
    """Refuse to read a store whose tables are not those of this modelpact."""
    version = _version(connection)
    if version < len(MIGRATIONS):
        raise LedgerError(
            f"the store has schema {version}, this modelpact needs {len(MIGRATIONS)}: "
            "open it once for writing, and it is brought up to date"
        )


def _version(connection: StoreConnection) -> int:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_VERSION,))
    text = str(rows[0][0]) if rows else "0"
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise LedgerError(f"the store's schema is {text!r:.40}, which is no number: it was edited")
    version = int(text)
    if version > len(MIGRATIONS):
        raise NewerSchema(
            f"the store has schema {version}, this modelpact knows {len(MIGRATIONS)}: "
            "upgrade modelpact to use it"
        )
    return version
