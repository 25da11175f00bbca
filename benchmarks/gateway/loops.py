"""Which event loop a process of the bench runs on."""

import asyncio
import importlib.util
from collections.abc import Coroutine


def available(loop: str) -> bool:
    """Tell whether an event loop is installed."""
    return importlib.util.find_spec(loop) is not None


def run(main: Coroutine[object, object, None], loop: str) -> None:
    """Run on the named loop, or on asyncio's where it is not installed."""
    if loop == "uvloop" and available(loop):
        import uvloop

        uvloop.run(main)
    else:
        asyncio.run(main)
