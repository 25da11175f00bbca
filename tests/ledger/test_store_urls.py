"""URLs of stores: passwords are never shown, and everything else is."""

import pytest

from modelpact.ledger import Ledger, LedgerUnavailable
from modelpact.ledger.stores.base import open_store
from modelpact.vocabulary.errors import InputError


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{0}@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?password={0}&user=me",
        "postgresql://127.0.0.1:1/none?user=me&sslpassword={0}",
        "postgresql://me:{0}@[/none",
        "postgresql://me:{0}/@127.0.0.1:1/none",
        "postgresql://me:x@{0}@127.0.0.1:1/none",
        "postgresql://me:{0}@127.0.0.1:99999/none",
        "postgresq://me:{0}@127.0.0.1:1/none",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    word = "hunter" + "two"
    with pytest.raises((LedgerUnavailable, InputError)) as caught:
        Ledger.open(url.format(word))
    assert word not in str(caught.value)


def test_a_shown_url_still_names_the_server() -> None:
    shown = open_store("postgresql://me:x@db.example:5/work?host=/run&password=x&sslmode=off").url
    assert shown == "postgresql://me@db.example:5/work?host=/run&sslmode=off"
