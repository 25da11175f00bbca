"""PostgreSQL: a store for runtimes on many machines."""

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelpact.ledger.errors import (
    LedgerError,
    LedgerUnavailable,
    NameTaken,
    SerializationConflict,
    StatementRejected,
    WriteConflict,
)
from modelpact.ledger.stores.base import Params, Row, split_values
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    import psycopg

_LOCK: Final = 0x6D6F64656C706163
"""The advisory lock of writers. They share it; an exclusive transaction holds it alone."""
_HOLDER: Final = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND ((classid::bigint << 32) | objid::bigint) = ?"
)
"""Returns the server process that holds a lock: it may be a broken connection of our own."""
_NO_TIMEOUTS: Final = (
    "SELECT set_config(name, CASE left(name, 3) WHEN 'tcp' THEN '5' ELSE '0' END, true) "
    "FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout', "
    "'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')"
)
"""A lease has no time limit. The server notices within half a minute that a machine is gone."""
_URL: Final = re.compile(r"postgres(?:ql)?://(?:([^@/?#]*)@)?([^@?#]*)(?:\?([^@?#]*))?")
_HIDDEN: Final = "postgresql://…"
"""Shown instead of a URL that cannot be parsed, because any part of it may be secret."""
_PUBLIC_PARTS: Final = frozenset({"host", "hostaddr", "port", "dbname", "user", "options", "sslmode"})
"""The parts of a URL that are never secret."""


class PostgresStore:
    """A PostgreSQL database."""

    reopenable = False  # `url` lacks the password

    def __init__(self, url: str) -> None:
        self._dsn = url
        self.url = _public_url(url)

    def connect(self, *, writer: bool, wait: bool = True) -> "PostgresConnection":  # noqa: ARG002
        """Open a connection."""
        try:
            import psycopg
        except ImportError:
            raise LedgerError("PostgreSQL needs the package psycopg: pip install 'modelpact[postgresql]'") from None
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
            reason = _first_line(error)
            if self.url == _HIDDEN:
                reason = "escape special characters in the URL with %"
            for name in set(parts) - _PUBLIC_PARTS:
                reason = reason.replace(str(parts[name]) or "\0", "…")
            raise LedgerUnavailable(f"{self.url} cannot be reached: {reason}") from None
        return PostgresConnection(raw)

    def lease(self, name: str) -> "PostgresLease":
        """Take a name, or raise `NameTaken` if another process holds it."""
        return PostgresLease(self, name)


