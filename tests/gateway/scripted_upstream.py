"""An upstream whose behaviour a test scripts for each connection, down to the byte."""

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable, Iterator

Behaviour = Callable[[socket.socket], None]
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "any",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }
).encode()
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
GOOD = b"%bcontent-length: %d\r\n\r\n%b" % (JSON_HEAD, len(WHOLE), WHOLE)


class ScriptedUpstream:
    """Listens on a free port and calls `behave` for each request on a connection."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.taken = 0
        """The number of requests that were read."""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listening.getsockname()[1]
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def settings(self) -> str:
        """The configuration of a gateway for this upstream."""
        return (
            f'[policy]\nunknown = "probe"\n[providers.scripted]\nkind = "vllm"\ntimeout = 1.0\n'
            f'base_url = "http://127.0.0.1:{self.port}/v1"\n'
        )

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._listening], [], [], 0.05)[0]:
                continue
            connection, _ = self._listening.accept()
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        with connection, contextlib.suppress(OSError):
            while self.read(connection):
                self.behave(connection)

    def read(self, connection: socket.socket) -> bool:
        """Read a request; tell whether there was one."""
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.recv(65_536)
            if not part:
                return False
            received += part
        head, _, body = received.partition(b"\r\n\r\n")
        (length,) = [
            int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        ]
        while len(body) < length:
            body += connection.recv(65_536)
        self.taken += 1
        return True

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        self._listening.close()


@contextlib.contextmanager
def scripted_upstream(behave: Behaviour) -> Iterator[ScriptedUpstream]:
    """Run a scripted upstream."""
    upstream = ScriptedUpstream(behave)
    try:
        yield upstream
    finally:
        upstream.close()


def sends(*parts: bytes, stay: bool = False) -> Behaviour:
    """Send parts of a response, then close the connection or, with `stay`, keep it."""

    def behave(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
        if not stay:
            connection.shutdown(socket.SHUT_RDWR)

    return behave
