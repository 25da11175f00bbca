"""Clients that disconnect at any moment: nothing stays open."""

import json
import random
import socket
import threading

import pytest

from tests.fakes import Reply
from tests.gateway.conftest import Serve
from tests.gateway.scripted_upstream import STREAM_HEAD, scripted_upstream
from tests.gateway.support import HI, RunningGateway
from tests.gateway.test_failures import opened

MOMENTS = 60


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "model"), [("/v1/chat/completions", "gpt-4o"), ("/v1/messages", "gpt-4o")])
def test_the_record_ends_whenever_a_client_disconnects(
    gateway: RunningGateway, path: str, model: str, stream: bool
) -> None:
    """Before the record is opened, while it is written, in mid-stream, at the very end."""
    chance = random.Random(7)
    gateway.openai.script.add(*(Reply("x" * 100) for _ in range(MOMENTS)))
    body = {"model": model, "messages": HI, "max_tokens": 500, "stream": stream}
    for _ in range(MOMENTS):
        with opened(gateway, path, json.dumps(body).encode()) as connection:
            connection.settimeout(chance.random() * 0.01)
            try:
                while connection.recv(chance.randrange(1, 2_000)):
                    connection.settimeout(chance.random() * 0.002)
            except TimeoutError:
                pass
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    gateway.wait_until_idle()
    ended = gateway.settled()
    assert {state for state, _ in ended} <= {"completed", "failed", "cancelled"}
    assert all("left" in (error or "") for state, error in ended if state != "completed")
    assert gateway.chat("gpt-4o").status == 200


def test_a_client_that_closes_after_the_last_event_has_its_whole_answer(serve: Serve) -> None:
    """The upstream keeps its connection open after `[DONE]`; the client does not wait for that."""
    closed = threading.Event()
    events = (
        b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"any",'
        b'"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}\n\n'
        b"data: [DONE]\n\n"
    )

    def behave(connection: socket.socket) -> None:
        connection.sendall(STREAM_HEAD + b"\r\n" + events)
        closed.wait(10)

    body = {"model": "scripted/any", "messages": HI, "stream": True}
    body["stream_options"] = {"include_usage": True}
    with scripted_upstream(behave) as upstream:
        gateway = serve(upstream.settings.replace("timeout = 1.0", "timeout = 20.0"))
        with opened(gateway, "/v1/chat/completions", json.dumps(body).encode()) as connection:
            received = b""
            while b"[DONE]" not in received:
                received += connection.recv(65_536)
        gateway.wait_until_idle()
        closed.set()
        assert gateway.settled() == [("completed", None)]
