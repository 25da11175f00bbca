"""The writer: one thread that does all the work that waits in one transaction."""

import queue
import threading
import time
from typing import Final

from modelpact.ledger.write.committer import Committer
from modelpact.ledger.write.pending import PendingWork

_MOST_TOGETHER: Final = 512
_MANY: Final = 8
_LINGER_SECONDS: Final = 0.0001


class WriterThread:
    """Does work in the order in which it comes in, as much at a time as waits."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._queue: queue.SimpleQueue[list[PendingWork] | None] = queue.SimpleQueue()
        self._entering = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="modelpact-ledger", daemon=True)
        self._thread.start()

    def put(self, *items: PendingWork) -> bool:
        """Take work in; False where the writer is closed."""
        with self._entering:
            if self._closed:
                return False
            self._queue.put(list(items))
            return True

    def is_here(self) -> bool:
        """Tell whether this is the writer's own thread: what waits for it here waits for ever."""
        return threading.get_ident() == self._thread.ident

    def close(self) -> None:
        """Finish what waits, sign what is not signed, and close."""
        with self._entering:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        told = 0
        while True:
            items: list[PendingWork] = []
            # Many who were told just now come back at once: if others wait already, these wait a
            # little for them, as what shares a commit costs less.
            expected = told if self._add_waiting(items) and told >= _MANY else 0
            expected += len(items)
            if not items:
                first = self._queue.get()
                if first is None:
                    break
                items += first
                self._add_waiting(items)
            while len(items) < expected:
                time.sleep(_LINGER_SECONDS)  # the queue's own time-out, if short, may never end
                if not self._add_waiting(items):
                    break
            told = len(items)
            self._committer.commit([item for item in items if item.claim()])
        self._committer.close()

    def _add_waiting(self, items: list[PendingWork]) -> bool:
        """Add what waits; tell whether there was anything."""
        before = len(items)
        while len(items) < _MOST_TOGETHER:
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                break
            if waiting is None:  # the end, which comes after these
                self._queue.put(None)
                break
            items += waiting
        return len(items) > before
