"""The work of a provider's server: each invocation is done once, and its answers are signed."""

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
from modelpact.providers.contract import Offer, Registration, expected_charge
from modelpact.providers.http.messages import (
    ACKNOWLEDGED,
    AcceptedMessage,
    AnswerMessage,
    DeregisteredMessage,
    InvocationMessage,
    PartialMessage,
    decode,
    encode,
    signed_headers,
)
from modelpact.providers.sdk.runtime_client import (
    RefusedByRuntime,
    RegistrationStatus,
    RuntimeClient,
)
from modelpact.vocabulary.errors import InputError
from modelpact.wire import HttpError, HttpRequest, HttpResponse, write_event

M = TypeVar("M", InvocationMessage, DeregisteredMessage)
Function = Callable[..., Any]
_LOG: Final = logging.getLogger("modelpact.kit")
_MOST_REMEMBERED: Final = 10_000
_EVENTS: Final = (("content-type", "text/event-stream"), ("cache-control", "no-store"))


class FinalOutput(msgspec.Struct, frozen=True):
    """The last thing that a streaming capability yields: its whole output."""

    output: Any


class CapabilityCall:
    """What is known of a call, and what it has cost so far."""

    def __init__(self, invocation_id: str, deadline_ms: int | None, semantics: str) -> None:
        self.invocation_id = invocation_id
        self.semantics = semantics
        self.deadline_ms = deadline_ms
        """When the runtime gives up, in milliseconds since 1970."""
        self.estimated = False
        self._began = time.monotonic_ns()
        self._spent: dict[tuple[Unit, str], int] = {}

    @property
    def seconds_left(self) -> float | None:
        """How long the runtime will still wait."""
        if self.deadline_ms is None:
            return None
        return max(0.0, self.deadline_ms / 1_000 - time.time())

    def spend(self, unit: Unit, amount: int, currency: str = "") -> None:
        """Report so much more of a unit: tokens, nanoseconds, pieces, nano-units of money."""
        if amount < 0:
            raise InputError("amount: a cost is never below zero")
        key = (unit, currency)
        self._spent[key] = self._spent.get(key, 0) + amount

    def estimate(self) -> None:
        """Say that the cost is an estimate, to be corrected later."""
        self.estimated = True

    def cost(self, registration: Registration, offer: Offer) -> list[CostLine]:
        """Return the cost lines: what was reported, else time and pieces; money by the rates."""
        lines = [CostLine(unit, amount, money) for (unit, money), amount in self._spent.items()]
        if not lines and "time" in registration.units:
            lines.append(CostLine("time", time.monotonic_ns() - self._began))
        if not lines and "discrete" in registration.units:
            lines.append(CostLine("discrete", 1))
        if "currency" in registration.units and all(one.unit != "currency" for one in lines):
            amount = expected_charge(offer, tuple(lines))
            lines.append(CostLine("currency", amount, registration.currency))
        return lines


