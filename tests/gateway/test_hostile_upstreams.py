"""Upstreams that are down, slow, flapping, cut off or send nonsense: reported and recorded."""

import itertools
import socket
import threading

import pytest

from tests.gateway.conftest import Serve
from tests.gateway.scripted_upstream import GOOD, JSON_HEAD, STREAM_HEAD, WHOLE, scripted_upstream, sends
from tests.gateway.support import HI, Answer

CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"any",'
    b'"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
)
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "noise": bytes(range(256)) * 4,
    "a greeting of another protocol": b"220 mail.example ESMTP\r\n",
    "TLS": bytes.fromhex("150301000202 28".replace(" ", "")),
    "a page without a head": b"<html>hello</html>",
    "half a head": JSON_HEAD,
    "a status of letters": b"HTTP/1.1 OK fine\r\n\r\n",
    "a status beyond all": b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n",
    "an informal answer without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
    "a header without end": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000,
    "two lengths": JSON_HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": JSON_HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    "less than said": JSON_HEAD + b"content-length: 1000\r\n\r\n{",
    "chunks that are none": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "chunks cut off": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n{",
    "a folded header": b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 2\r\n\r\n{}",
}


def fine(answer: Answer) -> None:
    """An error that says whose fault it was, in the client's words."""
    assert answer.status in (502, 504), (answer.status, answer.content[:300])
    assert answer.json["error"]["code"] in ("cut_off", "malformed", "timeout", "unreachable")
    assert answer.headers["modelpact-invocation"]


@pytest.mark.parametrize("name", NONSENSE)
def test_an_unusable_answer_is_reported_as_a_failure(serve: Serve, name: str) -> None:
    with scripted_upstream(sends(NONSENSE[name])) as upstream:
        gateway = serve(upstream.settings)
        for stream in (False, True):
            fine(gateway.chat("scripted/any", stream=stream))
        carried = gateway.message("scripted/any")
        assert carried.status in (502, 504)
        assert carried.json["type"] == "error"
        assert [state for state, _ in gateway.settled()] == ["failed"] * 3
        upstream.behave = sends(GOOD)
        assert gateway.chat("scripted/any").status == 200, "and is none the worse for it"


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "a page": b"<html>Bad gateway</html>",
    "half of it": WHOLE[:-20],
    "a list": b"[1, 2, 3]",
    "null": b"null",
    "no UTF-8": b'{"choices": "\xff\xfe"}',
    "deep": b"[" * 200_000,
    "usage below zero": b'{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":-1}}',
    "usage beyond all": b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1}}' % 10**30,
    "usage of letters": b'{"choices":[],"usage":{"prompt_tokens":"all","completion_tokens":[]}}',
    "a usage that is none": b'{"choices":[],"usage":7}',
    "keys twice": b'{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":9},"choices":[]}',
}


@pytest.mark.parametrize("name", BODIES)
def test_an_answer_of_another_api_fails_in_translation(serve: Serve, name: str) -> None:
    """The same API passes what came; another cannot, and says so. Each is on the record."""
    body = BODIES[name]
    whole = b"%bcontent-length: %d\r\n\r\n%b" % (JSON_HEAD, len(body), body)
    with scripted_upstream(sends(whole)) as upstream:
        gateway = serve(upstream.settings)
        passed = gateway.chat("scripted/any")
        assert (passed.status, passed.content) == (200, body)
        assert gateway.chat("scripted/any", {"modelpact-report": "body"}).status == 200
        assert gateway.chat("scripted/any", stream=True).status in (200, 502)
        carried = gateway.message("scripted/any")
        assert carried.status in (200, 502), carried.content
        assert len(gateway.settled()) == 4
        assert gateway.chat("mock/demo").status == 200


@pytest.mark.parametrize("status", [204, 301, 302, 304, 400, 401, 418, 451, 500, 503, 599])
def test_any_status_with_any_body(serve: Serve, status: int) -> None:
    """A redirect is not followed: it would take the prompt and the key elsewhere."""
    where = b"location: http://127.0.0.1:9/elsewhere\r\n"
    page = b"" if status in (204, 304) else b"<h1>no</h1>"
    length = b"" if status in (204, 304) else b"content-length: %d\r\n" % len(page)
    with scripted_upstream(sends(b"HTTP/1.1 %d X\r\n%b%b\r\n%b" % (status, where, length, page))) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any")
        assert answer.status == (status if status != 304 else answer.status)
        assert gateway.message("scripted/any").status != 500 or status == 500
        assert upstream.taken == 2
        assert len(gateway.settled()) == 2


