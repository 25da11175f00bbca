"""Fixtures: worlds on both stores, and an authority for the certificates of the contract tests."""

from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture
def world(authority: Authority, keys_folder: Path, url: str) -> World:
    return World(keys_folder, authority, url)


@pytest.fixture
def lite(authority: Authority, keys_folder: Path, tmp_path: Path) -> World:
    """The world on SQLite only, for tests that do not depend on the store."""
    return World(keys_folder, authority, f"sqlite:{tmp_path / 'ledger.db'}")


@pytest.fixture
def ledger(world: World) -> Iterator[Ledger]:
    with Ledger.open(world.store) as opened:
        yield opened


@pytest.fixture
def lite_ledger(lite: World) -> Iterator[Ledger]:
    with Ledger.open(lite.store) as opened:
        yield opened
