"""The strategy that translates a request to another API, through the conversation model."""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from modelpact.conversation.codecs import CODECS
from modelpact.conversation.response import Finish, Response, StreamEvent, Usage
from modelpact.dispatch import emulated_call
from modelpact.emulation.emulated_request import EmulationFailed
from modelpact.emulation.emulator import Emulator
from modelpact.gateway.plan.plan import header_safe
from modelpact.gateway.plan.request_planner import PlannedRequest, describe_losses
from modelpact.gateway.responses import JSON
from modelpact.gateway.upstream.response import NO_HEADERS, StreamedResponse, UpstreamFailed, WholeResponse
from modelpact.ledger.costs import CostLine, cost_of
from modelpact.needs.requests import RequestApi
from modelpact.providers.models.upstream import UpstreamError
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import RawHeaders, write_event

_JSON_HEADERS: Final = RawHeaders.encode((JSON,))
_STREAM_HEADERS: Final = RawHeaders.encode((("content-type", "text/event-stream"), ("cache-control", "no-cache")))
_emulator: Final = Emulator()


class TranslatedCall:
    """A call through a model port, with emulation where the plan says so."""

    def __init__(self, planned: PlannedRequest, port: ModelPort) -> None:
        translation = planned.translation
        assert translation is not None
        plan, self._request = translation.plan, translation.request
        if plan is not planned.plan:
            planned = msgspec.structs.replace(planned, plan=plan)
        self.planned = planned
        self._port = port
        self._loss_headers = NO_HEADERS
        if translation.losses:
            text = header_safe(describe_losses(translation.losses))
            self._loss_headers = RawHeaders.encode((("modelpact-lossy", text),))
        self._work = None
        if plan.emulate:
            self._work = _emulator.prepare(self._request, [name for name, _ in plan.emulate])

    async def send(self) -> WholeResponse | StreamedResponse:
        """Call the model; raise `UpstreamFailed` if the call failed."""
        try:
            if self.planned.incoming.stream:
                return await self._stream()
            return self._write(await self._complete())
        except ModelpactError as error:
            raise self._failure(error) from error

    async def _complete(self) -> Response:
        if self._work is None:
            return await self._port.complete(self._request)
        return (await emulated_call.complete(self._port, self._work)).response

    def _write(self, response: Response) -> WholeResponse:
        planned = self.planned
        named = msgspec.structs.replace(
            response, id=response.id or _new_id(planned.incoming.api), model=response.model or planned.plan.model
        )
        written = CODECS[planned.incoming.api].write_response(
            named, created=int(time.time()), request_body=planned.incoming.body
        )
        content = msgspec.json.encode(written.body)
        return WholeResponse(200, _JSON_HEADERS, content, _stated(response.usage), self._loss_headers)

    async def _stream(self) -> StreamedResponse:
        """Begin a stream: what fails before the first event is an error response, not an event."""
        if self._work is None:
            events = aiter(self._port.stream(self._request))
        else:
            events = aiter(emulated_call.stream(self._port, self._work))
        try:
            first = await anext(events)
        except StopAsyncIteration:
            raise UpstreamError("the stream was empty", code="cut_off") from None
        return _TranslatedStream(self.planned, first, events, self._loss_headers)

    def _failure(self, error: ModelpactError) -> UpstreamFailed:
        code = getattr(error, "code", "") or "failed"
        status = error.status if isinstance(error, ProviderError) else None
        wait = error.retry_after if isinstance(error, UpstreamError) else None
        lines: tuple[CostLine, ...] = ()
        kind = "outage" if status is None else "refused"
        if status is not None and status >= 500:
            kind = "5xx"
        elif status == 429:
            kind = "429"
        if isinstance(error, EmulationFailed):
            code, kind = "emulation_failed", "refused"
            lines = cost_of(self.planned.plan.price, error.usage)
        upstream_error = UpstreamError(str(error), status=status, code=code, retry_after=wait)
        return UpstreamFailed(kind, upstream_error, f"{code}: {error}", lines=lines)


class _TranslatedStream(StreamedResponse):
    """The events of a model, encoded for the client."""

    def __init__(
        self, planned: PlannedRequest, first: StreamEvent, events: AsyncIterator[StreamEvent], extra_headers: RawHeaders
    ) -> None:
        super().__init__(200, _STREAM_HEADERS, _with_first(first, events), extra_headers=extra_headers)
        self._events = events
        self._api = planned.incoming.api
        self._writer = CODECS[self._api].stream_writer(
            _new_id(self._api), planned.plan.model, created=int(time.time()), request_body=planned.incoming.body
        )

    def feed(self, chunk: StreamEvent) -> bytes:
        """Return an event as the client's API writes it."""
        if isinstance(chunk, Finish):
            self.usage = _stated(chunk.usage)
            self.complete = self.settles_before_last_event = True
        written = self._writer.feed(chunk)
        if self._api == "openai-chat":
            encoded = b"".join(b"data: %b\n\n" % msgspec.json.encode(data) for data in written)
            if isinstance(chunk, Finish):
                encoded += b"data: [DONE]\n\n"
        else:
            encoded = b"".join(write_event(msgspec.json.encode(data).decode(), str(data["type"])) for data in written)
        self.size += len(encoded)
        return encoded

    def describe(self, error: ModelpactError) -> str:
        """Return code and message of an error; note what an emulation has used."""
        if isinstance(error, EmulationFailed):
            self.usage = _stated(error.usage)
        return super().describe(error)

    async def aclose(self) -> None:
        """Stop the events."""
        for iterator in (self.chunks, self._events):
            close = getattr(iterator, "aclose", None)
            if close is not None:
                with contextlib.suppress(ModelpactError):
                    await close()


async def _with_first(first: StreamEvent, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    yield first
    async for event in events:
        yield event


def _stated(usage: Usage) -> Usage | None:
    return None if usage == Usage() else usage


def _new_id(api: RequestApi) -> str:
    """Return a new response id in the API's format."""
    return f"{CODECS[api].id_prefix}{secrets.token_hex(12)}"
