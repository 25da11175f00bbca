"""The loop on which models are called: one for the process, on a thread of its own.

Connections belong to the loop that opened them. As every call is made on this one, a session can
be used from any thread and any loop, one after the other, and from code that has no loop at all.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import Any, Final, Generic, TypeVar

from modelpact.vocabulary.errors import ModelpactError

T = TypeVar("T")
_AHEAD: Final = 256
"""How many events may wait for whoever reads a stream."""
_TIDYING: Final = 10.0
"""Seconds that cancelled work may take to put its things away."""

_lock: Final = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None or _running.is_closed():
            made = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(made,), name="modelpact-calls", daemon=True).start()
            _running = made
        return _running


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Keep the loop running: whatever a stranger's code raises in it, others wait for it too."""
    while not loop.is_closed():
        # A loop stops at these two; whoever waits for the work that raised one gets it anyway.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


class _Task(Generic[T]):
    """Work on the loop; unlike a plain future it is over only when the work has really ended."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.ended: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None
        self._loop = _loop()
        self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[T]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.ended.set_result(task.result())
        else:
            self.ended.set_exception(error)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    async def result(self) -> T:
        """Await the end; whoever is cancelled cancels the work, and leaves when it is tidied up."""
        waiting = asyncio.wrap_future(self.ended)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await self.tidy(waiting)
            raise

    async def tidy(self, waiting: "asyncio.Future[T]") -> None:
        """Cancel the work and wait until it has ended, within reason."""
        self.cancel()
        await asyncio.wait([waiting], timeout=_TIDYING)
        if waiting.done():
            waiting.exception()


def run_sync(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Do work on the loop and wait for it, in a thread that may have a loop of its own."""
    if _is_here(_loop()):
        work.close()
        raise ModelpactError("the loop that calls models cannot wait for itself: use asend")
    task = _Task(work)
    try:
        return task.ended.result(timeout)
    except BaseException:
        if not task.ended.done():  # an interrupt, or no time left
            task.cancel()
        raise


async def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the loop and await it; whoever is cancelled cancels it."""
    return await _Task(work).result()


async def iterate(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Run a generator in one task on the loop, and yield what it yields."""
    queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_AHEAD)

    async def pump() -> None:
        async with aclosing(source):
            try:
                async for one in source:
                    await queue.put(("one", one))
            except Exception as error:
                await queue.put(("error", error))
            else:
                await queue.put(("end", None))

    pumping = _Task(pump())
    try:
        while True:
            kind, value = await run_async(queue.get())
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        await pumping.tidy(asyncio.wrap_future(pumping.ended))


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
