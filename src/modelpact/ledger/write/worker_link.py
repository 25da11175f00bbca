"""The link of a scribe to the process that commits for it, which is started as often as needed."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from modelpact.ledger.write.worker_protocol import CommitReply, unframed

_READ: Final = 64 * 1024
_END_SECONDS: Final = 10.0
_DEATHS: Final = 3
_AGAIN_SECONDS: Final = 5.0
_SAID: Final = msgspec.msgpack.Decoder(CommitReply)
_PROGRAM: Final = (
    "from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, signal; "
    "[signal(one, SIG_IGN) for one in (SIGHUP, SIGINT, SIGTERM)]; "
    "from modelpact.ledger.write.worker import main; main()"
)
"""Who starts it hears of signals, and closes the link when it is to end."""


class WorkerLink:
    """A socket, and the process at its other end."""

    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        heard: Callable[[list[CommitReply]], bool],
        gone: Callable[[], None],
    ) -> None:
        """`heard` and `gone` are called on the loop; what makes no sense to `heard` ends it."""
        self._url = url
        self._loop = loop
        self._heard = heard
        self._gone = gone
        self._unsent = bytearray()
        self._come = bytearray()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._answered = False
        self._deaths = 0
        """How often in a row a process ended, or did not start, that never answered."""
        self._again = 0.0
        with contextlib.suppress(OSError):
            self._begin()

    @property
    def ready(self) -> bool:
        """Whether there is a process, or it is worth a try to start one."""
        if self._socket is not None or self._deaths < _DEATHS:
            return True
        return self._loop.time() >= self._again

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # Like this process, it must not take modules from wherever it is started.
                    [sys.executable, "-P", "-c", _PROGRAM, self._url, str(os.getpid())],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self._unsent.clear()
        self._come.clear()
        self._answered = False
        self._loop.add_reader(ours, self._readable)
        self._socket = ours
        return ours

    def send(self, data: bytes) -> bool:
        """Send something; False if there is no process, and it has nothing of it.

        If the last one is known to be gone, another is started first.
        """
        try:
            link = self._socket or self._begin()
        except OSError:
            self._count_death()
            return False
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
        if not self._read():
            self._died()
        elif not self._hear():
            self._died(sane=False)

    def _read(self) -> bool:
        """Take in what has come; False if that was all."""
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._come += data
        return bool(data)

    def _hear(self) -> bool:
        """Pass on the answers that are there; False if they make no sense."""
        try:
            answers = [_SAID.decode(message) for message in unframed(self._come)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        if not answers:
            return True
        self._answered, self._deaths = True, 0
        return self._heard(answers)

    def _died(self, *, sane: bool = True) -> None:
        """Hear what a process had said before it ended, if that made sense; it is gone."""
        if self._process is not None:
            self._process.kill()
        if self._socket is not None and sane:
            while self._read():
                pass
            self._hear()
        self._count_death()
        self._end()
        self._gone()

    def _count_death(self) -> None:
        self._deaths = 0 if self._answered else self._deaths + 1
        self._answered = False
        self._again = self._loop.time() + _AGAIN_SECONDS

    def _end(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(link)
                self._loop.remove_writer(link)
            link.close()
        if self._process is not None:
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def close(self) -> None:
        """Have the process finish what it was sent, and end."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.settimeout(_END_SECONDS)
                self._socket.sendall(self._unsent)
                self._socket.shutdown(socket.SHUT_WR)
            while self._read():
                pass
            self._hear()
        self._end()
