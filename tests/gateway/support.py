"""A gateway in a thread, with fake upstreams behind it, and a plain client for it."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelpact.configuration import Configuration, read_configuration
from modelpact.gateway.key_store import create_key
from modelpact.gateway.keys import KeySettings
from modelpact.gateway.server import serve_gateway
from modelpact.gateway.service import Gateway
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.providers.runtime.lookup import list_in_events
from modelpact.wire import EventParser
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import FakeOpenAI

UPSTREAM_KEYS = {"OPENAI_API_KEY": "o" * 24, "ANTHROPIC_API_KEY": "a" * 24}
"""The keys that the fake upstreams expect, and that no client may see."""
PATHS = {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
BASE = """
[providers.openai]
base_url = {openai}
api_key = {{ env = "OPENAI_API_KEY" }}
[providers.anthropic]
base_url = {anthropic}
api_key = {{ env = "ANTHROPIC_API_KEY" }}
[providers.local]
kind = "vllm"
base_url = {openai}
api_key = {{ env = "OPENAI_API_KEY" }}
[models."openai/text-only"]
tool_calling = false
structured_output = false
image_input = false
reasoning = false
streaming = true
context_window = 8192
max_output = 4096
"""
HI: Any = [{"role": "user", "content": "Hi"}]
ANSWER_TIME = 30.0


@dataclass
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The events of a stream: their names and data."""
        return [
            (event.event, event.data if event.data == "[DONE]" else json.loads(event.data))
            for event in EventParser().feed(self.content)
        ]

    @property
    def text(self) -> str:
        """The text of the model, in either API, whole or streamed."""
        if self.headers["content-type"].startswith("text/event-stream"):
            return "".join(map(_text_of, (data for _, data in self.events)))
        if "choices" in self.json:
            return str(self.json["choices"][0]["message"]["content"])
        return "".join(block.get("text", "") for block in self.json["content"])


def _text_of(data: Any) -> str:
    if data == "[DONE]":
        return ""
    if "choices" in data:
        return "".join(choice["delta"].get("content") or "" for choice in data["choices"])
    text: str = data.get("delta", {}).get("text", "")
    return text


