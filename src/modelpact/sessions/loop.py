"""The loop on which models are called: one for the process, on a thread of its own.

Connections belong to the loop that opened them. As every call is made on this one, a session can
be used from any thread and any loop, one after the other, and from code that has no loop at all.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from modelpact.vocabulary.errors import ModelpactError

T = TypeVar("T")
_AHEAD: Final = 256
"""How many events may wait for whoever reads a stream."""

_lock: Final = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None or _running.is_closed():
            made = asyncio.new_event_loop()
            threading.Thread(target=made.run_forever, name="modelpact-calls", daemon=True).start()
            _running = made
        return _running


def call(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Do work on the loop and wait for it, in a thread that may have a loop of its own."""
    loop = _loop()
    if _is_here(loop):
        work.close()
        raise ModelpactError("the loop that calls models cannot wait for itself: use asend")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result(timeout)
    except BaseException:
        future.cancel()
        raise


async def await_call(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the loop and await it; whoever is cancelled cancels it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


async def follow(source: AsyncIterator[T]) -> AsyncIterator[T]:
    """Run an iterator in one task on the loop, and yield what it yields."""
    loop = _loop()
    queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_AHEAD)

    async def pump() -> None:
        try:
            async for one in source:
                await queue.put(("one", one))
        except Exception as error:
            await queue.put(("error", error))
        else:
            await queue.put(("end", None))
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    pumping = asyncio.run_coroutine_threadsafe(pump(), loop)
    try:
        while True:
            kind, value = await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(queue.get(), loop)
            )
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        pumping.cancel()
        with contextlib.suppress(BaseException):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(pumping)), 1.0)


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
