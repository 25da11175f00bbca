"""Carrying: requests through the conversation model, to another API or with emulation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from modelpact.conversation.fidelity import Loss
from modelpact.conversation.request import Request
from modelpact.conversation.response import Finish, Response, StreamEvent, Usage
from modelpact.dispatch import emulated_call as emulated
from modelpact.emulation.emulated_request import EmulatedRequest
from modelpact.emulation.emulator import Emulator
from modelpact.emulation.report import EmulationFailed
from modelpact.gateway.errors import JSON, GatewayError, GatewayResponse, error_body
from modelpact.gateway.plan.plan import HeaderPairs, header_safe
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.plan.translation import describe_losses
from modelpact.gateway.record.answer_digest import AnswerDigest
from modelpact.gateway.record.calls import GatewayCall
from modelpact.gateway.record.recorder import Recorder
from modelpact.gateway.reports import ResponseReport
from modelpact.gateway.upstream.codecs import StreamEncoder, new_id, write_answer
from modelpact.gateway.upstream.passthrough import INTERNAL, UpstreamFailed
from modelpact.ledger.costs import CostLine, cost_of, money_of
from modelpact.ledger.money import format_decimal
from modelpact.needs.token_estimate import stream_tokens
from modelpact.providers.models.errors import UpstreamError
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import write_event


class Translator:
    """Carries requests to model ports."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._emulator = Emulator()

    async def translate(self, exchange: PlannedRequest, port: ModelPort) -> GatewayResponse:
        """Answer through a port. Record and raise `UpstreamFailed` where no good answer came."""
        plan, incoming, translation = exchange.plan, exchange.incoming, exchange.translation
        assert translation is not None
        exchange = msgspec.structs.replace(exchange, plan=translation.plan)
        request, losses = translation.request, translation.losses
        work = None
        if plan.emulate:
            names = [name for name, _ in plan.emulate]
            work = self._emulator.prepare(request, names)
        stream = incoming.stream
        invocation = await self._recorder.open(
            plan,
            incoming.raw,
            "streaming" if stream else "sync",
            incoming.caller.key.id,
            exchange.estimate,
        )
        try:
            head = _head(exchange, invocation, losses)
            if stream:
                return await self._streamed(exchange, port, request, work, invocation, head)
            try:
                response = await _complete(port, request, work)
            except ModelpactError as error:
                raise await self._refused(exchange, invocation, error) from error
            return await self._whole(exchange, invocation, response, head)
        except asyncio.CancelledError:
            # It may have been sent, and is then paid for although nobody reads the answer.
            left = self._recorder.cancel(invocation, "the client left", exchange.estimate)
            await asyncio.shield(left)
            raise
        except Exception:
            # Nothing happens where it has ended already.
            await self._recorder.settle(invocation, (), error=INTERNAL)
            raise

    async def _whole(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        response: Response,
        head: HeaderPairs,
    ) -> GatewayResponse:
        named = msgspec.structs.replace(
            response,
            id=response.id or new_id(exchange.incoming.api),
            model=response.model or exchange.plan.model,
        )
        content = msgspec.json.encode(
            write_answer(exchange.incoming.api, named, exchange.incoming.body).body
        )
        counted = response.usage != Usage()
        lines = cost_of(exchange.plan.price, response.usage if counted else exchange.expected_usage)
        await self._recorder.settle(invocation, lines, answer=content, estimate=not counted)
        money = money_of(lines)
        cost = () if money is None else (("modelpact-cost-usd", format_decimal(money)),)
        if exchange.incoming.caller.report:
            content = ResponseReport(exchange.plan, invocation.id, lines, not counted).in_answer(
                content
            )
        return GatewayResponse(200, (JSON, *head, *cost), content, exchange.plan.answer)

    async def _streamed(
        self,
        exchange: PlannedRequest,
        port: ModelPort,
        request: Request,
        work: EmulatedRequest | None,
        invocation: GatewayCall,
        head: HeaderPairs,
    ) -> GatewayResponse:
        """Begin a stream: what fails before the first event is answered as an error, not in it."""
        events = port.stream(request) if work is None else emulated.stream(port, work)
        try:
            first = await anext(aiter(events))
        except StopAsyncIteration:
            cut = UpstreamError("the stream was empty", code="cut_off")
            raise await self._refused(exchange, invocation, cut) from None
        except ModelpactError as error:
            raise await self._refused(exchange, invocation, error) from error
        kind = ("content-type", "text/event-stream")
        report = ResponseReport(exchange.plan, invocation.id)
        body = self._events(exchange, invocation, first, events, report)
        if exchange.incoming.caller.report:
            body = report.in_stream(exchange.incoming.api, body)
        lines = (kind, ("cache-control", "no-cache"), *head)
        return GatewayResponse(200, lines, body, exchange.plan.answer)

    async def _events(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        first: StreamEvent,
        events: AsyncIterator[StreamEvent],
        report: ResponseReport,
    ) -> AsyncIterator[bytes]:
        """Write a stream as it comes, and settle it when it ends, however it does."""
        speller = StreamEncoder(
            exchange.incoming.api,
            new_id(exchange.incoming.api),
            exchange.plan.model,
            exchange.incoming.body,
        )
        usage, made, settled, problem = Usage(), 0, False, ""
        whole = AnswerDigest(keep=self._recorder.keep_content)
        try:
            event: StreamEvent | None = first
            try:
                while event is not None:
                    if isinstance(event, Finish):
                        usage = event.usage
                    said = speller.feed(event)
                    made += len(said)
                    whole.add(said)
                    if isinstance(event, Finish):
                        settled = True
                        await self._settle(exchange, invocation, report, usage, made, whole)
                    if said:
                        yield said
                    if isinstance(event, Finish):
                        return
                    event = await anext(events, None)
                problem = "cut_off: the stream ended before the answer did"
            except ModelpactError as error:
                problem = f"{getattr(error, 'code', '') or 'failed'}: {error}"
                usage = error.usage if isinstance(error, EmulationFailed) else usage
            settled = True
            await self._settle(exchange, invocation, report, usage, made, whole, problem)
            yield _error_event(exchange, problem)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                with contextlib.suppress(ModelpactError):
                    await close()
            if not settled:
                lines = cost_of(exchange.plan.price, _so_far(exchange, usage, made))
                left = self._recorder.cancel(invocation, "the client left", lines)
                await asyncio.shield(left)

    async def _settle(
        self,
        exchange: PlannedRequest,
        invocation: GatewayCall,
        report: ResponseReport,
        usage: Usage,
        made: int,
        whole: AnswerDigest,
        error: str = "",
    ) -> None:
        report.estimate = usage == Usage()
        report.lines = cost_of(exchange.plan.price, _so_far(exchange, usage, made))
        await self._recorder.settle(
            invocation, report.lines, error=error, answer=whole, estimate=report.estimate
        )

    async def _refused(
        self, exchange: PlannedRequest, invocation: GatewayCall, error: ModelpactError
    ) -> UpstreamFailed:
        """Record that no answer came."""
        code = getattr(error, "code", "") or "failed"
        lines: tuple[CostLine, ...] = ()
        if isinstance(error, EmulationFailed):
            code = "emulation_failed"
            lines = cost_of(exchange.plan.price, error.usage)
        await self._recorder.settle(invocation, lines, error=f"{code}: {error}")
        status = error.status if isinstance(error, ProviderError) else None
        wait = error.retry_after if isinstance(error, UpstreamError) else None
        told = UpstreamError(str(error), status=status, code=code, retry_after=wait)
        kind = "outage" if status is None else "refused"
        if status is not None and status >= 500:
            kind = "5xx"
        elif status == 429:
            kind = "429"
        if isinstance(error, EmulationFailed):
            kind = "refused"
        return UpstreamFailed(kind, told, invocation)


async def _complete(port: ModelPort, request: Request, work: EmulatedRequest | None) -> Response:
    if work is None:
        return await port.complete(request)
    return (await emulated.complete(port, work)).response


def _head(
    exchange: PlannedRequest, invocation: GatewayCall, losses: tuple[Loss, ...]
) -> HeaderPairs:
    head = [*exchange.plan.headers(), ("modelpact-invocation", invocation.id), *exchange.headers]
    if losses:
        head.append(("modelpact-lossy", header_safe(describe_losses(losses))))
    return tuple(head)


def _so_far(exchange: PlannedRequest, usage: Usage, made: int) -> Usage:
    """Return what a stream has used; where nobody said, by its length, most of which is no text."""
    return Usage(exchange.expected_usage.input, stream_tokens(made)) if usage == Usage() else usage


def _error_event(exchange: PlannedRequest, problem: str) -> bytes:
    code, _, message = problem.partition(": ")
    body = error_body(
        exchange.incoming.api, GatewayError(502, code, f"the upstream failed: {message}")
    )
    kind = "error" if exchange.incoming.api != "openai-chat" else ""
    return write_event(msgspec.json.encode(body).decode(), kind)
