"""SIGTERM: `/readyz` fails first, open requests finish, and the rest is ended."""

import contextlib
import http.client
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.processes import CHAT, Process, Upstream, chat_body, started, until
from tests.gateway.test_reload import configuration


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream("one").in_thread() as listening:
        yield listening


def refused(gateway: Process) -> bool:
    """Tell whether new connections are refused."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=5)) as connection:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return True
    return False


def test_readyz_fails_before_connections_are_refused(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text(configuration(here=upstream))
    with started(tmp_path, "--notice", "60") as gateway:
        assert gateway.ask("GET", "/readyz")[0] == 200
        upstream.held = True
        streaming = gateway.open("POST", CHAT, chat_body("here/gpt-4o", stream=True))
        with contextlib.closing(streaming):
            stream = streaming.getresponse()
            assert b"one" in stream.readline()
            gateway.signal(signal.SIGTERM)
            until(lambda: gateway.ask("GET", "/readyz")[0] == 503, "it says that it will stop")
            assert gateway.ask("GET", "/healthz")[0] == 200
            assert gateway.chat("mock/demo")[0] == 200, "who still comes is still served"


def test_streams_finish_within_the_grace_period(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text(configuration(here=upstream))
    with started(tmp_path, "--notice", "0") as gateway:
        upstream.held = True
        streaming = gateway.open("POST", CHAT, chat_body("here/gpt-4o", stream=True))
        with contextlib.closing(streaming):
            stream = streaming.getresponse()
            assert b"one" in stream.readline()
            gateway.signal(signal.SIGTERM)
            until(lambda: refused(gateway), "nothing new is taken")
            upstream.release.set()
            assert stream.read().rstrip().endswith(b"data: [DONE]")
        assert gateway.wait() == 0


@pytest.mark.parametrize("how", ["the grace period ends", "a second signal"])
def test_streams_beyond_the_grace_period_are_ended(how: str, upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text(configuration(here=upstream))
    grace = "0.2" if how == "the grace period ends" else "600"
    with started(tmp_path, "--notice", "0", "--grace", grace) as gateway:
        upstream.held = True
        streaming = gateway.open("POST", CHAT, chat_body("here/gpt-4o", stream=True))
        with contextlib.closing(streaming):
            stream = streaming.getresponse()
            assert b"one" in stream.readline()
            began = time.monotonic()
            gateway.signal(signal.SIGTERM)
            if how == "a second signal":
                until(lambda: refused(gateway), "it drains")
                gateway.signal(signal.SIGTERM)
            assert gateway.wait() == 0
            assert time.monotonic() - began < 60
            with pytest.raises(http.client.IncompleteRead):
                stream.read()
