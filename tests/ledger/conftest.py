"""Ledgers on both stores, and a keyring."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import Ledger


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in SQLite, for tests that do not depend on the store."""
    with Ledger.open(f"sqlite:{tmp_path / 'lite.db'}") as opened:
        yield opened


@pytest.fixture(scope="session")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    """A keyring that no test rotates."""
    return Keyring.init(tmp_path_factory.mktemp("keys") / "keyring")
