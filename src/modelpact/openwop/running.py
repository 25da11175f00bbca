"""Running: each node through the gate, then to the model that the gate decided on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.request import JsonSchema
from modelpact.conversation.response import Usage
from modelpact.dispatch.gate import CapabilityNotProvided, Gate, GateEvent
from modelpact.dispatch.models import Called, CallFailed, Models
from modelpact.emulation.validation import Schema
from modelpact.ledger.costs import Attribution, CostLine, embedded_cost
from modelpact.ledger.ledger import Ledger
from modelpact.needs.modules import NodeModule
from modelpact.openwop.prompts import resolve_prompt
from modelpact.openwop.runs import Run, Runs
from modelpact.openwop.workflows import Library, Node, Target
from modelpact.providers.contract import Invocation
from modelpact.vocabulary.errors import InputError, ModelpactError

_LONGEST_MESSAGE: Final = 2_000


class Step(msgspec.Struct, frozen=True):
    """A node that is to be executed on a model that the gate let through."""

    run: Run
    node: Node
    provider: str
    model: str
    values: Mapping[str, Any]
    """The run's inputs, and the outputs of the nodes before."""
    cause: str
    """The event that led to this."""


Executor = Callable[[Step], Awaitable[Any]]


class NodeFailed(ModelpactError):
    """A node that did not do its work."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code = code
        self.details = details
        super().__init__(message)


class Runner:
    """Executes runs. Every step is on the record before the next one is taken."""

    def __init__(
        self,
        ledger: Ledger,
        library: Library,
        gate: Gate,
        models: Models,
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.runs = Runs(ledger)
        self._ledger = ledger
        self._library = library
        self._gate = gate
        self._models = models
        self._executors = dict(executors or {})

    async def execute(self, run: Run) -> None:
        """Run every node in turn; the first that fails ends the run."""
        active = run.request.active
        payload = {
            "workflowId": run.workflow,
            "provider": active.provider,
            "model": active.model,
        }
        started = await self.runs.append(run, "run.started", payload, status="running")
        values: dict[str, Any] = dict(run.request.inputs)
        cause = started.id
        for node in run.request.workflow.nodes:
            begun = {"nodeId": node.node_id, "typeId": node.type_id}
            event = await self.runs.append(run, "node.started", begun, cause)
            try:
                output = await self._node(run, node, values, event.id)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                await self._failed(run, node, error, event.id)
                return
            values[node.node_id] = output
            done = {"nodeId": node.node_id, **_storable(output)}
            cause = (await self.runs.append(run, "node.completed", done, event.id)).id
        await self.runs.append(run, "run.completed", {}, cause, status="completed")

    async def interrupted(self, run: Run) -> None:
        """End a run that its process left in the middle: what was called is not called again."""
        error = {
            "code": "run_interrupted",
            "message": "the host stopped while this ran; start it again",
        }
        await self.runs.append(run, "run.failed", {"error": error}, status="failed", error=error)

    async def _failed(self, run: Run, node: Node, error: Exception, cause: str) -> None:
        told = _told(error)
        brief = {"code": told["code"], "message": told["message"]}
        payload = {"nodeId": node.node_id, "error": brief}
        event = await self.runs.append(run, "node.failed", payload, cause)
        ended = {"error": brief}
        await self.runs.append(run, "run.failed", ended, event.id, status="failed", error=told)

    async def _node(self, run: Run, node: Node, values: Mapping[str, Any], cause: str) -> Any:
        """Dispatch a node, and again on the models of the run's retry policy if it is refused."""
        module = node.over(self._library.modules[node.type_id])
        actives = (run.request.active, *run.request.retry_on)
        for number, active in enumerate(actives, start=1):
            try:
                return await self._dispatch(run, node, module, active, values, cause)
            except CapabilityNotProvided:
                if number == len(actives):
                    raise
                other = actives[number]
                payload = {
                    "nodeId": node.node_id,
                    "attempt": number + 1,
                    "provider": other.provider,
                    "model": other.model,
                }
                cause = (await self.runs.append(run, "node.retried", payload, cause)).id
        raise AssertionError("there is at least the active model")

    async def _dispatch(
        self,
        run: Run,
        node: Node,
        module: NodeModule,
        active: Target,
        values: Mapping[str, Any],
        cause: str,
    ) -> Any:
        last = cause

        async def tell(event: GateEvent) -> None:
            nonlocal last
            last = (await self.runs.append(run, event.type, event.payload, cause)).id

        async def call(provider: str, model: str) -> Any:
            step = Step(run, node, provider, model, values, last)
            executor = self._executors.get(node.type_id, self._call_prompt)
            return await executor(step)

        return await self._gate.dispatch_async(
            module, active.provider, active.model, call, tell=tell, node_id=node.node_id
        )

    async def _call_prompt(self, step: Step) -> Any:
        """Resolve the prompt for this model, call it, and return its answer."""
        try:
            request = resolve_prompt(step.node.config, step.values, step.model)
        except InputError as error:
            raise NodeFailed("prompt_not_resolved", str(error)) from None
        who = Attribution(worker=step.node.node_id, intent=step.run.id, function=step.run.workflow)
        try:
            called = await self._models.call(
                step.provider,
                request,
                envelope=f"invocations/{step.run.id}",
                cause=step.cause,
                attribution=who,
            )
        except CallFailed as failed:
            await self._usage(step, failed.invocation, None)
            raise NodeFailed("provider_failed", str(failed)) from None
        await self._usage(step, called.invocation, called.response.usage)
        if not isinstance(request.output, JsonSchema):
            return called.response.text
        value = _json(called, request.output)
        if "envelope" in step.node.config:
            payload = {"nodeId": step.node.node_id, "kind": step.node.config["envelope"]}
            await self.runs.append(
                step.run, "envelope.emitted", {**payload, **_storable(value)}, step.cause
            )
        return value

    async def _usage(self, step: Step, invocation: Invocation, usage: Usage | None) -> None:
        """Tell what a call used, of the model that was charged; a call that cost nothing is none.

        An answer's own count goes before the cost record's, which has it too.
        """
        lines = await self._cost_lines(invocation)
        tokens = {line.unit: line.amount for line in lines if line.unit.startswith("tokens.")}
        if usage is None and not tokens:
            return
        used = usage or Usage(tokens.get("tokens.input", 0), tokens.get("tokens.output", 0))
        payload: dict[str, Any] = {
            "nodeId": step.node.node_id,
            "provider": step.provider,
            "model": step.model,
            "inputTokens": used.input,
            "outputTokens": used.output,
            "invocationId": invocation.id,
        }
        for line in lines:
            if line.unit == "currency":
                payload["cost"] = {"currency": line.currency, "nanoUnits": line.amount}
        await self.runs.append(step.run, "provider.usage", payload, invocation.settled_by)

    async def _cost_lines(self, invocation: Invocation) -> tuple[CostLine, ...]:
        if invocation.settled_by is None:
            return ()
        event = await asyncio.to_thread(self._ledger.event, invocation.settled_by)
        record = None if event is None else embedded_cost(event)
        return () if record is None else record.lines