class ProviderServer:
    """A handler for `modelpact.wire` that does what the runtime asks."""

    def __init__(
        self,
        registration: Registration,
        functions: dict[str, Function],
        signer: Signer,
        line: RuntimeClient,
        standing: RegistrationStatus,
    ) -> None:
        self._registration = registration
        self._functions = functions
        self._signer = signer
        self._line = line
        self._standing = standing
        self._streams = 0
        self._stilled = asyncio.Event()
        self._tasks: OrderedDict[str, asyncio.Task[tuple[bytes, int]]] = OrderedDict()
        self._streamed: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the runtime."""
        path = request.decoded_path
        if request.method == "POST" and path == "/invocations":
            message = _read(await request.body(), InvocationMessage)
            try:
                offer = self._registration.offer(message.capability)
            except InputError as error:
                raise HttpError(400, str(error)) from None
            if message.semantics not in offer.semantics:
                raise HttpError(400, f"{offer.kind} is not offered as {message.semantics}")
            return await self._begin(message, offer)
        if request.method == "DELETE" and path.startswith("/invocations/"):
            return self._cancel(path.removeprefix("/invocations/"))
        if request.method == "POST" and path == "/deregistered":
            self._standing.told(_read(await request.body(), DeregisteredMessage))
            return HttpResponse(204)
        raise HttpError(404, "no such path")

    async def finish(self) -> None:
        """Wait for the work that is under way."""
        while self._streams or (working := [one for one in self._tasks.values() if not one.done()]):
            if self._streams:
                self._stilled.clear()
                await self._stilled.wait()
            else:
                await asyncio.wait(working)

    async def close(self) -> None:
        """Stop all work."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _cancel(self, identity: str) -> HttpResponse:
        task = self._tasks.get(identity)
        if task is None:
            raise HttpError(404, "no such invocation")
        task.cancel()
        return HttpResponse(204)

    async def _begin(self, message: InvocationMessage, offer: Offer) -> HttpResponse:
        """Start the work, or find it under way: the id says which work it is."""
        identity = message.invocation_id
        if self._standing.gone is not None and identity not in self._tasks:
            raise HttpError(410, f"{self._registration.id} was deregistered")
        if message.semantics == "streaming":
            if identity in self._streamed:
                raise HttpError(409, "this invocation was streamed already")
            self._streamed[identity] = None
            if len(self._streamed) > _MOST_REMEMBERED:
                self._streamed.popitem(last=False)
            return HttpResponse(200, _EVENTS, self._stream(message, offer))
        task = self._tasks.get(identity)
        if task is None:
            self._make_room()
            work = self._whole if message.semantics == "sync" else self._late
            task = self._tasks[identity] = asyncio.create_task(work(message, offer))
            task.add_done_callback(_look)
        if message.semantics == "async":
            body = encode(AcceptedMessage(identity))
            return HttpResponse(
                202, signed_headers(self._signer, identity, body, ACKNOWLEDGED), body
            )
        try:
            body, sequence = await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise HttpError(410, "the invocation was cancelled") from None
            task.cancel()
            raise
        return HttpResponse(200, signed_headers(self._signer, identity, body, sequence), body)

    def _make_room(self) -> None:
        """Forget the oldest work that is done; refuse more where none is."""
        if len(self._tasks) < _MOST_REMEMBERED:
            return
        oldest = next((one for one, task in self._tasks.items() if task.done()), None)
        if oldest is None:
            raise HttpError(503, "too much is under way; try again later")
        del self._tasks[oldest]

    async def _whole(self, message: InvocationMessage, offer: Offer) -> tuple[bytes, int]:
        """Do the work and return its answer."""
        call = CapabilityCall(message.invocation_id, message.deadline, message.semantics)
        output, error = None, ""
        try:
            async for piece in _pieces(self._functions[offer.kind], message.input, call):
                if isinstance(piece, FinalOutput):
                    output = piece.output
        except Exception as failure:
            error = _told(failure)
        return self._answer(call, offer, output, error), 1

    async def _late(self, message: InvocationMessage, offer: Offer) -> tuple[bytes, int]:
        """Do the work, and deliver its pieces and its answer as they come."""
        call = CapabilityCall(message.invocation_id, message.deadline, message.semantics)
        output, error, number = None, "", 0
        try:
            async for piece in _pieces(self._functions[offer.kind], message.input, call):
                if isinstance(piece, FinalOutput):
                    output = piece.output
                else:
                    number += 1
                    await self._line.partial(call.invocation_id, number, piece)
        except RefusedByRuntime:
            raise
        except Exception as failure:
            error = _told(failure)
        body = self._answer(call, offer, output, error)
        await self._line.answer(call.invocation_id, body, number + 1)
        return body, number + 1

    async def _stream(self, message: InvocationMessage, offer: Offer) -> AsyncIterator[bytes]:
        """Do the work, and send its pieces and its answer as signed events."""
        call = CapabilityCall(message.invocation_id, message.deadline, message.semantics)
        output, error, number = None, "", 0
        self._streams += 1
        try:
            async for piece in _pieces(self._functions[offer.kind], message.input, call):
                if isinstance(piece, FinalOutput):
                    output = piece.output
                else:
                    number += 1
                    body = encode(PartialMessage(call.invocation_id, number, piece))
                    yield self._event("partial", call, body, number)
        except Exception as failure:
            error = _told(failure)
        finally:
            self._streams -= 1
            self._stilled.set()
        yield self._event("final", call, self._answer(call, offer, output, error), number + 1)

    def _event(self, kind: str, call: CapabilityCall, body: bytes, number: int) -> bytes:
        header = sign_body(self._signer, call.invocation_id, body, sequence=number)
        return write_event(f"{header}\n{body.decode()}", kind)

    def _answer(self, call: CapabilityCall, offer: Offer, output: Any, error: str) -> bytes:
        cost = msgspec.to_builtins(call.cost(self._registration, offer))
        kept = msgspec.UNSET if error else output
        return encode(AnswerMessage(call.invocation_id, cost, kept, error, call.estimated))


def _read(body: bytes, kind: type[M]) -> M:
    try:
        return decode(body, kind)
    except InputError as error:
        raise HttpError(400, str(error)) from None


async def _pieces(function: Function, value: Any, call: CapabilityCall) -> AsyncIterator[Any]:
    """Call a capability of any form: its pieces, then its final output."""
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        yield FinalOutput(await asyncio.to_thread(function, value, call))
        return
    made = function(value, call)
    if inspect.isasyncgen(made):
        ended = False
        async for piece in made:
            yield piece
            ended = isinstance(piece, FinalOutput)
            if ended:
                break
        if not ended:
            raise InputError("the capability ended without yielding Final(output)")
        return
    yield FinalOutput(await made)


def _told(failure: Exception) -> str:
    _LOG.info("a capability failed", exc_info=failure)
    return f"{type(failure).__name__}: {failure}"[:300]


def _look(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.warning("an invocation was given up: %s", error)
