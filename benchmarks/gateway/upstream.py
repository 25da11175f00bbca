"""A fake upstream: one fixed chat completion, whole or streamed, as fast as an event loop can.

It parses no more than it must, so that it never is what bounds a measurement. Run as a process:
it prints its port and serves until it is killed.
"""

import argparse
import asyncio

from gateway.loops import run

EVENTS = 100
_HEAD_END = b"\r\n\r\n"
_REPLY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"m","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"Very well, thank you for asking."},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":8,'
    b'"total_tokens":22}}'
)
_WHOLE = (
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"x-request-id: req-0001\r\ncontent-length: %d\r\n\r\n%b" % (len(_REPLY), _REPLY)
)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"content-type: text/event-stream\r\nx-request-id: req-0001\r\ntransfer-encoding: chunked\r\n"
    b"\r\n"
)
_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_CHUNK = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
_DONE = b"data: [DONE]\n\n"
_LAST = b"%x\r\n%b\r\n0\r\n\r\n" % (len(_DONE), _DONE)


class Upstream(asyncio.Protocol):
    """A connection; a stream is written a few events at each turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, together: int) -> None:
        self._loop = loop
        self._together = together
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        got = self._got + data if self._got else data
        head = got.find(_HEAD_END)
        begin = got.lower().find(b"content-length:", 0, head)
        if head < 0 or begin < 0:
            self._got = got
            return
        length = int(got[begin + 15 : got.index(b"\r\n", begin)])
        if len(got) < head + 4 + length:
            self._got = got
            return
        self._got = b""
        if b'"stream":true' in got or b'"stream": true' in got:
            self._transport.write(_STREAM_HEAD)
            self._stream(EVENTS)
        else:
            self._transport.write(_WHOLE)

    def _stream(self, left: int) -> None:
        if self._transport.is_closing():
            return
        now = min(left, self._together)
        if now < left:
            self._transport.write(_CHUNK * now)
            self._loop.call_soon(self._stream, left - now)
        else:
            self._transport.write(_CHUNK * now + _LAST)


async def main(together: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(loop, together), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--loop", default="uvloop")
    arguments.add_argument("--together", type=int, default=10, help="events in one write")
    given = arguments.parse_args()
    run(main(given.together), given.loop)