class RunningGateway:
    """A gateway that serves, with a client for it and access to its records."""

    def __init__(
        self,
        url: str,
        gateway: Gateway,
        openai: FakeOpenAI,
        anthropic: FakeAnthropic,
        path: Path,
        key: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.url = url
        self.gateway = gateway
        self.ledger = gateway.ledger
        self.openai = openai
        self.anthropic = anthropic
        self.path = path
        self.key = key
        self.loop = loop

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """Call a function on the event loop of the gateway."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(ANSWER_TIME)

    def on_loop_async(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await a coroutine on the event loop of the gateway."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(ANSWER_TIME)

    def new_key(self, name: str = "a", **settings: Any) -> str:
        """Create a key that the gateway knows at once."""
        _, secret = create_key(self.ledger, name, KeySettings(**settings))
        self.on_loop(self.gateway.load_keys)
        return secret

    def ask(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
        key: str | None = None,
    ) -> Answer:
        """Send a request and read its response."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {"authorization": f"Bearer {key or self.key}", "content-type": "application/json"}
        host, _, port = self.url.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_TIME)
        with contextlib.closing(connection):
            sent = None if body is None else content
            connection.request(method, path, sent, {**own, **(headers or {})})
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, received, response.read())

    def chat(self, model: str, headers: Mapping[str, str] | None = None, key: str = "", **body: Any) -> Answer:
        """Send a request of OpenAI's chat API."""
        request = {"model": model, "messages": HI, **body}
        return self.ask("/v1/chat/completions", request, headers, key=key or None)

    def message(self, model: str, headers: Mapping[str, str] | None = None, key: str = "", **body: Any) -> Answer:
        """Send a request of Anthropic's API."""
        request = {"model": model, "messages": HI, "max_tokens": 100, **body}
        versioned = {"anthropic-version": "2023-06-01", **(headers or {})}
        return self.ask("/v1/messages", request, versioned, key=key or None)

    def wait_until(self, met: Callable[[], bool]) -> None:
        """Wait for a condition that becomes true after a response was sent."""
        deadline = time.monotonic() + ANSWER_TIME
        while not met():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.005)

    def invocations(self) -> list[tuple[str, str, str | None]]:
        """Every invocation: its id, state and error, in order."""
        invocations, _ = list_in_events(self.ledger, "", "", 10_000)
        return [(invocation.id, invocation.state, invocation.error) for invocation in reversed(invocations)]

    def settled(self) -> list[tuple[str, str | None]]:
        """The states and errors of all invocations, once none is open."""
        outcomes: list[tuple[str, str, str | None]] = []

        def ended() -> bool:
            outcomes[:] = self.invocations()
            return all(state != "open" for _, state, _ in outcomes)

        self.wait_until(ended)
        return [(state, error) for _, state, error in outcomes]

    def gauge(self, name: str) -> int:
        """A gauge of `/metrics`."""
        text = self.ask("/metrics", None, method="GET").content.decode()
        (line,) = [line for line in text.splitlines() if line.startswith(f"modelpact_{name} ")]
        return int(line.rpartition(" ")[2])

    def wait_until_idle(self) -> None:
        """Wait until no other client is connected and no request is open."""
        self.wait_until(lambda: self.gauge("connections") == 1)
        self.wait_until(lambda: self.gauge("requests_under_way") == 0)

    def events(self, kind: str = "") -> list[Event]:
        """The events in the gateway's own envelopes."""
        rows = self.ledger.read("SELECT id FROM envelopes WHERE kind = 'gateway' ORDER BY id")
        events = [event for row in rows for event in self.ledger.events(row[0])]
        return [event for event in events if not kind or event.type == kind]


def configured(openai: FakeOpenAI, anthropic: FakeAnthropic, more: str = "") -> str:
    """Return the configuration of a gateway with the fakes as upstreams."""
    addresses = {"openai": json.dumps(openai.base_url), "anthropic": json.dumps(anthropic.base_url)}
    return BASE.format(**addresses) + more


@contextlib.contextmanager
def gateway_running(folder: Path, more: str = "", clock: Callable[[], int] = time.time_ns) -> Iterator[RunningGateway]:
    """Serve a gateway; `more` is added to the usual configuration."""
    path = folder / "ledger.db"
    openai = FakeOpenAI(key=UPSTREAM_KEYS["OPENAI_API_KEY"])
    anthropic = FakeAnthropic(key=UPSTREAM_KEYS["ANTHROPIC_API_KEY"])
    with openai.in_thread(), anthropic.in_thread(), Ledger.open(f"sqlite:{path}", clock=clock) as ledger:
        configuration = read_configuration(configured(openai, anthropic, more))
        _, key = create_key(ledger, "test", KeySettings())
        with _served(ledger, configuration) as (url, gateway, loop):
            yield RunningGateway(url, gateway, openai, anthropic, path, key, loop)


@contextlib.contextmanager
def _served(ledger: Ledger, configuration: Configuration) -> Iterator[tuple[str, Gateway, asyncio.AbstractEventLoop]]:
    loop = asyncio.new_event_loop()
    started = threading.Event()
    running: dict[str, Any] = {}

    async def run() -> None:
        stop = running["stop"] = asyncio.Event()
        serving = serve_gateway(ledger, configuration, environment=dict(UPSTREAM_KEYS), grace=1.0)
        async with serving as served:
            running["served"] = served
            started.set()
            await stop.wait()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:
            running["error"] = error
            raise
        finally:
            started.set()
            loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(ANSWER_TIME)
    if "error" in running:
        raise running["error"]
    try:
        yield running["served"].url, running["served"].gateway, loop
    finally:
        loop.call_soon_threadsafe(running["stop"].set)
        thread.join(ANSWER_TIME)
        assert not thread.is_alive()
