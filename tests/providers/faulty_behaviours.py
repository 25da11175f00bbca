"""Faulty behaviours for the fake provider, each named for its fault."""

import asyncio
import time
from collections.abc import AsyncIterator

from modelpact.identity import SIGNATURE_HEADER
from modelpact.wire import HttpResponse
from tests.providers.fake_provider import Fake, Message, accepted, answer_body, partial_body, streamed

EVENTS = (("content-type", "text/event-stream"),)
FLOOD = 100 * 1024 * 1024


async def hangs(fake: Fake, message: Message) -> HttpResponse:
    await fake.released.wait()
    return HttpResponse(500)


async def drips(fake: Fake, message: Message) -> HttpResponse:
    whole = answer_body(message["invocationId"], {"slow": "x" * 100_000})

    async def body() -> AsyncIterator[bytes]:
        for place in range(len(whole)):
            yield whole[place : place + 1]
            await asyncio.sleep(0.02)

    return HttpResponse(200, fake.headers(message["invocationId"], whole), body())


async def floods(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(200, ((SIGNATURE_HEADER, "none"),), _flood(fake, b" " * 65_536))


async def floods_promises(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(202, ((SIGNATURE_HEADER, "none"),), _flood(fake, b" " * 65_536))


async def floods_events(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(200, EVENTS, _flood(fake, b": " + b"x" * 65_533 + b"\n"))


async def _flood(fake: Fake, chunk: bytes) -> AsyncIterator[bytes]:
    """Send 100 MB; `fake.sent` is how much of it was read."""
    while fake.sent < FLOOD:
        yield chunk
        fake.sent += len(chunk)


async def garbage(fake: Fake, message: Message) -> HttpResponse:
    body = b"\x00\xff not json \xf0"
    return HttpResponse(200, fake.headers(message["invocationId"], body), body)


async def garbage_promises(fake: Fake, message: Message) -> HttpResponse:
    body = b"\x00\xff not json \xf0"
    return HttpResponse(202, fake.headers(message["invocationId"], body, 0), body)


async def unsigned(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(200, (), answer_body(message["invocationId"], {}))


async def unsigned_promises(fake: Fake, message: Message) -> HttpResponse:
    return HttpResponse(202, (), accepted(fake, message).body)


async def forged(fake: Fake, message: Message) -> HttpResponse:
    return fake.answer(message["invocationId"], {}, ring=fake.world.keyring("thief"))


async def nonsense_header(fake: Fake, message: Message) -> HttpResponse:
    body = answer_body(message["invocationId"], {})
    return HttpResponse(200, ((SIGNATURE_HEADER, "v1;sig=yes"),), body)


async def stale(fake: Fake, message: Message) -> HttpResponse:
    return fake.answer(message["invocationId"], {}, time=time.time() - 3_600)


async def replays(fake: Fake, message: Message) -> HttpResponse:
    """Answer every invocation with the valid response to the first."""
    return fake.answer(fake.received[0]["invocationId"], {})


async def promises_another(fake: Fake, message: Message) -> HttpResponse:
    """Acknowledge every invocation with the valid acknowledgement of the first."""
    return accepted(fake, fake.received[0])


async def both(fake: Fake, message: Message) -> HttpResponse:
    return fake.answer(message["invocationId"], {}, fields={"error": "and"})


async def more_fields(fake: Fake, message: Message) -> HttpResponse:
    return fake.answer(message["invocationId"], {}, fields={"extra": 1})


async def deep(fake: Fake, message: Message) -> HttpResponse:
    body = b'{"invocationId":"x","output":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return HttpResponse(200, fake.headers(message["invocationId"], body), body)


async def lone_surrogate(fake: Fake, message: Message) -> HttpResponse:
    body = answer_body(message["invocationId"], {"text": "@"}).replace(b'"@"', b'"\\ud800 x"')
    return HttpResponse(200, fake.headers(message["invocationId"], body), body)


async def only_promises(fake: Fake, message: Message) -> HttpResponse:
    return accepted(fake, message)


async def breaks_down(fake: Fake, message: Message) -> HttpResponse:
    raise RuntimeError("provider fell over")


async def breaks_off(fake: Fake, message: Message) -> HttpResponse:
    """Drop the connection in the middle of a response."""
    whole = answer_body(message["invocationId"], {"half": "x" * 1_000})

    async def body() -> AsyncIterator[bytes]:
        yield whole[:500]
        raise ConnectionResetError

    return HttpResponse(200, fake.headers(message["invocationId"], whole), body())


def piece(fake: Fake, message: Message, number: int, sequence: int | None = None) -> bytes:
    body = partial_body(message["invocationId"], number, {"n": number})
    return fake.event("partial", message["invocationId"], body, sequence or number)


def final(fake: Fake, message: Message, sequence: int) -> bytes:
    body = answer_body(message["invocationId"], {"done": True})
    return fake.event("final", message["invocationId"], body, sequence)


async def reorders(fake: Fake, message: Message) -> HttpResponse:
    return streamed(*(piece(fake, message, number) for number in (1, 3, 2)))


async def renumbers(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1), piece(fake, message, 3, sequence=2))


async def drops_one(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1), final(fake, message, 3))


async def repeats(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1), piece(fake, message, 1))


async def stops(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1))


async def unsigned_events(fake: Fake, message: Message) -> HttpResponse:
    return streamed(b"event: partial\ndata: {}\n\n")


async def other_events(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1).replace(b"event: partial", b"event: ping"))


async def another_partial(fake: Fake, message: Message) -> HttpResponse:
    body = partial_body("inv_other", 1, {})
    return streamed(fake.event("partial", "inv_other", body, 1))


async def garbage_events(fake: Fake, message: Message) -> HttpResponse:
    return streamed(b"data: \x00\xff\xfe\ndata: \xf0\n\n")


async def vanishes(fake: Fake, message: Message) -> HttpResponse:
    async def body() -> AsyncIterator[bytes]:
        yield piece(fake, message, 1)
        raise ConnectionResetError

    return HttpResponse(200, EVENTS, body())


async def stalls(fake: Fake, message: Message) -> HttpResponse:
    async def body() -> AsyncIterator[bytes]:
        yield piece(fake, message, 1)
        await fake.released.wait()

    return HttpResponse(200, EVENTS, body())


async def drips_events(fake: Fake, message: Message) -> HttpResponse:
    whole = piece(fake, message, 1) + b": " + b"x" * 100_000

    async def body() -> AsyncIterator[bytes]:
        yield whole[: whole.index(b": x")]
        for place in range(whole.index(b": x"), len(whole)):
            yield whole[place : place + 1]
            await asyncio.sleep(0.02)

    return HttpResponse(200, EVENTS, body())


async def answers_twice(fake: Fake, message: Message) -> HttpResponse:
    return streamed(piece(fake, message, 1), final(fake, message, 2), final(fake, message, 3))
