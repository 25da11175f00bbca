"""The server of a provider: runs each invocation once and signs its responses."""

import asyncio
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import msgspec

from modelpact.identity import Signer, sign_body
from modelpact.ledger.costs import CostLine, Unit
from modelpact.providers.contract import ContractError, Offer, Registration, expected_charge
from modelpact.providers.http.messages import (
    ACKNOWLEDGEMENT,
    AcceptedMessage,
    DeregisteredMessage,
    InvocationMessage,
    PartialMessage,
    ResponseMessage,
    decode,
    encode,
    signed_headers,
)
from modelpact.providers.sdk.runtime_client import MessageKind, RegistrationStatus, RuntimeClient
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpError, HttpRequest, HttpResponse, Routes, write_event

CapabilityFunction = Callable[..., Any]
MessageT = TypeVar("MessageT", InvocationMessage, DeregisteredMessage)
_LOG: Final = logging.getLogger("modelpact.sdk")
_MAX_INVOCATIONS: Final = 10_000
"""Invocations that are kept, running or done, to recognise one that is sent again."""
_MAX_ERROR: Final = 300
_EVENT_STREAM: Final = (("content-type", "text/event-stream"), ("cache-control", "no-store"))


class FinalOutput(msgspec.Struct, frozen=True):
    """The last value that a streaming capability yields: its whole output."""

    output: Any


