"""Bodies that two parsers could read differently, or nobody can read, are refused."""

import contextlib
import http.client
import json
from typing import Any

import pytest

from tests.gateway.support import RunningGateway

CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
PATHS = (*CHATS, "/v1/negotiate")
GOOD: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 10}
"""For chats; the other APIs find the same things wrong with it first."""


def good(**more: Any) -> str:
    return json.dumps({**GOOD, **more})


def inside(text: str) -> str:
    """A good body with more at the end of its object."""
    return f"{good()[:-1]}, {text}}}"


DEEP = 100_000
BAD: dict[str, tuple[str | bytes, str]] = {
    "nothing": (b"", "is not JSON"),
    "no JSON": ("model=gpt-4o", "is not JSON"),
    "half of it": (good()[:-5], "is not JSON"),
    "something after it": (good() + "{}", "is not JSON"),
    "two bodies": (good() + "\n" + good(), "is not JSON"),
    "a comment": (inside("/* hi */"), "is not JSON"),
    "single quotes": (good().replace('"', "'"), "is not JSON"),
    "a comma too many": (good()[:-1] + ",}", "is not JSON"),
    "a list": ("[" + good() + "]", "expected an object"),
    "a text": (json.dumps(good()), "expected an object"),
    "a key twice": (inside('"model": "claude-opus-4-5"'), "'model' occurs twice"),
    "the same key twice": (inside('"model": "gpt-4o"'), "'model' occurs twice"),
    "a key twice, once escaped": (inside('"m\\u006fdel": "claude-opus-4-5"'), "occurs twice"),
    "a key twice, far inside": (inside('"metadata": {"a": [{"b": 1, "b": 2}]}'), "'b' occurs twice"),
    "the model in capitals beside it": (inside('"MODEL": "gpt-4o-mini"'), "differ only in case"),
    "messages in other letters": (inside('"Messages": []'), "differ only in case"),
    "a long s": (inside('"me\u017f\u017fages": []'), "differ only in case"),
    "NaN": (inside('"temperature": NaN'), "is not JSON"),
    "infinity": (inside('"temperature": -Infinity'), "is not JSON"),
    "an endless number": (inside('"temperature": 1e999'), "too large"),
    "a number of 10,000 digits": (inside(f'"seed": {"9" * 10_000}'), ""),
    "half a character, escaped": (inside('"user": "\\ud800"'), "half a character"),
    "a control character": (inside('"user": "a\x00b"'), "is not JSON"),
    "Latin-1": (good(user="café").replace("\\u00e9", "é").encode("latin-1"), "is not UTF-8"),
    "half a character, in bytes": (inside('"user": "?"').encode().replace(b"?", b"\xed\xa0\x80"), "UTF-8"),
    "an overlong character": (inside('"user": "?"').encode().replace(b"?", b"\xc0\xaf"), "UTF-8"),
    "a byte too many": (good().encode() + b"\xff", "UTF-8"),
    "UTF-16": (good().encode("utf-16"), "UTF-8"),
    "UTF-16 without a mark": (good().encode("utf-16-le"), "is not JSON"),
    "UTF-32": (good().encode("utf-32"), "UTF-8"),
    "a mark before UTF-8": (b"\xef\xbb\xbf" + good().encode(), "byte order mark"),
    "deep lists": (inside(f'"metadata": {"[" * DEEP}{"]" * DEEP}'), "nested too deeply"),
    "deep objects": (inside('"metadata": ' + '{"a": ' * DEEP + "1" + "}" * DEEP), "nested too deeply"),
    "deep and open": ("[" * DEEP, "nested too deeply"),
    "no model": ('{"messages": [{"role": "user", "content": "Hi"}]}', "model"),
    "a model that is no text": (good(model=["gpt-4o"]), "model"),
    "an empty model": (good(model=""), "model"),
}


@pytest.mark.parametrize("path", PATHS)
def test_ambiguous_bodies_are_refused(gateway: RunningGateway, path: str) -> None:
    """MP-A9: malformed JSON, duplicate keys, invalid UTF-8 and deep nesting are errors."""
    for name, (body, expected) in BAD.items():
        content = body if isinstance(body, bytes) else body.encode()
        answer = gateway.ask(path, content)
        assert answer.status == 400, (name, answer.content)
        message = answer.json["error"]["message"]
        assert expected in message, (name, message)
        assert len(message) < 500, name
    assert not gateway.openai.requests
    assert not gateway.invocations()


@pytest.mark.parametrize("path", CHATS)
def test_an_oversize_body_is_refused(gateway: RunningGateway, path: str) -> None:
    """By its stated length, before any of it is read; a chunked one as soon as it is too long."""
    most = 32 * 1024 * 1024
    stated = gateway.ask(path, b"x" * 10, {"content-length": str(most + 1)})
    assert stated.status == 413
    assert not gateway.openai.requests


def test_wide_and_deep_bodies_pass(gateway: RunningGateway) -> None:
    """What is only large goes through as it is."""
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    wide = {f"k{n}": n for n in range(2_000)}
    schema = {"type": "object", "properties": {}, "default": [nested, wide]}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    answer = gateway.chat("gpt-4o", tools=[tool])
    assert answer.status == 200, answer.content
    assert gateway.openai.bodies[-1]["tools"] == [tool]


def test_whitespace_and_escapes_are_forwarded_unchanged(gateway: RunningGateway) -> None:
    spread = json.dumps(json.loads(good()), indent=4).replace("Hi", "\\u0048i").encode()
    assert gateway.ask("/v1/chat/completions", b" \r\n\t" + spread + b"\n ").status == 200


@pytest.mark.parametrize("path", CHATS)
def test_an_oversize_chunked_body_is_refused_in_the_format_of_the_api(gateway: RunningGateway, path: str) -> None:
    """Its length is known only while it arrives."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    with contextlib.closing(connection):
        chunks = (b" " * 1_048_576 for _ in range(33))
        with contextlib.suppress(ConnectionError):  # the gateway may stop reading before the end
            headers = {"authorization": f"Bearer {gateway.key}"}
            connection.request("POST", path, chunks, headers, encode_chunked=True)
        response = connection.getresponse()
        content = response.read()
    assert response.status == 413
    assert json.loads(content)["error"]["message"]
    assert not gateway.openai.requests
