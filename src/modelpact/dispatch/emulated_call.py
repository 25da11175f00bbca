"""Emulated calls: call a port with a prepared request, and again when the emulation asks for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from modelpact.conversation.response import Finish, Response, StreamEvent, Usage
from modelpact.emulation.emulated_request import EmulatedRequest, EmulationFailed, EmulatorReport, RepairRequest
from modelpact.providers.port import ModelPort


class EmulatedResult(msgspec.Struct, frozen=True):
    """A response and the report of its emulation. Its usage counts every call."""

    response: Response
    report: EmulatorReport


async def complete(port: ModelPort, work: EmulatedRequest) -> EmulatedResult:
    """Call a model with an emulated request, and repeat the call if its emulation asks for that.

    `EmulationFailed` carries the usage of the responses that could not be used.
    """
    request, attempt, usage = work.request, 1, Usage()
    while True:
        response = await port.complete(request)
        usage = usage + response.usage
        try:
            received = work.process(response, attempt)
        except EmulationFailed as error:
            error.usage = usage
            raise
        if isinstance(received, RepairRequest):
            request, attempt = received.request, received.attempt
            continue
        report = msgspec.structs.replace(work.report, calls_made_again=attempt - 1)
        return EmulatedResult(msgspec.structs.replace(received, usage=usage), report)


async def stream(
    port: ModelPort, work: EmulatedRequest, *, on_report: Callable[[EmulatorReport], None] | None = None
) -> AsyncIterator[StreamEvent]:
    """Stream a model's response to an emulated request. The last event has the usage of all calls.

    `on_report` is called with the report before the last event.
    """

    def report(calls_made_again: int) -> None:
        if on_report is not None:
            on_report(msgspec.structs.replace(work.report, calls_made_again=calls_made_again))

    if work.emulate_stream:
        result = await complete(port, work)
        report(result.report.calls_made_again)
        for event in work.stream_events(result.response):
            yield event
        return
    request, attempt, usage = work.request, 1, Usage()
    while True:
        processor = work.stream_processor(attempt)
        async with closing_stream(port.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finish):
                    usage = usage + event.usage
                for emulated in processor.feed(event):
                    yield emulated
        try:
            ending = processor.finish()
        except EmulationFailed as error:
            error.usage = usage
            raise
        if isinstance(ending, RepairRequest):
            request, attempt = ending.request, ending.attempt
            continue
        report(attempt - 1)
        for event in ending:
            if isinstance(event, Finish):
                event = msgspec.structs.replace(event, usage=usage)
            yield event
        return


@asynccontextmanager
async def closing_stream(events: AsyncIterator[StreamEvent]) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """Close a port's stream when its reader leaves, so that the upstream stops sending.

    Unlike `contextlib.aclosing`, it accepts iterators that have no `aclose`.
    """
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
