"""The link of a scribe to the process that commits for it, which is started as often as needed."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from modelpact.ledger.wired import Answer, Sent, framed, unframed

_READ: Final = 64 * 1024
_END_SECONDS: Final = 30.0
_SAID: Final = msgspec.msgpack.Decoder(Answer)


class Link:
    """A socket, and the process at its other end."""

    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        heard: Callable[[Answer], None],
        gone: Callable[[], None],
    ) -> None:
        """`heard` and `gone` are called on the loop."""
        self._url = url
        self._loop = loop
        self._heard = heard
        self._gone = gone
        self._unsent = bytearray()
        self._come = bytearray()
        self._socket: socket.socket | None = None
        self.deaths = 0
        """How often in a row the process ended without an answer."""
        self._begin()

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                # Like this process, it must not take modules from wherever it is started.
                [sys.executable, "-P", "-m", "modelpact.ledger.scribe_process", self._url],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._unsent.clear()
        self._come.clear()
        self._loop.add_reader(ours, self._readable)
        self._socket = ours
        return ours

    def send(self, said: Sent) -> bool:
        """Send something; False if the process is gone and has nothing of it.

        If it is known to be gone, another is started first.
        """
        link = self._socket or self._begin()
        data = framed(said)
        if not self._unsent:
            try:
                sent = link.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._died()
                return False
            if sent == len(data):
                return True
            data = data[sent:]
            self._loop.add_writer(link, self._writable)
        self._unsent += data
        return True

    def _writable(self) -> None:
        assert self._socket is not None
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._died()
            return
        self.deaths = 0
        self._come += data
        for message in unframed(self._come):
            self._heard(_SAID.decode(message))

    def _died(self) -> None:
        self.deaths += 1
        self._end()
        self._gone()

    def _end(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(link)
                self._loop.remove_writer(link)
            link.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Have the process end."""
        if self._socket is not None:
            self._end()