class PostgresLease:
    """An advisory lock of a transaction that stays open. It ends with its connection.

    A connection pooler shares sessions between clients, so it may drop the lock of a session. It
    keeps that of a transaction, which does not stop the database from vacuuming while it is idle.
    """

    def __init__(self, store: PostgresStore, name: str) -> None:
        self._store = store
        self._name = name
        self._lock = threading.Lock()
        self._released = False
        self._backend = 0
        """The server process that holds the lock, or held it last."""
        self._connection: PostgresConnection | None = self._take()

    def _take(self) -> "PostgresConnection":
        connection = self._store.connect(writer=True)
        try:
            connection.execute("BEGIN")
            connection.execute(_NO_TIMEOUTS)
            ((schema,),) = connection.execute("SELECT current_schema()")
            digest = hashlib.sha256(f"modelpact/{schema}/{self._name}".encode()).digest()
            number = int.from_bytes(digest[:8], "big", signed=True)
            if connection.execute("SELECT pg_try_advisory_xact_lock(?)", (number,)) == [(True,)]:
                ((self._backend,),) = connection.execute("SELECT pg_backend_pid()")
                return connection
            if self._backend and connection.execute(_HOLDER, (number,)) == [(self._backend,)]:
                raise LedgerUnavailable(f"{self._name}: the broken connection still holds the lease")
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise NameTaken(f"{self._name} is held by another live process on this store")

    def is_held(self) -> bool:
        """Tell whether the lease is still held. One that was lost is taken again if it is free."""
        with self._lock:
            if self._released:
                return False
            try:
                if self._connection is None:
                    self._connection = self._take()
                self._connection.execute("SELECT 1")
            except NameTaken:
                return False
            except LedgerError:  # the store is unreachable: the next call tries again
                self._disconnect()
            return True

    def release(self) -> None:
        """Release the name for good. This waits for `is_held` in another thread."""
        with self._lock:
            self._released = True
            if self._connection is not None:
                # The server frees the lock of a closed connection only a moment later.
                with suppress(LedgerError):
                    self._connection.execute("ROLLBACK")
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class PostgresConnection:
    """A connection to PostgreSQL."""

    detects_other_writers = False

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self._raw = raw

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement and return its rows."""
        cursor = self._run(sql, params)
        return cursor.fetchall() if cursor.description else []

    def execute_update(self, sql: str, params: Params = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        return self._run(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Run a statement with `VALUES (?, …)` for several rows: one statement, one parameter."""
        if len(rows) == 1:
            return self._run(sql, rows[0]).rowcount
        if not rows:
            return 0
        kinds = "".join("n" if _has_integers(column) else "t" for column in zip(*rows, strict=True))
        with _translated_errors():
            parameter = msgspec.json.encode(rows).decode()
            return self._raw.execute(_from_json(sql, kinds).encode(), (parameter,)).rowcount

    def _run(self, sql: str, params: Params) -> "psycopg.Cursor[Any]":
        with _translated_errors():
            return self._raw.execute(_with_placeholders(sql).encode(), params or None)

    def begin(self, *, exclusive: bool = False) -> bool:
        """Begin a transaction that may write."""
        lock = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
        self._run(f"BEGIN; SELECT {lock}({_LOCK})", ())
        return exclusive

    def commit(self) -> None:
        """Make the transaction durable."""
        self._run("COMMIT", ())

    def rollback(self) -> None:
        """Undo the transaction."""
        self._run("ROLLBACK", ())

    def close(self) -> None:
        """Close the connection."""
        import psycopg

        with suppress(psycopg.Error):
            self._raw.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise the ledger's errors for those of PostgreSQL."""
    import psycopg

    try:
        yield
    except psycopg.errors.IntegrityError as error:
        raise WriteConflict(_first_line(error)) from None
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
        raise SerializationConflict(_first_line(error)) from None
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
        raise StatementRejected(f"PostgreSQL: {_first_line(error)}") from None
    except psycopg.Error as error:
        raise LedgerUnavailable(f"PostgreSQL: {_first_line(error)}") from None


@lru_cache(maxsize=512)
def _with_placeholders(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=128)
def _from_json(sql: str, kinds: str) -> str:
    """Replace `VALUES (?, …)` with a SELECT from one JSON parameter, for any number of rows.

    Hundreds of parameters would each be converted in Python. One text is not.
    """
    before, marks, after = split_values(sql)
    columns = marks.split(", ")
    for index, kind in enumerate(kinds):
        cast = "::bigint" if kind == "n" else ""
        value = columns[index].replace("?", f"(input.row->>{index}){cast}")
        columns[index] = f"{value} AS column{index + 1}"
    rows = "jsonb_array_elements(%s::jsonb) AS input (row)"
    return f"{before}SELECT {', '.join(columns)} FROM {rows}{after}"


def _has_integers(column: tuple[Any, ...]) -> bool:
    return any(type(value) is int for value in column)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _public_url(url: str) -> str:
    """Return a URL that is safe to show: only parts that are never secret are kept."""
    match = _URL.fullmatch(url)
    if match is None:
        return _HIDDEN
    login, location, query = match.groups()
    user = "" if login is None else f"{login.partition(':')[0]}@"
    pairs = [pair for pair in (query or "").split("&") if pair.partition("=")[0] in _PUBLIC_PARTS]
    return f"postgresql://{user}{location}{'?' if pairs else ''}{'&'.join(pairs)}"
