"""Both stores, as the ledger's own tests start them."""

from tests.ledger.conftest import ledger, postgres, postgres_url, url

__all__ = ["ledger", "postgres", "postgres_url", "url"]
