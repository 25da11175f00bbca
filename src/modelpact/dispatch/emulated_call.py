"""Emulated calls: the port is called with prepared requests, and again where emulation asks."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from modelpact.conversation.response import Finish, Response, StreamEvent, Usage
from modelpact.emulation.report import AskAgain, EmulatedRequestReport, EmulationFailed
from modelpact.emulation.work import EmulatedRequest
from modelpact.providers.port import ModelPort


class EmulatedResult(msgspec.Struct, frozen=True):
    """An answer, and the report of how it came about. Its usage counts every call."""

    response: Response
    report: EmulatedRequestReport


async def complete(port: ModelPort, work: EmulatedRequest) -> EmulatedResult:
    """Call a model with prepared work, and again as often as its emulation asks and may.

    `EmulationFailed` carries the usage of the answers that could not be used.
    """
    request, attempt, used = work.request, 1, Usage()
    while True:
        response = await port.complete(request)
        used = used + response.usage
        try:
            received = work.receive(response, attempt)
        except EmulationFailed as error:
            error.usage = used
            raise
        if isinstance(received, AskAgain):
            request, attempt = received.request, received.attempt
            continue
        report = msgspec.structs.replace(work.report, calls_made_again=attempt - 1)
        return EmulatedResult(msgspec.structs.replace(received, usage=used), report)


async def stream(
    port: ModelPort,
    work: EmulatedRequest,
    *,
    on_report: Callable[[EmulatedRequestReport], None] | None = None,
) -> AsyncIterator[StreamEvent]:
    """Stream a model's answer to prepared work; the last event is its end, with all usage.

    `on_report` is called with the report before the last event.
    """

    def tell(calls_made_again: int) -> None:
        if on_report is not None:
            on_report(msgspec.structs.replace(work.report, calls_made_again=calls_made_again))

    if work.emulate_stream:
        answer = await complete(port, work)
        tell(answer.report.calls_made_again)
        for event in work.events(answer.response):
            yield event
        return
    request, attempt, used = work.request, 1, Usage()
    while True:
        processor = work.stream(attempt)
        async with closing_stream(port.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finish):
                    used = used + event.usage
                for passed_on in processor.feed(event):
                    yield passed_on
        try:
            ending = processor.finish()
        except EmulationFailed as error:
            error.usage = used
            raise
        if isinstance(ending, AskAgain):
            request, attempt = ending.request, ending.attempt
            continue
        tell(attempt - 1)
        for event in ending:
            if isinstance(event, Finish):
                event = msgspec.structs.replace(event, usage=used)
            yield event
        return


@asynccontextmanager
async def closing_stream(
    events: AsyncIterator[StreamEvent],
) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """Close a port's stream when its reader leaves, so that no upstream writes to nobody."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
