"""A provider over real mutual TLS that behaves as a test needs, valid or faulty."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from modelpact.identity import SIGNATURE_HEADER, Keyring, sign_body
from modelpact.identity.tls import server_context
from modelpact.providers.contract import Registration
from modelpact.wire import HttpRequest, HttpResponse, serve, write_event
from tests.providers.support import World

COST = [{"unit": "discrete", "amount": 1}]
Message = dict[str, Any]
Behaviour = Callable[["Fake", Message], Awaitable[HttpResponse]]


class Fake:
    """Receives invocations and answers them with its behaviour."""

    def __init__(self, world: World, name: str, ring: Keyring) -> None:
        self.world = world
        self.name = name
        self.ring = ring
        self.received: list[Message] = []
        self.cancelled: list[str] = []
        self.cancel_status = 204
        self.gone: list[Message] = []
        self.sent = 0
        self.behaviour: Behaviour = right
        self.registration = Registration("none", "tool", (), ())
        self.released = asyncio.Event()

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "DELETE":
            self.cancelled.append(request.path.rpartition("/")[2])
            return HttpResponse(self.cancel_status)
        message = msgspec.json.decode(await request.body())
        if request.path == "/deregistered":
            self.gone.append(message)
            return HttpResponse(204)
        self.received.append(message)
        return await self.behaviour(self, message)

    def signature(self, subject: str, body: bytes, sequence: int = 1, **more: Any) -> str:
        ring = more.pop("ring", self.ring)
        return sign_body(ring, subject, body, sequence=sequence, **more)

    def answer(self, subject: str, output: Any, sequence: int = 1, **more: Any) -> HttpResponse:
        """Return a valid response; `fields` replace parts of it."""
        body = answer_body(subject, output, **more.pop("fields", {}))
        header = self.signature(subject, body, sequence, **more)
        return HttpResponse(200, ((SIGNATURE_HEADER, header),), body)

    def headers(self, subject: str, body: bytes, sequence: int = 1, **more: Any) -> Any:
        return ((SIGNATURE_HEADER, self.signature(subject, body, sequence, **more)),)

    def event(self, kind: str, subject: str, body: bytes, sequence: int) -> bytes:
        return write_event(f"{self.signature(subject, body, sequence)}\n{body.decode()}", kind)


def answer_body(subject: str, output: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"invocationId": subject, "output": output, "cost": COST, **fields})


def partial_body(subject: str, number: int, content: Any) -> bytes:
    return msgspec.json.encode({"invocationId": subject, "number": number, "content": content})


async def right(fake: Fake, message: Message) -> HttpResponse:
    """Respond with the input; acknowledge an asynchronous invocation."""
    if message["semantics"] == "async":
        return accepted(fake, message)
    return fake.answer(message["invocationId"], message["input"])


def accepted(fake: Fake, message: Message) -> HttpResponse:
    body = msgspec.json.encode({"invocationId": message["invocationId"]})
    return HttpResponse(202, fake.headers(message["invocationId"], body, 0), body)


def streamed(*events: bytes) -> HttpResponse:
    async def body() -> AsyncIterator[bytes]:
        for event in events:
            yield event

    return HttpResponse(200, (("content-type", "text/event-stream"),), body())


@asynccontextmanager
async def faking(world: World, name: str = "fake", **more: Any) -> AsyncIterator[Fake]:
    """Run a fake provider; `registration` is for the test to register."""
    fake = Fake(world, name, world.keyring(name))
    tls = server_context(world.identity(more.pop("certificate", name)), world.trust)
    server = await serve(fake, "127.0.0.1", 0, tls=tls)
    try:
        url = f"https://127.0.0.1:{server.port}"
        fake.registration = world.registration(name, url, **more)
        yield fake
    finally:
        fake.released.set()
        await server.aclose()
