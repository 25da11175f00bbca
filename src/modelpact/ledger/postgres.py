"""PostgreSQL: the same interface as SQLite, for many machines on one database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelpact.ledger.store import Conflict, LedgerError, LedgerUnavailable, Params, Row

if TYPE_CHECKING:
    import psycopg


class PostgresStore:
    """A PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self._dsn = url
        self.url = _without_password(url)

    def connect(self, *, writer: bool) -> "PostgresConnection":  # noqa: ARG002
        """Open a connection."""
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "PostgreSQL needs the package psycopg: pip install 'modelpact[postgresql]'"
            ) from None
        try:
            raw = psycopg.connect(self._dsn, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            raise LedgerUnavailable(f"{self.url} cannot be reached: {_line(error)}") from None
        return PostgresConnection(raw)


class PostgresConnection:
    """A connection to PostgreSQL."""

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self._raw = raw

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        cursor = self._run(sql, params)
        return cursor.fetchall() if cursor.description else []

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        return self._run(sql, params).rowcount

    def many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once for each of several rows, in one round trip."""
        with _told(), self._raw.cursor() as cursor:
            cursor.executemany(_translated(sql).encode(), rows)

    def _run(self, sql: str, params: Params) -> "psycopg.Cursor[Any]":
        with _told():
            return self._raw.execute(_translated(sql).encode(), params or None)

    def begin(self) -> None:
        """Begin a transaction that may write."""
        self._run("BEGIN", ())

    def commit(self) -> None:
        """Make the transaction durable."""
        self._run("COMMIT", ())

    def rollback(self) -> None:
        """Give the transaction up."""
        self._run("ROLLBACK", ())

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


@contextmanager
def _told() -> Iterator[None]:
    """Turn PostgreSQL's errors into ours."""
    import psycopg

    try:
        yield
    except (psycopg.errors.IntegrityError, psycopg.errors.SerializationFailure) as error:
        raise Conflict(_line(error)) from None
    except psycopg.Error as error:
        raise LedgerUnavailable(f"PostgreSQL: {_line(error)}") from None


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}@{place}" if at else url
