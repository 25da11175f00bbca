"""Sends planned requests to their providers, and records each call from its opening to its end.

There are two strategies: `ForwardedCall` passes a request on to a server that speaks the client's
API, `TranslatedCall` takes it through the conversation model. Recording, cancellation, failures,
response heads and streaming to the client are the same for both.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.recorder import CLIENT_LEFT, GatewayRecorder
from modelpact.gateway.responses import GatewayError, GatewayResponse, error_body
from modelpact.gateway.upstream.endpoints import Endpoints
from modelpact.gateway.upstream.passthrough import USAGE_OPTION, ForwardedCall
from modelpact.gateway.upstream.response import (
    NO_HEADERS,
    PreparedCall,
    StreamedResponse,
    UpstreamFailed,
    WholeResponse,
)
from modelpact.gateway.upstream.sse_scan import find_end
from modelpact.gateway.upstream.translate import TranslatedCall
from modelpact.ledger.costs import CostLine, cost_of, money_of
from modelpact.needs.requests import RequestApi
from modelpact.needs.token_estimate import stream_tokens
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.records import AnswerDigest, InvocationOutcome, failed
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.money import format_decimal
from modelpact.vocabulary.strict_json import UNREADABLE
from modelpact.wire import RawHeaders, write_event

_INTERNAL: Final = failed("internal_error: the gateway failed")
_CUT_OFF: Final = "cut_off: the stream ended before the answer did"
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ResponseReport(msgspec.Struct):
    """The plan of a request, its record, and its cost once that is known."""

    plan: Plan
    invocation: str
    lines: tuple[CostLine, ...] = ()
    estimate: bool = False
    asks_usage: bool = False
    """Whether the gateway, and not the client, asked for the usage of a stream."""

    def data(self) -> dict[str, Any]:
        """Return the report as JSON."""
        cost: dict[str, Any] | None = None
        if self.lines:
            money = money_of(self.lines)
            cost = {
                "usd": None if money is None else format_decimal(money),
                "lines": msgspec.to_builtins(self.lines),
                "estimate": self.estimate,
            }
        plan = self.plan.data()
        if self.asks_usage:
            plan["added"] = {**plan["added"], USAGE_OPTION: True}
        return {**plan, "invocation": self.invocation, "cost": cost}

    def in_body(self, content: bytes) -> bytes:
        """Return a whole response body with the report as a field; only objects are changed."""
        try:
            fields: dict[str, Any] = _FIELDS.decode(content)
        except UNREADABLE:
            return content
        return msgspec.json.encode({**fields, "modelpact": self.data()})

    def as_event(self, api: RequestApi) -> bytes:
        """Return the report as an event of a stream that clients can ignore."""
        if api != "openai-chat":
            event = {"type": "modelpact", "modelpact": self.data()}
            return write_event(msgspec.json.encode(event).decode(), "modelpact")
        chunk = {
            "id": self.invocation,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self.plan.model,
            "choices": [],
            "modelpact": self.data(),
        }
        return write_event(msgspec.json.encode(chunk).decode())

    async def in_stream(self, api: RequestApi, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass a stream on, with the report before its last event: by then the cost is known."""
        last_event = b""
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                if last_event:
                    last_event += chunk
                    continue
                end = find_end(api, chunk)
                if end >= 0:
                    chunk, last_event = chunk[:end], chunk[end:]
                if chunk:
                    yield chunk
        yield self.as_event(api) + last_event


