"""The client of the commit worker: sends the events of a server's event loop to a process.

The loop then does not share its interpreter with a thread that commits. A request that is alone
does not wait for another process to wake up: the loop commits its events itself.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from modelpact.ledger.errors import LedgerError, LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Bus, Event, EventRef, PreparedEvent
from modelpact.ledger.stores.base import Store
from modelpact.ledger.write.batch import WriterCache
from modelpact.ledger.write.committer import Clock, Committer
from modelpact.ledger.write.pending import EventBatch, EventItem
from modelpact.ledger.write.worker import CommitReply, CommitRequest, encode_frame, take_frames

_FAST_SECONDS: Final = 0.001
"""The loop commits itself only while commits take less than this on average."""
_SLOW_SECONDS: Final = 0.004
"""A slower commit counts as one that took this long, so that a single one weighs little."""
_DECAY: Final = 0.99
"""How the average falls with each message to the worker, until the loop tries again."""
_MAX_IN_A_ROW: Final = 200
"""Commits in the loop before one by the worker, which also moves SQLite's log into the file."""
_FEW: Final = 8
"""Fewer events than this wait for the reply to earlier ones, to share a commit with later ones."""
_CLOSE_SECONDS: Final = 30.0

_RECEIVE_BYTES: Final = 64 * 1024
_EXIT_SECONDS: Final = 10.0
_MAX_FAILED_STARTS: Final = 3
_RESTART_SECONDS: Final = 5.0
"""How long to wait, after that many failed starts, before the next one."""
_PROGRAM: Final = (
    "from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, signal; "
    "[signal(number, SIG_IGN) for number in (SIGHUP, SIGINT, SIGTERM)]; "
    "from modelpact.ledger.write.worker import main; main()"
)
"""The worker ignores signals: the server handles them, and closes the socket when it stops."""

_decode_reply: Final = msgspec.msgpack.Decoder(CommitReply).decode


