"""Gateways as fixtures."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.gateway.support import Running, gateway_running

__all__ = ["run"]
Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve a gateway with more in its configuration."""
    with contextlib.ExitStack() as stack:
        yield lambda more="", **given: stack.enter_context(gateway_running(tmp_path, more, **given))


@pytest.fixture
def gateway(serve: Serve) -> Running:
    """A gateway with the usual configuration."""
    return serve()


@pytest.fixture(params=["blocking", "async"])
def blocking(request: pytest.FixtureRequest) -> bool:
    """Which of its two ways an SDK is used in."""
    return bool(request.param == "blocking")
