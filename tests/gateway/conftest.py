"""Gateways as fixtures."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.gateway.support import RunningGateway, gateway_running

__all__ = ["run"]
Serve = Callable[..., RunningGateway]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve a gateway with more in its configuration."""
    with contextlib.ExitStack() as stack:
        yield lambda more="", **options: stack.enter_context(gateway_running(tmp_path, more, **options))


@pytest.fixture
def gateway(serve: Serve) -> RunningGateway:
    """A gateway with the usual configuration."""
    return serve()


@pytest.fixture(params=["blocking", "async"])
def blocking(request: pytest.FixtureRequest) -> bool:
    """Whether the blocking client of an SDK is used, or the asynchronous one."""
    return bool(request.param == "blocking")