class WorkerClient:
    """Appends events through the worker. It belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        bus: Bus,
        latest: int,
        *,
        is_sole_request: Callable[[], bool],
        on_appended: Callable[[str], None],
        fallback: Callable[[EventItem], None],
    ) -> None:
        """Start the worker for the running loop.

        `is_sole_request` tells whether the loop serves only one request. `on_appended` is called
        with the envelope of every event. `fallback` takes events while no worker can be started.
        """
        self._is_sole_request = is_sole_request
        self._on_appended = on_appended
        self._fallback = fallback
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        cache = WriterCache(uuid4().hex[:16])
        self._committer = Committer(store, cache, clock, bus, latest, wait=False)
        self._commit_seconds = 0.0
        self._in_a_row = 0
        self._waiting: list[EventItem] = []
        self._sent: deque[EventItem] = deque()
        self._closed = False
        self._link = WorkerLink(store.url, self._loop, self._receive, self._lost)

    def add(self, item: EventItem) -> None:
        """Append an event: in this call if it is the only request, else through the worker."""
        if self._closed:
            raise LedgerError("the ledger is closed")
        if not (self._may_commit_here() and self._commit_here(item)):
            self._waiting.append(item)
            if len(self._waiting) in (1, _FEW):
                self._loop.call_soon(self._send_waiting)

    def _may_commit_here(self) -> bool:
        """Tell whether a commit in the loop is fast, delays no other request and is due."""
        if self._waiting or self._sent or self._commit_seconds >= _FAST_SECONDS:
            return False
        return self._in_a_row < _MAX_IN_A_ROW and self._is_sole_request()

    def _commit_here(self, item: EventItem) -> bool:
        """Commit in the loop. Return False if another process is writing: the worker waits."""
        event, batch = item.event, EventBatch([item.event])
        start = time.perf_counter()
        self._committer.commit((batch,))
        seconds = min(time.perf_counter() - start, _SLOW_SECONDS)
        self._commit_seconds += (seconds - self._commit_seconds) / 8
        self._in_a_row += 1
        (result,) = batch.results
        if isinstance(result, BaseException):
            if isinstance(result, LedgerUnavailable) and not isinstance(result, LedgerUncertain):
                return False
            item.settle(None, result)
        else:
            self._on_appended(event.envelope)
            item.settle(EventRef.at(event.envelope, result), None)
        return True

    def _send_waiting(self) -> None:
        """Send the waiting events, unless they are few and others are on their way."""
        if not self._waiting or (len(self._waiting) < _FEW and self._sent):
            return
        items, self._waiting = self._waiting, []
        self._commit_seconds *= _DECAY
        self._in_a_row = 0
        message = self._encode(items)
        while items and self._link.ready:
            if self._link.send(message):
                self._sent += items
                return
        for item in items:
            self._fallback(item)

    def _encode(self, items: list[EventItem]) -> bytes:
        """Return the message for items. Those that cannot be encoded are settled and removed."""
        has_listener = self._bus.has_listener
        events = [item.event for item in items]
        listened = [index for index, event in enumerate(events) if has_listener(event.type)]
        try:
            return encode_frame(CommitRequest(events, listened))
        except (ValueError, OverflowError, TypeError):
            encodable = [item for item in items if _check_encodable(item)]
            if len(encodable) == len(items):
                raise
            items[:] = encodable
            return self._encode(items)

    def _receive(self, replies: list[CommitReply]) -> bool:
        """Settle the items of replies. Return False if there are more outcomes than items."""
        if sum(len(reply.positions) for reply in replies) > len(self._sent):
            return False
        answered = [(reply, [self._sent.popleft() for _ in reply.positions]) for reply in replies]
        self._send_waiting()  # first, so that the worker is not idle; it may turn out to be gone
        for reply, items in answered:
            self._settle(reply, items)
        return True

    def _settle(self, reply: CommitReply, items: list[EventItem]) -> None:
        failures, hashes, on_appended = reply.failures, reply.hashes, self._on_appended
        for index, item in enumerate(items):
            if index in failures:
                item.settle(None, failures[index].error())
                continue
            event, position = item.event, reply.positions[index]
            on_appended(event.envelope)
            if index in hashes:
                self._bus.publish((_published(event, *position, *hashes[index]),))
            item.settle(EventRef.at(event.envelope, position), None)

    def _lost(self) -> None:
        """Settle the items that a worker had when it ended."""
        lost, self._sent = self._sent, deque()
        for item in lost:
            message = "the commit worker ended: it is not known whether the event was kept"
            item.settle(None, LedgerUncertain(message))
        if self._waiting:
            self._loop.call_soon(self._send_waiting)

    def close(self) -> None:
        """Commit the waiting events and end the worker. Any thread may call this."""
        if self._closed:
            return
        self._closed = True
        if self._loop.is_running() and _running_loop() is not self._loop:
            ended = threading.Event()
            self._loop.call_soon_threadsafe(self._end, ended)
            ended.wait(_CLOSE_SECONDS)
        else:
            self._end()

    def _end(self, ended: threading.Event | None = None) -> None:
        items, self._waiting = self._waiting, []
        message = self._encode(items)
        if items and self._link.send(message):
            self._sent += items
            items = []
        self._link.close()
        self._committer.close()
        if not self._loop.is_closed():  # else no task waits
            for item in items:
                item.settle(None, LedgerUnavailable("the ledger is closed"))
            self._lost()
        if ended is not None:
            ended.set()


class WorkerLink:
    """A socket, and the worker process at its other end. A process that ended is replaced."""

    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        on_replies: Callable[[list[CommitReply]], bool],
        on_lost: Callable[[], None],
    ) -> None:
        """Start a process for the store at a URL.

        Both callbacks run on the loop. If `on_replies` returns False, the process is replaced.
        `on_lost` is called when a process has ended.
        """
        self._url = url
        self._loop = loop
        self._on_replies = on_replies
        self._on_lost = on_lost
        self._unsent = bytearray()
        self._received = bytearray()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._has_replied = False
        self._failed_starts = 0
        """How many processes in a row did not start, or ended before their first reply."""
        self._restart_at = 0.0
        with contextlib.suppress(OSError):
            self._start()

    @property
    def ready(self) -> bool:
        """Whether there is a process, or it is worth trying to start one."""
        if self._socket is not None or self._failed_starts < _MAX_FAILED_STARTS:
            return True
        return self._loop.time() >= self._restart_at

    def send(self, message: bytes) -> bool:
        """Send a message, to a new process if there is none. Return False if none got any of it."""
        try:
            connection = self._socket or self._start()
        except OSError:
            self._count_end()
            return False
        if not self._unsent:
            try:
                sent = connection.send(message)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._replace()
                return False
            if sent == len(message):
                return True
            message = message[sent:]
            self._loop.add_writer(connection, self._writable)
        self._unsent += message
        return True

    def close(self) -> None:
        """Let the process commit what it was sent, take its replies, and end it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.settimeout(_EXIT_SECONDS)
                self._socket.sendall(self._unsent)
                self._socket.shutdown(socket.SHUT_WR)
            while self._read():
                pass
            self._deliver()
        self._stop()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # -P: do not import modules from the current folder.
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
        self._received.clear()
        self._has_replied = False
        self._loop.add_reader(ours, self._readable)
        self._socket = ours
        return ours

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
            self._replace()
        elif not self._deliver():
            self._replace(drain=False)

    def _read(self) -> bool:
        """Read what has arrived. Return False at the end of the stream."""
        assert self._socket is not None
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._received += data
        return bool(data)

    def _deliver(self) -> bool:
        """Pass on the replies that have arrived. Return False if they are not valid."""
        try:
            replies = [_decode_reply(message) for message in take_frames(self._received)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        if not replies:
            return True
        self._has_replied, self._failed_starts = True, 0
        return self._on_replies(replies)

    def _replace(self, *, drain: bool = True) -> None:
        """Give up a process, after taking the replies it sent before it ended."""
        if self._process is not None:
            self._process.kill()
        if self._socket is not None and drain:
            while self._read():
                pass
            self._deliver()
        self._count_end()
        self._stop()
        self._on_lost()

    def _count_end(self) -> None:
        self._failed_starts = 0 if self._has_replied else self._failed_starts + 1
        self._has_replied = False
        self._restart_at = self._loop.time() + _RESTART_SECONDS

    def _stop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(connection)
                self._loop.remove_writer(connection)
            connection.close()
        if self._process is not None:
            try:
                self._process.wait(_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _check_encodable(item: EventItem) -> bool:
    """Tell whether an event can be encoded. If not, its item is settled."""
    try:
        encode_frame(CommitRequest([item.event]))
    except (ValueError, OverflowError, TypeError) as error:
        item.settle(None, LedgerError(f"{item.event.type}: the event cannot be encoded: {error}"))
        return False
    return True


def _published(event: PreparedEvent, sequence: int, time_ns: int, previous: str, digest: str) -> Event:
    """Return an event that was appended, for listeners."""
    payload = msgspec.json.decode(event.payload)
    return Event(event.envelope, sequence, event.type, time_ns, event.cause, payload, previous, digest)
