"""A ledger for the tests of sessions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelpact.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in SQLite, for what does not depend on the store."""
    with Ledger.open(f"sqlite:{tmp_path / 'sessions.db'}") as opened:
        yield opened


@pytest.fixture
def either(url: str) -> Iterator[Ledger]:
    """A ledger in either store."""
    with Ledger.open(url) as opened:
        yield opened
