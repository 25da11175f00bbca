"""A ledger on either store."""

from collections.abc import Iterator

import pytest

from modelpact.ledger import Ledger


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened
