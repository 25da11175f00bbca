"""schemathesis on the OpenAPI document: no request gives a 500 or an undocumented response."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from modelpact.ledger.ledger import Ledger
from modelpact.openwop.documents import openapi
from modelpact.providers.port import MockProvider
from tests.openwop.support import TOKEN, serving

schema = schemathesis.openapi.from_dict(openapi(conformance=True))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("host")
    ports = {"mock": MockProvider()}
    with Ledger.open(f"sqlite:{folder / 'ledger.db'}") as ledger, serving(ledger, ports, conformance=True) as client:
        yield client.url


@schema.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_host(case: Any, address: str) -> None:
    case.call_and_validate(
        base_url=address,
        # A generated Host may be invalid: the HTTP server rejects it before any route is found.
        headers={"authorization": f"Bearer {TOKEN}", "host": address.removeprefix("http://")},
        checks=[not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance],
    )