def _json(called: Called, wanted: JsonSchema) -> Any:
    try:
        value = msgspec.json.decode(called.response.text)
        wrong = Schema(wanted.schema, "config.schema").findings(value)
    except (msgspec.DecodeError, InputError) as error:
        raise NodeFailed(
            "invalid_output", f"the answer is not JSON of the schema: {error}"
        ) from None
    if wrong:
        raise NodeFailed("invalid_output", f"the answer is not of the schema: {'; '.join(wrong)}")
    return value


def _storable(output: Any) -> dict[str, Any]:
    if isinstance(output, str):
        return {"output": output}
    return {"outputJson": msgspec.json.encode(output).decode()}


def _told(error: Exception) -> dict[str, Any]:
    """Return an error as a run's snapshot has it; nobody else's internals are told."""
    if isinstance(error, CapabilityNotProvided):
        decision = error.decision
        details: dict[str, Any] = {
            "nodeId": error.node_id,
            "missingCapabilities": list(decision.missing),
            "fallbackAttempted": decision.fallback_attempted,
        }
        return {"code": error.code, "message": str(error), "details": details}
    if isinstance(error, NodeFailed):
        told = {"code": error.code, "message": str(error)[:_LONGEST_MESSAGE]}
        return {**told, "details": error.details} if error.details else told
    if isinstance(error, ModelpactError):
        return {"code": "node_failed", "message": str(error)[:_LONGEST_MESSAGE]}
    return {"code": "internal_error", "message": f"the node failed: {type(error).__name__}"}
