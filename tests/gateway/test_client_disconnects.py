"""Clients that disconnect at any moment: nothing stays open."""

import json
import random
import socket

import pytest

from tests.fakes import Reply
from tests.gateway.support import HI, RunningGateway
from tests.gateway.test_failures import opened

MOMENTS = 60


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "model"), [("/v1/chat/completions", "gpt-4o"), ("/v1/messages", "gpt-4o")]
)
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