class CapabilityCall:
    """One call of a capability: its id, its deadline, and the cost that it reports."""

    def __init__(self, invocation_id: str, deadline_ms: int | None, semantics: str) -> None:
        self.invocation_id = invocation_id
        self.semantics = semantics
        self.deadline_ms = deadline_ms
        """When the runtime gives up, as Unix time in milliseconds."""
        self.estimated = False
        self._started = time.monotonic_ns()
        self._spent: dict[tuple[Unit, str], int] = {}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, or None."""
        if self.deadline_ms is None:
            return None
        return max(0.0, self.deadline_ms / 1_000 - time.time())

    def spend(self, unit: Unit, amount: int, currency: str = "") -> None:
        """Add to the cost: tokens, nanoseconds, units, or nano-units of a currency."""
        if amount < 0:
            raise InputError("amount: a cost cannot be negative")
        key = (unit, currency)
        self._spent[key] = self._spent.get(key, 0) + amount

    def estimate(self) -> None:
        """Mark the cost as an estimate that will be corrected later."""
        self.estimated = True

    def cost(self, registration: Registration, offer: Offer) -> list[CostLine]:
        """Return the reported cost, by default the time or one unit; money follows the rates."""
        lines = [CostLine(unit, amount, money) for (unit, money), amount in self._spent.items()]
        if not lines and "time" in registration.units:
            lines.append(CostLine("time", time.monotonic_ns() - self._started))
        if not lines and "discrete" in registration.units:
            lines.append(CostLine("discrete", 1))
        if "currency" in registration.units and all(line.unit != "currency" for line in lines):
            amount = expected_charge(offer, tuple(lines))
            lines.append(CostLine("currency", amount, registration.currency))
        return lines


class ProviderServer:
    """A handler for `modelpact.wire` that runs the invocations of a runtime."""

    def __init__(
        self,
        registration: Registration,
        functions: dict[str, CapabilityFunction],
        signer: Signer,
        runtime: RuntimeClient,
        status: RegistrationStatus,
    ) -> None:
        self._registration = registration
        self._functions = functions
        self._signer = signer
        self._runtime = runtime
        self._status = status
        self._open_streams = 0
        self._stream_ended = asyncio.Event()
        self._tasks: OrderedDict[str, asyncio.Task[tuple[bytes, int]]] = OrderedDict()
        self._streamed: OrderedDict[str, None] = OrderedDict()
        self._routes = Routes(
            ("POST", "/invocations", self._invoke),
            ("DELETE", "/invocations/{}", self._cancel),
            ("POST", "/deregistered", self._deregistered),
        )

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Handle a request of the runtime."""
        endpoint, segments = self._routes.find(request.method, request.path)
        return await endpoint(request, *segments)

    async def finish(self) -> None:
        """Wait for running invocations."""
        while self._open_streams or (running := [task for task in self._tasks.values() if not task.done()]):
            if self._open_streams:
                self._stream_ended.clear()
                await self._stream_ended.wait()
            else:
                await asyncio.wait(running)

    async def close(self) -> None:
        """Cancel running invocations."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _invoke(self, request: HttpRequest) -> HttpResponse:
        message = _read(await request.body(), InvocationMessage)
        try:
            offer = self._registration.offer(message.capability)
        except ContractError as error:
            raise HttpError(400, str(error)) from None
        if message.semantics not in offer.semantics:
            raise HttpError(400, f"{offer.kind} is not offered as {message.semantics}")
        return await self._start(message, offer)

    async def _cancel(self, _: HttpRequest, invocation_id: str) -> HttpResponse:
        task = self._tasks.get(invocation_id)
        if task is None:
            raise HttpError(404, "no such invocation")
        task.cancel()
        return HttpResponse(204)

    async def _deregistered(self, request: HttpRequest) -> HttpResponse:
        self._status.notified(_read(await request.body(), DeregisteredMessage))
        return HttpResponse(204)

    async def _start(self, message: InvocationMessage, offer: Offer) -> HttpResponse:
        """Start an invocation; one that is sent again gets the response of the first."""
        invocation_id = message.invocation_id
        if self._status.ended is not None and invocation_id not in self._tasks:
            raise HttpError(410, f"{self._registration.id} was deregistered")
        if message.semantics == "streaming":
            if invocation_id in self._streamed:
                raise HttpError(409, "this invocation was already streamed")
            self._streamed[invocation_id] = None
            if len(self._streamed) > _MAX_INVOCATIONS:
                self._streamed.popitem(last=False)
            return HttpResponse(200, _EVENT_STREAM, self._run_streaming(message, offer))
        task = self._tasks.get(invocation_id)
        if task is None:
            self._make_room()
            run = self._run_sync if message.semantics == "sync" else self._run_async
            task = self._tasks[invocation_id] = asyncio.create_task(run(message, offer))
            task.add_done_callback(_log_failure)
        if message.semantics == "async":
            body = encode(AcceptedMessage(invocation_id))
            headers = signed_headers(self._signer, invocation_id, body, ACKNOWLEDGEMENT)
            return HttpResponse(202, headers, body)
        try:
            body, sequence = await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise HttpError(410, "the invocation was cancelled") from None
            task.cancel()
            raise
        headers = signed_headers(self._signer, invocation_id, body, sequence)
        return HttpResponse(200, headers, body)

    def _make_room(self) -> None:
        """Forget the oldest completed invocation if there are too many; refuse if all run."""
        if len(self._tasks) < _MAX_INVOCATIONS:
            return
        oldest = next((key for key, task in self._tasks.items() if task.done()), None)
        if oldest is None:
            raise HttpError(503, "too many running invocations; try again later")
        del self._tasks[oldest]

    async def _run_sync(self, message: InvocationMessage, offer: Offer) -> tuple[bytes, int]:
        """Run an invocation and return its response."""
        [(_, sequence, body)] = [encoded async for encoded in self._run(message, offer)]
        return body, sequence

    async def _run_async(self, message: InvocationMessage, offer: Offer) -> tuple[bytes, int]:
        """Run an invocation and deliver its partials and its response to the runtime."""
        body, sequence = b"", 0
        async for kind, sequence, body in self._run(message, offer):
            await self._runtime.deliver(message.invocation_id, kind, body, sequence)
        return body, sequence

    async def _run_streaming(self, message: InvocationMessage, offer: Offer) -> AsyncIterator[bytes]:
        """Run an invocation and yield its partials and its response as signed events."""
        self._open_streams += 1
        try:
            async for kind, sequence, body in self._run(message, offer):
                header = sign_body(self._signer, message.invocation_id, body, sequence=sequence)
                event = "partial" if kind == "partials" else "final"
                yield write_event(f"{header}\n{body.decode()}", event)
        finally:
            self._open_streams -= 1
            self._stream_ended.set()

    async def _run(self, message: InvocationMessage, offer: Offer) -> AsyncIterator[tuple[MessageKind, int, bytes]]:
        """Call the function of an invocation; yield its partials and then its response.

        Each is yielded as its kind, its sequence number and its encoded message. A synchronous
        invocation has no partials. If the function fails, the response is its error.
        """
        call = CapabilityCall(message.invocation_id, message.deadline, message.semantics)
        output: Any = None
        error, number = "", 0
        try:
            async for item in _call(self._functions[offer.kind], message.input, call):
                if isinstance(item, FinalOutput):
                    output = item.output
                elif message.semantics != "sync":
                    number += 1
                    body = encode(PartialMessage(call.invocation_id, number, item))
                    yield "partials", number, body
        except Exception as failure:
            _LOG.info("a capability failed", exc_info=failure)
            error = f"{type(failure).__name__}: {failure}"[:_MAX_ERROR]
            output = msgspec.UNSET
        cost = msgspec.to_builtins(call.cost(self._registration, offer))
        response = ResponseMessage(call.invocation_id, cost, output, error, call.estimated)
        yield "response", number + 1, encode(response)


def _read(body: bytes, kind: type[MessageT]) -> MessageT:
    try:
        return decode(body, kind)
    except InputError as error:
        raise HttpError(400, str(error)) from None


async def _call(function: CapabilityFunction, value: Any, call: CapabilityCall) -> AsyncIterator[Any]:
    """Call a plain, async or generator function; yield its partials, then its final output."""
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        yield FinalOutput(await asyncio.to_thread(function, value, call))
        return
    result = function(value, call)
    if inspect.isasyncgen(result):
        ended = False
        async for item in result:
            yield item
            ended = isinstance(item, FinalOutput)
            if ended:
                break
        if not ended:
            raise InputError("the capability ended without yielding FinalOutput(output)")
        return
    yield FinalOutput(await result)


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.warning("an invocation was abandoned: %s", error)
