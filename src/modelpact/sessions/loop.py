"""The event loop on which models are called: one for the process, in a thread of its own.

A connection belongs to the loop that opened it. Because every call is made on this loop, you can
use a session from any thread and any loop, and from code without a loop.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import Any, Final, Generic, TypeVar

from modelpact.vocabulary.errors import ModelpactError

T = TypeVar("T")
_MAX_QUEUED: Final = 256
"""How many items of a stream may wait for its reader."""
_CANCEL_SECONDS: Final = 10.0
"""How long cancelled work may take to clean up."""

_lock: Final = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def run_sync(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Run a coroutine on the loop and wait for it. The thread may have a running loop."""
    if _is_current(_loop()):
        work.close()
        raise ModelpactError("the loop that calls models cannot wait for itself: use asend")
    task = _LoopTask(work)
    try:
        return task.ended.result(timeout)
    except BaseException:
        if not task.ended.done():  # an interrupt, or the timeout
            task.cancel()
        raise


async def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and await it. If the caller is cancelled, so is the work."""
    return await _LoopTask(work).result()


async def iterate(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Run an async generator in one task on the loop, and yield its items."""
    queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_MAX_QUEUED)

    async def pump() -> None:
        async with aclosing(source):
            try:
                async for item in source:
                    await queue.put(("item", item))
            except Exception as error:
                await queue.put(("error", error))
            else:
                await queue.put(("end", None))

    task = _LoopTask(pump())
    try:
        while True:
            kind, value = await run_async(queue.get())
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        await task.cancel_and_wait(asyncio.wrap_future(task.ended))


class _LoopTask(Generic[T]):
    """A task on the loop. Its future is done only when the work has really ended."""

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
        """Await the result. If the caller is cancelled, cancel the work and wait for its end."""
        future = asyncio.wrap_future(self.ended)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await self.cancel_and_wait(future)
            raise

    async def cancel_and_wait(self, future: "asyncio.Future[T]") -> None:
        """Cancel the work and wait until it has ended, for a limited time."""
        self.cancel()
        await asyncio.wait([future], timeout=_CANCEL_SECONDS)
        if future.done():
            future.exception()


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None or _running.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="modelpact-calls", daemon=True).start()
            _running = loop
        return _running


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Keep the loop running, whatever a task raises: other tasks depend on it."""
    while not loop.is_closed():
        # These two stop a loop. The caller of the task that raised one gets it all the same.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


def _is_current(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
