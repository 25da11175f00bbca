"""What the fakes share: they listen, remember what they saw, and send answers well or badly."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from modelpact.wire import HttpRequest, HttpResponse, Server, serve
from tests.fakes.behaviours import Behaviour
from tests.fakes.replies import Fail, Fault, Reply, Script, Scripted

JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


@dataclass(frozen=True)
class Seen:
    """A request that a fake has seen, whether it took it or not."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Refusal(Exception):
    """An error answer, decided while a request is looked at."""

    def __init__(self, fail: Fail, param: str | None = None) -> None:
        self.fail = fail
        self.param = param
        super().__init__(fail.message)


class Broken(Exception):
    """Raised to break a connection; the wire's server closes it."""


class FakeServer:
    """A server on a port of its own: `async with FakeOpenAI() as fake`, or `fake.in_thread()`.

    `requests` are those that it has seen; `gone` counts answers whose reader left early. With `tls`
    it speaks HTTPS.
    """

    prefix = ""
    tls: ssl.SSLContext | None = None

    def __init__(
        self, script: Script = (), *, key: str = "", piece: int = 7, behaviour: Behaviour | None = None
    ) -> None:
        self.script = Scripted(script, behaviour)
        self.key = key
        self.piece = piece
        self.requests: list[Seen] = []
        self.contents: list[bytes] = []
        """The bodies as they came, byte for byte."""
        self.gone = 0
        self.hold: tuple[threading.Event, threading.Event] | None = None
        """Says that a request is there, and waits to be let go on."""
        self._server: Server | None = None
        self._count = 0

    @property
    def port(self) -> int:
        assert self._server is not None, "the fake is not running"
        return self._server.port

    @property
    def base_url(self) -> str:
        """The address that clients of the API are given."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}{self.prefix}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        assert self._server is not None
        return self._server.connections

    @property
    def bodies(self) -> list[Any]:
        """The bodies that it has seen."""
        return [request.body for request in self.requests]

    async def __aenter__(self) -> Self:
        self._server = await serve(self._handle, "127.0.0.1", 0, tls=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.aclose()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[Self]:
        """Serve from a thread, for clients that block."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result(10)
            try:
                yield self
            finally:
                leaving = self.__aexit__(None, None, None)
                asyncio.run_coroutine_threadsafe(leaving, loop).result(10)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    def number(self) -> int:
        """Return the next number for an id."""
        self._count += 1
        return self._count

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        content = await request.body()
        self.contents.append(content)
        try:
            body = json.loads(content) if content else None
            readable = True
        except ValueError:
            body, readable = content, False
        self.requests.append(Seen(request.method, request.path, dict(request.headers), body))
        if self.hold is not None:
            held, release = self.hold
            held.set()
            await asyncio.to_thread(release.wait, 30)
        try:
            return await self.answer(request, body, readable)
        except Refusal as refusal:
            return self.refuse(refusal.fail, refusal.param)

    async def answer(self, request: HttpRequest, body: Any, readable: bool) -> HttpResponse:
        """Answer a request, or raise `Refusal`."""
        raise NotImplementedError

    def refuse(self, fail: Fail, param: str | None = None) -> HttpResponse:
        """Write an error answer in the API's words."""
        raise NotImplementedError

    async def next_reply(self, body: dict[str, Any]) -> Reply:
        """Return the next reply of the script; errors among them are raised."""
        step = self.script.next(body)
        if isinstance(step, Fail):
            raise Refusal(step)
        if step.fault is not None and step.fault.kind == "hang" and step.fault.after < 0:
            try:
                await asyncio.sleep(step.fault.seconds)
            except asyncio.CancelledError:
                self.gone += 1
                raise
        return step

    def believed(self, body: Any, models: Mapping[str, Any]) -> Any:
        """Return a body without the fields that its model takes and does not look at.

        That is how a server lies: `ignores` are dropped unseen, `refuses` are refused in its words.
        """
        name = body.get("model") if isinstance(body, dict) else None
        model = models.get(name) if isinstance(name, str) else None
        if model is None:
            return body
        for field, message in model.refuses.items():
            if field in body:
                raise Refusal(Fail(400, message, "invalid_request_error"))
        kept = {field: value for field, value in body.items() if field not in model.ignores}
        if "system" in model.ignores and isinstance(kept.get("messages"), list):
            kept["messages"] = [message for message in kept["messages"] if message.get("role") != "system"]
        return kept

    # Sending.

    def whole(self, reply: Reply, body: dict[str, Any], headers: Mapping[str, str]) -> HttpResponse:
        """Send a body at once, as the reply wants it."""
        if reply.patch is not None:
            changed = reply.patch(body)
            body = body if changed is None else changed
        content = json.dumps(body).encode()
        headers = {**JSON, **headers, **reply.headers}
        if reply.fault is None:
            return HttpResponse(200, headers, content)
        pieces = [content[at : at + 1] for at in range(len(content))]
        return HttpResponse(200, headers, self._badly(pieces, reply.fault))

    def streamed(self, reply: Reply, events: list[tuple[str, Any]], headers: Mapping[str, str]) -> HttpResponse:
        """Send events as they come, as the reply wants them."""
        written = []
        for name, data in events:
            if reply.patch is not None and isinstance(data, dict):
                changed = reply.patch(data)
                data = data if changed is None else changed
            text = data if isinstance(data, str) else json.dumps(data)
            written.append((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
        headers = {**SSE, **headers, **reply.headers}
        return HttpResponse(200, headers, self._badly(written, reply.fault))

    async def _badly(self, pieces: list[bytes], fault: Fault | None) -> AsyncIterator[bytes]:
        try:
            async for piece in _spoiled(pieces, fault):
                yield piece
                # Each piece in a turn of its own, as from a model that thinks.
                await asyncio.sleep(0)
        except (asyncio.CancelledError, GeneratorExit):
            self.gone += 1
            raise


async def _spoiled(pieces: list[bytes], fault: Fault | None) -> AsyncIterator[bytes]:
    if fault is None:
        for piece in pieces:
            yield piece
        return
    if fault.kind == "drip":
        whole = b"".join(pieces)
        for at in range(0, len(whole), fault.size):
            yield whole[at : at + fault.size]
            await asyncio.sleep(fault.seconds)
        return
    for piece in pieces[: fault.after]:
        yield piece
    if fault.kind == "hang":
        if not fault.after:
            yield b""
        await asyncio.sleep(fault.seconds)
    elif fault.kind == "garbage":
        yield fault.data
    elif fault.kind == "flood":
        for _ in range(fault.size // 65_536 + 1):
            yield b"x" * 65_536
    elif not fault.clean:
        await asyncio.sleep(0.01)
        raise Broken
