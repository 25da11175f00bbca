"""Bodies on their way to an upstream: byte for byte, but for what the plan changes and tells."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from modelpact.conversation.error_bodies import ErrorBody, read_error
from modelpact.conversation.openai_chat import wants_usage
from modelpact.conversation.response import Usage
from modelpact.gateway.errors import GatewayError, GatewayResponse, error_body
from modelpact.gateway.plan.plan import RESPONSE_HEADERS
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.record.answer_digest import AnswerDigest
from modelpact.gateway.record.calls import GatewayCall
from modelpact.gateway.record.recorder import Recorder
from modelpact.gateway.reports import ResponseReport
from modelpact.gateway.upstream.endpoints import Endpoint
from modelpact.gateway.upstream.rewrite import USAGE, changed_body
from modelpact.gateway.upstream.stream import UNREADABLE, UsageTap, end_at, error_in, usage_of
from modelpact.ledger.costs import CostLine, cost_of, money_of
from modelpact.ledger.money import format_decimal
from modelpact.needs.requests import RequestApi
from modelpact.needs.token_estimate import stream_tokens
from modelpact.providers.models.errors import UpstreamError, cleaned, refused
from modelpact.wire import (
    ClientResponse,
    ConnectionLost,
    PoolFull,
    RawHeaders,
    WireError,
    WireTimeout,
    write_event,
)
from modelpact.wire.messages import BODILESS_STATUSES

_KEPT_BACK: Final = frozenset(
    {b"set-cookie", b"server", b"alt-svc", b"strict-transport-security", b"cf-ray", b"via"}
    | {name.encode() for name in RESPONSE_HEADERS}
)
"""Headers of upstreams that are not for the gateway's clients."""
_ADDED: Final = RawHeaders.encode((("modelpact-added", USAGE),))
INTERNAL: Final = "internal_error: the gateway failed"
_MOST_ERROR: Final = 256 * 1024


class UpstreamFailed(Exception):
    """An upstream gave no answer, or none that can be used; it may be worth asking another."""

    def __init__(
        self,
        kind: str,
        error: UpstreamError,
        invocation: GatewayCall,
        outgoing: GatewayResponse | None = None,
    ) -> None:
        self.kind = kind
        """`outage`, `429` or `5xx`, on which a workload may have a fallback; else `refused`."""
        self.error = error
        self.invocation = invocation
        self.outgoing = outgoing
        """The upstream's own answer, where it gave one."""
        super().__init__(str(error))


