"""Smuggled requests, lookalike paths and other people's keys do not get through."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from modelpact.gateway.key_store import revoke_key
from modelpact.gateway.keys import digest
from tests.gateway.support import HI, Answer, RunningGateway, gateway_running
from tests.wire.test_hostile_clients import SMUGGLING

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "gpt-4o", "messages": HI}).encode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One for all: none of this may leave a trace."""
    more = (
        '[gateway.aliases]\nfast = "openai/gpt-4o-mini"\n'
        '[workloads.extract]\nmodel = "anthropic/claude-opus-4-5"\nneeds = []\n'
        '[workloads.moves]\nmodel = "openai/text-only"\nneeds = ["tools"]\n'
        'fallback = "anthropic/claude-opus-4-5"\n'
    )
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway_running(folder, more) as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_sent(gateway: RunningGateway) -> Iterator[None]:
    before = len(gateway.openai.requests) + len(gateway.anthropic.requests)
    yield
    assert len(gateway.openai.requests) + len(gateway.anthropic.requests) == before


def exchange(gateway: RunningGateway, data: bytes) -> bytes:
    """Send bytes, and read all that comes back until the gateway closes."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while part := connection.recv(65_536):
            got += part
    return got


def answers(got: bytes) -> int:
    return got.count(b"\r\ndate: ")


def head(gateway: RunningGateway, *lines: str, path: str = CHAT) -> bytes:
    sent = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
    return (sent + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def hidden(gateway: RunningGateway) -> bytes:
    """A request that would be served, were it read as one."""
    return head(gateway, f"Content-Length: {len(BODY)}") + BODY


@pytest.mark.parametrize("name", SMUGGLING)
def test_malformed_http_is_refused(gateway: RunningGateway, name: str) -> None:
    """Or it is refused for its key, before its body is looked at."""
    status, data = SMUGGLING[name]
    got = exchange(gateway, data + hidden(gateway))
    assert got.startswith((b"HTTP/1.1 %d " % status, b"HTTP/1.1 401 ")), got
    assert answers(got) == 1


CHUNKED_BODY = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
FRAMINGS: Mapping[str, tuple[tuple[str, ...], bytes]] = {
    "a length that hides a request": (
        (f"Content-Length: {len(CHUNKED_BODY)}", "Transfer-Encoding: chunked"),
        b"0\r\n\r\n",
    ),
    "chunks that hide a request": (("Transfer-Encoding: chunked", "Content-Length: 5"), CHUNKED_BODY),
    "chunks under another name": (("Transfer-Encoding: xchunked",), CHUNKED_BODY),
    "chunks after a tab": (("Transfer-Encoding:\tchunked, identity",), CHUNKED_BODY),
    "chunks on a folded line": (("Transfer-Encoding:", " chunked"), CHUNKED_BODY),
    "a length on a folded line": (("Content-Length: 1", f" {len(BODY)}"), BODY),
    "a key on a folded line": (("X-Api-Key: a", " b", f"Content-Length: {len(BODY)}"), BODY),
    "a length after a bare LF": ((f"X: y\nContent-Length: {len(BODY)}",), BODY),
    "a length after a bare CR": ((f"X: y\rContent-Length: {len(BODY)}",), BODY),
    "a space before the colon": ((f"Content-Length : {len(BODY)}",), BODY),
    "two lengths": (("Content-Length: 0", f"Content-Length: {len(BODY)}"), BODY),
    "a length with a sign": ((f"Content-Length: +{len(BODY)}",), BODY),
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_request_smuggling_is_refused(gateway: RunningGateway, name: str) -> None:
    """MP-A9: there is one response, a refusal, and the connection ends with it."""
    lines, body = FRAMINGS[name]
    got = exchange(gateway, head(gateway, *lines) + body + hidden(gateway))
    assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")), got
    assert answers(got) == 1


def test_header_injection_does_not_reach_the_upstream(gateway: RunningGateway) -> None:
    """What clients say in headers that are passed on cannot end the line that it stands in."""
    for sign in ("\r\n", "\n", "\r", "\0"):
        line = f"anthropic-beta: a{sign}x-api-key: stolen"
        got = exchange(gateway, head(gateway, line.replace("\r\n", "\n"), path="/v1/messages"))
        assert got.startswith(b"HTTP/1.1 400 "), got


CLOSED = [
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat/completions/",
    "/v1/chat/completions/.",
    "/v1/./chat/completions",
    "/v1/../v1/chat/completions",
    "/healthz/../v1/chat/completions",
    "/v1/%63hat/completions",
    "/v1/chat%2fcompletions",
    "/v1/chat/completions%00",
    "/v1/chat/completions;x=1",
    "/V1/CHAT/COMPLETIONS",
    "/v1/chat/completions%20",
    "/v1/chat/completions.json",
    "/openai/v1/chat/completions",
    "/v1/engines/gpt-4o/completions",
]


@pytest.mark.parametrize("path", CLOSED)
def test_lookalike_paths_are_not_found(gateway: RunningGateway, path: str) -> None:
    """MP-A9: with a key the path is not found, without one it is unauthorized."""
    assert gateway.ask(path, BODY).status in (400, 404)
    assert gateway.ask(path, BODY, {"authorization": ""}).status in (400, 401, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/v1/models/gpt-4o",
        "/v1/models/..%2f..%2fhealthz",
        "/v1/models/%2e%2e/healthz",
        "/metrics",
        "/metrics?x=/healthz",
        "/v1/capabilities",
        "/openapi.json",
        "/v1/models/gpt-4o%00/healthz",
        "/healthz%2f..%2fmetrics",
        "/healthz;/metrics",
    ],
)
def test_every_path_needs_a_key(gateway: RunningGateway, path: str) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        answer = gateway.ask(path, None, {"authorization": ""}, method=method)
        assert answer.status in (400, 401, 404, 405), (method, answer.status)


def test_other_methods_are_not_allowed(gateway: RunningGateway) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        override = {"x-http-method-override": "POST"}
        assert gateway.ask(CHAT, BODY, override, method=method).status == 405, method


def ask_with(gateway: RunningGateway, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return gateway.ask(CHAT, BODY, {"authorization": "", **fields})


def test_malformed_keys_are_unauthorized(gateway: RunningGateway) -> None:
    """MP-A9: only the exact key is accepted."""
    secret = gateway.new_key("victim")
    key = gateway.gateway.keys.find(secret)
    assert key is not None
    near = [
        secret.swapcase(),
        secret.upper(),
        secret[:-1],
        secret + "x",
        secret.removeprefix("mp-"),
        f'"{secret}"',
        f"{secret},{secret}",
        f"{secret} {secret}",
        f"no {secret}",
        digest(secret),
        key.id,
        key.name,
        "operator",
        "*",
        "' OR 1=1 --",
        "%",
        "null",
    ]
    for guess in near:
        assert ask_with(gateway, authorization=f"Bearer {guess}").status == 401, guess
        assert ask_with(gateway, x_api_key=guess).status == 401, guess
    for scheme in ("Basic", "Token", "Digest", "BearerX"):
        assert ask_with(gateway, authorization=f"{scheme} {secret}").status == 401
    assert ask_with(gateway, authorization=secret).status == 401


def test_a_key_in_another_place_is_unauthorized(gateway: RunningGateway) -> None:
    """Addresses end up in logs: a key in one is not looked at."""
    for query in (f"key={gateway.key}", f"api_key={gateway.key}", f"api-key={gateway.key}"):
        answer = gateway.ask(f"{CHAT}?{query}", BODY, {"authorization": ""})
        assert answer.status == 401
    named = {"cookie": f"authorization=Bearer {gateway.key}", "proxy-authorization": "Bearer x"}
    assert gateway.ask(CHAT, BODY, {"authorization": "", **named}).status == 401
    inside = json.dumps({"model": "gpt-4o", "messages": HI, "api_key": gateway.key}).encode()
    assert gateway.ask(CHAT, inside, {"authorization": ""}).status == 401


def test_a_valid_key_does_not_excuse_an_invalid_one(gateway: RunningGateway) -> None:
    """Who stands in front may have looked at the other."""
    other = gateway.new_key("other")
    assert ask_with(gateway, authorization=f"Bearer {gateway.key}", x_api_key="no").status == 401
    twice = (f"Authorization: Bearer {other}", f"Content-Length: {len(BODY)}")
    assert exchange(gateway, head(gateway, *twice) + BODY).startswith(b"HTTP/1.1 400 ")


def test_a_revoked_key_is_refused_on_an_open_connection(gateway: RunningGateway) -> None:
    """What was once let in by a connection is asked for its key again with each request."""
    secret = gateway.new_key("leaver")
    host = gateway.url.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:

        def status() -> int:
            connection.request("GET", "/v1/models", headers={"x-api-key": secret})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        assert status() == 200
        revoke_key(gateway.ledger, "leaver")
        gateway.on_loop(gateway.gateway.load_keys)
        assert status() == 401


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("anthropic/claude-opus-4-5", {}),
        ("claude-opus-4-5", {}),
        ("Anthropic/claude-opus-4-5", {}),
        ("claude/claude-opus-4-5", {}),
        ("workload/extract", {}),
        ("workload/moves", {}),
        ("openai/gpt-4o", {"modelpact-workload": "extract"}),
        ("openai/gpt-4o", {"modelpact-workload": "moves"}),
        ("workload/../openai/gpt-4o", {}),
        (" openai/gpt-4o", {}),
        ("openai/gpt-4o\n", {}),
        ("mock/demo", {}),
    ],
)
def test_no_spelling_of_a_name_bypasses_the_models_of_a_key(
    gateway: RunningGateway, name: str, headers: dict[str, str]
) -> None:
    secret = gateway.new_key("narrow", models=("openai/gpt-4o",))
    for path in (CHAT, "/v1/messages", "/v1/negotiate"):
        body = {"model": name, "messages": HI, "max_tokens": 5}
        answer = gateway.ask(path, body, headers, key=secret)
        assert answer.status in (403, 404), (path, answer.content)


def test_the_rate_cannot_be_bypassed(gateway: RunningGateway) -> None:
    """Every API takes from the same rate, also what is refused."""
    secret = gateway.new_key("slow", rate=3)
    bad = {"model": "nobodys", "messages": HI, "input": "x", "max_tokens": 5}
    paths = (CHAT, "/v1/messages", "/v1/responses", "/v1/embeddings", CHAT)
    statuses = [gateway.ask(path, bad, key=secret).status for path in paths]
    assert statuses == [404, 404, 404, 429, 429]


def test_no_spelling_loosens_the_policy(gateway: RunningGateway) -> None:
    for text in ("emulate=on", "EMULATE=ON", "emulate = on", "emulate=off, emulate=on", "lossy=on"):
        answer = gateway.ask(CHAT, BODY, {"modelpact-policy": text})
        assert answer.status == 400, text


def test_the_first_of_two_keys_counts(gateway: RunningGateway) -> None:
    """A proxy in front may look at the one, and the gateway at the other."""
    lines = (f"X-Api-Key: {gateway.key}", f"X-Api-Key: {gateway.key}x")
    got = exchange(gateway, head(gateway, *lines, f"Content-Length: {len(BODY)}") + BODY)
    assert got.startswith(b"HTTP/1.1 400 ")


def test_two_policy_headers_both_apply(gateway: RunningGateway) -> None:
    lines = ("modelpact-policy: fallback=off", "modelpact-policy: emulate=on")
    got = exchange(gateway, head(gateway, *lines, f"Content-Length: {len(BODY)}") + BODY)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"emulate can only be made stricter" in got


def test_two_workload_headers_are_refused(gateway: RunningGateway) -> None:
    """The policy of one must not go with the needs of the other."""
    lines = ("modelpact-workload: extract", "modelpact-workload: moves")
    got = exchange(gateway, head(gateway, *lines, f"Content-Length: {len(BODY)}") + BODY)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"sent with different values, 'extract' and 'moves'" in got
    for path in (CHAT, "/v1/negotiate"):
        fields = {"model": "workload/moves", "messages": HI}
        answer = gateway.ask(path, fields, {"modelpact-workload": "extract"})
        assert answer.status == 400
        message = answer.json["error"]["message"]
        assert "the model and the header name different ones: 'moves' and 'extract'" in message
    same = gateway.ask(
        "/v1/negotiate", {"model": "workload/extract", "messages": HI}, {"modelpact-workload": "extract"}
    )
    assert same.status == 200
