"""SIGHUP: a new configuration is applied while requests and streams are open."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.processes import CHAT, TOKEN, Upstream, chat_body, started, stream_text, until


def configuration(**providers: Upstream) -> str:
    lines = ['[policy]\nunknown = "probe"']
    for name, upstream in providers.items():
        lines.append(f'[providers.{name}]\nkind = "openai"\nbase_url = "{upstream.base_url}"')
    return "\n".join(lines)


@pytest.fixture
def upstreams() -> Iterator[tuple[Upstream, Upstream]]:
    with Upstream("one").in_thread() as first, Upstream("two").in_thread() as second:
        yield first, second


def test_open_requests_end_under_the_old_configuration(upstreams: tuple[Upstream, Upstream], tmp_path: Path) -> None:
    """A request and a stream to a provider that the new file does not have; none is dropped."""
    first, second = upstreams
    file = tmp_path / "modelpact.toml"
    file.write_text(configuration(here=first))
    with started(tmp_path) as gateway, contextlib.ExitStack() as stack:
        first.held = True
        streaming = gateway.open("POST", CHAT, chat_body("here/gpt-4o", stream=True))
        stack.callback(streaming.close)
        stream = streaming.getresponse()
        assert b"one" in stream.readline()
        waiting = gateway.open("POST", CHAT, chat_body("here/gpt-4o"))
        stack.callback(waiting.close)
        until(lambda: len(first.seen) == 2, "both are at the upstream")

        file.write_text(configuration(there=second))
        gateway.reload()
        status, _, answer = gateway.chat("there/gpt-4o")
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "two")
        status, _, answer = gateway.chat("here/gpt-4o")
        assert status == 404, answer

        first.release.set()
        answered = waiting.getresponse()
        assert answered.status == 200
        assert json.loads(answered.read())["choices"][0]["message"]["content"] == "one"
        rest = stream.read()
        assert rest.rstrip().endswith(b"data: [DONE]")
        until(lambda: first.connections == 0, "nothing is kept open to who is not used any more")


def test_connections_to_unchanged_providers_stay_open(upstreams: tuple[Upstream, Upstream], tmp_path: Path) -> None:
    first, second = upstreams
    file = tmp_path / "modelpact.toml"
    file.write_text(configuration(same=first, other=second))
    with started(tmp_path) as gateway:
        for name in ("same", "other"):
            assert gateway.chat(f"{name}/gpt-4o")[0] == 200
        file.write_text(configuration(same=first, other=second) + "\ntimeout = 5.0\n")
        gateway.reload()
        until(lambda: second.connections == 0, "the changed one's free connection is closed")
        assert first.connections == 1
        for name in ("same", "other"):
            assert gateway.chat(f"{name}/gpt-4o")[0] == 200
        peers = [[body["peer"] for body in each.seen] for each in (first, second)]
        assert peers[0][0] == peers[0][1], "the same connection"
        assert peers[1][0] != peers[1][1]


def test_an_invalid_file_is_reported_and_changes_nothing(upstreams: tuple[Upstream, Upstream], tmp_path: Path) -> None:
    first, _ = upstreams
    file = tmp_path / "modelpact.toml"
    file.write_text(configuration(here=first))
    with started(tmp_path) as gateway:
        wrong = (
            ("[gateway]\nlosy = true\n", "losy"),
            ("not toml", "not TOML"),
            ('[host]\npacks = ["nowhere.toml"]\n', "nowhere.toml"),
        )
        for text, named in wrong:
            file.write_text(text)
            reported = gateway.reload("the configuration is unchanged")
            assert named in reported
            assert gateway.chat("here/gpt-4o")[0] == 200


def test_the_settings_of_the_host_are_reloaded(tmp_path: Path) -> None:
    file = tmp_path / "modelpact.toml"
    file.write_text("")
    (tmp_path / "pack.toml").write_text('name = "acme"\nversion = "1.0.0"\n[[nodes]]\ntypeId = "vendor.acme.plain"\n')
    with started(tmp_path) as gateway:

        def offered() -> tuple[bool, bool]:
            _, _, nodes = gateway.ask("GET", "/v1/host/sample/node-catalog")
            _, _, discovery = gateway.ask("GET", "/.well-known/openwop")
            names = [node["typeId"] for node in nodes["nodes"]]
            return "vendor.acme.plain" in names, discovery["modelCapabilities"]["supported"]

        assert offered() == (False, True)
        file.write_text('[host]\npacks = ["pack.toml"]\ngating = false\n')
        gateway.reload()
        assert offered() == (True, False)


def test_settings_that_need_a_restart_are_reported(tmp_path: Path) -> None:
    """Every time, until then; not that the file says what is so already."""
    file = tmp_path / "modelpact.toml"
    file.write_text('[store]\nurl = "sqlite:one.db"\n[gateway]\nname = "a"\n')
    with started(tmp_path) as gateway:
        file.write_text('[store]\nurl = "sqlite:two.db"\n[gateway]\nname = "b"\n[host]\nname = "c"\n')
        warnings = [
            "modelpact: warning: [store] url has changed: it takes effect after a restart\n",
            'modelpact: warning: [gateway] name: still "a", "b" after a restart\n',
            'modelpact: warning: [host] name: still "a", "c" after a restart\n',
        ]
        for whole in (4, 8):
            gateway.reload()
            until(lambda: len(gateway.errors) % 4 == 0, "all is told")
            assert len(gateway.errors) == whole
            assert gateway.errors[-3:] == warnings
        before = len(gateway.errors)
        file.write_text('[store]\nurl = "sqlite:one.db"\n[gateway]\nname = "a"\n')
        gateway.reload()
        gateway.reload()
        assert "restart" not in "".join(gateway.errors[before:])
    with started(tmp_path, "--store", f"sqlite:{tmp_path}/three.db") as gateway:
        file.write_text('[store]\nurl = "sqlite:two.db"\n[gateway]\nname = "a"\n')
        gateway.reload()
        gateway.reload()
        assert "restart" not in "".join(gateway.errors)


def test_the_operators_token_can_change(tmp_path: Path) -> None:
    file, secret = tmp_path / "modelpact.toml", tmp_path / "token"
    secret.write_text(TOKEN)
    file.write_text('[host]\ntoken = { file = "token" }\n')
    with started(tmp_path) as gateway:
        assert gateway.chat("mock/demo")[0] == 200
        secret.write_text("n" * 16)
        gateway.reload()
        assert gateway.chat("mock/demo")[0] == 401
        fresh = f"Bearer {'n' * 16}"
        status, _, _ = gateway.ask("POST", CHAT, chat_body("mock/demo"), authorization=fresh)
        assert status == 200


def test_streams_carry_the_text_of_their_upstream(upstreams: tuple[Upstream, Upstream], tmp_path: Path) -> None:
    first, _ = upstreams
    (tmp_path / "modelpact.toml").write_text(configuration(here=first))
    with started(tmp_path) as gateway:
        _, headers, text = gateway.chat("here/gpt-4o", stream=True)
        assert headers["content-type"].startswith("text/event-stream")
        assert stream_text(text.encode()) == "one"