class Passthrough:
    """Sends requests on and answers back."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def forward(self, exchange: PlannedRequest, upstream: Endpoint) -> GatewayResponse:
        """Send a request on. Record and raise `UpstreamFailed` where no good answer came."""
        incoming, plan = exchange.incoming, exchange.plan
        api, caller, stream = incoming.api, incoming.caller, incoming.stream
        ask_usage = (
            stream
            and api == "openai-chat"
            and upstream.stream_usage
            and not wants_usage(incoming.body)
        )
        sent = changed_body(incoming.raw, incoming.body, plan, ask_usage=ask_usage)
        invocation = await self._recorder.open(
            plan,
            incoming.raw,
            "streaming" if stream else "sync",
            caller.key.id,
            exchange.estimate,
        )
        try:
            shown = caller.headers_for(upstream, incoming.headers)
            try:
                answer = await upstream.send(api, shown, sent)
            except WireError as error:
                if error.phase != "connect" or isinstance(error, WireTimeout):
                    raise
                # No connection came about, so nothing was sent: it is tried once more.
                answer = await upstream.send(api, shown, sent)
            if not 200 <= answer.status < 300:
                raise await self._refusal(exchange, invocation, answer, upstream)
            if stream and _is_stream(answer):
                return self._streamed(exchange, invocation, answer, upstream, ask_usage=ask_usage)
            content = await answer.read()
            usage = usage_of(api, content)
            lines = cost_of(plan.price, usage or exchange.expected_usage)
            await self._recorder.settle(invocation, lines, answer=content, estimate=usage is None)
            if caller.report:
                content = ResponseReport(plan, invocation.id, lines, usage is None).in_answer(
                    content
                )
            head = _head(exchange, answer, invocation, lines)
            return GatewayResponse(answer.status, head, content, plan.answer)
        except WireError as error:
            await self._end(invocation, f"{_code(error)}: {error}")
            raise _failed(exchange, error, invocation) from error
        except asyncio.CancelledError:
            # It may have been sent, and is then paid for although nobody reads the answer.
            left = self._recorder.cancel(invocation, "the client left", exchange.estimate)
            await asyncio.shield(left)
            raise
        except Exception:
            await self._end(invocation, INTERNAL)  # nothing happens where it has ended already
            raise

    def _streamed(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        answer: ClientResponse,
        upstream: Endpoint,
        *,
        ask_usage: bool,
    ) -> GatewayResponse:
        """Answer with a stream that has begun."""
        watch = UsageTap(exchange.incoming.api, hide_usage=ask_usage)
        report = ResponseReport(exchange.plan, invocation.id, asks_usage=ask_usage)
        body = self._stream(exchange, invocation, answer, watch, report, upstream)
        if exchange.incoming.caller.report:
            body = report.in_stream(exchange.incoming.api, body)
        head = _head(exchange, answer, invocation)
        if ask_usage:
            head = head.plus(_ADDED)
        return GatewayResponse(answer.status, head, body, exchange.plan.answer)

    async def _stream(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        answer: ClientResponse,
        watch: UsageTap,
        report: ResponseReport,
        upstream: Endpoint,
    ) -> AsyncIterator[bytes]:
        """Pass a stream on, event by event, and settle it when it ends, however it does."""
        api, settled, complete = exchange.incoming.api, False, False
        problem = told = ""
        said = AnswerDigest(keep=self._recorder.keep_content)
        try:
            try:
                async for chunk in answer:
                    events = watch.feed(chunk)
                    if events:
                        complete = complete or end_at(api, events) >= 0
                        told = told or _told_in(api, events, upstream)
                        if told:
                            events = upstream.without_key(events)
                        said.add(events)
                        yield events
                    if watch.broken:
                        problem = "malformed: an event has no end"
                        break
            except WireError as error:
                problem = f"{_code(error)}: {error}"
            rest = b"" if problem else watch.end()
            if rest:
                complete = complete or end_at(api, rest) >= 0
                told = told or _told_in(api, rest, upstream)
                if told:
                    rest = upstream.without_key(rest)
                said.add(rest)
                yield rest
            if not (problem or complete or told):
                problem = "cut_off: the stream ended before the answer did"
            settled = True
            await self._settle_stream(exchange, invocation, watch, report, said, told or problem)
            if problem and not told:
                yield _error_event(exchange, problem)
        finally:
            await answer.aclose()
            if not settled:
                await asyncio.shield(self._left(exchange, invocation, watch))

    async def _settle_stream(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        watch: UsageTap,
        report: ResponseReport,
        said: AnswerDigest,
        problem: str,
    ) -> None:
        usage = watch.usage
        report.estimate = usage is None
        report.lines = cost_of(exchange.plan.price, usage or _so_far(exchange, watch))
        await self._recorder.settle(
            invocation, report.lines, error=problem, answer=said, estimate=report.estimate
        )

    async def _left(
        self, exchange: PlannedRequest, invocation: GatewayCall, watch: UsageTap
    ) -> None:
        """Record a stream whose client left: what was made until then is paid for."""
        lines = cost_of(exchange.plan.price, watch.usage or _so_far(exchange, watch))
        await self._recorder.cancel(invocation, "the client left", lines)

    async def _end(self, invocation: GatewayCall, error: str) -> None:
        await self._recorder.settle(invocation, (), error=error)

    async def _refusal(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        answer: ClientResponse,
        upstream: Endpoint,
    ) -> UpstreamFailed:
        """Record an upstream's refusal; its own answer is passed on, but for our key in it."""
        content = upstream.without_key(await answer.read(_MOST_ERROR))
        said, key = _said(content), upstream.key.reveal()
        error = refused(exchange.plan.provider, answer.status, answer.headers, said, key)
        await self._end(invocation, f"{error.code or answer.status}: {error}")
        kind = "429" if answer.status == 429 else "5xx" if answer.status >= 500 else "refused"
        head = RawHeaders(upstream.without_key(_head(exchange, answer, invocation)))
        if exchange.incoming.caller.report:
            content = ResponseReport(exchange.plan, invocation.id).in_answer(content)
        told = GatewayResponse(answer.status, head, content, exchange.plan.answer)
        return UpstreamFailed(kind, error, invocation, told)


