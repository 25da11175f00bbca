"""The floor: the least that a pass-through in Python can do, with no safety at all.

Callbacks only, on both sides of `httptools`: no tasks, limits, deadlines, pipelining or errors.
What it costs is what the wire is measured against. Run as a process, like the pass-through.
"""

import argparse
import asyncio
from urllib.parse import urlsplit

import httptools

from gateway.loops import run

_IDLE: list["_Far"] = []


class _Far(asyncio.Protocol):
    """A connection to the upstream."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._streams = False
        self.near: _Near | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._streams:
            self.near.reply(data)
            if data.endswith(b"0\r\n\r\n"):
                self._parser = httptools.HttpResponseParser(self)
                self._streams = False
                _IDLE.append(self)
            return
        self._parser.feed_data(data)
        if self._streams:
            self.near.reply(data)

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002
        if name == b"transfer-encoding":
            self._streams = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if not self._streams:
            _IDLE.append(self)
            self.near.reply(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            )


class _Near(asyncio.Protocol):
    """A connection of a client."""

    def __init__(self, host: str, port: int, target: str) -> None:
        self._address = host, port
        self._head = f"POST {target} HTTP/1.1\r\nhost: {host}\r\n".encode()
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._lines: list[bytes] = []
        self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name != b"Host":
            self._lines.append(b"%b: %b\r\n" % (name, value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        whole = b"".join([self._head, *self._lines, b"\r\n", *self._body])
        self._lines, self._body = [], []
        if _IDLE:
            self._send(_IDLE.pop(), whole)
        else:
            self._task = asyncio.ensure_future(self._connect(whole))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._left = True

    def reply(self, data: bytes) -> None:
        if not self._left:
            self.transport.write(data)

    async def _connect(self, whole: bytes) -> None:
        _, far = await asyncio.get_running_loop().create_connection(_Far, *self._address)
        self._send(far, whole)

    def _send(self, far: _Far, whole: bytes) -> None:
        far.near = self
        far.transport.write(whole)


async def main(url: str) -> None:
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Near(place.hostname, place.port, place.path), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("--loop", default="uvloop")
    given = arguments.parse_args()
    run(main(given.url), given.loop)