class Sender:
    """Makes the calls of a gateway."""

    def __init__(self, recorder: GatewayRecorder) -> None:
        self._recorder = recorder

    async def send(self, upstreams: Endpoints, planned: PlannedRequest) -> GatewayResponse:
        """Record a call, make it, and return the response for the client.

        Raise `UpstreamFailed` if the call failed; the failure is recorded first.
        """
        call = _prepare(upstreams, planned)
        invocation = await self._recorder.open_call(planned)
        # A translated call may have a lower token limit than the plan that is recorded for all
        # requests of its key: the response head reports the limit that is sent.
        planned = call.planned
        try:
            response = await call.send()
            if isinstance(response, WholeResponse):
                return await self._respond(planned, invocation, response)
            return self._respond_stream(planned, invocation, response)
        except UpstreamFailed as failure:
            failure.invocation = invocation
            await self._recorder.settle(invocation, failed(failure.recorded, failure.lines))
            if failure.provider_response is not None:
                failure.response = _error_response(planned, invocation, failure.provider_response)
            raise
        except asyncio.CancelledError:
            # The request may have been sent: its estimate is recorded as the cost.
            cancelling = self._recorder.cancel(invocation, CLIENT_LEFT, planned.estimate)
            await asyncio.shield(cancelling)
            raise
        except Exception:
            await self._recorder.settle(invocation, _INTERNAL)  # no effect where it is settled
            raise

    async def _respond(
        self, planned: PlannedRequest, invocation: Invocation, response: WholeResponse
    ) -> GatewayResponse:
        plan, content, usage = planned.plan, response.content, response.usage
        estimate = usage is None
        lines = cost_of(plan.price, usage or planned.expected_usage)
        outcome = InvocationOutcome("completed", "", lines, estimate, content)
        await self._recorder.settle(invocation, outcome)
        if planned.incoming.caller.report:
            content = ResponseReport(plan, invocation.id, lines, estimate).in_body(content)
        head = _head(planned, invocation, response.headers, response.extra_headers, lines)
        return GatewayResponse(response.status, head, content, plan.verdict)

    def _respond_stream(
        self, planned: PlannedRequest, invocation: Invocation, response: StreamedResponse
    ) -> GatewayResponse:
        report = ResponseReport(planned.plan, invocation.id, asks_usage=response.asks_usage)
        body = self._relay(planned, invocation, response, report)
        if planned.incoming.caller.report:
            body = report.in_stream(planned.incoming.api, body)
        head = _head(planned, invocation, response.headers, response.extra_headers)
        return GatewayResponse(response.status, head, body, planned.plan.verdict)

    async def _relay(
        self, planned: PlannedRequest, invocation: Invocation, response: StreamedResponse, report: ResponseReport
    ) -> AsyncIterator[bytes]:
        """Pass a stream on, and settle the call when the stream ends, however it does."""
        digest = AnswerDigest(keep=invocation.kept)
        settled, problem, last_events = False, "", b""
        try:
            try:
                async for chunk in response.chunks:
                    events = response.feed(chunk)
                    digest.add(events)
                    if response.settles_before_last_event:
                        last_events = events
                        break
                    if events:
                        yield events
                    if response.malformed:
                        problem = response.malformed
                        break
            except ModelpactError as error:
                problem = response.describe(error)
            remaining = b"" if problem else response.end()
            if remaining:
                digest.add(remaining)
                yield remaining
            if not (problem or response.complete or response.error):
                problem = _CUT_OFF
            settled = True
            # A settlement that is not recorded is raised: the stream then has no proper end.
            await self._settle_stream(planned, invocation, response, report, digest, response.error or problem)
            if last_events:
                yield last_events
            if problem and not response.error:
                yield _error_event(planned.incoming.api, problem)
        finally:
            await response.aclose()
            if not settled:
                await asyncio.shield(self._settle_disconnected(planned, invocation, response, report, digest))

    async def _settle_disconnected(
        self,
        planned: PlannedRequest,
        invocation: Invocation,
        response: StreamedResponse,
        report: ResponseReport,
        digest: AnswerDigest,
    ) -> None:
        """Settle the call of a client that closed its stream.

        A client may close as soon as it has the last event, before the upstream ends the stream:
        then it has the whole response, and the call is completed.
        """
        if response.complete and not response.error:
            await self._settle_stream(planned, invocation, response, report, digest)
            return
        lines = cost_of(planned.plan.price, _usage_so_far(planned, response))
        await self._recorder.cancel(invocation, CLIENT_LEFT, lines)

    async def _settle_stream(
        self,
        planned: PlannedRequest,
        invocation: Invocation,
        response: StreamedResponse,
        report: ResponseReport,
        digest: AnswerDigest,
        error: str = "",
    ) -> None:
        report.estimate = response.usage is None
        report.lines = cost_of(planned.plan.price, _usage_so_far(planned, response))
        outcome = InvocationOutcome("failed" if error else "completed", error, report.lines, report.estimate, digest)
        await self._recorder.settle(invocation, outcome)


def _prepare(upstreams: Endpoints, planned: PlannedRequest) -> PreparedCall:
    """Return the call that the plan of a request asks for."""
    plan = planned.plan
    if plan.action == "forward":
        return ForwardedCall(planned, upstreams.find(plan.provider, plan.api))
    return TranslatedCall(planned, upstreams.models.port(plan.provider))


def _usage_so_far(planned: PlannedRequest, response: StreamedResponse) -> Usage:
    """Return what a stream has used; without a stated usage, by its length."""
    if response.usage is not None:
        return response.usage
    return Usage(planned.expected_usage.input, stream_tokens(response.size))


def _head(
    planned: PlannedRequest,
    invocation: Invocation,
    headers: RawHeaders,
    extra_headers: RawHeaders = NO_HEADERS,
    lines: tuple[CostLine, ...] = (),
) -> RawHeaders:
    """Return the head of a response: the provider's, the plan's, and this request's own."""
    money = money_of(lines)
    return RawHeaders(
        b"%b%bmodelpact-invocation: %b\r\n%b%b%b"
        % (
            headers,
            planned.plan.head,
            invocation.id.encode(),
            b"" if money is None else b"modelpact-cost-usd: %b\r\n" % format_decimal(money).encode(),
            RawHeaders.encode(planned.headers) if planned.headers else b"",
            extra_headers,
        )
    )


def _error_response(planned: PlannedRequest, invocation: Invocation, response: WholeResponse) -> GatewayResponse:
    """Return a provider's own error response, with the gateway's headers."""
    content = response.content
    if planned.incoming.caller.report:
        content = ResponseReport(planned.plan, invocation.id).in_body(content)
    head = _head(planned, invocation, response.headers)
    return GatewayResponse(response.status, head, content, planned.plan.verdict)


def _error_event(api: RequestApi, problem: str) -> bytes:
    """Return the event that ends a stream which broke, in the client's API."""
    code, _, message = problem.partition(": ")
    body = error_body(api, GatewayError(502, code, f"the upstream failed: {message}"))
    kind = "error" if api != "openai-chat" else ""
    return write_event(msgspec.json.encode(body).decode(), kind)
