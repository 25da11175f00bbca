"""Turns: a turn records messages, calls the model with them, and records its response."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.conversation.response import Response, StreamEvent, collect
from modelpact.dispatch import emulated_call
from modelpact.dispatch.emulated_call import closing_stream
from modelpact.dispatch.model_caller import CallFailed, CallOptions, ModelCaller, ModelResult
from modelpact.emulation.emulated_request import EmulatedRequest, EmulatorReport
from modelpact.emulation.emulator import Emulator, emulator_strategies
from modelpact.ledger.costs import CostLine, CostRecord
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.negotiation.parameters import ParamFinding, effective_params, params_affected
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.records import digest, encode_content
from modelpact.sessions.errors import CapabilityMissing, ParamsRefused, SessionBusy, SessionMoved, describe_param
from modelpact.sessions.params import apply_params, build_request
from modelpact.sessions.store import CommittedState, History, SessionState
from modelpact.sessions.transitions import StateTransitions, event_payload
from modelpact.vocabulary.errors import InputError, ModelpactError, brief
from modelpact.vocabulary.redaction import redact_text

MessageInput = str | Message | Iterable[str | Message]
"""What a turn may be started with: a text, a message, or several of either."""

_CHECKED_BEFORE_SENDING: Final = (
    "streaming",
    "tool-calling",
    "structured-output",
    "json-object",
    "reasoning",
    "image-input",
)
"""Capabilities that a request visibly uses: it is not sent to a model that lacks one."""


class Turn(msgspec.Struct, frozen=True):
    """An answer, the invocations that it took, their cost, and warnings about it."""

    response: Response
    invocations: tuple[Invocation, ...]
    cost: tuple[CostLine, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.response.text


class TurnRunner:
    """Runs the turns of one session, one at a time, and keeps its message history."""

    def __init__(self, transitions: StateTransitions, models: ModelCaller, history: History) -> None:
        self._transitions = transitions
        self._store = transitions.store
        self._models = models
        self._busy = threading.Lock()
        self.history = history

    async def run(self, messages: tuple[Message, ...]) -> Turn:
        """Send messages and return the turn."""
        turn: StreamEvent | Turn | None = None
        async for event in self.stream(messages, streaming=False):
            turn = event
        assert isinstance(turn, Turn)
        return turn

    async def stream(
        self, messages: tuple[Message, ...], *, streaming: bool = True
    ) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Send messages and yield the events of the answer, if it is streaming, then the turn."""
        self._transitions.current()
        if self._transitions.refusal is not None:
            await asyncio.to_thread(self._transitions.check_fit)
        if not self._busy.acquire(blocking=False):
            raise SessionBusy(self._store.id)
        try:
            running = self._run_turn(self._transitions.committed, messages, streaming)
            async with aclosing(running) as events:
                async for event in events:
                    yield event
        finally:
            self._busy.release()

    async def _run_turn(
        self, committed: CommittedState, messages: tuple[Message, ...], streaming: bool
    ) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Run one turn with the state that is in force as it begins."""
        warnings: list[str] = []
        request, emulated = self._prepare(committed.state, messages, streaming, warnings)
        turn_event = await self._record_messages(committed, messages, streaming)
        port = _RecordedPort(self._models, committed.state.provider, self._store.envelope, turn_event)

        def on_report(report: EmulatorReport) -> None:
            warnings.extend(f"{applied.capability} is emulated: {applied.label}" for applied in report.applied)
            warnings.extend(report.warnings)

        try:
            response: Response | None = None
            if streaming:
                events: list[StreamEvent] = []
                source = (
                    port.stream(request)
                    if emulated is None
                    else emulated_call.stream(port, emulated, on_report=on_report)
                )
                async with closing_stream(source) as stream:
                    async for event in stream:
                        events.append(event)
                        yield event
                response = collect(events)
            elif emulated is None:
                response = await port.complete(request)
            else:
                result = await emulated_call.complete(port, emulated)
                on_report(result.report)
                response = result.response
            assert response is not None  # a stream without its end raises CallFailed
        except CallFailed as error:
            raised = _point_of_use_error(committed.state.target, error)
            await self._record_failure(raised, error.invocation.settled_by or turn_event)
            if raised is error:
                raise  # keeps the provider's own error as its cause
            raise raised from error
        except ModelpactError as error:
            await self._record_failure(error, turn_event)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            cancelled = ModelpactError("the caller went away")
            await asyncio.shield(self._record_failure(cancelled, turn_event))
            raise
        try:
            turn = await self._record_response(messages, response, port.results, turn_event, warnings)
        except SessionMoved as error:
            await self._record_failure(error, turn_event)
            raise
        yield turn

    def _prepare(
        self, state: SessionState, messages: tuple[Message, ...], streaming: bool, warnings: list[str]
    ) -> tuple[Request, EmulatedRequest | None]:
        """Build the request, and its emulation if the model needs one.

        What does not apply on the model is refused, or dropped with a warning, as the policy says.
        """
        target, policy = state.target, state.policy
        negotiator = self._transitions.negotiator
        claims = negotiator.claims(target)
        labels = emulator_strategies().labels if policy.emulate else {}
        lacking = [name for name in _CHECKED_BEFORE_SENDING if claims.claim(name).support == "unsupported"]
        emulatable = frozenset(name for name in lacking if name in labels)
        resolution = negotiator.resolution(target)
        applied = apply_params(effective_params(state.layers), resolution, emulatable)
        if applied.lost and policy.unsupported_params == "refuse":
            _refuse_params(state, applied.lost, resolution)
        for finding in applied.lost:
            warnings.append(f"{'.'.join(finding.path)} was dropped: {finding.reason}")
        for finding in applied.unknown:
            warnings.append(f"{'.'.join(finding.path)} is sent: {finding.reason}")
        conversation = (*self.history.messages, *messages)
        request = build_request(target.partition("/")[2], conversation, applied.params)
        request = msgspec.structs.replace(request, stream=streaming)
        used = [name for name in lacking if _uses(request, name)]
        for name in used:
            if name not in emulatable:
                raise CapabilityMissing(target, name, "it is known not to have it")
        return request, Emulator().prepare(request, used) if used else None

    async def _record_messages(self, committed: CommittedState, messages: tuple[Message, ...], streaming: bool) -> str:
        """Record the messages before they are sent. Return the id of the event."""
        before = self.history
        payload = {
            "turn": before.turns + 1,
            "target": committed.state.target,
            "messages": len(messages),
            "content": digest(encode_content(messages)),
            "streaming": streaming,
        }

        def commit(tx: Transaction) -> str:
            self._store.add_messages(tx, before, messages)
            draft = Draft(self._store.envelope, "session.turn", payload, committed.event)
            return tx.append(draft).id

        turn_event = await self._store.ledger.write_async(commit)
        self.history = before.with_messages(messages)
        return turn_event

    async def _record_response(
        self,
        messages: tuple[Message, ...],
        response: Response,
        results: list[ModelResult],
        turn_event: str,
        warnings: list[str],
    ) -> Turn:
        invocations = tuple(result.invocation for result in results)
        warnings += _losses(invocations)
        before, message = self.history, Message("assistant", response.content)
        settled = invocations[-1].settled_by if invocations else None
        payload = {
            "turn": before.turns,
            "invocations": [invocation.id for invocation in invocations],
            "content": digest(encode_content(message)),
            "stopReason": response.stop_reason,
            "warnings": list(warnings),
        }
        draft = Draft(self._store.envelope, "session.answered", event_payload(payload), settled or turn_event)

        def commit(tx: Transaction) -> None:
            self._store.add_response(tx, before, message)
            tx.append(draft)

        await self._store.ledger.write_async(commit)
        self.history = before.with_response(messages, message)
        return Turn(response, invocations, self._cost(invocations), tuple(warnings))

    async def _record_failure(self, error: ModelpactError, cause: str) -> None:
        payload = {"turn": self.history.turns, "code": str(getattr(error, "code", "")), "error": str(error)[:500]}
        draft = Draft(self._store.envelope, "session.failed", event_payload(payload), cause)
        await self._store.ledger.write_async(lambda tx: tx.append(draft))

    def _cost(self, invocations: tuple[Invocation, ...]) -> tuple[CostLine, ...]:
        sums: dict[tuple[Any, str], int] = {}
        for invocation in invocations:
            settled_by = invocation.settled_by
            event = self._store.ledger.event(settled_by) if settled_by else None
            if event is not None:
                for line in msgspec.convert(event.payload["cost"], CostRecord).lines:
                    key = (line.unit, line.currency)
                    sums[key] = sums.get(key, 0) + line.amount
        return tuple(CostLine(unit, amount, currency) for (unit, currency), amount in sums.items())


class _RecordedPort:
    """A model port that makes every call an invocation in the session's envelope."""

    def __init__(self, models: ModelCaller, provider: str, envelope: str, cause: str) -> None:
        self._models = models
        self._provider = provider
        self._options: CallOptions = {"envelope": envelope, "cause": cause}
        self.results: list[ModelResult] = []

    async def complete(self, request: Request) -> Response:
        """Return the whole response to a request."""
        result = await self._models.call(self._provider, request, **self._options)
        self.results.append(result)
        return result.response

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Yield the events of the response to a request."""
        source = self._models.stream(self._provider, request, **self._options)
        async with closing_stream(source) as events:  # type: ignore[arg-type]
            async for event in events:
                if isinstance(event, ModelResult):
                    self.results.append(event)
                    yield event.response.finish
                else:
                    yield event


def read_messages(sent: MessageInput) -> tuple[Message, ...]:
    """Return the messages to send. The last must be the user's or a tool's."""
    items = [sent] if isinstance(sent, (str, Message)) else sent
    if isinstance(items, (bytes, Mapping)) or not isinstance(items, Iterable):
        raise InputError(f"expected a text, a Message or several, not {brief(sent)}")
    messages: list[Message] = []
    for item in items:
        if isinstance(item, str):
            if not item.strip():
                raise InputError("there is nothing to send: the text is empty")
            item = Message("user", (TextBlock(item),))
        if not isinstance(item, Message):
            raise InputError(f"a message is a text or a Message, not {brief(item)}")
        messages.append(item)
    if not messages or messages[-1].role not in ("user", "tool"):
        raise InputError("the last message must be the user's or a tool's: a model answers it")
    return tuple(messages)


def _refuse_params(state: SessionState, lost: tuple[ParamFinding, ...], resolution: Resolution) -> None:
    affected = {param.param_path: param for param in params_affected(state.layers, resolution)}
    for finding in lost:
        if finding.capability in _CHECKED_BEFORE_SENDING and finding.action == "unsupported":
            detail = describe_param(affected[finding.path])
            raise CapabilityMissing(state.target, finding.capability, detail, finding.path[0])
    raise ParamsRefused(state.target, tuple(affected[finding.path] for finding in lost))


def _point_of_use_error(target: str, error: CallFailed) -> ModelpactError:
    """Return `CapabilityMissing` if the failure taught that the model lacks something."""
    for observation in error.learned:
        name = observation.capability
        if observation.support == "unsupported" or name == "context-window":
            return CapabilityMissing(target, name, redact_text(str(error.__cause__ or error)))
    return error


def _uses(request: Request, name: str) -> bool:
    blocks = [block for message in request.messages for block in message.content]
    if name == "streaming":
        return request.stream
    if name == "tool-calling":
        has_tool_blocks = any(isinstance(block, (ToolUseBlock, ToolResultBlock)) for block in blocks)
        return bool(request.tools) or has_tool_blocks
    if name == "structured-output":
        return isinstance(request.output, JsonSchema)
    if name == "json-object":
        return isinstance(request.output, JsonObject)
    if name == "reasoning":
        return request.reasoning is not None
    return any(isinstance(block, ImageBlock) for block in blocks)


def _losses(invocations: tuple[Invocation, ...]) -> list[str]:
    outputs = [call.output for call in invocations if isinstance(call.output, dict)]
    losses = [loss for output in outputs for loss in output.get("losses", ())]
    return [f"{loss['path']} was lost: {loss['what']}" for loss in losses]
