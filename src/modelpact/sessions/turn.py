"""A turn: messages are kept, the model is asked, its answer is kept; each step is on the ledger."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import ImageBlock, Message, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.conversation.response import Finish, Response, StreamEvent, collect
from modelpact.dispatch import emulated_call as emulated
from modelpact.dispatch.emulated_call import closing_stream
from modelpact.dispatch.model_caller import CallFailed, ModelCaller, ModelResult
from modelpact.emulation.emulator import Emulator, emulator_strategies
from modelpact.emulation.report import EmulatedRequestReport
from modelpact.emulation.work import EmulatedRequest
from modelpact.ledger.costs import CostLine, CostRecord
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.negotiation.parameters import ParamFinding, effective_params, params_affected
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.store import digest, encoded
from modelpact.sessions import store as rows
from modelpact.sessions.audit_events import told
from modelpact.sessions.core import Core
from modelpact.sessions.errors import CapabilityMissing, ParamsRefused, SessionMoved, param_told
from modelpact.sessions.params import apply_params, build_request
from modelpact.sessions.store import History
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import redact_text

_AT_USE: Final = (
    "streaming",
    "tool-calling",
    "structured-output",
    "json-object",
    "reasoning",
    "image-input",
)
"""What a request is known to use, and is refused for before it is sent."""


class Turn(msgspec.Struct, frozen=True):
    """An answer: the invocations that it took, what they cost, and what is to be told of it."""

    response: Response
    invocations: tuple[Invocation, ...]
    cost: tuple[CostLine, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.response.text


class RecordedPort:
    """A model port whose every call is an invocation on the ledger, in the session's envelope."""

    def __init__(self, models: ModelCaller, provider: str, envelope: str, cause: str) -> None:
        self._models = models
        self._provider = provider
        self._where: dict[str, Any] = {"envelope": envelope, "cause": cause}
        self.called: list[ModelResult] = []

    async def complete(self, request: Request) -> Response:
        """Answer a request whole."""
        called = await self._models.call(self._provider, request, **self._where)
        self.called.append(called)
        return called.response

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Answer a request in events."""
        pieces = self._models.stream(self._provider, request, **self._where)
        async with closing_stream(pieces) as events:  # type: ignore[arg-type]
            async for piece in events:
                if isinstance(piece, ModelResult):
                    self.called.append(piece)
                    yield _finish(piece.response)
                else:
                    yield piece


class TurnRunner:
    """One turn of a session, against the state that was in force when it began."""

    def __init__(self, core: Core, history: History) -> None:
        self._session = core.id
        self._envelope = core.envelope
        self._ledger = core.ledger
        self._models = core.models
        self._knowledge = core.knowledge
        self._state = core.standing.state
        self._cause = core.standing.event
        self._own = core.own
        self.history = history
        """What was said, as far as the turn has come."""
        self._warnings: list[str] = []

    async def run(
        self, messages: tuple[Message, ...], *, streaming: bool
    ) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Yield the events of the answer, if it is streamed, and the turn as the last thing."""
        request, work = self._prepare(messages, streaming)
        begun = await self._keep_question(messages, streaming)
        provider = self._state.target.partition("/")[0]
        port = RecordedPort(self._models, provider, self._envelope, begun)
        try:
            response: Response | None = None
            if streaming:
                events: list[StreamEvent] = []
                async with closing_stream(self._streamed(port, request, work)) as pieces:
                    async for event in pieces:
                        events.append(event)
                        yield event
                response = collect(events)
            elif work is not None:
                answer = await emulated.complete(port, work)
                self._report(answer.report)
                response = answer.response
            else:
                response = await port.complete(request)
            assert response is not None  # a stream without its end is raised as a failed call
        except CallFailed as error:
            raised = await self._failed(error, begun)
            if raised is error:
                raise  # with the provider's own error as its cause
            raise raised from error
        except ModelpactError as error:
            await self._keep_failure(error, begun)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            gone = ModelpactError("the caller went away")
            await asyncio.shield(self._keep_failure(gone, begun))
            raise
        try:
            turn = await self._keep_answer(response, port.called, begun)
        except SessionMoved as error:
            await self._keep_failure(error, begun)
            raise
        yield turn

    def _streamed(
        self, port: RecordedPort, request: Request, work: EmulatedRequest | None
    ) -> AsyncIterator[StreamEvent]:
        if work is None:
            return port.stream(request)
        return emulated.stream(port, work, on_report=self._report)

    def _prepare(
        self, messages: tuple[Message, ...], streaming: bool
    ) -> tuple[Request, EmulatedRequest | None]:
        """Make the request as the model can take it; what it cannot take is told or refused."""
        target, policy = self._state.target, self._state.policy
        claims = self._knowledge.claims(target)
        labels = emulator_strategies().labels if policy.emulate else {}
        lacking = [name for name in _AT_USE if claims.claim(name).support == "unsupported"]
        emulatable = frozenset(name for name in lacking if name in labels)
        resolution = self._knowledge.catalog().resolve(*target.split("/", 1))
        applied = apply_params(effective_params(self._state.layers), resolution, emulatable)
        if applied.lost and policy.unsupported_params == "refuse":
            self._refuse(target, applied.lost, resolution)
        self._warnings += [f"{_path(one)} was dropped: {one.reason}" for one in applied.lost]
        self._warnings += [f"{_path(one)} is sent: {one.reason}" for one in applied.doubtful]
        request = build_request(
            target.partition("/")[2], (*self.history.messages, *messages), applied.params
        )
        request = msgspec.structs.replace(request, stream=streaming)
        used = [name for name in lacking if _uses(request, name)]
        for name in used:
            if name not in emulatable:
                raise CapabilityMissing(target, name, "it is known not to have it")
        if not used:
            return request, None
        work = Emulator().prepare(request, used)
        return request, work

    def _refuse(self, target: str, lost: tuple[ParamFinding, ...], known: Resolution) -> None:
        affected = {one.param_path: one for one in params_affected(self._state.layers, known)}
        for one in lost:
            if one.capability in _AT_USE and one.action == "unsupported":
                told = param_told(affected[one.path])
                raise CapabilityMissing(target, one.capability, told, one.path[0])
        raise ParamsRefused(target, tuple(affected[one.path] for one in lost))

    def _report(self, report: EmulatedRequestReport) -> None:
        self._warnings += [f"{one.capability} is emulated: {one.label}" for one in report.applied]
        self._warnings += report.warnings

    async def _keep_question(self, messages: tuple[Message, ...], streaming: bool) -> str:
        before = self.history
        payload = {
            "turn": before.turns + 1,
            "target": self._state.target,
            "messages": len(messages),
            "content": digest(encoded(messages)),
            "streaming": streaming,
        }

        def work(tx: Transaction) -> str:
            rows.ask(tx, self._session, before, messages, self._own)
            return tx.append(Draft(self._envelope, "session.turn", payload, self._cause)).id

        begun = await self._ledger.write_async(work)
        self.history = History(
            before.messages,
            (*before.unanswered, *messages),
            before.rows + len(messages),
            before.turns + 1,
        )
        self._asked = messages
        return begun

    async def _keep_answer(self, response: Response, called: list[ModelResult], begun: str) -> Turn:
        invocations = tuple(one.invocation for one in called)
        self._warnings += _losses(invocations)
        before, message = self.history, Message("assistant", response.content)
        settled = invocations[-1].settled_by if invocations else None
        payload = {
            "turn": before.turns,
            "invocations": [one.id for one in invocations],
            "content": digest(encoded(message)),
            "stopReason": response.stop_reason,
            "warnings": list(self._warnings),
        }

        def work(tx: Transaction) -> None:
            rows.answer(tx, self._session, before, message, self._own)
            draft = Draft(self._envelope, "session.answered", told(payload), settled or begun)
            tx.append(draft)

        await self._ledger.write_async(work)
        self.history = History(
            (*before.messages, *self._asked, message),
            before.unanswered[: len(before.unanswered) - len(self._asked)],
            before.rows + 1,
            before.turns,
        )
        cost = self._cost(invocations)
        return Turn(response, invocations, cost, tuple(self._warnings))

    async def _failed(self, error: CallFailed, begun: str) -> ModelpactError:
        """Keep a failed call; return what to raise: by its capability where it taught one."""
        raised: ModelpactError = error
        for one in error.learned:
            if one.support == "unsupported" or one.capability == "context-window":
                said = redact_text(str(error.__cause__ or error))
                raised = CapabilityMissing(self._state.target, one.capability, said)
                break
        await self._keep_failure(raised, error.invocation.settled_by or begun)
        return raised

    async def _keep_failure(self, error: ModelpactError, cause: str) -> str:
        payload = {
            "turn": self.history.turns,
            "code": str(getattr(error, "code", "")),
            "error": str(error)[:500],
        }
        draft = Draft(self._envelope, "session.failed", told(payload), cause)
        return await self._ledger.write_async(lambda tx: tx.append(draft).id)

    def _cost(self, invocations: tuple[Invocation, ...]) -> tuple[CostLine, ...]:
        sums: dict[tuple[Any, str], int] = {}
        for one in invocations:
            event = self._ledger.event(one.settled_by) if one.settled_by else None
            if event is not None:
                for line in msgspec.convert(event.payload["cost"], CostRecord).lines:
                    key = (line.unit, line.currency)
                    sums[key] = sums.get(key, 0) + line.amount
        return tuple(CostLine(unit, amount, money) for (unit, money), amount in sums.items())


def _uses(request: Request, name: str) -> bool:
    blocks = [block for message in request.messages for block in message.content]
    if name == "streaming":
        return request.stream
    if name == "tool-calling":
        spoken = any(isinstance(one, (ToolUseBlock, ToolResultBlock)) for one in blocks)
        return bool(request.tools) or spoken
    if name == "structured-output":
        return isinstance(request.output, JsonSchema)
    if name == "json-object":
        return isinstance(request.output, JsonObject)
    if name == "reasoning":
        return request.reasoning is not None
    return any(isinstance(one, ImageBlock) for one in blocks)


def _losses(invocations: tuple[Invocation, ...]) -> list[str]:
    found = [one.output.get("losses", ()) for one in invocations if isinstance(one.output, dict)]
    return [f"{loss['path']} was lost: {loss['what']}" for losses in found for loss in losses]


def _path(one: ParamFinding) -> str:
    return ".".join(one.path)


def _finish(response: Response) -> Finish:
    return Finish(
        response.stop_reason,
        response.stop_sequence,
        response.usage,
        response.model,
        response.id,
        response.extra,
    )