STREAMS: dict[str, bytes] = {
    "nothing": b"",
    "noise": b"\xff\x00\xfe" * 100,
    "no JSON": b"data: {nope\n\n" * 5,
    "null": b"data: null\n\n",
    "deep": b"data: " + b"[" * 100_000 + b"\n\n",
    "no UTF-8": b'data: {"choices": "\xff"}\n\n',
    "an event without end": b"data: " + b"x" * 3_000_000,
    "other fields": b"id: 1\nretry: 5\nevent: x\n\n: comment\n\n",
    "half an event": CHUNK + CHUNK[:40],
    "choices of letters": b'data: {"choices": "no", "usage": {"prompt_tokens": "x"}}\n\n',
    "a choice without anything": b'data: {"choices": [{}]}\n\n',
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_nonsense_ends_with_an_error(serve: Serve, name: str) -> None:
    with scripted_upstream(sends(STREAM_HEAD + b"\r\n" + STREAMS[name])) as upstream:
        gateway = serve(upstream.settings)
        passed = gateway.chat("scripted/any", stream=True)
        assert passed.status in (200, 502)
        assert b'"error"' in passed.content[-1_000:]
        assert b"[DONE]" not in passed.content
        carried = gateway.message("scripted/any", stream=True)
        assert carried.status in (200, 502)
        assert b'"error"' in carried.content[-1_000:]
        assert [state for state, _ in gateway.settled()] == ["failed", "failed"]


def test_a_silent_upstream_times_out(serve: Serve) -> None:
    """The time limit of the upstream ends the request, not the patience of the client."""
    release = threading.Event()

    def silent(connection: socket.socket) -> None:
        release.wait(30)

    with scripted_upstream(silent) as upstream:
        gateway = serve(upstream.settings)
        for stream in (False, True):
            answer = gateway.chat("scripted/any", stream=stream)
            assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
        assert gateway.message("scripted/any").status == 504
        release.set()
        assert [state for state, _ in gateway.settled()] == ["failed"] * 3


def test_a_stream_that_stalls_times_out(serve: Serve) -> None:
    release = threading.Event()

    def stops(connection: socket.socket) -> None:
        connection.sendall(STREAM_HEAD + b"\r\n" + CHUNK)
        release.wait(30)

    with scripted_upstream(stops) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any", stream=True)
        release.set()
        assert answer.text == "x"
        assert answer.events[-1][1]["error"]["code"] == "timeout"
        ((state, error),) = gateway.settled()
        assert state == "failed"
        assert (error or "").startswith("timeout")


def test_a_flapping_upstream(serve: Serve) -> None:
    """Now it answers, now it hangs up; whoever asks next is not the one who pays for it."""
    turns = itertools.cycle([sends(GOOD), sends(b""), sends(GOOD, stay=True), sends(JSON_HEAD)])
    with scripted_upstream(lambda connection: next(turns)(connection)) as upstream:
        gateway = serve(upstream.settings)
        statuses = [gateway.chat("scripted/any").status for _ in range(40)]
        assert statuses == [200, 502, 200, 502] * 10
        states = [state for state, _ in gateway.settled()]
        assert states == ["completed", "failed", "completed", "failed"] * 10


def test_an_upstream_that_comes_back_is_used_again(serve: Serve) -> None:
    """A request succeeds as soon as the upstream is back."""
    with scripted_upstream(sends(GOOD)) as upstream:
        gateway = serve(upstream.settings)
        assert gateway.chat("scripted/any").status == 200
        port = upstream.port
        upstream.close()
        for _ in range(3):
            answer = gateway.chat("scripted/any")
            assert (answer.status, answer.json["error"]["code"]) == (502, "unreachable")
        with socket.create_server(("127.0.0.1", port)) as again:
            again.settimeout(30)
            answers: list[Answer] = []
            asking = threading.Thread(target=lambda: answers.append(gateway.chat("scripted/any")))
            asking.start()
            connection, _ = again.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(GOOD)
            asking.join(30)
        assert [answer.status for answer in answers] == [200]


def test_a_connection_closed_while_idle_is_replaced(serve: Serve) -> None:
    """It says that it stays, and is gone when the next request comes."""
    with scripted_upstream(sends(GOOD)) as upstream:
        gateway = serve(upstream.settings)
        assert [gateway.chat("scripted/any").status for _ in range(30)] == [200] * 30
        assert upstream.taken == 30


def test_gateway_headers_of_upstreams_are_dropped(serve: Serve) -> None:
    lies = (
        b"modelpact-verdict: no\r\nModelpact-Cost-USD: 0\r\nmodelpact-invocation: x\r\n"
        b"set-cookie: a=b\r\nconnection: x-secret\r\nx-secret: 1\r\nkeep-alive: timeout=1\r\n"
    )
    whole = b"%b%bcontent-length: %d\r\n\r\n%b" % (JSON_HEAD, lies, len(WHOLE), WHOLE)
    with scripted_upstream(sends(whole)) as upstream:
        gateway = serve(upstream.settings)
        answer = gateway.chat("scripted/any", messages=HI)
        assert answer.status == 200
        assert answer.headers["modelpact-verdict"] == "yes"
        assert answer.headers["modelpact-invocation"] != "x"
        assert not {"set-cookie", "x-secret", "keep-alive"} & set(answer.headers)