def _head(
    exchange: PlannedRequest,
    answer: ClientResponse,
    invocation: GatewayCall,
    lines: tuple[CostLine, ...] = (),
) -> RawHeaders:
    """Return the head of an answer: the upstream's, the plan's, and this request's own."""
    money = money_of(lines)
    return RawHeaders(
        b"%b%bmodelpact-invocation: %b\r\n%b%b"
        % (
            answer.headers.forwardable(_KEPT_BACK),
            exchange.plan.head,
            invocation.id.encode(),
            b""
            if money is None
            else b"modelpact-cost-usd: %b\r\n" % format_decimal(money).encode(),
            RawHeaders.encode(exchange.headers) if exchange.headers else b"",
        )
    )


def _is_stream(answer: ClientResponse) -> bool:
    if answer.status in BODILESS_STATUSES:
        return False
    kind = answer.headers.get("content-type") or ""
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _so_far(exchange: PlannedRequest, watch: UsageTap) -> Usage:
    """Estimate what an answer without usage took: most of a stream is not text."""
    return Usage(exchange.expected_usage.input, stream_tokens(watch.characters))


def _said(content: bytes) -> ErrorBody | None:
    try:
        said = read_error(msgspec.json.decode(content))
    except UNREADABLE:
        said = None
    if said is None and content.strip():
        return ErrorBody(cleaned(content[:2_000].decode("utf-8", "replace").strip(), ""))
    return said


def _told_in(api: RequestApi, events: bytes, upstream: Endpoint) -> str:
    """Return the error that an upstream tells of in its stream, for the record."""
    event = error_in(api, events)
    if not event:
        return ""
    said = _said(event[max(0, event.find(b"{")) :])
    if said is None:
        return "upstream_error: "
    key = upstream.key.reveal()
    code = cleaned(said.code or said.kind, key) or "upstream_error"
    return f"{code}: {cleaned(said.message, key)}"


def _code(error: WireError) -> str:
    if isinstance(error, WireTimeout):
        return "timeout"
    if isinstance(error, PoolFull):
        return "overloaded"
    if error.phase in ("pool", "connect", "tls"):
        return "unreachable"
    return "cut_off" if isinstance(error, ConnectionLost) else "malformed"


def _failed(exchange: PlannedRequest, error: WireError, invocation: GatewayCall) -> UpstreamFailed:
    code = _code(error)
    wait = error.retry_after if isinstance(error, PoolFull) else None
    told = UpstreamError(f"{exchange.plan.provider}: {error}", code=code, retry_after=wait)
    return UpstreamFailed("429" if wait is not None else "outage", told, invocation)


def _error_event(exchange: PlannedRequest, problem: str) -> bytes:
    """Write the event that ends a stream which broke, as the client's API has it."""
    code, _, message = problem.partition(": ")
    body = error_body(
        exchange.incoming.api, GatewayError(502, code, f"the upstream failed: {message}")
    )
    kind = "error" if exchange.incoming.api != "openai-chat" else ""
    return write_event(msgspec.json.encode(body).decode(), kind)
