"""Many clients at once: slow streams, idle connections, clients that do not read."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from tests.gateway.conftest import Serve
from tests.gateway.processes import CHAT, TOKEN, Process, Upstream, chat_body, started, until
from tests.gateway.scripted_upstream import STREAM_HEAD, scripted_upstream
from tests.gateway.support import HI, RunningGateway
from tests.gateway.test_failures import opened
from tests.gateway.test_reload import configuration

STREAMS = 64
IDLE = 1_000
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n' % (b"x" * 1_000)
MOST = 24 * 1024 * 1024
"""What the sockets between an upstream and a client that does not read may hold, and to spare."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream("one").in_thread() as listening:
        yield listening


@pytest.fixture
def gateway(upstream: Upstream, tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "modelpact.toml").write_text(configuration(here=upstream))
    with started(tmp_path) as process:
        yield process


def begun(gateway: Process) -> tuple[HTTPConnection, HTTPResponse]:
    """Ask for a stream and read its first event."""
    connection = gateway.open("POST", CHAT, chat_body("here/gpt-4o", stream=True))
    stream = connection.getresponse()
    assert b"one" in stream.readline()
    return connection, stream


def test_short_requests_do_not_wait_for_slow_streams(gateway: Process, upstream: Upstream) -> None:
    """MP-A10: short requests stay fast while 64 slow streams are open."""
    upstream.held = True
    with contextlib.ExitStack() as stack:
        streams = []
        for _ in range(STREAMS):
            connection, stream = begun(gateway)
            stack.callback(connection.close)
            streams.append(stream)
        upstream.held = False
        for _ in range(100):
            assert gateway.chat("here/gpt-4o")[0] == 200
        assert gateway.chat("mock/demo", stream=True)[0] == 200
        assert gateway.ask("GET", "/readyz")[0] == 200
        assert not upstream.release.is_set(), "every stream is still under way"
        upstream.release.set()
        assert all(b"[DONE]" in stream.read() for stream in streams)


def test_requests_are_served_among_a_thousand_idle_connections(gateway: Process) -> None:
    """Some connections have sent a request before, some never, some half of one."""
    with contextlib.ExitStack() as stack:
        idle = []
        for number in range(IDLE):
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
            idle.append(stack.enter_context(connection))
            if number % 3 == 1:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            elif number % 3 == 2:
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost:")
        for connection in idle[1::3]:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        for _ in range(50):
            assert gateway.chat("here/gpt-4o")[0] == 200
        metrics = gateway.ask("GET", "/metrics")[2]
        assert f"modelpact_connections {IDLE + 1}" in metrics
        idle[1].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert idle[1].recv(65_536).startswith(b"HTTP/1.1 200 "), "and they can still ask"


class Endless:
    """Streams without end, and counts what it could send."""

    def __init__(self, event: bytes = EVENT) -> None:
        self.sent = 0
        self.gone = threading.Event()
        self._event = event * (65_536 // len(event) + 1)

    def __call__(self, connection: socket.socket) -> None:
        connection.settimeout(60)
        try:
            connection.sendall(STREAM_HEAD + b"\r\n")
            while True:
                self.sent += connection.send(self._event)
        except OSError:
            self.gone.set()


def stands_still(endless: Endless, gateway: RunningGateway) -> None:
    """Wait until nothing more can be sent: three looks in a row, each after work was done."""
    seen: list[int] = []

    def still() -> bool:
        assert gateway.chat("mock/demo").status == 200, "the others are served meanwhile"
        seen.append(endless.sent)
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    gateway.wait_until(still)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_a_client_that_does_not_read_makes_the_upstream_wait(serve: Serve, path: str) -> None:
    """Backpressure: what an upstream without end could send is bounded by the sockets."""
    endless = Endless()
    with scripted_upstream(endless) as upstream:
        gateway = serve(upstream.settings.replace("timeout = 1.0", "timeout = 60.0"))
        body = {"model": "scripted/any", "messages": HI, "max_tokens": 50, "stream": True}
        with opened(gateway, path, json.dumps(body).encode()) as connection:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")
            stands_still(endless, gateway)
            held = endless.sent
            assert held < MOST
            taken = 0
            while taken < 2 * held + 4_000_000:  # reading again lets the upstream go on
                taken += len(connection.recv(1_000_000))
            assert endless.sent > held
        assert endless.gone.wait(30), "who leaves ends it"
        ended = [outcome for outcome in gateway.settled() if outcome[0] != "completed"]
        assert ended == [("cancelled", "the client left")]


def test_an_endless_response_is_aborted(serve: Serve) -> None:
    """One that is not streamed is held in memory, so it may only be so long."""
    endless = Endless(b" " * 65_536)
    with scripted_upstream(endless) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any")
        assert answer.status == 502, answer.content[:300]
        assert endless.gone.wait(30)
        assert endless.sent < 64 * 1024 * 1024 + MOST
        assert gateway.settled()[0][0] == "failed"


def test_an_endless_error_response_is_aborted(serve: Serve) -> None:
    endless = Endless(b"x" * 65_536)

    def refuses(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\n\r\n")
        endless(connection)

    with scripted_upstream(refuses) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any")
        assert answer.status in (400, 502)
        assert endless.gone.wait(30)
        assert endless.sent < MOST


def test_slow_uploads_delay_nobody_else(gateway: Process) -> None:
    """Bodies of which a part is there: they hold their connections and nothing else."""
    body = json.dumps(chat_body("here/gpt-4o")).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(200):
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
            slow.append(stack.enter_context(connection))
            connection.sendall(head + body[:10])
        for _ in range(20):
            assert gateway.chat("here/gpt-4o")[0] == 200
        for connection in slow:
            connection.sendall(body[10:])
        assert all(connection.recv(65_536).startswith(b"HTTP/1.1 200 ") for connection in slow)


def test_requests_beyond_the_connection_limit_wait_and_are_then_refused(upstream: Upstream, tmp_path: Path) -> None:
    """MP-A10: the queue is bounded; beyond it the response is 429 with `retry-after`."""
    text = configuration(here=upstream) + "\nconnections = 4\n"
    (tmp_path / "modelpact.toml").write_text(text)
    upstream.held = True
    with started(tmp_path) as gateway, contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(8):
            connection = gateway.open("POST", CHAT, chat_body("here/gpt-4o"))
            stack.callback(connection.close)
            waiting.append(connection)
        until(lambda: len(upstream.seen) == 4, "as many as may be are with the upstream")
        under_way = "modelpact_requests_under_way 8"
        until(lambda: under_way in gateway.ask("GET", "/metrics")[2], "the others wait")
        status, headers, answer = gateway.chat("here/gpt-4o")
        assert (status, int(headers["retry-after"]) >= 1) == (429, True), answer
        assert answer["error"]["code"] == "overloaded"
        upstream.release.set()
        assert [pending.getresponse().status for pending in waiting] == [200] * 8
