"""Tallies: what remains of a stream whose pieces are not kept."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.runtime import settlement as settling
from modelpact.providers.runtime.notify import tell
from modelpact.providers.transport import Accepted, ContractViolation, Partial
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.runtime.runtime import Runtime


async def run_stream(
    runtime: "Runtime", registration: Registration, invocation: Invocation
) -> AsyncIterator[Partial | Invocation]:
    """Take a streaming invocation to its provider: its pieces, then the settled invocation."""
    pieces: AsyncIterator[Any] | None = None
    try:
        pieces = aiter(runtime.carrier(registration).stream(registration, invocation))
        while True:
            async with asyncio.timeout(runtime.seconds_left(invocation)):
                piece = await anext(pieces, None)
            if isinstance(piece, Reply):
                yield await runtime.take(registration, invocation, piece)
                return
            if isinstance(piece, Accepted):
                found = await runtime.accept(invocation, piece)
                if not found.kept:
                    yield found
                    return
                runtime.tallies.pop(found.id, None)  # its pieces will come by way of the store
                async for signal in runtime.signals(found.id):
                    yield signal
                return
            if not isinstance(piece, Partial):
                what = "the stream ended without a final answer"
                yield await runtime.fail(invocation, "cut_off", what)
                return
            counted = await take_partial(runtime, invocation, piece)
            if counted is None:
                yield await asyncio.to_thread(runtime.find, invocation.id)
                return
            invocation = counted
            yield piece
    except TimeoutError:
        yield await runtime.fail(invocation, "deadline", "no answer before the deadline")
        await tell(runtime, registration, [invocation])
    except ContractViolation as breach:
        yield await runtime.violate(invocation, breach.violation, breach.detail)
    except ModelpactError as error:
        yield await runtime.fail(invocation, "unreachable", str(error))
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            with contextlib.suppress(Exception):
                await close()


async def take_partial(
    runtime: "Runtime", invocation: Invocation, piece: Partial
) -> Invocation | None:
    """Keep a piece of an answer, or tally it; return the invocation with the piece counted.

    One out of its order ends the invocation as a violation: then there is None.
    """
    counted = msgspec.structs.replace(invocation, partials=piece.number)
    tally = runtime.tallies.get(invocation.id)
    if piece.invocation_id == invocation.id:
        if tally is not None and piece.number == invocation.partials + 1:
            tally.add(piece.content)
            return counted
        if tally is None and await runtime.ledger.write_async(
            lambda tx: settling.keep_partial(tx, invocation, piece)
        ):
            return counted
    now = await asyncio.to_thread(runtime.find, invocation.id)
    if now.state == "open":
        due = (now if tally is None else invocation).partials + 1
        detail = f"partial {piece.number} of {piece.invocation_id!r:.60}, not {due}"
        await runtime.violate(invocation, "reordered_partial", detail)
    return None
