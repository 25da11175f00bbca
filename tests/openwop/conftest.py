"""A host with two mock providers: the model of one lacks capabilities, the other has all."""

from collections.abc import Iterator
from typing import Any

import pytest

from modelpact.configuration import Configuration, HostSettings, read_configuration
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import read_pack
from modelpact.providers.port import MockProvider
from tests.openwop.support import HostClient, serving

CONFIGURATION = """
[providers.small]
kind = "mock"
[providers.big]
kind = "mock"
[providers.locked]
kind = "openai"
api_key = { env = "NOT_SET_ANYWHERE" }
[models."small/lean"]
structured_output = false
reasoning = false
[models."big/full"]
context_window = 400000
[host]
model = "small/lean"
"""
PACK: dict[str, Any] = {
    "name": "acme",
    "version": "1.0.0",
    "nodes": [
        {
            "typeId": "vendor.acme.think",
            "requiredModelCapabilities": ["reasoning"],
            "fallbackModel": {"provider": "big", "model": "full"},
        },
        {"typeId": "vendor.acme.plain"},
    ],
    "workflows": [
        {
            "workflowId": "acme.think",
            "nodes": [{"nodeId": "first", "typeId": "vendor.acme.think", "config": {"prompt": "Think of {{what}}"}}],
        }
    ],
}


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened


@pytest.fixture
def configuration() -> Configuration:
    return read_configuration(CONFIGURATION)


@pytest.fixture
def ports() -> dict[str, MockProvider]:
    return {"small": MockProvider(), "big": MockProvider()}


@pytest.fixture
def host(ledger: Ledger, configuration: Configuration, ports: dict[str, MockProvider]) -> Iterator[HostClient]:
    with serving(ledger, ports, configuration=configuration, packs=(read_pack(PACK),), conformance=True) as client:
        yield client


def with_host(configuration: Configuration, **changes: Any) -> Configuration:
    """Return a configuration with other settings of the host."""
    import msgspec

    host: HostSettings = msgspec.structs.replace(configuration.host, **changes)
    return msgspec.structs.replace(configuration, host=host)
