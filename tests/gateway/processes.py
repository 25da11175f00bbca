"""`modelpact serve` as a process, a plain client for it, and an upstream that can wait."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from modelpact.wire import HttpRequest, HttpResponse, Server, serve

TOKEN = "t" * 16
CHAT = "/v1/chat/completions"


def until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


class Upstream:
    """An upstream with the chat API. While `held`, its responses start and wait for `release`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held = False
        self.release = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self._server: Server | None = None

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.port}/v1"

    @property
    def connections(self) -> int:
        assert self._server is not None
        return self._server.connections

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        body = json.loads(await request.body())
        self.seen.append({**body, "peer": request.peer})
        wait = self.held
        if body.get("stream"):
            return HttpResponse(200, {"content-type": "text/event-stream"}, self._events(wait))
        if wait:
            await asyncio.to_thread(self.release.wait, 60)
        message = {"role": "assistant", "content": self.name}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        data = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
        whole = {**data, "choices": [choice], "usage": usage}
        return HttpResponse(200, {"content-type": "application/json"}, json.dumps(whole).encode())

    async def _events(self, wait: bool) -> AsyncIterator[bytes]:
        yield _event({"role": "assistant", "content": self.name})
        if wait:
            await asyncio.to_thread(self.release.wait, 60)
        yield _event({}, "stop")
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        yield _data({**_CHUNK, "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["Upstream"]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()

        async def start() -> None:
            self._server = await serve(self._answer, "127.0.0.1", 0)

        async def stop() -> None:
            assert self._server is not None
            await self._server.aclose()

        try:
            asyncio.run_coroutine_threadsafe(start(), loop).result(30)
            yield self
        finally:
            self.release.set()
            asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)
            loop.close()


_CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _data({**_CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


class Process:
    """A gateway in its own process."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "modelpact", "serve", "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "MODELPACT_TOKEN": TOKEN, "MODELPACT_DATA": str(folder / "data"), **environment},
        )
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        assert lines, self._process.communicate(timeout=30)[1]
        self.url = json.loads("".join(lines))["url"]
        self.port = int(self.url.rpartition(":")[2])
        self._reading = threading.Thread(target=self._read_errors, daemon=True)
        self._reading.start()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self.errors.extend(self._process.stderr)

    def memory(self) -> int:
        """Return the resident memory of the process, in KiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1])

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def reload(self, expected: str = "the configuration was reloaded") -> str:
        """Send SIGHUP and wait for the message of the process."""
        before = len(self.errors)
        self.signal(signal.SIGHUP)
        until(lambda: len(self.errors) > before, "the reload is reported")
        message = "".join(self.errors[before:])
        assert expected in message, message
        return message

    def wait(self, seconds: float = 60.0) -> int:
        return self._process.wait(seconds)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON."""
        with contextlib.closing(self.open(method, path, body, **headers)) as connection:
            response = connection.getresponse()
            data = response.read()
            kind = response.headers.get("content-type", "")
            content = json.loads(data) if data and "json" in kind else data.decode()
            received = {name.lower(): value for name, value in response.headers.items()}
            return response.status, received, content

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPConnection:
        """Send a request; the caller reads the response and closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body).encode() if body is not None else None
        connection.request(method, path, data, sent)
        return connection

    def chat(self, model: str, **more: Any) -> tuple[int, dict[str, str], Any]:
        return self.ask("POST", CHAT, chat_body(model, **more))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reading.join(30)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def chat_body(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "Hi"}], **more}


@contextlib.contextmanager
def started(folder: Path, *options: str, **environment: str) -> Iterator[Process]:
    """Start the gateway in a folder that has a `modelpact.toml`."""
    process = Process(folder, *options, **environment)
    try:
        yield process
    finally:
        process.kill()


def stream_text(data: bytes) -> str:
    """Return the text of a stream's chunks."""
    text = ""
    for line in data.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
    return text
