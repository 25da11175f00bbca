"""PostgreSQL: the same interface as SQLite, for many machines on one database."""

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelpact.ledger.stores.base import (
    LedgerError,
    LedgerUnavailable,
    NameTaken,
    Params,
    Row,
    SerializationConflict,
    StatementRejected,
    WriteConflict,
    split_values,
)
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    import psycopg

_LOCK: Final = 0x6D6F64656C706163
"""The name of the advisory lock: writers share it, one that must be exclusive holds it."""


_URL: Final = re.compile(r"postgres(?:ql)?://(?:([^@/?#]*)@)?([^@?#]*)(?:\?([^@?#]*))?")
_HIDDEN: Final = "postgresql://…"
"""A URL of which no part is known to be no secret."""
_SHOWN: Final = frozenset({"host", "hostaddr", "port", "dbname", "user", "options", "sslmode"})


class PostgresStore:
    """A PostgreSQL database."""

    reopenable = False  # it is shown without its password

    def __init__(self, url: str) -> None:
        self._dsn = url
        self.url = _without_password(url)

    def connect(self, *, writer: bool, wait: bool = True) -> "PostgresConnection":  # noqa: ARG002
        """Open a connection."""
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "PostgreSQL needs the package psycopg: pip install 'modelpact[postgresql]'"
            ) from None
        try:
            parts = psycopg.conninfo.conninfo_to_dict(self._dsn)
        except psycopg.Error:  # its message quotes the whole URL
            raise InputError(
                f"store.url: {self.url} cannot be read: "
                "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %-escapes"
            ) from None
        try:
            raw = psycopg.connect(self._dsn, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            reason = (
                _line(error) if self.url != _HIDDEN else "its special characters need %-escapes"
            )
            for name in set(parts) - _SHOWN:
                reason = reason.replace(str(parts[name]) or "\0", "…")
            raise LedgerUnavailable(f"{self.url} cannot be reached: {reason}") from None
        return PostgresConnection(raw)

    def lease(self, name: str) -> "PostgresLease":
        """Take a name; raises `NameTaken` where another process has it."""
        return PostgresLease(self, name)


class PostgresLease:
    """An advisory lock of a transaction that stays open: it ends with its connection.

    Between its statements such a transaction keeps nothing from being tidied up, and unlike the
    lock of a session it survives poolers, which share sessions.
    """

    def __init__(self, store: PostgresStore, name: str) -> None:
        self._store = store
        self._name = name
        self._using = threading.Lock()
        self._released = False
        self._backend = 0
        """The server's process that holds the lock, or held it last."""
        self._connection: PostgresConnection | None = self._take()

    def _take(self) -> "PostgresConnection":
        connection = self._store.connect(writer=True)
        try:
            connection.execute("BEGIN")
            connection.execute(_UNTIMED)
            ((schema,),) = connection.execute("SELECT current_schema()")
            digest = hashlib.sha256(f"modelpact/{schema}/{self._name}".encode()).digest()
            number = int.from_bytes(digest[:8], "big", signed=True)
            if connection.execute("SELECT pg_try_advisory_xact_lock(?)", (number,)) == [(True,)]:
                ((self._backend,),) = connection.execute("SELECT pg_backend_pid()")
                return connection
            if self._backend and connection.execute(_HOLDER, (number,)) == [(self._backend,)]:
                raise LedgerUnavailable(f"{self._name}: the connection that broke still holds it")
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise NameTaken(f"{self._name} is alive on this store")

    def is_held(self) -> bool:
        """Tell whether it is still held; one that broke is taken again where nobody else has it."""
        with self._using:
            if self._released:
                return False
            try:
                if self._connection is None:
                    self._connection = self._take()
                self._connection.execute("SELECT 1")
            except NameTaken:
                return False
            except LedgerError:  # the store is away: whose name it is shows when it is back
                self._disconnect()
            return True

    def release(self) -> None:
        """Let another have the name, for good: whoever looks after it in a thread is waited for."""
        with self._using:
            self._released = True
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_HOLDER: Final = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND ((classid::bigint << 32) | objid::bigint) = ?"
)
"""Who holds a lock: a session of ours whose link broke is missed by the server only later."""
_UNTIMED: Final = (
    "SELECT set_config(name, CASE left(name, 3) WHEN 'tcp' THEN '5' ELSE '0' END, true) "
    "FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout', "
    "'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')"
)
"""A lease has no time limit; a machine that vanishes with one is noticed in half a minute."""


class PostgresConnection:
    """A connection to PostgreSQL."""

    detects_other_writers = False

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self._raw = raw

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        cursor = self._run(sql, params)
        return cursor.fetchall() if cursor.description else []

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return how many rows it changed."""
        return self._run(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` of several rows: one statement, one parameter."""
        if len(rows) == 1:
            return self._run(sql, rows[0]).rowcount
        if not rows:
            return 0
        kinds = "".join("n" if _numbers(column) else "t" for column in zip(*rows, strict=True))
        with _told():
            given = msgspec.json.encode(rows).decode()
            return self._raw.execute(_from_json(sql, kinds).encode(), (given,)).rowcount

    def _run(self, sql: str, params: Params) -> "psycopg.Cursor[Any]":
        with _told():
            return self._raw.execute(_translated(sql).encode(), params or None)

    def begin(self, *, exclusive: bool = False) -> bool:
        """Begin a transaction that may write."""
        how = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
        self._run(f"BEGIN; SELECT {how}({_LOCK})", ())
        return exclusive

    def commit(self) -> None:
        """Make the transaction durable."""
        self._run("COMMIT", ())

    def rollback(self) -> None:
        """Give the transaction up."""
        self._run("ROLLBACK", ())

    def close(self) -> None:
        """Close the connection."""
        import psycopg

        with suppress(psycopg.Error):
            self._raw.close()


@contextmanager
def _told() -> Iterator[None]:
    """Turn PostgreSQL's errors into ours."""
    import psycopg

    try:
        yield
    except psycopg.errors.IntegrityError as error:
        raise WriteConflict(_line(error)) from None
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
        raise SerializationConflict(_line(error)) from None
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
        raise StatementRejected(f"PostgreSQL: {_line(error)}") from None
    except psycopg.Error as error:
        raise LedgerUnavailable(f"PostgreSQL: {_line(error)}") from None


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=128)
def _from_json(sql: str, kinds: str) -> str:
    """Turn `VALUES (?, …)` into a selection from JSON: the same text for any number of rows.

    Hundreds of parameters would each be converted in Python; one text is not.
    """
    head, marks, rest = split_values(sql)
    columns = marks.split(", ")
    for place, kind in enumerate(kinds):
        cast = "::bigint" if kind == "n" else ""
        value = columns[place].replace("?", f"(given.row->>{place}){cast}")
        columns[place] = f"{value} AS column{place + 1}"
    given = "jsonb_array_elements(%s::jsonb) AS given (row)"
    return f"{head}SELECT {', '.join(columns)} FROM {given}{rest}"


def _numbers(column: tuple[Any, ...]) -> bool:
    return any(type(value) is int for value in column)


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _without_password(url: str) -> str:
    """Return a URL as it may be shown: only what is known to be no secret is kept of it."""
    found = _URL.fullmatch(url)
    if found is None:
        return _HIDDEN
    login, place, query = found.groups()
    user = "" if login is None else f"{login.partition(':')[0]}@"
    pairs = [pair for pair in (query or "").split("&") if pair.partition("=")[0] in _SHOWN]
    return f"postgresql://{user}{place}{'?' if pairs else ''}{'&'.join(pairs)}"
